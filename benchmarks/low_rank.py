"""Own covariances of many classes: `LowRank` beside whole matrices, in memory and time.

`python -m benchmarks.low_rank`. Memory is what the compiled program needs beyond its arguments, by
XLA's own account. Times are medians; the floor of the scores is the product of all rows with the
roots of all classes; with directions, there and back.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import genclf as gcf
from benchmarks.floors import medians, product
from benchmarks.timing import machine

D = 768
ROWS = 50  # of each class


def model(num_classes: int, r: int | None) -> gcf.Classifier:
    """Own covariances, shrunk, with r directions or whole."""
    structure = None if r is None else gcf.LowRank(r)
    return gcf.Classifier(gcf.Gaussian(structure=structure, shrinkage=0.1), num_classes)


def fit(clf: gcf.Classifier) -> Callable[..., Any]:
    """The fit as a function of rows and labels."""
    return jax.jit(lambda x, y: gcf.fit(clf, x, y))


def program_bytes(clf: gcf.Classifier) -> int:
    """What the compiled fit holds beside its arguments."""
    n = ROWS * clf.num_classes
    shapes = jax.ShapeDtypeStruct((n, D), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.int32)
    found = fit(clf).lower(*shapes).compile().memory_analysis()
    assert found is not None
    return found.temp_size_in_bytes + found.output_size_in_bytes


def table() -> None:
    """Memory at K = 1,000, and times at K = 100."""
    print(machine())
    whole = program_bytes(model(1000, None))
    print(f"memory of fits, K = 1,000, d = {D}, n = {1000 * ROWS:,}: whole {whole / 1e9:.2f} GB")
    for r in (16, 64):
        own = program_bytes(model(1000, r))
        print(f"  r = {r:2}: {own / 1e9:.2f} GB, 1/{whole / own:.0f} of whole")
    num_classes, rng = 100, np.random.default_rng(0)
    y = jnp.arange(ROWS * num_classes) % num_classes
    x = jnp.asarray(rng.standard_normal((len(y), D)), jnp.float32)
    new = x[:2000]
    for r in (None, 16, 64):
        run = fit(model(num_classes, r))
        params = run(x, y)
        score = jax.jit(gcf.predict)
        wide = jnp.zeros((D, num_classes * (r or D)))
        back = wide[:, : 1 if r is None else None]
        there = jnp.zeros((len(new), back.shape[1]))
        calls = (
            lambda: run(x, y),  # noqa: B023
            lambda: score(params, new),  # noqa: B023
            lambda: (product(new, wide), product(there, back.T)),  # noqa: B023
        )
        fitted, scored, floor = medians(*calls)
        name = "whole" if r is None else f"r = {r}"
        print(
            f"K = {num_classes}, {name:6}: fit {1e3 * fitted:7.0f} ms, predict {len(new):,} rows "
            f"{1e3 * scored:7.0f} ms ({scored / floor:.1f} of its products)"
        )


if __name__ == "__main__":
    table()
