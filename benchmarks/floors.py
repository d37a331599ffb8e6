"""Times relative to a floor: the least that the case needs, a matrix product or one pass over x.

`python -m benchmarks.floors [GROUP ...]`, with the groups of `GROUPS`, or "memory". Each case and
its floor alternate in the same process; a time is the median of at least seven calls.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import genclf as gcf
from benchmarks.timing import machine, peak_bytes

REPEATS, SECONDS = 7, 0.5  # calls of each case: as many as take this time, and at least so many


class Case(NamedTuple):
    """One line of the table."""

    name: str
    seconds: float
    floor: str
    floor_seconds: float
    aim: float


def medians(*calls: Callable[[], Any]) -> list[float]:
    """Median seconds of calls that take turns, after one of each that compiles."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        jax.block_until_ready(call())
    while len(times[0]) < REPEATS or sum(map(sum, times)) < SECONDS:
        for call, own in zip(calls, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(call())
            own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in times]


@jax.jit
def gram(x: jax.Array) -> jax.Array:
    """X'X."""
    return x.T @ x


@jax.jit
def product(x: jax.Array, w: jax.Array) -> jax.Array:
    """X W."""
    return x @ w


@jax.jit
def reading(x: jax.Array) -> jax.Array:
    """One pass over x."""
    return x.sum(0)


