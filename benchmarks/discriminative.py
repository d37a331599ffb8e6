"""Softmax regression and scikit-learn's `LogisticRegression`, timed to the same gradient norm."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.linear_model import LogisticRegression

import genclf as gcf
from benchmarks.timing import seconds

_TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def gradient_norm(x: Any, y: Any, coef: Any, intercept: Any, l2: float) -> float:
    """Largest slope of the mean loss in any coefficient, in float64."""
    coef, intercept = np.asarray(coef, np.float64), np.asarray(intercept, np.float64)
    score = x @ coef.T + intercept
    p = np.exp(score - score.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return max(np.abs(p.T @ x / len(y) + l2 * coef).max(), np.abs(p.mean(0)).max())


def peer_as_exact(x: Any, y: Any, l2: float, wanted: float) -> tuple[Callable, float]:
    """scikit-learn with the loosest tolerance that reaches the norm, or its own best within 2."""
    found = []
    for tol in _TOLERANCES:
        peer = LogisticRegression(C=1 / (l2 * len(y)), tol=tol, max_iter=5000).fit(x, y)
        found.append((peer, gradient_norm(x, y, peer.coef_, peer.intercept_, l2)))
    best = max(wanted, 2 * min(norm for _, norm in found))
    return next((peer, norm) for peer, norm in found if norm <= best)


def large(n: int, d: int, num_classes: int) -> Iterator[tuple[str, float, float, float]]:
    """One large fit: (case, our seconds, the peer's, the aim)."""
    rng, l2 = np.random.default_rng(0), 1e-4
    y = rng.integers(0, num_classes, n).astype(np.int32)
    mix = np.eye(d) + 0.3 * rng.normal(size=(d, d)) / np.sqrt(d)
    x = ((rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(num_classes, d))[y]) @ mix).astype("f")
    ours = partial(gcf.fit, gcf.SoftmaxRegression(num_classes, l2=l2), jnp.asarray(x), y)
    norm = gradient_norm(x, y, *gcf.linear_form(ours()), l2)
    peer, peer_norm = peer_as_exact(x, y, l2, norm)
    case = f"softmax fit, gradient {norm:.0e} (peer {peer_norm:.0e})"
    yield case, seconds(ours), seconds(partial(peer.fit, x, y), repeats=3), 1


def many(
    num_sets: int, n: int, d: int, num_classes: int
) -> Iterator[tuple[str, float, float, float]]:
    """Many small fits in one call, against a loop over a tenth of them, scaled."""
    rng, l2, looped = np.random.default_rng(1), 1e-2, num_sets // 10
    y = rng.integers(0, num_classes, (num_sets, n)).astype(np.int32)
    centres = 0.5 * rng.normal(size=(num_sets, num_classes, d))
    x = rng.normal(size=(num_sets, n, d)) + centres[np.arange(num_sets)[:, None], y]
    x = x.astype(np.float32)
    clf = gcf.SoftmaxRegression(num_classes, l2=l2)
    xs, ys = jnp.asarray(x), jnp.asarray(y)
    vmapped = jax.jit(lambda xs, ys: jax.vmap(gcf.fit, (None, 0, 0))(clf, xs, ys))
    by_cores = lambda xs, ys: gcf.fit_many(clf, (xs, ys))  # noqa: E731
    forms = jax.vmap(gcf.linear_form)(vmapped(xs, ys))
    norm = max(
        gradient_norm(x[i], y[i], forms[0][i], forms[1][i], l2) for i in range(min(20, looped))
    )
    peer, peer_norm = peer_as_exact(x[0], y[0], l2, norm)

    def loop() -> None:
        for one_x, one_y in zip(x[:looped], y[:looped], strict=True):
            peer.fit(one_x, one_y)

    theirs = seconds(loop, repeats=3) * num_sets / looped
    for how, call in (("vmap", vmapped), ("fit_many", by_cores)):
        case = f"{num_sets:,} x softmax fit, {how}, gradient {norm:.0e} (peer {peer_norm:.0e})"
        yield case, seconds(partial(call, xs, ys)), theirs, 50
