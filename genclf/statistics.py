"""Sufficient statistics: small pytrees that add up.

Two kinds carry every closed-form family. `Sums` holds plain totals; `Moments` holds centred
second moments, because raw ones cancel in float32. Composite statistics (a classifier's, a
product's) are pytrees whose nodes are these two, and the three verbs below map over them.
All formulas act on trailing axes, so statistics with leading batch axes (from `jax.vmap`) work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from genclf.arguments.domains import NON_NEGATIVE, Scalar, shown
from genclf.numerics.compensated import Low, add_each, fold, no_rounding, over_axis

T = TypeVar("T")
Add = Callable[[Array, Array | None], tuple[Array, Array | None]]
"""A sum over members, in high and low parts; the low is None where none is kept."""


class Sums(eqx.Module):
    """Weighted totals per class: `count_k = Σ_n w_nk` and `total_k = Σ_n w_nk f(x_n)`, f >= 0.

    Features of both signs cancel in a plain total: they take `Moments`.

    Attributes:
        count: total weight of each class, shape (..., K).
        total: summed features of each class, shape (..., K) and the features.
        rounding: what float32 rounded off count and total as they were added up, in the same
            order, so that a stream of any length loses nothing; None in float64.
    """

    count: Float[Array, "*batch_K"]
    total: Float[Array, "*batch_K_features"]
    rounding: Low

    def __init__(self, count: Array, total: Array, rounding: Low = None):
        """Without `rounding` nothing was rounded off yet."""
        self.count, self.total = count, total
        self.rounding = no_rounding(count, total) if rounding is None else rounding

    def _merge(self, other: Sums) -> Sums:
        sums, others = (self.count, self.total), (other.count, other.total)
        (count, total), low = add_each(sums, self.rounding, others, other.rounding)
        return Sums(count, total, low)

    def _scale(self, weight: Array | int) -> Sums:
        times = lambda a: weight * a  # noqa: E731
        return Sums(times(self.count), times(self.total), jax.tree.map(times, self.rounding))

    def _less(self, other: Sums) -> Sums:
        rest = self._merge(other._scale(-1))
        count, few = _not_negative(rest.count, jnp.maximum(self.count, other.count))
        total, less = _not_negative(rest.total, jnp.maximum(self.total, other.total))
        impossible = few.any(-1) | less.any(_after(few.ndim - 1, less))
        return _nan_where(impossible, Sums(count, total, rest.rounding))

    def _pool(self, add: Add) -> Sums:
        low = self.rounding
        count, count_low = add(self.count, low[0] if low else None)
        total, total_low = add(self.total, low[1] if low else None)
        if count_low is None or total_low is None:
            return Sums(count, total)
        return Sums(count, total, (count_low, total_low))


class Moments(eqx.Module):
    """Weighted count, mean and scatter per class, centred.

    `mean_k = Σ_n w_nk x_n / count_k`; `scatter_k = Σ_n w_nk (x_n - mean_k)(x_n - mean_k)ᵀ`, or
    its diagonal. The scatter is a sum, not an average: no divisor has been applied.

    Attributes:
        count: total weight of each class, shape (..., K); or, where cells are missing, of the cells
            of each feature that are not, (..., K, d), with a diagonal scatter.
        mean: shape (..., K, d); 0 for a class without weight.
        scatter: shape (..., K, d, d), or (..., K, d) for the diagonal alone.
        rounding: what float32 rounded off count, mean and scatter as they were added up, in the
            same order, so that a stream of any length loses nothing; None in float64.
    """

    count: Float[Array, "*batch_K_or_K_d"]
    mean: Float[Array, "*batch_K_d"]
    scatter: Float[Array, "*batch_K_d_or_d_d"]
    rounding: Low

    def __init__(self, count: Array, mean: Array, scatter: Array, rounding: Low = None):
        """Without `rounding` nothing was rounded off yet."""
        self.count, self.mean, self.scatter = count, mean, scatter
        self.rounding = no_rounding(count, mean, scatter) if rounding is None else rounding

    @property
    def is_full(self) -> bool:
        """Whether the scatter holds whole matrices rather than diagonals."""
        return self.scatter.ndim > self.mean.ndim

    @property
    def diagonal(self) -> Float[Array, "*batch_K_d"]:
        """Diagonal of the scatter, shape (..., K, d)."""
        return jnp.diagonal(self.scatter, axis1=-2, axis2=-1) if self.is_full else self.scatter

    @property
    def of_cells(self) -> bool:
        """Whether every feature has a count of its own."""
        return self.count.ndim == self.mean.ndim

    def per_feature(self, weight: Array) -> Array:
        """A number of the form of the count, for each feature: (..., K, 1) or (..., K, d)."""
        return weight if self.of_cells else weight[..., None]

    def outer(self, weight: Array, deviation: Array) -> Array:
        """`weight · deviation deviationᵀ`, in the form of this scatter."""
        left = self.per_feature(weight) * deviation
        return left[..., :, None] * deviation[..., None, :] if self.is_full else left * deviation

    def _merge(self, other: Moments) -> Moments:
        # Chan, Golub & LeVeque (1983), with δ = m_b - m_a:
        # m = m_a + δ n_b / n;  S = S_a + S_b + δδᵀ n_a n_b / n
        share = divide(other.count, self.count + other.count)
        delta = self._apart(other)
        between = self.outer(self.count * share, delta)
        sums = self.count, self.mean, self.scatter
        steps = other.count, self.per_feature(share) * delta, other.scatter + between
        low = other.rounding and (other.rounding[0], jnp.zeros_like(delta), other.rounding[2])
        (count, mean, scatter), low = add_each(sums, self.rounding, steps, low)
        return Moments(count, mean, scatter, low)

    def _apart(self, other: Moments) -> Array:
        """How far the means of the other are from these."""
        delta = other.mean - self.mean
        if self.rounding is None or other.rounding is None:
            return delta
        return delta + (other.rounding[1] - self.rounding[1])

    def _scale(self, weight: Array | int) -> Moments:
        times = lambda a: weight * a  # noqa: E731
        count = times(self.count)
        # A class without weight has mean 0.
        keep = lambda mean: jnp.where(self.per_feature(count) == 0, 0, mean)  # noqa: E731
        low = self.rounding
        low = low and (times(low[0]), keep(low[1]), times(low[2]))
        return Moments(count, keep(self.mean), times(self.scatter), low)

    def _less(self, other: Moments) -> Moments:
        rest = self._merge(other._scale(-1))
        count, few = _not_negative(rest.count, jnp.maximum(self.count, other.count))
        # Rounding of the means moves the scatter too.
        eps, apart = jnp.finfo(self.mean.dtype).eps, jnp.abs(self._apart(other))
        unsure = 8 * eps * (jnp.abs(self.mean) + jnp.abs(other.mean))
        moved = self.per_feature(jnp.abs(divide(self.count * other.count, rest.count)))
        size = self.per_feature(self.count + 64) * self.diagonal
        below = rest.diagonal < -(eps * size + moved * unsure * (apart + unsure))
        impossible = few.any(_after(below.ndim - 2, few)) | below.any((-2, -1))
        return _nan_where(impossible, Moments(count, rest.mean, rest.scatter, rest.rounding))

    def _pool(self, add: Add) -> Moments:
        low = self.rounding
        count, count_low = add(self.count, low[0] if low else None)
        total_of = lambda a: add(a, None)[0]  # noqa: E731
        weight, total = self.per_feature(self.count), self.per_feature(count)
        centre = divide(total_of(weight * self.mean), total)
        # The centre just found has rounded; one pass over the centred means corrects its drift.
        deviation = self.mean - jnp.broadcast_to(centre, self.mean.shape)
        drift = divide(total_of(weight * deviation), total)
        spread = total_of(self.scatter + self.outer(self.count, deviation))
        mean, scatter = centre + drift, spread - self.outer(count, drift)
        if count_low is None:
            return Moments(count, mean, scatter)
        low = count_low, jnp.zeros_like(mean), jnp.zeros_like(scatter)
        return Moments(count, mean, scatter, low)


def _not_negative(value: Array, size: Array) -> tuple[Array, Array]:
    """The difference of two sums of this size, >= 0 up to rounding; and where it is below that."""
    rounding = 64 * jnp.finfo(value.dtype).eps * size
    below = value < -rounding
    return jnp.where((value < 0) & ~below, 0, value), below


def _nan_where(impossible: Array, stats: Any) -> Any:
    """NaN in all numbers of the members of a batch that are impossible."""

    def spoil(leaf: Array) -> Array:
        each = jnp.expand_dims(impossible, range(impossible.ndim, leaf.ndim))
        return jnp.where(each, jnp.nan, leaf)

    return jax.tree.map(spoil, stats)


def _after(axes: int, a: Array) -> tuple[int, ...]:
    """The axes of an array after the first few."""
    return tuple(range(axes, a.ndim))


class ClassifierStats(eqx.Module):
    """Sufficient statistics of (x, y), as `genclf.stats` returns them.

    Attributes:
        labels: `Sums` with the total weight of each class.
        conditional: the family's statistics of x.
        statistic: what they are sums of, in words; those of other words cannot be merged with them,
            nor estimated from. None where somebody put them together by hand.
    """

    labels: Sums
    conditional: PyTree
    statistic: str | None = eqx.field(static=True, default=None)

    @property
    def count(self) -> Float[Array, "*batch K"]:
        """Total weight of each class, shape (K,); sums to the total weight of labelled rows."""
        return self.labels.count


def merge(a: T, b: T) -> T:
    """Statistics of two disjoint sets of examples together: S(A ∪ B) = S(A) + S(B).

    Associative and commutative up to rounding. `Moments` merge by the rule of Chan, Golub and
    LeVeque, which subtracts no raw moments. In float32 what a sum rounds off is kept beside it, so
    that counts are exact, and nothing is lost, through any number of merges.

    Args:
        a: statistics, as returned by `genclf.stats`.
        b: statistics of the same model on other examples.

    Returns:
        The statistics of all examples.

    Raises:
        ValueError: the two are of different models, or are no statistics.

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
    _check_alike(a, b)
    return jax.tree.map(lambda s, t: s._merge(t), a, b, is_leaf=_is_statistic)