def data(n: int, d: int, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes at distance of a few deviations; float32."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, num_classes, n).astype(np.int32)
    x = rng.standard_normal((num_classes, d), dtype=np.float32)[y]
    x += rng.standard_normal((n, d), dtype=np.float32)
    return x, y


def discriminant_analysis(
    n: int, d: int, num_classes: int, fit: float, predict: float
) -> Iterator[Case]:
    """LDA: fit beside the Gram matrix, prediction beside X W."""
    x, y = map(jnp.asarray, data(n, d, num_classes))
    clf, shape = gcf.lda(num_classes), f"n = {n:,}, d = {d}, K = {num_classes:,}"
    ours = partial(gcf.fit, clf, x, y)
    yield Case(f"LDA fit, {shape}", *_beside(ours, "Gram", partial(gram, x)), fit)
    params = ours()
    w = jnp.ones((d, num_classes))
    predicted = partial(gcf.predict, params, x)
    floor = partial(product, x, w)
    yield Case(f"LDA predict, {shape}", *_beside(predicted, "x @ W", floor), predict)
    posterior = partial(gcf.log_posterior, params, x)
    marginal = partial(gcf.log_marginal, params, x)
    yield Case(f"LDA log_marginal, {shape}", *_beside(marginal, "log_posterior", posterior), 2)


def quadratic(n: int, d: int, num_classes: int) -> Iterator[Case]:
    """QDA: fit beside the Gram matrix, prediction beside K products with (d, d)."""
    x, y = map(jnp.asarray, data(n, d, num_classes))
    shape = f"n = {n:,}, d = {d}, K = {num_classes:,}"
    ours = partial(gcf.fit, gcf.qda(num_classes), x, y)
    yield Case(f"QDA fit, {shape}", *_beside(ours, "Gram", partial(gram, x)), 1.6)
    params = ours()
    floor = partial(product, x, jnp.ones((d, d * num_classes)))
    predicted = partial(gcf.predict, params, x)
    yield Case(f"QDA predict, {shape}", *_beside(predicted, "x @ W, W (d, d K)", floor), 0.8)


def naive_bayes(n: int, d: int, num_classes: int, fit: float) -> Iterator[Case]:
    """Gaussian naive Bayes: fit beside one reading, prediction beside X W."""
    x, y = map(jnp.asarray, data(n, d, num_classes))
    shape = f"n = {n:,}, d = {d}, K = {num_classes:,}"
    ours = partial(gcf.fit, gcf.gaussian_nb(num_classes), x, y)
    yield Case(f"Gaussian NB fit, {shape}", *_beside(ours, "reading x", partial(reading, x)), fit)
    floor = partial(product, x, jnp.ones((d, num_classes)))
    predicted = partial(gcf.predict, ours(), x)
    yield Case(f"Gaussian NB predict, {shape}", *_beside(predicted, "x @ W", floor), 2.5)


def stream(batch: int, d: int, num_classes: int) -> Iterator[Case]:
    """One update of a stream beside one shared scatter by hand."""
    x, y = map(jnp.asarray, data(batch, d, num_classes))
    clf = gcf.lda(num_classes)

    @jax.jit
    def update(s: gcf.ClassifierStats, x: jax.Array, y: jax.Array) -> gcf.ClassifierStats:
        return gcf.merge(gcf.scale(s, 0.99), gcf.stats(clf, x, y))

    @jax.jit
    def by_hand(
        count: jax.Array, mean: jax.Array, scatter: jax.Array, x: jax.Array, y: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        new = jnp.zeros_like(count).at[y].add(1)
        total = jnp.zeros_like(mean).at[y].add(x)
        z = x - mean[y]
        all_ = 0.99 * count + new
        return all_, mean + (total - new[:, None] * mean) / all_[:, None], 0.99 * scatter + z.T @ z

    s = gcf.stats(clf, x, y)
    ours = partial(update, s, x, y)
    floor = partial(by_hand, s.count, s.conditional.mean, s.conditional.scatter[0], x, y)
    name = f"LDA, one update of a stream: batch {batch}, d = {d}, K = {num_classes}"
    yield Case(name, *_beside(ours, "one scatter by hand", floor), 1.5)


def from_numpy(n: int, d: int, num_classes: int) -> Iterator[Case]:
    """A fit of NumPy arrays beside that of JAX arrays."""
    x, y = data(n, d, num_classes)
    clf, there = gcf.lda(num_classes), (jnp.asarray(x), jnp.asarray(y))
    ours, floor = partial(gcf.fit, clf, x, y), partial(gcf.fit, clf, *there)
    name = f"LDA fit of NumPy arrays, n = {n:,}, d = {d}, K = {num_classes}"
    yield Case(name, *_beside(ours, "JAX arrays", floor), 1.25)


def em_step(n: int, d: int, num_classes: int) -> Iterator[Case]:
    """One EM step of LDA with unlabelled rows, from the difference of 21 steps and one."""
    x, y = map(jnp.asarray, data(n, d, num_classes))
    y = jnp.where(jnp.arange(n) % 2 == 0, y, -1)
    clf = gcf.lda(num_classes)
    init, key = gcf.fit(clf, x, y), jax.random.key(0)
    steps = [partial(gcf.em, clf, x, y, key=key, init=init, tol=-1.0, max_steps=m) for m in (1, 21)]
    w = jnp.ones((d, num_classes))
    one, many, first, second = medians(*steps, partial(gram, x), partial(product, x, w))
    name = f"LDA, one EM step, half unlabelled, n = {n:,}, d = {d}, K = {num_classes}"
    yield Case(name, (many - one) / 20, "Gram + x @ W", first + second, 1.6)


def _beside(
    ours: Callable[[], Any], floor: str, other: Callable[[], Any]
) -> tuple[float, str, float]:
    a, b = medians(ours, other)
    return a, floor, b


GROUPS: dict[str, Callable[[], Iterable[Case]]] = {
    "lda-64": partial(discriminant_analysis, 500_000, 64, 10, 1.3, 4),
    "lda-512": partial(discriminant_analysis, 50_000, 512, 100, 1.3, 1.2),
    "lda-1000-classes": partial(discriminant_analysis, 50_000, 512, 1_000, 1.5, 1.2),
    "lda-2048": partial(discriminant_analysis, 16_000, 2_048, 1_000, 1.5, 1.2),
    "stream": partial(stream, 256, 512, 100),
    "qda": partial(quadratic, 500_000, 64, 10),
    "nb": partial(naive_bayes, 500_000, 64, 10, 6),
    "nb-1000-classes": partial(naive_bayes, 50_000, 512, 1_000, 8),
    "numpy": partial(from_numpy, 500_000, 64, 10),
    "em": partial(em_step, 100_000, 64, 10),
}


def main() -> None:
    """Print the table as Markdown, and the memory of the widest fit."""
    chosen = sys.argv[1:] or [*GROUPS, "memory"]
    print(f"{machine()}; JAX {jax.__version__}; float32", "", sep="\n")
    print("| case | genclf | floor | its time | ratio | aim |", "| --- " * 6 + "|", sep="\n")
    for c in (c for name, group in GROUPS.items() if name in chosen for c in group()):
        ratio = c.seconds / c.floor_seconds
        times = f"{c.seconds * 1e3:.1f} ms | {c.floor} | {c.floor_seconds * 1e3:.1f} ms"
        print(f"| {c.name} | {times} | {ratio:.2f} | {c.aim} |", flush=True)
    if "memory" not in chosen:
        return
    x, y = data(16_000, 2_048, 1_000)
    fit = partial(gcf.fit, gcf.lda(1_000), jnp.asarray(x), jnp.asarray(y))
    jax.block_until_ready(fit())
    more = peak_bytes(fit)
    if more is not None:
        print(f"\nMemory beyond x of the widest fit: {more / x.nbytes:.2f} of x (aim 0.8).")


if __name__ == "__main__":
    main()
