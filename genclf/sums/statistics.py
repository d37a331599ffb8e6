"""Sufficient statistics: small pytrees that add up.

Closed-form families use two kinds. `Sums` holds plain totals; `Moments` holds centred
second moments, because raw ones cancel in float32. Composite statistics (a classifier's, a
product's) are pytrees of these two, and the functions of `genclf.sums.merging` map over them.
All formulas act on trailing axes, so statistics with leading batch axes (from `jax.vmap`) work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PyTree

from genclf.arguments.module import static
from genclf.arguments.reprs import ShowsNumbers
from genclf.numerics import loops
from genclf.numerics.compensated import Low, Pair, add_each, add_to, pairwise_sum, single, zero_low
from genclf.numerics.double import gram, scaled
from genclf.numerics.namespace import Array, is_traced, namespace

_SMALL = 2**20  # outer products get a low part only up to this many numbers

T = TypeVar("T")
Add = Callable[[Array, Array | None], tuple[Array, Array | None]]
"""A sum over a batch or mesh axis, as high and low; low is None if it is not kept."""


class Sums(ShowsNumbers):
    """Weighted totals per class: `count_k = Σ_n w_nk` and `total_k = Σ_n w_nk f(x_n)`, f >= 0.

    Features of both signs cancel in a plain total, so they need `Moments`.

    Attributes:
        count: total weight of each class, shape (..., K).
        total: summed features of each class, shape (..., K) and the features.
        rounding: the accumulated rounding errors of count and total, in that order, so that a
            float32 stream of any length stays precise; None in float64.
    """

    count: Float[Array, "*batch_K"]
    total: Float[Array, "*batch_K_features"]
    rounding: Low

    def __init__(self, count: Array, total: Array, rounding: Low = None):
        """By default the rounding errors are 0."""
        self.count, self.total = count, total
        self.rounding = zero_low(count, total) if rounding is None else rounding

    @classmethod
    def quick(cls, count: Array, total: Array, rounding: Low = None) -> Sums:
        """The same, faster."""
        low = zero_low(count, total) if rounding is None else rounding
        return cls.of_fields(count=count, total=total, rounding=low)

    def class_axes(self) -> Sums:
        """The class axis of each array in its place, counted from the end."""
        total = -2 if self.total.ndim > 1 else -1
        axes = total if self.count.ndim == self.total.ndim else -1, total
        low = self.rounding and axes
        return Sums.of_fields(count=axes[0], total=axes[1], rounding=low)

    def _merge(self, other: Sums) -> Sums:
        sums, others = (self.count, self.total), (other.count, other.total)
        (count, total), low = add_each(sums, self.rounding, others, other.rounding)
        return Sums.quick(count, total, low)

    def _scale(self, weight: Array | int) -> Sums:
        times = lambda a: weight * a  # noqa: E731
        return Sums.quick(times(self.count), times(self.total), jax.tree.map(times, self.rounding))

    def _remove(self, other: Sums, peak: Sums | None = None) -> Sums:
        xp, peak = namespace(self.count), peak or self
        rest = self._merge(other._scale(-1))
        count, few = _not_negative(rest.count, xp.maximum(peak.count, other.count))
        total, less = _not_negative(rest.total, xp.maximum(peak.total, other.total))
        impossible = few.any(-1) | less.any(_after(few.ndim - 1, less))
        return nan_if(impossible, Sums(count, total, rest.rounding))

    def _pool(self, add: Add) -> Sums:
        low = self.rounding
        count, count_low = add(self.count, low[0] if low else None)
        total, total_low = add(self.total, low[1] if low else None)
        if count_low is None or total_low is None:
            return Sums.quick(count, total)
        return Sums.quick(count, total, (count_low, total_low))


class Moments(ShowsNumbers):
    """Weighted count and mean per class, and the scatter about the means, per class or pooled.

    `mean_k = Σ_n w_nk x_n / count_k`; `scatter_k = Σ_n w_nk (x_n - mean_k)(x_n - mean_k)ᵀ`, or
    its diagonal; a pooled scatter is the sum of these over the classes. The scatter is a sum, not
    an average: no divisor has been applied.

    Attributes:
        count: total weight of each class, shape (..., K). If cells may be missing and the scatter
            is diagonal: total weight of the observed cells of each feature, (..., K, d).
        mean: shape (..., K, d); 0 for a class without weight.
        scatter: shape (..., K, d, d), or (..., K, d) for the diagonal alone; if it is pooled, its
            class axis has length 1.
        rounding: the accumulated rounding errors of count, mean and scatter, in that order, so
            that a float32 stream of any length stays precise; None in float64.
    """

    count: Float[Array, "*batch_K_or_K_d"]
    mean: Float[Array, "*batch_K_d"]
    scatter: Float[Array, "*batch_K_d_or_d_d"]
    rounding: Low

    def __init__(self, count: Array, mean: Array, scatter: Array, rounding: Low = None):
        """By default the rounding errors are 0."""
        self.count, self.mean, self.scatter = count, mean, scatter
        self.rounding = zero_low(count, mean, scatter) if rounding is None else rounding

    @staticmethod
    def quick(count: Array, mean: Array, scatter: Array, rounding: Low = None) -> Moments:
        """The same, faster."""
        low = zero_low(count, mean, scatter) if rounding is None else rounding
        return Moments.of_fields(count=count, mean=mean, scatter=scatter, rounding=low)

    @property
    def is_full(self) -> bool:
        """Whether the scatter holds whole matrices rather than diagonals."""
        return self.scatter.ndim > self.mean.ndim

    @property
    def diagonal(self) -> Float[Array, "*batch_K_d"]:
        """Diagonal of the scatter, shape (..., K, d); if it is pooled, (..., 1, d)."""
        xp = namespace(self.scatter)
        return xp.diagonal(self.scatter, axis1=-2, axis2=-1) if self.is_full else self.scatter

    def of_features(self) -> Moments:
        """These moments with only the diagonal of the scatter."""
        xp = namespace(self.scatter)
        if not self.is_full:
            return self
        low = self.rounding
        low = low and (*low[:2], xp.diagonal(low[2], axis1=-2, axis2=-1))
        return Moments.quick(self.count, self.mean, self.diagonal, low)

    @property
    def of_cells(self) -> bool:
        """Whether the count is per feature."""
        return self.count.ndim == self.mean.ndim

    @property
    def is_pooled(self) -> bool:
        """Whether several classes have one scatter."""
        classes = self.mean.shape[-2:-1]  # empty for the moments of one class
        return self.scatter.shape[: self.mean.ndim][-2:-1] != classes

    def class_axes(self) -> Moments:
        """The class axis of each array in its place, counted from the end."""
        axes = -2 if self.of_cells else -1, -2, -3 if self.is_full else -2
        low = self.rounding and axes
        return Moments.of_fields(count=axes[0], mean=axes[1], scatter=axes[2], rounding=low)

    def pool_classes(self) -> Moments:
        """These moments with the sum of the scatters of all classes."""
        xp = namespace(self.scatter)
        if self.is_pooled:
            return self
        axis = -3 if self.is_full else -2
        front = lambda a: xp.moveaxis(a, axis, 0)  # noqa: E731
        back = lambda a: xp.expand_dims(a, axis)  # noqa: E731
        if self.rounding is None:
            return Moments.quick(self.count, self.mean, self.scatter.sum(axis, keepdims=True))
        scatter, low = pairwise_sum(front(self.scatter), front(self.rounding[2]))
        return Moments.quick(self.count, self.mean, back(scatter), (*self.rounding[:2], back(low)))

    def in_shares(self, share: Array) -> Moments:
        """These moments, with a pooled scatter divided among the classes by their `share`."""
        if not self.is_pooled:
            return self
        each = self.per_feature(share)
        each = each[..., None] if self.is_full else each
        return Moments.quick(self.count, self.mean, each * self.scatter)

    def per_feature(self, weight: Array) -> Array:
        """A weight of the count's shape, ready to multiply features: (..., K, 1) or (..., K, d)."""
        return weight if self.of_cells else weight[..., None]

    def outer(self, weight: Array, deviation: Array) -> Array:
        """`weight · deviation deviationᵀ`, in the form of this scatter."""
        return self._outer(weight, single(deviation), exact=False)[0]

    def outer_pair(self, weight: Array, deviation: Pair, hidden: float = 0.0) -> Pair:
        """`outer` as high and low; low is 0 if it would cost as much as many rows.

        A large one is 0 if the variance of no feature is above this share of the scatter's: 0, as
        in a sum with the rows of new classes, or a share that rounding hides.
        """
        numbers = math.prod(self.mean.shape[-2:]) * self.mean.shape[-1]
        if numbers <= _SMALL or not (self.is_full and self.is_pooled):
            return self._outer(weight, deviation, exact=numbers <= _SMALL)
        xp = namespace(weight)
        variance = (xp.abs(weight)[..., None] * deviation[0] ** 2).sum(-2)
        whole = lambda: self._outer(weight, deviation, exact=False)[0]  # noqa: E731
        zeros = lambda: xp.zeros_like(self.scatter)  # noqa: E731
        is_large = loops.any_member(~(variance <= hidden * self.diagonal[..., 0, :]).all())
        if not is_traced(is_large):
            return single(whole() if is_large else zeros())
        return single(loops.cond(is_large, whole, zeros))

    def _outer(self, weight: Array, deviation: Pair, exact: bool) -> Pair:
        if not self.is_full:
            square = self.per_feature(weight) * deviation[0] * deviation[0]
            return single(self.summed_if_pooled(square))
        if self.is_pooled:
            high, low = gram(weight, deviation, exact)
            return high[..., None, :, :], low[..., None, :, :]
        each = deviation[0][..., None, :], deviation[1][..., None, :]
        return gram(weight[..., None], each, exact)

    def summed_if_pooled(self, per_class: Array) -> Array:
        """The sum of (..., K, d) over the classes if they have one scatter; else unchanged."""
        return per_class.sum(-2, keepdims=True) if self.is_pooled else per_class

    def _merge(self, other: Moments) -> Moments:
        # Chan, Golub & LeVeque (1983), with δ = m_b - m_a:
        # m = m_a + δ n_b / n;  S = S_a + S_b + δδᵀ n_a n_b / n
        share = divide(other.count, self.count + other.count)
        delta, rest = self._mean_difference(other)
        between, of_between = self.outer_pair(self.count * share, (delta, rest))
        more, rounded_off = add_to((other.scatter, of_between), between)
        step, low = self.per_feature(share) * delta, other.rounding
        if low is not None:
            step, of_step = scaled(delta, rest, share)
            low = low[0], of_step, low[2] + rounded_off
        sums, steps = (self.count, self.mean, self.scatter), (other.count, step, more)
        (count, mean, scatter), low = add_each(sums, self.rounding, steps, low)
        return Moments.quick(count, mean, scatter, low)

    def _mean_difference(self, other: Moments) -> Pair:
        """The difference of the means, `other.mean - self.mean`, as high and low."""
        if self.rounding is None or other.rounding is None:
            return single(other.mean - self.mean)
        return add_to((other.mean, other.rounding[1]), (-self.mean, -self.rounding[1]))

    def _scale(self, weight: Array | int) -> Moments:
        xp = namespace(self.count)
        times = lambda a: weight * a  # noqa: E731
        count = times(self.count)
        # A class without weight has mean 0.
        keep = lambda mean: xp.where(self.per_feature(count) == 0, 0, mean)  # noqa: E731
        if self.rounding is None:
            return Moments.quick(count, keep(self.mean), times(self.scatter))
        low = self.rounding
        scatter, rest = scaled(self.scatter, low[2], xp.asarray(weight, count.dtype))
        return Moments.quick(count, keep(self.mean), scatter, (times(low[0]), keep(low[1]), rest))

    def _remove(self, other: Moments, peak: Moments | None = None) -> Moments:
        xp, peak = namespace(self.count), peak or self
        rest = self._merge(other._scale(-1))
        count, few = _not_negative(rest.count, xp.maximum(peak.count, other.count))
        # Rounding of the means moves the scatter too.
        eps, delta = xp.finfo(self.mean.dtype).eps, xp.abs(self._mean_difference(other)[0])
        error = 8 * eps * (xp.abs(self.mean) + xp.abs(other.mean))
        moved = self.per_feature(xp.abs(divide(self.count * other.count, rest.count)))
        moved = self.summed_if_pooled(moved * error * (delta + error))
        number = xp.broadcast_to(self.per_feature(peak.count), self.mean.shape)
        terms = self.summed_if_pooled(number)
        # So did the rounding of what was removed before.
        before = error * xp.sqrt(number * xp.broadcast_to(peak.diagonal, self.mean.shape))
        moved = moved + self.summed_if_pooled(before)
        below = rest.diagonal < -(eps * (terms + 64) * peak.diagonal + moved)
        impossible = few.any(_after(below.ndim - 2, few)) | below.any((-2, -1))
        empty = self.per_feature(count) == 0
        mean, scatter, low = xp.where(empty, 0, rest.mean), rest.scatter, rest.rounding
        low = low and (low[0], xp.where(empty, 0, low[1]), low[2])
        if not self.is_pooled and self.rounding is None:
            scatter = xp.where(empty[..., None] if self.is_full else empty, 0, scatter)
        return nan_if(impossible, Moments(count, mean, scatter, low))

    def _pool(self, add: Add) -> Moments:
        count_low, mean_low, scatter_low = self.rounding or (None, None, None)
        count, count_low = add(self.count, count_low)
        total_of = lambda a: add(a, None)[0]  # noqa: E731
        weight, total = self.per_feature(self.count), self.per_feature(count)
        centre = divide(total_of(weight * self.mean), total)
        # The centre has a rounding error; one pass over the centred means finds and corrects it.
        deviation = self.mean - namespace(centre).broadcast_to(centre, self.mean.shape)
        deviation = deviation if mean_low is None else deviation + mean_low
        scatter, low = add(self.scatter, scatter_low)
        if low is None:
            spread = single(scatter + add(self.outer(self.count, deviation), None)[0])
            return about_mean(count, centre, total_of(weight * deviation), spread)
        outer, outer_low = self.outer_pair(self.count, single(deviation))
        between, rest = add(outer, outer_low)
        spread = add_to((scatter, low), between)
        spread = spread if rest is None else add_to(spread, rest)
        return about_mean(count, centre, total_of(weight * deviation), spread, count_low)