def remove(a: T, b: T) -> T:
    """Statistics of the examples of `a` without those of `b`: the inverse of `merge`.

    Closed form of leave-one-out and of unlearning. It subtracts, so it loses the digits that `b`
    shares with `a`; where the complement is at hand (cross-validation), merge that instead.

    Args:
        a: statistics of a set of examples.
        b: statistics of a subset of them.

    Returns:
        The statistics of the rest; NaN where `b` was seen not to be a subset: a count or total
        would be below 0, or a scatter, by more than rounding.

    Raises:
        ValueError: the two are of different models, or are no statistics.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=1)
        >>> x, y = jnp.array([[0.0], [2.0], [7.0]]), jnp.zeros(3, int)
        >>> s = gcf.remove(gcf.stats(clf, x, y), gcf.stats(clf, x[2:], y[2:]))
        >>> print(s.count, s.conditional.mean)
        [2.] [[1.]]
    """
    _check_alike(a, b)
    return jax.tree.map(lambda s, t: s._less(t), a, b, is_leaf=_is_statistic)


def scale(stats: T, weight: Scalar) -> T:
    """Statistics of the same examples with all weights multiplied: `S(x, weight · w)`.

    Counts, totals and scatters are multiplied, means stay. With a weight below 1 before each merge
    a stream forgets: `s = merge(scale(s, 0.99), stats(clf, x, y))`.

    Args:
        stats: statistics, as returned by `genclf.stats`.
        weight: >= 0 and finite.

    Returns:
        The statistics; NaN in traced code where the weight is invalid.

    Raises:
        ValueError: the weight is no finite number >= 0, or these are no statistics.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=1)
        >>> s = gcf.stats(clf, jnp.array([[1.0], [3.0]]), jnp.zeros(2, int))
        >>> half = gcf.scale(s, 0.5)
        >>> print(half.count, half.conditional.mean, half.conditional.scatter)
        [1.] [[2.]] [[1.]]
    """
    _check_statistics(stats, "stats")
    weight = NON_NEGATIVE.checked(weight, "weight")

    def one(s: Any) -> Any:
        return s._scale(jnp.asarray(weight, s.count.dtype))

    return jax.tree.map(one, stats, is_leaf=_is_statistic)


