"""Merge, remove, scale and pool statistics, without another pass over the data."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import PyTree

from genclf.arguments.calls import checked_call
from genclf.arguments.domains import NON_NEGATIVE, Scalar, shown
from genclf.arguments.sharding import compiled
from genclf.numerics.compensated import over_axis, pairwise_sum
from genclf.numerics.either import by_either
from genclf.numerics.namespace import Array, is_traced, namespace
from genclf.sums.plain import in_dtype
from genclf.sums.problems import problem_of_stats
from genclf.sums.statistics import Add, ClassifierStats, Moments, Sums, is_statistic

T = TypeVar("T")


@checked_call
def merge(a: T, b: T) -> T:
    """Statistics of two disjoint sets of examples together: S(A ∪ B) = S(A) + S(B).

    Merging is associative and commutative up to rounding. `Moments` merge by the rule of Chan,
    Golub and LeVeque, which subtracts no raw moments. In float32 the rounding error of each sum is
    kept too, so after any number of merges counts are exact and small terms are not lost.

    Args:
        a: statistics, as returned by `genclf.stats`.
        b: statistics of the same model on other examples.

    Returns:
        The statistics of all examples.

    Raises:
        ValueError: the two are of different models, or are not statistics. Statistics assembled by
            hand, without a `statistic`, can be merged with any of the same structure and shapes.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=1)
        >>> x, y = jnp.array([[0.0], [2.0], [4.0]]), jnp.zeros(3, int)
        >>> s = gcf.merge(gcf.stats(clf, x[:1], y[:1]), gcf.stats(clf, x[1:], y[1:]))
        >>> print(s.conditional.mean, s.conditional.scatter)
        [[2.]] [[8.]]

    References:
        Chan, Golub & LeVeque (1983), "Algorithms for computing the sample variance", eq. 2.1.
    """
    return merge_at_once(*_alike(a, b))


def merged(a: T, b: T) -> T:
    """`merge` of statistics of one model, or of several of them in a pytree, without a check."""
    return jax.tree.map(lambda s, t: s._merge(t), a, b, is_leaf=is_statistic)


merge_at_once = by_either(merged)


@checked_call
def remove(a: T, b: T) -> T:
    """Statistics of the examples of `a` without those of `b`: the inverse of `merge`.

    This gives leave-one-out and unlearning in closed form. It subtracts, so it loses precision if
    `b` is nearly all of `a`. If the statistics of the other examples are available, as in
    cross-validation, merge those instead.

    Args:
        a: statistics of a set of examples.
        b: statistics of a subset of them.

    Returns:
        The statistics of the remaining examples; NaN if `b` cannot be a subset of `a`, because a
        count, a total or a variance would be below 0 by more than rounding. This is the
        only check: if `b` has other examples that are not in `a`, the result is meaningless.

    Raises:
        ValueError: the two are of different models, or are not statistics.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=1)
        >>> x, y = jnp.array([[0.0], [2.0], [7.0]]), jnp.zeros(3, int)
        >>> s = gcf.remove(gcf.stats(clf, x, y), gcf.stats(clf, x[2:], y[2:]))
        >>> print(s.count, s.conditional.mean)
        [2.] [[1.]]
    """
    return remove_at_once(*_alike(a, b))


def removed(a: T, b: T, peak: T | None = None) -> T:
    """`remove` of statistics of one model without a check.

    `peak` are the statistics from which rows were removed before; their rounding is in `a`.
    """
    return jax.tree.map(
        lambda s, t, p: s._remove(t, p), a, b, a if peak is None else peak, is_leaf=is_statistic
    )


remove_at_once = by_either(removed)


@checked_call
def scale(stats: T, weight: Scalar) -> T:
    """Statistics of the same examples with all weights multiplied: `S(x, weight · w)`.

    Counts, totals and scatters are multiplied, means stay. A weight below 1 before each merge makes
    a stream forget old data exponentially: `s = merge(scale(s, 0.99), stats(clf, x, y))`.

    Args:
        stats: statistics, as returned by `genclf.stats`.
        weight: >= 0 and finite.

    Returns:
        The statistics; NaN if the weight is traced and invalid.

    Raises:
        ValueError: the weight is not a finite number >= 0, or `stats` are not statistics.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=1)
        >>> s = gcf.stats(clf, jnp.array([[1.0], [3.0]]), jnp.zeros(2, int))
        >>> half = gcf.scale(s, 0.5)
        >>> print(half.count, half.conditional.mean, half.conditional.scatter)
        [1.] [[2.]] [[1.]]
    """
    check_statistics(stats, "stats")
    return _scaled(stats, NON_NEGATIVE.checked(weight, "weight"))


@by_either
def _scaled(stats: T, weight: Scalar) -> T:
    def one(s: Sums | Moments) -> Sums | Moments:
        return s._scale(namespace(s.count, weight).asarray(weight, s.count.dtype))

    return jax.tree.map(one, stats, is_leaf=is_statistic)


@checked_call
def pool(stats: T, axis: int | str = 0) -> T:
    """Merge a whole batch of statistics in one step.

    Args:
        stats: statistics with a batch axis, as from `jax.vmap(genclf.stats, ...)`; or, inside
            `jax.shard_map` or `jax.vmap` with a named axis, this member's statistics.
        axis: the batch axis counted from the front, or the name of a mapped or mesh axis.

    Returns:
        The statistics of all members together, without the batch axis; with a named axis,
        the same value on every member.

    Raises:
        ValueError: `stats` are not statistics (a list of them is not), or have no such axis.

    Example:
        >>> import jax, jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=2)
        >>> x, y = jnp.arange(12.0).reshape(3, 4, 1), jnp.array([[0, 1, 0, 1]] * 3)
        >>> batched = jax.vmap(gcf.stats, (None, 0, 0))(clf, x, y)
        >>> print(gcf.pool(batched).count)
        [6. 6.]
    """
    check_statistics(stats, "stats")
    if isinstance(axis, str):
        name = axis

        def over(a: Array, low: Array | None) -> tuple[Array, Array | None]:
            return (lax.psum(a, name), None) if low is None else over_axis(a, low, name)

        try:
            return _pool(stats, over)
        except NameError as error:
            raise ValueError(
                f"axis is {axis!r}, but no axis of that name is mapped here; expected the name of "
                "an axis of jax.vmap or jax.shard_map around this call, or a number"
            ) from error
    _check_batch_axis(stats, axis)
    return _pooled(stats, axis)


@partial(compiled, static_argnums=1, fast_compile=2**14)
def _pooled(stats: T, axis: int) -> T:
    return _pool(jax.tree.map(lambda leaf: jnp.moveaxis(leaf, axis, 0), stats), _over_first)


def over_classes(stats: Moments) -> Moments:
    """The moments of all classes together."""
    return stats._pool(_over_first)


def _over_first(a: Array, low: Array | None) -> tuple[Array, Array | None]:
    return (a.sum(0), None) if low is None else pairwise_sum(a, low)


def _pool(stats: T, add: Add) -> T:
    return jax.tree.map(lambda s: s._pool(add), stats, is_leaf=is_statistic)


def check_statistics(stats: object, name: str) -> None:
    """Raise unless these are the statistics of one set of examples, or of a batch of sets."""
    nodes = jax.tree.leaves(stats, is_leaf=is_statistic)
    if not nodes or not all(map(is_statistic, nodes)):
        raise ValueError(
            f"{name} is {shown(stats)}, expected statistics, as genclf.stats returns them"
        )
    if isinstance(stats, list | tuple):
        raise ValueError(
            f"{name} is a {type(stats).__name__} of {len(stats)} statistics, expected one of them: "
            f"functools.reduce(genclf.merge, {name}) merges all"
        )


def _alike(a: T, b: T) -> tuple[T, T]:
    """Both statistics; raise unless they are of one model and one dtype.

    Statistics assembled by hand have no `statistic`, and get that of the other and its dtype.
    """
    check_statistics(a, "a")
    check_statistics(b, "b")
    given = _outline(a), _outline(b)
    if isinstance(a, ClassifierStats) and isinstance(b, ClassifierStats):
        a, b = _as_the_other(a, b, "a"), _as_the_other(b, a, "b")
    if (jax.tree.structure(a), _outline(a)) != (jax.tree.structure(b), _outline(b)):
        raise ValueError(
            f"a and b are statistics of different models: a is of {given[0]}, b of {given[1]}; "
            "genclf.relabel(stats, to, num_classes) gives both the same classes"
        )
    return a, b


def _as_the_other(s: Any, other: Any, name: str) -> Any:
    if s.statistic or not other.statistic:
        return s
    if not is_traced(s) and (wrong := problem_of_stats(s.labels, s.conditional, name)):
        raise ValueError(f"no rows have these statistics: {wrong}")
    dtype = other.count.dtype
    arrays = jax.tree.map(lambda n: in_dtype(n, dtype), s, is_leaf=is_statistic)
    return replace(arrays, statistic=other.statistic)


def _outline(stats: PyTree) -> str:
    """A description of statistics for a message, with the shapes and dtypes of their arrays."""

    def of_node(s: Sums | Moments) -> str:
        main = (s.count, s.total) if isinstance(s, Sums) else (s.count, s.mean, s.scatter)
        return f"{type(s).__name__}{[jnp.shape(a) for a in main]} of {main[0].dtype}"

    nodes = jax.tree.leaves(stats, is_leaf=is_statistic)
    statistic = getattr(stats, "statistic", None)
    return (f"{statistic}: " if statistic else "") + ", ".join(map(of_node, nodes))


def _check_batch_axis(stats: PyTree, axis: object) -> None:
    """Raise unless the axis is a whole number and, for `ClassifierStats`, a batch axis."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise ValueError(
            f"axis is {shown(axis)}, expected the number of a batch axis, or the name of a mapped "
            "or mesh axis"
        )
    is_of_classes = lambda node: isinstance(node, ClassifierStats)  # noqa: E731
    for one in filter(is_of_classes, jax.tree.leaves(stats, is_leaf=is_of_classes)):
        shape = one.count.shape
        if len(shape) < 2:
            raise ValueError(
                f"stats.count has shape {shape}, without a batch axis to pool over; expected "
                "statistics of many data sets, as from jax.vmap(genclf.stats, ...)"
            )
        if not 0 <= axis < len(shape):
            raise ValueError(
                f"axis is {axis}, and stats.count has shape {shape}; expected a batch axis, "
                f"counted from the front, 0..{len(shape) - 1}"
            )
