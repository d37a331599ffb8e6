"""Cases of `benchmarks.floors` on a GPU, many small fits, and the bandwidth.

`python -m benchmarks.gpu`. Without a GPU it prints a message and ends.
"""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from sklearn import config_context
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import genclf as gcf
from benchmarks import floors
from benchmarks.floors import Case, data, medians
from benchmarks.timing import machine

N, D, CLASSES = 500_000, 64, 10
SETS, ROWS, FEATURES = 1_000_000, 16, 4


def bandwidth() -> Iterator[str]:
    """What a fit reads in a second, as a share of what a copy reads and writes."""
    x, y = map(jnp.asarray, data(N, D, CLASSES))
    copied = jax.jit(lambda x: x + 1)
    for name, clf in (("LDA", gcf.lda(CLASSES)), ("Gaussian NB", gcf.gaussian_nb(CLASSES))):
        fit, copy = medians(partial(gcf.fit, clf, x, y), partial(copied, x))
        share = (x.nbytes / fit) / (2 * x.nbytes / copy)
        yield f"{name} fit reads x once per {fit * 1e3:.2f} ms: {share:.0%} of a copy's bandwidth"


def small_fits() -> str:
    """LDA fits of small data sets in one call."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((SETS, ROWS, FEATURES), dtype=np.float32))
    y = jnp.asarray(rng.integers(0, 2, (SETS, ROWS)).astype(np.int32))
    fit = jax.jit(jax.vmap(partial(gcf.fit, gcf.lda(2))))
    (seconds,) = medians(partial(fit, x, y))
    return f"{SETS / seconds:.2g} fits of LDA per second, n = {ROWS}, d = {FEATURES} (aim 1e7)"


def beside_torch() -> Case | None:
    """LDA beside scikit-learn's on torch arrays of the same device, if torch is installed."""
    try:
        import torch
    except ImportError:
        return None
    x, y = data(N, D, CLASSES)
    there = torch.asarray(x, device="cuda"), torch.asarray(y, device="cuda")
    ours = partial(gcf.fit, gcf.lda(CLASSES), jnp.asarray(x), jnp.asarray(y))

    def peer() -> None:
        with config_context(array_api_dispatch=True):
            LinearDiscriminantAnalysis(solver="svd").fit(*there)
        torch.cuda.synchronize()

    a, b = medians(ours, peer)
    return Case("LDA fit", a, "scikit-learn on torch", b, 1)


def main() -> None:
    """Print everything, or that there is no GPU."""
    if jax.default_backend() != "gpu":
        print(f"no GPU here, but {machine()}: nothing measured")
        return
    with jax.default_matmul_precision("highest"):
        floors.main()
        print("", *bandwidth(), small_fits(), sep="\n")
        found = beside_torch()
        if found is None:
            print("torch is not installed: scikit-learn on the GPU was not measured")
        else:
            times = f"{found.seconds * 1e3:.1f} ms beside {found.floor_seconds * 1e3:.1f} ms"
            print(f"{found.name}: {times} of {found.floor}")


if __name__ == "__main__":
    main()