def pool(stats: T, axis: int | str = 0) -> T:
    """All of a batch of statistics merged in one step.

    Args:
        stats: statistics with a batch axis, as from `jax.vmap(genclf.stats, ...)`; or, inside
            `jax.shard_map` or `jax.vmap` with a named axis, this member's statistics.
        axis: the batch axis counted from the front, or the name of a mapped or mesh axis.

    Returns:
        The statistics of all members together, without the batch axis; with a named axis,
        the same value on every member.

    Raises:
        ValueError: these are no statistics, or have no such axis.

    Example:
        >>> import jax, jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=2)
        >>> x, y = jnp.arange(12.0).reshape(3, 4, 1), jnp.array([[0, 1, 0, 1]] * 3)
        >>> batched = jax.vmap(gcf.stats, (None, 0, 0))(clf, x, y)
        >>> print(gcf.pool(batched).count)
        [6. 6.]
    """
    _check_statistics(stats, "stats")
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
    front = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, axis, 0), stats)
    return _pool(front, lambda a, low: (a.sum(0), None) if low is None else fold(a, low))


def _pool(stats: T, add: Add) -> T:
    return jax.tree.map(lambda s: s._pool(add), stats, is_leaf=_is_statistic)


def divide(numerator: Array, denominator: Array) -> Array:
    """`numerator / denominator`, and 0 with gradient 0 where the denominator is 0."""
    empty = denominator == 0
    return jnp.where(empty, 0, numerator / jnp.where(empty, 1, denominator))


