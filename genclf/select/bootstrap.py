"""Bootstrap intervals of any function of the weights of rows, by resampled weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from genclf.arguments.domains import Domain, whole
from genclf.arguments.reprs import ShowsNumbers
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.conversion import float_dtype
from genclf.select.chunks import PROGRESS, Progress, map_chunk, over_chunks, sizes
from genclf.select.groups import first_of_groups, groups_of_rows

_LEVEL = Domain(
    "a number between 0 and 1, such as 0.95",
    lambda level: isinstance(level, float) and 0 < level < 1,
)


class Bootstrap(ShowsNumbers):
    """An estimate, and the estimates of resampled rows, from `bootstrap`.

    Attributes:
        estimate: the statistic with all weights 1.
        lower, upper: quantiles `(1 - level) / 2` and `(1 + level) / 2` of the draws.
        standard_error: the standard deviation of the draws, with the divisor num - 1.
        draws: the statistic of each sample, all arrays with a first axis of length num.
    """

    estimate: Any
    lower: Any
    upper: Any
    standard_error: Any
    draws: Any


@checked_arguments(
    statistic=Domain("a function of weights (n,)", callable),
    num_rows=whole(1),
    num=whole(2),
    level=_LEVEL,
    groups=groups_of_rows,
    strata=groups_of_rows,
    progress=PROGRESS,
)
def bootstrap(
    key: Array,
    statistic: Callable[[Float[Array, "n"]], PyTree],
    num_rows: int,
    *,
    num: int = 1000,
    level: float = 0.95,
    groups: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Bootstrap:
    """Percentile intervals of anything that is computed from weighted rows.

    A bootstrap sample draws n rows with replacement; the weight of a row is the number of times
    that it was drawn, so all samples share one compiled program. A score of out-of-fold posteriors
    is resampled without refits; an estimate is fitted to each sample.

    Args:
        key: a `jax.random` key.
        statistic: a function of weights, shape (n,), to arrays, such as `lambda w:
            genclf.score(cv, y, weights=w)` or `lambda w: genclf.fit(clf, x, y, w).log_prior`.
        num_rows: n.
        num: number of samples.
        level: the coverage of the intervals.
        groups: the group of each row, (n,), such as subjects: its rows are drawn together. Values
            of one kind, such as integers or strings.
        strata: the stratum of each row, (n,), as `groups`; each is resampled separately: with the
            labels as strata, the classes keep their sizes. A group must lie in one stratum.
        batch_size: number of samples that a core works on at once; None for a default.
        progress: called from time to time with the number of samples done and the total.

    Returns:
        `Bootstrap`, whose fields have the structure of the statistic's result.

    Raises:
        ValueError: a shape is wrong, or a group is in two strata.

    Example:
        >>> import jax, genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.lda(11), vowel.x_train, vowel.y_train)
        >>> found, y = gcf.log_posterior(params, vowel.x_test), vowel.y_test
        >>> speakers = jax.numpy.arange(len(y)) // 66
        >>> scores = lambda w: gcf.score(found, y, weights=w)
        >>> rows = gcf.bootstrap(jax.random.key(0), scores, len(y))
        >>> print(f"{rows.estimate:.2f} {rows.lower:.2f} {rows.upper:.2f}")
        0.44 0.40 0.48
        >>> people = gcf.bootstrap(jax.random.key(0), scores, len(y), groups=speakers)
        >>> print(f"{people.estimate:.2f} {people.lower:.2f} {people.upper:.2f}")
        0.44 0.32 0.54

    References:
        Efron & Tibshirani (1993), An Introduction to the Bootstrap, §13.3.
    """
    for name, given in (("groups", groups), ("strata", strata)):
        if given is not None and len(given) != num_rows:
            raise ValueError(f"{name} has length {len(given)}, expected num_rows = {num_rows}")
    group = np.arange(num_rows) if groups is None else np.asarray(groups)
    stratum = np.zeros(num_rows, int) if strata is None else np.asarray(strata)
    stratum_of, mixed = first_of_groups(stratum, group)
    if len(mixed):
        raise ValueError(f"groups: the group of row {mixed[0]} has rows in two strata")
    order = np.argsort(stratum_of, kind="stable")
    size = np.bincount(stratum_of)
    start = (np.cumsum(size) - size)[stratum_of[order]]
    arrays = jnp.asarray(group), jnp.asarray(order), jnp.asarray(start)
    total = jnp.asarray(size[stratum_of[order]])
    dtype = float_dtype(())
    chunk_size = sizes(num, jax.ShapeDtypeStruct((num, num_rows), dtype), batch_size)

    def one(number: Int[Array, ""]) -> PyTree:
        group, order, start = arrays
        uniform = jax.random.uniform(jax.random.fold_in(key, number), total.shape, dtype)
        drawn = start + jnp.minimum((uniform * total.astype(dtype)).astype(start.dtype), total - 1)
        times = jnp.zeros(len(order), dtype).at[order[drawn]].add(1)
        return statistic(times[group])

    numbers = jnp.arange(num, dtype=jnp.int32)
    some = jax.jit(lambda first: map_chunk(one, numbers, first, chunk_size))
    draws = over_chunks(some, num, chunk_size.chunk, progress)
    tail = (1 - level) / 2
    quantile = lambda q: jax.tree.map(partial(jnp.quantile, q=q, axis=0), draws)  # noqa: E731
    return Bootstrap(
        statistic(jnp.ones(num_rows, dtype)),
        quantile(tail),
        quantile(1 - tail),
        jax.tree.map(lambda a: a.std(0, ddof=1), draws),
        draws,
    )
