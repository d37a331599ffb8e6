"""Many features and few rows: times of fits in the row space, and of scikit-learn.

`python -m benchmarks.many_features`. Each time is a median. A peak is the rise of the memory of
the process while the function runs once more, as a multiple of x.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import genclf as gcf
from benchmarks.floors import medians, product
from benchmarks.timing import machine, peak_bytes

N, K, FOLDS = 100, 4, 10
SHRINKAGE = 0.3


def data(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of classes with different means; float32."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % K
    mean = 0.1 * rng.standard_normal((K, d))
    return (mean[y] + rng.standard_normal((N, d))).astype(np.float32), y


@jax.jit
def cross_validated(x: Any, y: Any) -> Any:
    """Predictions of each row by the fit without its fold."""
    space, folds = gcf.row_space(x), jnp.arange(N) // K % FOLDS
    clf = space.model(gcf.lda(K, shrinkage=SHRINKAGE))

    def held_out(fold: Any) -> Any:
        return gcf.predict(gcf.fit(clf, space.rows, y, folds != fold), space.rows)

    return jax.vmap(held_out)(jnp.arange(FOLDS))[folds, jnp.arange(N)]


def ours(d: int) -> dict[str, Callable[[], Any]]:
    """The functions to time, on data of d features."""
    x, y = map(jnp.asarray, data(d))
    clf = gcf.lda(K, shrinkage=SHRINKAGE)
    params = gcf.fit(clf, x, y)
    return {
        "fit": lambda: gcf.fit(clf, x, y),
        "predict": lambda: gcf.predict(params, x),
        "10-fold cross-validation": lambda: cross_validated(x, y),
        "floor: one product x xᵀ": lambda: product(x, x.T),
    }


def table() -> None:
    """Times at d = 20,000, and beside scikit-learn where that is a matter of seconds."""
    print(machine())
    print(f"\nn = {N}, K = {K}, d = 20,000, LDA with shrinkage {SHRINKAGE}, float32")
    size, calls = data(20_000)[0].nbytes, ours(20_000)
    total = 0.0
    for (name, call), seconds in zip(calls.items(), medians(*calls.values()), strict=True):
        peak = (peak_bytes(call) or float("nan")) / size
        print(f"  {name:28} {1e3 * seconds:8.1f} ms   peak beyond x {peak:5.2f} x")
        total += 0 if name.startswith("floor") else seconds
    print(f"  {'all three':28} {1e3 * total:8.1f} ms")
    for d in (500, 1_000, 2_000):
        x, y = data(d)
        wide = x.astype(np.float64)
        start = time.perf_counter()
        peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=SHRINKAGE).fit(wide, y)
        theirs = time.perf_counter() - start
        params = gcf.fit(gcf.lda(K, shrinkage=SHRINKAGE), x, y)
        new = np.random.default_rng(1).standard_normal((N, d)).astype(np.float32)
        apart = np.abs(np.exp(gcf.log_posterior(params, new)) - peer.predict_proba(new)).max()
        assert apart < 1e-3, apart
        (mine,) = medians(ours(d)["fit"])
        print(
            f"  d = {d:6,}: fit {1e3 * mine:7.1f} ms, scikit-learn lsqr {1e3 * theirs:9.1f} ms, "
            f"ratio {theirs / mine:6.0f}; posteriors differ by {apart:.1e}"
        )


if __name__ == "__main__":
    table()