def _not_negative(value: Array, size: Array) -> tuple[Array, Array]:
    """A difference of sums, 0 where it is rounding; and a mask of where it is truly < 0.

    In float32 sums have low parts, so what is above 0 is no rounding.
    """
    xp = namespace(value)
    rounding = 64 * xp.finfo(value.dtype).eps * size
    most = 0 if value.dtype == np.float32 else rounding
    below = value < -rounding
    return xp.where((value <= most) & ~below, 0, value), below


def _after(axes: int, a: Array) -> tuple[int, ...]:
    """The axes of an array after the first few."""
    return tuple(range(axes, a.ndim))


def about_mean(
    count: Array, centre: Array, remainder: Array, scatter: Pair, count_low: Array | None = None
) -> Moments:
    """Moments from sums about a centre near each mean.

    Args:
        count: total weights, (..., K).
        centre: the centres, (..., K, d).
        remainder: `Σ_n w_nk (x_n - centre_k)`, (..., K, d).
        scatter: the scatter about the centres, as high and low.
        count_low: the low parts of the counts; 0 if not given.
    """
    xp = namespace(count)
    raw = Moments.quick(count, centre, scatter[0])
    drift, empty = divide(remainder, raw.per_feature(count)), raw.per_feature(count) == 0
    if raw.rounding is None:
        drift = xp.where(xp.isfinite(drift), drift, xp.nan)  # an infinite cell is invalid, too
        mean = xp.where(empty, 0, centre + drift)
        return Moments.quick(count, mean, scatter[0] - raw.outer(count, drift))
    mean, rest = add_to(single(centre), drift)
    mean, rest = (xp.where(empty, 0, a) for a in (mean, rest))
    taken = raw.outer_pair(count, single(drift), hidden=float(xp.finfo(count.dtype).eps) / 16)
    high, low = add_to(scatter, jax.tree.map(xp.negative, taken))
    of_count = xp.zeros_like(count) if count_low is None else count_low
    return Moments.quick(count, mean, high, (of_count, rest, low))


