"""Ten new classes for a shared covariance of many: the time of an update, beside its products.

`python -m benchmarks.incremental`: 5,000 new rows of 10 classes, on d = 768 features, join the
statistics of 990 other classes. The floor is `x.T @ x` of the new rows.
"""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import genclf as gcf

FEATURES, CLASSES, NEW, ROWS = 768, 1000, 10, 5000


def milliseconds(function: Callable, *args: object) -> float:
    """The least of 7 times, after a first call."""
    jax.block_until_ready(function(*args))
    times = []
    for _ in range(7):
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    old, all_classes = gcf.lda(CLASSES - NEW), gcf.lda(CLASSES)
    x, y = rng.normal(size=(20_000, FEATURES)).astype("f"), np.arange(20_000) % (CLASSES - NEW)
    known = gcf.stats(old, x, y)
    rows = jnp.asarray(rng.normal(size=(ROWS, FEATURES)).astype("f"))
    labels = jnp.asarray(np.arange(ROWS) % NEW)
    to, new = np.arange(CLASSES - NEW), np.arange(CLASSES - NEW, CLASSES)

    def update(known: gcf.ClassifierStats, x: jax.Array, y: jax.Array) -> gcf.ClassifierStats:
        more = gcf.relabel(gcf.stats(gcf.lda(NEW), x, y), new, CLASSES)
        return gcf.merge(gcf.relabel(known, to, CLASSES), more)

    whole = gcf.relabel(known, to, CLASSES)
    floor = milliseconds(jax.jit(lambda x: x.T @ x), rows)
    read = milliseconds(jax.jit(lambda s: jax.tree.map(lambda a: a + 1, s)), whole)
    centre = np.zeros(FEATURES, "f")
    sums = gcf.to_sums(whole, centre)
    parts = {
        "x.T @ x of the new rows": floor,
        "their statistics": milliseconds(lambda: gcf.stats(gcf.lda(NEW), rows, labels)),
        "update, compiled": milliseconds(jax.jit(update), known, rows, labels),
        "update, not compiled": milliseconds(update, known, rows, labels),
        "reading the statistics": read,
        "relabel, compiled": milliseconds(jax.jit(lambda s: gcf.relabel(s, to, CLASSES)), known),
        "relabel, not compiled": milliseconds(lambda: gcf.relabel(known, to, CLASSES)),
        "from_sums": milliseconds(
            lambda: gcf.from_sums(all_classes, sums.count, sums.total, sums.products, centre)
        ),
    }
    print("| | ms | times the products | times reading |\n|---|---|---|---|")
    for name, took in parts.items():
        print(f"| {name} | {took:.1f} | {took / floor:.2f} | {took / read:.1f} |")


if __name__ == "__main__":
    main()
