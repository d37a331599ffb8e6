"""Squared Mahalanobis distances of rows from class means.

If classes share a scale, or scales are diagonal, the square is multiplied out about the centre of
the means, `|x-c|² - 2 (x-c)ᵀ Σ⁻¹ (μ_k-c) + |μ_k-c|²`, and the sum is two products. It cancels for
rows that are much nearer to a class than to the centre.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float, Shaped

from genclf.covariance.scale import CANCELS, Scale
from genclf.covariance.scales import SCALES
from genclf.numerics import loops
from genclf.numerics.namespace import Array, constant, matmul, namespace
from genclf.numerics.row_blocks import over_rows
from genclf.numerics.scores.means import Means, from_one, over_classes
from genclf.numerics.scores.shared_scale import SharedForm, own_of
from genclf.numerics.sizes import is_at_most
from genclf.sums.far import shrink_far_rows
from genclf.sums.largest import argmax

_QUICK = 2**18  # multiplications, up to which differences cost less than the choice of a form


def distances(
    x: Shaped[Array, "*batch d"],
    means: Means,
    scale: Array,
    inverse: Array,
    arithmetic: Scale,
    reduce: Callable[[Array], Array] = lambda squared: squared,
    *,
    compared: bool = False,
) -> Array:
    """`(x-μ_k)ᵀ Σ_k⁻¹ (x-μ_k)` of every row and class.

    A distance too large for the dtype is infinite, and NaN if a cell of the row is not finite.

    Args:
        x: examples.
        means: class means.
        scale: one for each class, or one for all.
        inverse: the inverse of the scale.
        arithmetic: the arithmetic of the scale.
        reduce: a function of the distances of each row, whose result is returned instead of them.
        compared: whether the distances of a row are only compared with each other; if they
            overflow, those of the row shrunk towards 0 are returned.
    """
    xp = namespace(x, scale)
    num_classes, d = means.high.shape
    own = len(scale) > 1

    def in_range(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def rows(x: Array) -> Array:
            squared = f(x)
            overflows = ~xp.isfinite(squared).all()
            far = lambda: f(shrink_far_rows(x, arithmetic.deviations(scale)))  # noqa: E731
            return loops.unlikely(overflows, far, lambda: squared)

        return rows if compared else f

    def one_by_one(x: Array) -> Array:
        if own:
            return _from_each_class(x, means, inverse, arithmetic)
        deviation = means.at(None).subtracted_from(x[:, None])
        lengths = arithmetic.squared_lengths(inverse[0], deviation.reshape(-1, d))
        return lengths.reshape(deviation.shape[:2])

    def found() -> Array:
        size = 4 * d if own and arithmetic.is_full else max(d, num_classes) // 2

        def by(f: Callable[[Array], Array]) -> Array:
            of_block = lambda x: reduce(in_range(f)(x.astype(means.high.dtype)))  # noqa: E731
            return over_rows(of_block, x, 1, size)

        is_small = is_at_most(x.size * num_classes * (d if arithmetic.is_full else 4), _QUICK)
        if is_small or (own and arithmetic.is_full):
            return by(one_by_one)
        # The form does not depend on rows, so it is computed once, not in each block of them. It
        # may cancel if the terms of a row can be `CANCELS` times as large as d plus its distance
        # from a class; `checked` computes distances in another way if they do cancel for a row.
        form: _OwnDiagonals | _Shared
        form = _OwnDiagonals(means, scale) if own else _Shared(means, inverse[0], arithmetic)
        checked, unchecked = lambda: by(form.checked), lambda: by(form.multiplied_out)
        return loops.unlikely(form.may_cancel, checked, unchecked)

    return found() if compared else _unless_not_finite(x, found())


def _unless_not_finite(x: Shaped[Array, "*batch d"], out: Array) -> Array:
    """Replace the results of each row that has a non-finite cell by NaN."""
    xp = namespace(out)

    def of_finite_rows() -> Array:
        known = xp.isfinite(x).all(-1)
        return xp.where(known.reshape(known.shape + (1,) * (out.ndim - known.ndim)), out, xp.nan)

    # The results of such a row are not finite, so rows are checked only if a result is not.
    return loops.unlikely(~xp.isfinite(out).all(), of_finite_rows, lambda: out)


def _from_each_class(
    x: Float[Array, "n d"], means: Means, inverse: Array, arithmetic: Scale
) -> Float[Array, "n K"]:
    """Distances from differences of rows and means, if each class has its own scale."""

    def of_class(means: Means, inverse: Array) -> Array:
        return arithmetic.squared_lengths(inverse, from_one(x, means))

    return over_classes(of_class, means, inverse, x=x)


class _Shared:
    """`|x-c|²_Σ - 2 δ_k(x)`, δ the linear scores; if it cancels, c is the nearest class's mean.

    Since `|x-c|² <= 2 |x-μ_k|² + 2 |μ_k-c|²`, it cannot cancel if the classes are near the centre.
    """

    def __init__(self, means: Means, inverse: Array, arithmetic: Scale):
        """From the means and the inverse of the common scale."""
        self.means, self.linear = means, SharedForm(means, inverse, arithmetic)
        self.may_cancel = (-2 * self.linear.intercept).max() > CANCELS / 2 * means.high.shape[1]

    def _lengths(self, deviation: Float[Array, "n d"]) -> Float[Array, "n"]:
        return self.linear.arithmetic.squared_lengths(self.linear.inverse, deviation)

    def multiplied_out(self, x: Float[Array, "n d"]) -> Float[Array, "n K"]:
        z = x - self.means.centre
        return self._lengths(z)[:, None] - 2 * self.linear.about_centre(z)

    def checked(self, x: Float[Array, "n d"]) -> Float[Array, "n K"]:
        z = x - self.means.centre
        score, length = self.linear.about_centre(z), self._lengths(z)
        best = score.max(1)

        def from_nearest() -> Array:
            nearest = constant(argmax(score))
            best = own_of(score, nearest)
            own = self.means.of_rows(nearest).subtracted_from(x)

            def about_classes() -> Array:
                near = self.linear.about_median()
                return near.about_classes(x, nearest, near.between())

            are_far = self.linear.are_far_apart
            less = loops.unlikely(are_far, about_classes, lambda: score - best)
            return self._lengths(own)[:, None] - 2 * less

        cancels = length > CANCELS * (length - 2 * best + x.shape[1])  # False on NaN
        as_it_is = lambda: length[:, None] - 2 * score  # noqa: E731
        return loops.unlikely(cancels.any(), from_nearest, as_it_is)


class _OwnDiagonals:
    """`Σ_j (x_j - μ_kj)² / σ_kj²` of classes with their own variances, as two products."""

    def __init__(self, means: Means, scale: Array):
        """From the means and the standard deviations."""
        xp = namespace(scale)
        self.means, self.scale = means, xp.broadcast_to(scale, means.high.shape)
        self.centre, unit = means.centre, self.scale.mean(0, keepdims=True)
        self.per_unit, deviation = 1 / unit, means.about(means.centre) / unit
        self.of_squares = (unit / self.scale) ** 2
        self.of_rows = self.of_squares * deviation
        self.intercept = (self.of_rows * deviation).sum(1)
        # |x-c|² + |μ-c|² <= 2 |x-μ|² + 3 |μ-c|², in the units of each class.
        self.may_cancel = self.intercept.max() > CANCELS / 3 * means.high.shape[1]

    def _terms(self, x: Float[Array, "n d"]) -> tuple[Float[Array, "n K"], Float[Array, "n K"]]:
        """The positive terms, and the terms to subtract."""
        z = (x - self.centre) * self.per_unit
        more = matmul(z * z, self.of_squares.T) + self.intercept[None]
        return more, 2 * matmul(z, self.of_rows.T)

    def multiplied_out(self, x: Float[Array, "n d"]) -> Float[Array, "n K"]:
        more, less = self._terms(x)
        return more - less

    def checked(self, x: Float[Array, "n d"]) -> Float[Array, "n K"]:
        more, less = self._terms(x)
        squared = more - less
        # The nearest class need not be the likeliest: a class of large variances is near to all.
        cancels = more > CANCELS * (squared + x.shape[1])  # False on NaN
        one_by_one = lambda: _from_each_class(x, self.means, 1 / self.scale, SCALES["diag"])  # noqa: E731
        return loops.unlikely(cancels.any(), one_by_one, lambda: squared)
