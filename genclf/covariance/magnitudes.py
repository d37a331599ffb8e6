"""Scales of the features of a data set, from its moments."""

from __future__ import annotations

from genclf.numerics.namespace import Array, constant, namespace
from genclf.sums.statistics import Moments, divide


class Magnitudes:
    """Scales of each feature, (d,): mean, within-class and total variance, mean square, rounding.

    `typical` is the variance that the ridge multiplies; `no_spread` marks features that are
    constant up to rounding; `square_of_class` is the mean square in each class, (K, d), or over all
    classes if the class has no weight; (1, d) if the scatter is pooled. A pooled variance below the
    rounding of all rows is compared with the class nearest to 0: one far class may be constant
    where others vary. In this dtype the variance is unknown of features that are `vanishing`, not 0
    with squares that underflow or are inexact, or `overflowing`, with squares that are not finite.
    """

    def __init__(self, stats: Moments):
        """From the statistics of all classes."""
        xp = namespace(stats.mean)
        n = stats.count.sum(0)
        count = xp.broadcast_to(stats.per_feature(stats.count), stats.mean.shape)
        within = divide(stats.diagonal.sum(0), n)
        # About the mean of one class, the means of a constant feature are exactly 0.
        point = xp.where(count == 0, -xp.inf, stats.mean).max(0)
        point = constant(xp.where((count == 0).all(0), 0, point))
        apart = xp.where(count == 0, 0, stats.mean - point[None])
        apart = apart if stats.rounding is None else apart + stats.rounding[1]
        step = divide((count * apart).sum(0), n)
        self.mean = point + step
        self.total = within + divide((count * (apart - step[None]) ** 2).sum(0), n)
        self.square = self.total + self.mean**2
        of_class = within[None] if stats.is_pooled else divide(stats.diagonal, count)
        own = stats.mean**2 + of_class
        nearest = xp.where(count == 0, self.square[None], own).min(0)
        square = xp.where(within > rounding_of(self.square), self.square, nearest)
        self.typical = xp.where(within > rounding_of(square), within, self.total)
        # Compare in units of x, since small squares underflow.
        info = xp.finfo(n.dtype)
        self.no_spread = xp.sqrt(self.total) <= info.eps * xp.sqrt(self.square)
        some = (stats.mean != 0).any(0) | (self.total != 0)
        # Small weights may have made products with squares vanish.
        sums = xp.where(n < 1, n * xp.maximum(self.total, info.eps**2 * self.square), self.square)
        self.vanishing = some & (xp.minimum(sums, self.square) < info.tiny / info.eps)
        of_empty = square[None]
        self.square_of_class = of_empty if stats.is_pooled else xp.where(count == 0, of_empty, own)
        is_finite = xp.isfinite(self.square) & xp.isfinite(self.square_of_class).all(0)
        self.overflowing = ~is_finite & ~xp.isnan(stats.mean).any(0)


def rounding_of(square: Array) -> Array:
    """The variance that rounding gives equal numbers with this mean square: `(ε · rms)²`."""
    xp = namespace(square)
    info = xp.finfo(square.dtype)
    return xp.maximum(info.eps**2 * square, info.tiny)
