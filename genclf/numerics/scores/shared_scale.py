"""Scores of classes that share a scale, which are linear in x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from genclf.covariance.scale import Scale, finite, squares
from genclf.numerics import loops
from genclf.numerics.namespace import Array, constant, jnp, lax, matmul, namespace, on_host
from genclf.numerics.row_blocks import broadcast_rows, over_rows, reduce_scores
from genclf.numerics.scores.means import Means, rows_of
from genclf.numerics.sizes import is_at_most
from genclf.sums.largest import argmax

_SMALL = 2**16  # numbers, up to which centring costs nothing
_SOME_CLASSES = 33  # from which scores are reduced block by block


def own_of(score: Float[Array, "n K"], k: Int[Array, "n"]) -> Float[Array, "n 1"]:
    """The score of the class k of each row."""
    if on_host(score):
        own: Any = np.take_along_axis(np.asarray(score), np.asarray(k)[:, None], 1)
        return own
    return jnp.take_along_axis(score, k[:, None], 1, mode="promise_in_bounds")


def linear_form(
    means: Means, inverse: Array, arithmetic: Scale, centre: Float[Array, "1 d"]
) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
    """(coef, intercept) of `(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ`, as a function of x - c."""
    z = arithmetic.whiten(inverse, means.about(centre))
    return arithmetic.weights(inverse, z), -0.5 * squares(z)


class SharedForm:
    """The scores of classes with one covariance, which are linear in x."""

    def __init__(
        self, means: Means, inverse: Array, arithmetic: Scale, centre: Array | None = None
    ):
        """From the means, the inverse of the common scale, and c, by default the means' centre."""
        self.means, self.inverse, self.arithmetic = means, inverse, arithmetic
        self.centre = means.centre if centre is None else centre
        self.coef, self.intercept = linear_form(means, inverse, arithmetic, self.centre)

    def about_median(self) -> SharedForm:
        """The scores about the median of the means, which a few far classes do not move."""
        median = namespace(self.coef).median(constant(self.means.high), 0)[None]
        return SharedForm(self.means, self.inverse, self.arithmetic, median)

    @property
    def are_far_apart(self) -> Bool[Array, ""]:
        """Whether a class is so far from the centre that scores about it are too inexact."""
        xp = namespace(self.coef)
        squared_distance = (-2 * self.intercept).max()
        return squared_distance > 4 * xp.finfo(self.coef.dtype).eps ** -0.5

    def about_centre(self, z: Float[Array, "n d"]) -> Float[Array, "n K"]:
        """`(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ`, as a function of z = x - c."""
        return finite(matmul(z, self.coef.T) + self.intercept[None])

    def between(self) -> Float[Array, "K K"]:
        """`|μ_k - μ_l|²_Σ`."""
        z = self.arithmetic.whiten(self.inverse, self.means.about(self.centre))
        if on_host(z):
            found: Any = np.stack([squares(z - own[None]) for own in z])
            return found
        return lax.map(lambda own: squares(z - own[None]), z)

    def about_classes(
        self, x: Float[Array, "n d"], k: Int[Array, "n"], between: Float[Array, "K K"]
    ) -> Float[Array, "n K"]:
        """The scores with c = μ_k, the mean of one class for each row; 0 for this class."""
        score = finite(matmul(self.means.of_rows(k).subtracted_from(x), self.coef.T))
        return score - own_of(score, k) - 0.5 * rows_of(between, k)


def linear_scores(
    x: Shaped[Array, "*batch d"], form: SharedForm, scale: Array, reduce: Callable[[Array], Array]
) -> Array:
    """`reduce` of the scores `(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ` of every row.

    c is the centre of the means; if classes are far apart, the mean of the nearest class.
    """
    xp = namespace(x, scale)
    centre = form.centre
    spread = form.arithmetic.deviations(scale)[0] + xp.abs(form.means.about(centre)).max(0)
    x = x.astype(centre.dtype)

    intercept = form.intercept - matmul(form.coef, centre[0])

    def as_they_are() -> Array:
        def rows(x: Array) -> Array:
            score = matmul(x, form.coef.T)
            return reduce(finite(score + broadcast_rows(intercept, score)))

        return reduce_scores(rows, x, len(form.coef), _SOME_CLASSES)

    def centred() -> Array:
        return over_rows(lambda x: reduce(form.about_centre(x - centre)), x, 1, x.shape[-1])

    def about_nearest() -> Array:
        near = form.about_median()
        between = near.between()

        def rows(x: Array) -> Array:
            nearest = constant(argmax(near.about_centre(x - near.centre)))
            return reduce(near.about_classes(x, nearest, between))

        return over_rows(rows, x, 1, x.shape[-1] + len(form.coef))

    def about_centre() -> Array:
        if is_at_most(x.size, _SMALL):
            return centred()
        # Centring is a pass over x, which gains no precision if the centre is about 0.
        offset = loops.any_member((xp.abs(centre[0]) > spread).any())
        return loops.cond(offset, centred, as_they_are)

    return loops.unlikely(form.are_far_apart, about_nearest, about_centre)