class ClassifierStats(ShowsNumbers):
    """Sufficient statistics of (x, y), as `genclf.stats` returns them.

    Attributes:
        labels: `Sums` with the total weight of each class.
        conditional: the family's statistics of x.
        statistic: a description of what is summed. Statistics with different descriptions cannot
            be merged, and a model with a different one cannot be estimated from these. None if
            the statistics were assembled by hand.
    """

    labels: Sums
    conditional: PyTree
    statistic: str | None = static(default=None)

    @property
    def count(self) -> Float[Array, "*batch K"]:
        """Total weight of each class, shape (K,); sums to the total weight of labelled rows."""
        return self.labels.count


def divide(numerator: Array, denominator: Array) -> Array:
    """`numerator / denominator`, and 0 with gradient 0 where the denominator is 0."""
    xp = namespace(numerator, denominator)
    empty = denominator == 0
    return xp.where(empty, 0, numerator / xp.where(empty, 1, denominator))


def any_nan(tree: PyTree) -> Bool[Array, ""]:
    """Whether a number of the arrays in a tree is NaN."""
    return jnp.stack([jnp.isnan(leaf).any() for leaf in jax.tree.leaves(tree)]).any()


def nan_if(invalid: Bool[Array, "*batch"], tree: T) -> T:
    """The tree, with NaN in place of every floating number of invalid batch members."""
    xp = namespace(invalid)

    def marked(a: Array) -> Array:
        if not xp.issubdtype(a.dtype, xp.floating):
            return a
        return xp.where(xp.expand_dims(invalid, tuple(range(invalid.ndim, a.ndim))), xp.nan, a)

    return jax.tree.map(marked, tree)


def is_statistic(node: object) -> bool:
    """Whether a node of a pytree is sums or moments."""
    return isinstance(node, Sums | Moments)
