"""How time grows with rows, features, classes, data sets and permutations.

And a fit of 100,000,000 rows from an iterator. `python -m benchmarks.growth [FIGURE.png]`. An
exponent is the least-squares slope of log seconds against log size.
"""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

import genclf as gcf
from benchmarks.floors import data, medians
from benchmarks.resampling_growth import datasets, permuted, rows
from benchmarks.timing import machine

BATCH, BATCHES, FEATURES, CLASSES = 100_000, 1_000, 10, 3

Shape = tuple[int, int, int]
LINES: list[tuple[str, str, list[Shape], str]] = [
    ("lda", "n", [(n, 64, 10) for n in (50_000, 100_000, 200_000, 400_000)], "1"),
    ("lda", "d", [(20_000, d, 10) for d in (128, 256, 512, 1_024)], "2"),
    ("lda", "K", [(50_000, 128, k) for k in (10, 40, 160, 640)], "0"),
    ("qda", "K", [(100_000, 32, k) for k in (4, 16, 64, 256)], "0"),
    ("gaussian_nb", "K", [(50_000, 128, k) for k in (10, 40, 160, 640)], "0"),
]


def exponents() -> plt.Figure:
    """Print the exponents, and return a figure of the seconds."""
    figure, axes = plt.subplots(1, 5, figsize=(15, 3.6), layout="constrained", sharey=True)
    panels = dict(zip(("n", "d", "K", "data sets", "permutations"), axes, strict=True))
    print("| model | in | from, to | fit | of sums alone | predict |", "| --- " * 6 + "|", sep="\n")
    for model, axis, shapes, expected in LINES:
        seconds = [_seconds(model, *shape) for shape in shapes]
        sizes = [shape["ndK".index(axis)] for shape in shapes]
        kinds = zip(("fit", "predict"), zip(*seconds, strict=True), strict=True)
        slopes = [_line(panels[axis], sizes, s, f"{model}, {kind}") for kind, s in kinds]
        ends = f"{sizes[0]:,} to {sizes[-1]:,}"
        print(f"| {model} | {axis} | {ends} | {slopes[0]:.2f} | {expected} | {slopes[1]:.2f} |")
    counts = [10, 100, 1_000, 10_000]
    for name, call in (("fit_many", datasets), ("vmap(fit)", _mapped)):
        _line(panels["data sets"], counts, [medians(call(n))[0] for n in counts], name)
    counts = [125, 250, 500, 1_000, 2_000]
    seconds = [medians(permuted(n))[0] for n in counts]
    _line(panels["permutations"], counts, seconds, "lda in ten folds")
    for name, axis in panels.items():
        axis.set_xlabel(name)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.tick_params("x", rotation=45)
        axis.legend(fontsize=7)
    axes[0].set_ylabel("seconds")
    return figure


def _line(axis: plt.Axes, sizes: list[int], seconds: list[float], name: str) -> float:
    """Draw the seconds, and return their exponent."""
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    axis.loglog(sizes, seconds, "o-", ms=3, label=f"{name}: exponent {slope:.2f}")
    return float(slope)


def _mapped(count: int) -> Callable[[], Any]:
    """Fits of LDA to data sets of 100 rows and 10 features, by `jax.vmap`."""
    x, y = rows(100 * count, 10, 3)
    fit = jax.jit(jax.vmap(partial(gcf.fit, gcf.lda(3))))
    return partial(fit, x.reshape(count, 100, 10), y.reshape(count, 100))


def _seconds(model: str, n: int, d: int, num_classes: int) -> list[float]:
    x, y = map(jnp.asarray, data(n, d, num_classes))
    clf = getattr(gcf, model)(num_classes)
    params = gcf.fit(clf, x, y)
    return medians(partial(gcf.fit, clf, x, y), partial(gcf.predict, params, x))


def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of known class counts."""
    rng = np.random.default_rng(0)
    y = np.arange(BATCH, dtype=np.int32) % CLASSES
    for _ in range(BATCHES):
        x = rng.standard_normal((BATCH, FEATURES), dtype=np.float32)
        x[:, 0] += y
        yield x, y


def stream() -> None:
    """Fit all batches, and print seconds, memory and what the counts and means miss by."""
    clf = gcf.lda(CLASSES)
    update = jax.jit(lambda total, x, y: gcf.merge(total, gcf.stats(clf, x, y)))
    total = gcf.empty(clf, jax.ShapeDtypeStruct((0, FEATURES), jnp.float32))
    first, begun, inside = 0, time.perf_counter(), 0.0
    for i, (x, y) in enumerate(batches()):
        start = time.perf_counter()
        total = jax.block_until_ready(update(total, x, y))
        inside += time.perf_counter() - start
        if i == BATCHES // 10:
            first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    last = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    per_batch = np.bincount(np.arange(BATCH) % CLASSES)
    missed = np.abs(np.asarray(total.count, np.float64) - BATCHES * per_batch).max()
    mean = np.asarray(gcf.estimate(clf, total).conditional.mean)
    off = np.abs(mean - np.eye(1, FEATURES)[0] * np.arange(CLASSES)[:, None]).max()
    print(
        f"\n{BATCH * BATCHES:,} rows of {FEATURES} features from an iterator: {inside:.1f} s in "
        f"genclf, {time.perf_counter() - begun:.1f} s with the making of the rows; the counts are "
        f"off by {missed:.0f}, the means by {off:.1e} (their standard error is "
        f"{np.sqrt(CLASSES / BATCH / BATCHES):.1e}); peak memory rose by "
        f"{(last - first) / 1024:.0f} MB over the last nine tenths."
    )


if __name__ == "__main__":
    print(machine(), "", sep="\n")
    drawn = exponents()
    if len(sys.argv) > 1:
        drawn.savefig(sys.argv[1], dpi=100)
    stream()
