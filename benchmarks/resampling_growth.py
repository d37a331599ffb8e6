"""How the time of resampling grows with rows, features, classes, folds, permutations and data sets.

`python -m benchmarks.resampling_growth [FIGURE.png]`. An exponent is the least-squares slope
of log seconds against log size.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import genclf as gcf
from benchmarks.resampling import median
from benchmarks.timing import machine

KEY = jax.random.key(0)


class Line(NamedTuple):
    """What grows, the sizes, the exponent of the sums alone, and the call for a size."""

    case: str
    axis: str
    sizes: list[int]
    of_sums: float
    call: Callable[[int], Callable[[], Any]]


def rows(n: int, d: int, num_classes: int) -> tuple[jax.Array, jax.Array]:
    """Rows of float32, and labels."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % num_classes
    x = rng.normal(size=(n, d)).astype(np.float32)
    x[:, 0] += y
    return jnp.asarray(x), jnp.asarray(y)


def folds_of(n: int = 2_000, d: int = 30, k: int = 3, num_folds: int = 10) -> Callable[[], Any]:
    """Cross-validation of LDA."""
    x, y = rows(n, d, k)
    folds = gcf.kfold(KEY, y, num_folds)
    return lambda: gcf.cross_validate(gcf.lda(k), x, y, folds).log_posterior


def each_left_out(n: int = 1_000, d: int = 20) -> Callable[[], Any]:
    """Leave-one-out of LDA."""
    x, y = rows(n, d, 3)
    return lambda: gcf.leave_one_out(gcf.lda(3), x, y).log_posterior


def permuted(num: int = 1_000, n: int = 200, d: int = 20) -> Callable[[], Any]:
    """A permutation test of LDA in ten folds."""
    x, y = rows(n, d, 2)
    folds = gcf.kfold(KEY, y, 10)
    return lambda: gcf.permutation_test(KEY, gcf.lda(2), x, y, folds, num=num).null


def datasets(count: int) -> Callable[[], Any]:
    """Fits of LDA to data sets of 100 rows and 10 features."""
    x, y = rows(100 * count, 10, 3)
    stacked = x.reshape(count, 100, 10), y.reshape(count, 100)
    return lambda: gcf.fit_many(gcf.lda(3), stacked)


def places(count: int = 1_000, width: int = 30) -> Callable[[], Any]:
    """A searchlight of LDA in eight folds of 120 rows."""
    x, y = rows(120, count + width, 3)
    near = [range(i, i + width) for i in range(count)]
    clf, runs = gcf.lda(3, shrinkage=0.1), np.arange(120) // 15
    return lambda: gcf.searchlight(clf, x, y, near, runs).score


LINES = [
    Line("10 folds", "n", [4_000, 16_000, 64_000, 256_000], 1, lambda n: folds_of(n=n)),
    Line("10 folds", "d", [32, 64, 128, 256], 2, lambda d: folds_of(d=d)),
    Line("10 folds", "K", [2, 8, 32, 128], 0, lambda k: folds_of(k=k)),
    Line("F folds", "F", [5, 10, 20, 40], 1, lambda f: folds_of(num_folds=f)),
    Line("leave-one-out", "n", [1_000, 4_000, 16_000, 64_000], 1, lambda n: each_left_out(n=n)),
    Line("leave-one-out", "d", [16, 32, 64, 128], 2, lambda d: each_left_out(d=d)),
    Line("permutations", "num", [1_000, 2_000, 4_000, 8_000], 1, permuted),
    Line("1,000 permutations", "n", [200, 400, 800, 1_600], 1, lambda n: permuted(n=n)),
    Line("fit_many", "data sets", [4_096, 8_192, 16_384, 32_768], 1, datasets),
    Line("searchlight", "places", [512, 1_024, 2_048, 4_096], 1, places),
    Line("1,000 places", "features", [15, 30, 60, 120], 2, lambda m: places(width=m)),
]


def main() -> None:
    """Print the exponents, and save the figure if a name for it is given."""
    print(f"{machine()}\n\n| case | grows | from, to | exponent | of sums alone |")
    print("|---|---|---|---|---|")
    figure, axis = plt.subplots(figsize=(7, 5))
    for line in LINES:
        seconds = [median(line.call(size))[0] for size in line.sizes]
        slope = np.polyfit(np.log(line.sizes), np.log(seconds), 1)[0]
        ends = f"{line.sizes[0]:,} to {line.sizes[-1]:,}"
        print(f"| {line.case} | {line.axis} | {ends} | {slope:.2f} | {line.of_sums} |", flush=True)
        relative = np.array(line.sizes) / line.sizes[0]
        label = f"{line.case}: {line.axis}, exponent {slope:.2f}"
        axis.loglog(relative, seconds, "o-", ms=3, label=label)
    axis.set(xlabel="size, over the smallest of the line", ylabel="seconds")
    axis.legend(fontsize=7)
    if len(sys.argv) > 1:
        figure.savefig(sys.argv[1], dpi=120)


if __name__ == "__main__":
    main()
