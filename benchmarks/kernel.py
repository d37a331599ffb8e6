"""Times of `KernelDensity` and of one kernel density per class by scikit-learn and SciPy."""

from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity

import genclf as gcf
from benchmarks.timing import seconds

CLASSES = 2


def cases(n: int, d: int) -> Iterator[tuple[str, float, float]]:
    """(case, seconds of genclf, seconds of the peer); n examples and n queries, float32."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, n)
    x, new = (rng.standard_normal((n, d), dtype=np.float32) for _ in range(2))
    x += y[:, None].astype(np.float32)
    own = [x[y == k] for k in range(CLASSES)]
    factor = (n / CLASSES) ** (-1 / (d + 4))
    clf = gcf.Classifier(gcf.KernelDensity(factor), CLASSES)
    data = jnp.asarray(x), jnp.asarray(y, jnp.int32), jnp.asarray(new)
    params = gcf.fit(clf, *data[:2])

    def peers_of_sklearn() -> list[Callable]:
        # One bandwidth for all features, so that only the work is the same.
        return [KernelDensity(bandwidth=factor).fit(rows).score_samples for rows in own]

    def peers_of_scipy() -> list[Callable]:
        densities = [gaussian_kde(rows.T, factor) for rows in own]
        return [lambda q, density=density: density.logpdf(q.T) for density in densities]

    def scores(densities: list[Callable]) -> np.ndarray:
        return np.stack([score(new) for score in densities], -1)

    def ours() -> jax.Array:
        return gcf.predict(gcf.fit(clf, *data[:2]), data[2])

    log_prob = partial(jax.jit(lambda p, x: p.conditional.log_prob(x)), params, data[2])
    for name, peers in (("scikit-learn", peers_of_sklearn), ("SciPy", peers_of_scipy)):
        case, made = f"kernel density beside {name}, n = m = {n:,}, d = {d}", peers()
        agreement = np.mean(np.asarray(ours()) == scores(made).argmax(-1))
        if agreement < 0.97:
            raise AssertionError(f"{case}: only {agreement:.2%} of the predictions agree")
        scored = seconds(partial(scores, made), repeats=1)
        yield f"{case}: log_prob", seconds(log_prob), scored
        whole = seconds(lambda peers=peers: scores(peers()).argmax(-1), repeats=1)
        yield f"{case}: fit and predict", seconds(ours), whole