def num_features(stats: PyTree) -> PyTree[int]:
    """Last axis of what each statistic sums: for most families the number of features."""
    last = lambda s: (s.total if isinstance(s, Sums) else s.mean).shape[-1]  # noqa: E731
    return jax.tree.map(last, stats, is_leaf=_is_statistic)


def _is_statistic(node: object) -> bool:
    return isinstance(node, Sums | Moments)


def _check_statistics(stats: Any, name: str) -> None:
    """Raise unless these are statistics: a pytree of `Sums` and `Moments`."""
    nodes = jax.tree.leaves(stats, is_leaf=_is_statistic)
    if not nodes or not all(map(_is_statistic, nodes)):
        raise ValueError(
            f"{name} is {shown(stats)}, expected statistics, as genclf.stats returns them"
        )


def _check_alike(a: Any, b: Any) -> None:
    """Raise unless both are statistics, of one model and one dtype."""
    _check_statistics(a, "a")
    _check_statistics(b, "b")
    if (jax.tree.structure(a), _outline(a)) != (jax.tree.structure(b), _outline(b)):
        raise ValueError(
            f"statistics of different models cannot be merged: a is of {_outline(a)}, b of "
            f"{_outline(b)}"
        )


def _outline(stats: PyTree) -> str:
    """What statistics are of, in words: with the shapes and dtypes of their arrays."""

    def of_node(s: Any) -> str:
        main = (s.count, s.total) if isinstance(s, Sums) else (s.count, s.mean, s.scatter)
        return f"{type(s).__name__}{[jnp.shape(a) for a in main]} of {main[0].dtype}"

    nodes = jax.tree.leaves(stats, is_leaf=_is_statistic)
    words = getattr(stats, "statistic", None)
    return (f"{words}: " if words else "") + ", ".join(map(of_node, nodes))


def _check_batch_axis(stats: Any, axis: Any) -> None:
    """Raise unless the statistics have this axis, and it can be one of a batch."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise ValueError(
            f"axis is {shown(axis)}, expected the number of a batch axis, or the name of a mapped "
            "or mesh axis"
        )
    if not isinstance(stats, ClassifierStats):
        return
    shape = stats.count.shape
    if len(shape) < 2:
        raise ValueError(
            f"stats.count has shape {shape}, without a batch axis to pool over; expected "
            "statistics of many data sets, as from jax.vmap(genclf.stats, ...)"
        )
    if not 0 <= axis < len(shape):
        raise ValueError(
            f"axis is {axis}, and stats.count has shape {shape}; expected a batch axis, counted "
            f"from the front, 0..{len(shape) - 1}"
        )
