"""Third and fourth moments in addition to the second, for the uncertainty of a covariance.

For a row with deviation z from the mean of its class, the squares u are either one number,
`u = |z|²`, or `u = (z_1², ..., z_d²)`. Each class has its own unit of deviations, since their
fourth powers may be too small or too large for the dtype.
"""

from __future__ import annotations

import jax
from jax import lax
from jaxtyping import Float, Shaped

from genclf.numerics.compensated import Low
from genclf.numerics.namespace import Array, constant, namespace
from genclf.sums.accumulate import moments
from genclf.sums.blocks import ClassWeights, Hard, class_rows, ignore_absent, row_weights
from genclf.sums.class_sums import of_rows
from genclf.sums.statistics import Add, Moments, divide


class FourthMoments(Moments):
    """`Moments` with a full scatter per class, and sums of squares `u` of the deviations z.

    Attributes:
        unit: the unit of the deviations z, a power of two or, without variance, 0; shape (..., K).
        third: `Σ_n w_nk u_n z_nᵀ`, shape (..., K, m, d); m is 1 for `u = |z|²`, or d for one square
            for each feature.
        fourth: `Σ_n w_nk u_n u_nᵀ`, shape (..., K, m, m).
    """

    unit: Float[Array, "*batch_K"]
    third: Float[Array, "*batch_K m d"]
    fourth: Float[Array, "*batch_K m m"]

    def __init__(
        self,
        count: Array,
        mean: Array,
        scatter: Array,
        rounding: Low = None,
        *,
        unit: Array,
        third: Array,
        fourth: Array,
    ):
        """By default the rounding errors are 0."""
        super().__init__(count, mean, scatter, rounding)
        self.unit, self.third, self.fourth = unit, third, fourth

    @property
    def of_each(self) -> bool:
        """Whether u has one square for each feature."""
        return self.fourth.shape[-1] == self.mean.shape[-1]

    def class_axes(self) -> FourthMoments:
        axes = vars(super().class_axes())
        return FourthMoments.of_fields(**axes, unit=-1, third=-3, fourth=-3)

    def fourth_in(self, unit: Array) -> Array:
        """The fourth sums of deviations in another unit."""
        return divide(self.unit, unit)[..., None, None] ** 4 * self.fourth

    def _about(self, point: Array, unit: Array) -> tuple[Array, Array]:
        """The third and fourth sums about `point` in place of the means, in another unit."""
        xp = namespace(self.mean)
        inverse, n = divide(xp.ones_like(unit), unit)[..., None], self.count[..., None, None]
        shift, diagonal = (self.mean - point) * inverse, self.diagonal * inverse * inverse
        scatter = self.scatter * inverse[..., None] * inverse[..., None]
        third = divide(self.unit, unit)[..., None, None] ** 3 * self.third
        total, more = self._reduce(diagonal), self._reduce(shift**2)
        outer = lambda a, b: a[..., :, None] * b[..., None, :]  # noqa: E731
        # z becomes z + s, and u becomes u + v + c, v the sum of 2 s z and c that of s².
        of_v = 2 * self._reduce(scatter * shift[..., None, :]).mT
        mixed = 2 * self._reduce(third * shift[..., None, :]) + outer(total, more)
        both = 2 * self._reduce(of_v * shift[..., None, :]) + n * outer(more, more)
        third = third + outer(total, shift) + of_v + n * outer(more, shift)
        return third, self.fourth_in(unit) + mixed + mixed.mT + both

    def _reduce(self, squares: Array) -> Array:
        """The sum over the features, or one number for each feature, as in u."""
        return _reduced(self.third.shape[-2], squares)

    def _merge(self, other: Moments) -> Moments:
        plain = super()._merge(other)
        if not isinstance(other, FourthMoments):
            return plain
        unit = _unit(plain)
        found = [s._about(plain.mean, unit) for s in (self, other)]
        return with_fourth(plain, unit, *jax.tree.map(lambda a, b: a + b, *found))

    def _scale(self, weight: Array | int) -> FourthMoments:
        plain = super()._scale(weight)
        return with_fourth(plain, self.unit, weight * self.third, weight * self.fourth)

    def _remove(self, other: Moments, peak: Moments | None = None) -> Moments:
        plain, merged = super()._remove(other, peak), self._merge(other._scale(-1))
        if not isinstance(merged, FourthMoments):
            return plain
        xp = namespace(plain.count)
        possible = ~xp.isnan(plain.count)[..., None, None]
        keep = lambda a: xp.where(possible, a, xp.nan)  # noqa: E731
        return with_fourth(plain, merged.unit, keep(merged.third), keep(merged.fourth))

    def _pool(self, add: Add) -> FourthMoments:
        xp = namespace(self.mean)
        plain = super()._pool(add)
        unit = _unit(plain)
        point = xp.broadcast_to(plain.mean, self.mean.shape)
        third, fourth = self._about(point, xp.broadcast_to(unit, self.unit.shape))
        return with_fourth(plain, unit, add(third, None)[0], add(fourth, None)[0])


def fourth_moments(x: Shaped[Array, "n d"], w: ClassWeights, *, each: bool) -> FourthMoments:
    """`FourthMoments` of each class in two passes; `each`: u has one square for each feature."""
    xp = namespace(x)
    plain, m = moments(x, w, full=True), x.shape[1] if each else 1

    def of_deviations(z: Array, w: ClassWeights) -> tuple[Array, Array]:
        u = _reduced(m, z**2)
        found = moments(xp.concatenate([u, z], 1), w, full=True)
        mean, n = found.mean[:, :m], found.count[:, None, None]
        fourth = found.scatter[:, :m, :m] + n * mean[:, :, None] * mean[:, None, :]
        return found.scatter[:, :m, m:], fourth

    x = ignore_absent(x.astype(plain.mean.dtype), row_weights(w) != 0)
    low = xp.zeros_like(plain.mean) if plain.rounding is None else plain.rounding[1]
    unit = _unit(plain)
    inverse = divide(xp.ones_like(unit), unit)[:, None]
    if isinstance(w, Hard):
        z = (x - of_rows(plain.mean, w) - of_rows(low, w)) * of_rows(inverse, w)
        third, fourth = of_deviations(z, w)
    else:

        def of_class(at: tuple[Array, ...]) -> tuple[Array, Array]:
            mean, low, inverse, weight = at
            z = (x - mean[None] - low[None]) * inverse[None]
            return jax.tree.map(lambda a: a[0], of_deviations(z, weight[:, None]))

        third, fourth = lax.map(of_class, (plain.mean, low, inverse, class_rows(w)))
    return with_fourth(plain, unit, third, fourth)


def with_fourth(plain: Moments, unit: Array, third: Array, fourth: Array) -> FourthMoments:
    """`FourthMoments` from moments, and from third and fourth sums."""
    moments = (plain.count, plain.mean, plain.scatter, plain.rounding)
    return FourthMoments(*moments, unit=unit, third=third, fourth=fourth)


def _unit(plain: Moments) -> Array:
    """The power of two nearest to the root of the mean variance of each class."""
    xp = namespace(plain.count)
    square = divide(plain.diagonal.mean(-1), plain.count)
    exponent = xp.round(0.5 * xp.log2(xp.where(square > 0, square, 1)))
    return constant(xp.where(square > 0, xp.exp2(exponent), 0))


def _reduced(m: int, squares: Float[Array, "*n d"]) -> Float[Array, "*n m"]:
    return squares.sum(-1, keepdims=True) if m == 1 else squares
