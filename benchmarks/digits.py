"""Errors of a float32 fit, of float32 scores alone and of scikit-learn; and the cost of a fit.

`python -m benchmarks.digits [--rows 1e8]`. The error of a posterior is its largest difference, over
all rows, from float64 on the same numbers, in the worst of three data sets.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

import genclf as gcf
from benchmarks.floors import medians
from benchmarks.timing import machine, peak_bytes

K = 3
PEERS: dict[Any, Callable[[], Any]] = {
    gcf.lda: LinearDiscriminantAnalysis,
    gcf.qda: partial(QuadraticDiscriminantAnalysis, tol=0),
}


def rotated(
    n: int, d: int, condition: float, seed: int, *, shared: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Classes with rotated covariances of a condition number; float32.

    Covariances that are not shared differ by factors up to 1.7, so that the classes overlap.
    """
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = np.geomspace(1, condition**-0.5, d)[:, None] * axes
    size = np.ones(K) if shared else np.linspace(1, 1.3, K)
    y = rng.integers(0, K, n).astype(np.int32)
    mean = rng.standard_normal((K, d)) @ root / np.sqrt(d)
    x = mean[y] + size[y, None] * (rng.standard_normal((n, d)) @ root)
    return x.astype(np.float32), y


def posterior(params: Any, x: Any) -> np.ndarray:
    """Probabilities of the classes."""
    return np.exp(np.asarray(gcf.log_posterior(params, x), np.float64))


def errors(preset: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Errors of scoring alone, of ours and of scikit-learn; the labels that flip in these two.

    "Scoring alone" has the params of float64, rounded.
    """
    clf = preset(K)
    with jax.enable_x64(True):
        exact = gcf.fit(clf, x.astype(np.float64), y)
        right = posterior(exact, x.astype(np.float64))
    rounded = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float32)), exact)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = PEERS[preset]().fit(x, y).predict_proba(x)
    found = [posterior(rounded, x), posterior(gcf.fit(clf, x, y), x), theirs]
    flips = [(p.argmax(1) != right.argmax(1)).sum() for p in found[1:]]
    return np.array([*(np.abs(p - right).max() for p in found), *flips])


def row(*cells: Any) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*cells: str) -> None:
    """Print the head of a table."""
    print()
    row(*cells)
    row(*["---"] * len(cells))


def digits() -> None:
    """Errors by condition number, and by offset."""
    names = "scoring alone", "fit and scoring", "scikit-learn", "labels that flip: ours", "theirs"
    head("n = 10,000", "condition", *names)
    for preset in (gcf.lda, gcf.qda):
        for d in (2, 20):
            for condition in (1e2, 1e4, 1e6):
                data = (
                    rotated(10_000, d, condition, s, shared=preset is gcf.lda) for s in range(3)
                )
                worst = np.max([errors(preset, *xy) for xy in data], 0)
                row(f"{preset.__name__} d = {d}", f"{condition:.0e}", *map("{:.1e}".format, worst))
    head("n = 10,000, d = 4", "offset / deviation", *names)
    for preset in (gcf.lda, gcf.qda):
        for offset in (1e2, 1e4, 1e6):
            near = [rotated(10_000, 4, 10, s, shared=True) for s in range(3)]
            far = [((x + offset).astype(np.float32), y) for x, y in near]
            worst = np.max([errors(preset, *xy) for xy in far], 0)
            row(preset.__name__, f"{offset:.0e}", *map("{:.1e}".format, worst))


@partial(jax.jit, static_argnums=2)
def plain(x: jax.Array, y: jax.Array, num_classes: int) -> tuple[jax.Array, jax.Array]:
    """The plain form: class means, one centred product, one Cholesky factor, all in float32."""
    count = jnp.zeros(num_classes).at[y].add(1)
    mean = jnp.zeros((num_classes, x.shape[1])).at[y].add(x) / count[:, None]
    z = x - mean[y]
    return mean, jnp.linalg.cholesky(z.T @ z / len(x))


def costs() -> None:
    """Seconds and memory of LDA fits beside the plain form."""
    head(
        "LDA fit",
        "condition",
        "plain form, ms",
        "genclf, ms",
        "ratio",
        "memory of x: plain",
        "ours",
    )
    for n, d in ((2_000, 20), (100_000, 20), (500_000, 64), (50_000, 512)):
        for condition in (4.0, 1e6):
            x, y = map(jnp.asarray, rotated(n, d, condition, 0, shared=True))
            calls = partial(plain, x, y, K), partial(gcf.fit, gcf.lda(K), x, y)
            a, b = medians(*calls)
            more = [f"{(peak_bytes(call) or np.nan) / x.nbytes:.2f}" for call in calls]
            times = f"{a * 1e3:.1f}", f"{b * 1e3:.1f}", f"{b / a:.2f}"
            row(f"n = {n:,}, d = {d}", f"{condition:.0e}", *times, *more)


def many(n: int, d: int = 10, batch: int = 1_000_000) -> None:
    """Scatters of a long float32 stream beside float64."""
    rng, clf, total = np.random.default_rng(0), gcf.lda(K), None
    count, first, second = 0, np.zeros(d), np.zeros((d, d))
    update = jax.jit(lambda s, x, y: gcf.merge(s, gcf.stats(clf, x, y)))
    for _ in range(n // batch):
        x = (rng.standard_normal((batch, d), dtype=np.float32) + np.float32(3)).astype(np.float32)
        y = rng.integers(0, K, batch).astype(np.int32)
        total = gcf.stats(clf, x, y) if total is None else update(total, x, y)
        wide = x.astype(np.float64) - 3
        count, first, second = count + batch, first + wide.sum(0), second + wide.T @ wide
    found = total.conditional
    right = second - np.outer(first, first) / count
    share, mean, low, scatter = (
        np.asarray(a, np.float64)
        for a in (found.count[:, None], found.mean, found.rounding[1], found.scatter[0])
    )
    apart = mean - 3 + low - first / count
    ours = scatter + (share * apart).T @ apart
    error = np.abs(ours - right).max() / np.diag(right).max()
    print(f"\n{n:.0e} rows of {d}: scatter off by {error:.1e} of the variance")


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e8)
    rows = int(parser.parse_args().rows)
    print(f"{machine()}; JAX {jax.__version__}; float32")
    digits()
    costs()
    many(rows)


if __name__ == "__main__":
    main()
