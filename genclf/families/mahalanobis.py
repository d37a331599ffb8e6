"""Mahalanobis distances from class means, and other code of Gaussian and Student-t densities.

A scale is a square root of a covariance with a class axis of length 1 where classes share it:
"full": lower Cholesky factors (K or 1, d, d); "diag": (K or 1, d); "spherical": (K or 1, 1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from genclf.sums.batched import inverse_lower
from genclf.sums.blocks import broadcast_rows, over_rows, reduce_scores
from genclf.sums.covariance import Covariance
from genclf.sums.factors import any_member
from genclf.sums.largest import argmax
from genclf.sums.products import matmul

_SMALL = 2**16  # numbers of an (n, K, d) array that is quick to make
_QUICK = 2**18  # multiplications that cost less than to decide whether they are needed
_SOME_CLASSES = 33  # from so many on, linear scores are reduced block by block
_CANCELS = 16  # a difference of numbers this many times as large is computed in another way


class Means(NamedTuple):
    """Class means `high + low`; low is what rounding took from them, None if they are exact."""

    high: Float[Array, "K d"]
    low: Float[Array, "K d"] | None = None

    @property
    def centre(self) -> Float[Array, "1 d"]:
        """A point among the means, of their dtype.

        It is a matrix product, which is computed once: a mean may be computed anew in each loop
        that takes it, with another rounding, and what is subtracted from rows and from means would
        not be the same.
        """
        share = jnp.full((1, len(self.high)), 1 / len(self.high), self.high.dtype)
        return matmul(share, self.high)

    def about(self, centre: Float[Array, "1 d"]) -> Float[Array, "K d"]:
        """The means minus a point."""
        apart = self.high - centre
        return apart if self.low is None else apart + self.low

    def subtracted_from(self, x: Array) -> Array:
        """The rows minus the means; x has as many axes as the means."""
        apart = x - self.high
        return apart if self.low is None else apart - self.low


def inverse_scale(scale: Array, covariance: Covariance) -> Array:
    """The inverse of each scale."""
    return inverse_lower(scale) if covariance == "full" else 1 / scale


def whiten(
    inverse: Array, deviation: Float[Array, "n d"], covariance: Covariance
) -> Float[Array, "n _"]:
    """Whitened deviations z of one class, `|z|² = deviationᵀ Σ⁻¹ deviation`."""
    return matmul(deviation, inverse.T) if covariance == "full" else deviation * inverse[None]


def finite(z: Array) -> Array:
    """Replace infinite numbers by NaN, since comparing infinite scores would pick some class.

    If a cell is infinite, or if a number overflows during the computation, the class of the row is
    unknown.
    """
    return jnp.where(jnp.isfinite(z), z, jnp.nan)


def squares(z: Float[Array, "n d"]) -> Float[Array, "n"]:
    """|z|² of each row, as a matrix product, which is faster than a sum."""
    return matmul(z * z, jnp.ones(z.shape[1], z.dtype))


def squared_lengths(
    inverse: Array, deviation: Float[Array, "n d"], covariance: Covariance
) -> Float[Array, "n"]:
    """`deviationᵀ Σ⁻¹ deviation`; with many features most zeros of the triangle are left out."""
    if covariance != "full":
        return squares(whiten(inverse, deviation, covariance))
    d = len(inverse)
    pieces = 4 if d >= 256 else 1
    total = jnp.zeros(len(deviation), deviation.dtype)
    for start, end in pairwise(d * i // pieces for i in range(pieces + 1)):
        z = whiten(inverse[start:end, :end], deviation[:, :end], covariance)
        # A sum can overflow before it reaches a finite number; a single product cannot.
        total = total + squares(finite(z))
    return total


def distances(
    x: Shaped[Array, "*batch d"],
    means: Means,
    scale: Array,
    covariance: Covariance,
    then: Callable[[Array], Array] = lambda squared: squared,
) -> Array:
    """`(x-μ_k)ᵀ Σ_k⁻¹ (x-μ_k)` of every row and class.

    Args:
        x: examples.
        means: class means.
        scale: one for each class, or one for all.
        covariance: the structure of the covariance.
        then: a function of the distances of each row, whose result is returned in their place.
    """
    inverse = inverse_scale(scale, covariance)

    def per_class(x: Array) -> Array:
        def of_class(means: Means, inverse: Array) -> Array:
            return squared_lengths(inverse, from_one(x, means), covariance)

        return over_classes(of_class, means, inverse, x=x)

    # What does not depend on rows is computed once, not in each block of them.
    form: Callable[[Array], Array]
    if len(scale) == 1:
        form = partial(_shared_distances, SharedForm(means, inverse[0], covariance))
    elif covariance == "full":
        form = per_class
    else:
        form = _DiagonalForm(means, scale)

    def rows(x: Array) -> Array:
        return then(form(x.astype(means.high.dtype)))

    num_classes, d = means.high.shape
    return over_rows(rows, x, 1, 4 * d if covariance == "full" else max(d, num_classes))


def from_one(x: Float[Array, "n d"], mean: Means) -> Float[Array, "n d"]:
    """Deviations of rows from the mean of one class."""
    return jax.tree.map(lambda a: a[None], mean).subtracted_from(x)


def _shared_distances(form: SharedForm, x: Float[Array, "n d"]) -> Float[Array, "n K"]:
    """`|x-c|²_Σ - 2 δ_k(x)`, δ the linear scores; by that of the nearest class if it cancels."""
    means, inverse, covariance = form.means, form.inverse, form.covariance
    if x.size * means.high.size <= _QUICK:
        apart = jax.tree.map(lambda a: a[None], means).subtracted_from(x[:, None])
        lengths = squared_lengths(inverse, apart.reshape(-1, x.shape[1]), covariance)
        return lengths.reshape(len(x), len(means.high))
    z = x - means.centre
    score = form.about_centre(z)
    length = squared_lengths(inverse, z, covariance)
    best = score.max(1)

    def from_nearest() -> Array:
        nearest = lax.stop_gradient(argmax(score))
        best = jnp.take_along_axis(score, nearest[:, None], 1, mode="promise_in_bounds")
        own = form.of_classes(nearest).subtracted_from(x)
        less = lax.cond(
            any_member(form.are_far_apart),
            lambda: form.about_classes(x, nearest, form.between()),
            lambda: score - best,
        )
        return squared_lengths(inverse, own, covariance)[:, None] - 2 * less

    cancels = length > _CANCELS * (length - 2 * best + x.shape[1])  # False on NaN
    return lax.cond(any_member(cancels.any()), from_nearest, lambda: length[:, None] - 2 * score)


class _DiagonalForm:
    """Squared distances from classes with variances of their own, as two matrix products."""

    def __init__(self, means: Means, scale: Array):
        """From the means and the standard deviations."""
        self.means, self.scale = means, jnp.broadcast_to(scale, means.high.shape)
        self.centre, unit = means.centre, self.scale.mean(0, keepdims=True)
        self.per_unit, apart = 1 / unit, means.about(means.centre) / unit
        self.of_squares = (unit / self.scale) ** 2
        self.of_rows = self.of_squares * apart
        self.intercept = (self.of_rows * apart).sum(1)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n K"]:
        """`Σ_j (x_j - μ_kj)² / σ_kj²`, multiplied out if nothing cancels.

        Otherwise the rows are compared with one class after the other.
        """
        if x.size * len(self.scale) <= _SMALL:
            return self._one_by_one(x)
        z = (x - self.centre) * self.per_unit
        parts = matmul(z * z, self.of_squares.T) + self.intercept[None]
        apart = parts - 2 * matmul(z, self.of_rows.T)
        nearest = argmax(-apart)[:, None]
        at = lambda a: jnp.take_along_axis(a, nearest, 1, mode="promise_in_bounds")  # noqa: E731
        cancels = at(parts) > _CANCELS * (at(apart) + x.shape[1])  # False on NaN
        return lax.cond(any_member(cancels.any()), lambda: self._one_by_one(x), lambda: apart)

    def _one_by_one(self, x: Array) -> Array:
        def of_class(means: Means, inverse: Array) -> Array:
            return squares(from_one(x, means) * inverse[None])

        return over_classes(of_class, self.means, 1 / self.scale, x=x)


def linear_form(
    means: Means, inverse: Array, covariance: Covariance, centre: Float[Array, "1 d"]
) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
    """(coef, intercept) of `(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ`, as a function of x - c."""
    z = whiten(inverse, means.about(centre), covariance)
    return whiten(inverse.T, z, covariance), -0.5 * squares(z)


class SharedForm:
    """Scores that are linear in x, of classes with one covariance."""

    def __init__(self, means: Means, inverse: Array, covariance: Covariance):
        """From the means and the inverse of the common scale."""
        self.means, self.inverse, self.covariance = means, inverse, covariance
        self.coef, self.intercept = linear_form(means, inverse, covariance, means.centre)

    @property
    def are_far_apart(self) -> Bool[Array, ""]:
        """Whether a class is so far from the centre that scores about it have too few digits."""
        squared_distance = (-2 * self.intercept).max()
        return squared_distance > 4 * jnp.finfo(self.coef.dtype).eps ** -0.5

    def about_centre(self, z: Float[Array, "n d"]) -> Float[Array, "n K"]:
        """`(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ`, as a function of z = x - c."""
        return finite(matmul(z, self.coef.T) + self.intercept[None])

    def of_classes(self, k: Int[Array, "n"]) -> Means:
        """The means of the classes k."""
        return jax.tree.map(lambda a: a.at[k].get(mode="promise_in_bounds"), self.means)

    def between(self) -> Float[Array, "K K"]:
        """`|μ_k - μ_l|²_Σ`."""
        z = whiten(self.inverse, self.means.about(self.means.centre), self.covariance)
        return lax.map(lambda own: squares(z - own[None]), z)

    def about_classes(
        self, x: Float[Array, "n d"], k: Int[Array, "n"], between: Float[Array, "K K"]
    ) -> Float[Array, "n K"]:
        """The same with c = μ_k, the mean of one class for each row; 0 for this class."""
        score = finite(matmul(self.of_classes(k).subtracted_from(x), self.coef.T))
        own = jnp.take_along_axis(score, k[:, None], 1, mode="promise_in_bounds")
        return score - own - 0.5 * between.at[k].get(mode="promise_in_bounds")


def linear_scores(
    x: Shaped[Array, "*batch d"],
    means: Means,
    scale: Array,
    covariance: Covariance,
    then: Callable[[Array], Array],
) -> Array:
    """`then` of the scores `(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ` of every row.

    c is the centre of the means; if classes are far apart, the mean of the class with most weight.
    """
    centre = means.centre
    form = SharedForm(means, inverse_scale(scale, covariance)[0], covariance)
    deviation = jnp.sqrt((scale[0] ** 2).sum(-1)) if covariance == "full" else scale[0]
    spread = deviation + jnp.abs(means.about(centre)).max(0)
    x = x.astype(centre.dtype)

    intercept = form.intercept - matmul(form.coef, centre[0])

    def as_they_are() -> Array:
        def rows(x: Array) -> Array:
            score = matmul(x, form.coef.T)
            return then(finite(score + broadcast_rows(intercept, score)))

        return reduce_scores(rows, x, len(form.coef), _SOME_CLASSES)

    def centred() -> Array:
        return over_rows(lambda x: then(form.about_centre(x - centre)), x, 1, x.shape[-1])

    def about_nearest() -> Array:
        between = form.between()

        def rows(x: Array) -> Array:
            nearest = lax.stop_gradient(argmax(form.about_centre(x - centre)))
            return then(form.about_classes(x, nearest, between))

        return over_rows(rows, x, 1, x.shape[-1] + len(form.coef))

    def near() -> Array:
        if x.size <= _SMALL:
            return centred()
        # Centring is a pass over x. It gains no digit where the centre is about 0.
        offset = any_member((jnp.abs(centre[0]) > spread).any())
        return lax.cond(offset, centred, as_they_are)

    return lax.cond(any_member(form.are_far_apart), about_nearest, near)


def over_classes(f: Callable[..., Array], *leaves: PyTree, x: Array) -> Array:
    """Map f over classes: vectorised if x is small, else in turn, as (n, K, d) would be large."""
    if x.size * len(jax.tree.leaves(leaves)[0]) <= _SMALL:
        return jax.vmap(f)(*leaves).T
    return lax.map(lambda leaf: f(*leaf), leaves).T


def log_determinants(
    scale: Array, covariance: Covariance, d: int
) -> tuple[Float[Array, "copies"], Float[Array, ""]]:
    """`½ log |Σ_k|` as two terms: one per class, free of units, and one that all share."""
    diagonal = jnp.diagonal(scale, axis1=-2, axis2=-1) if covariance == "full" else scale
    diagonal = jnp.broadcast_to(diagonal, (len(diagonal), d))
    if len(diagonal) == 1:
        return jnp.zeros(1, scale.dtype), jnp.log(diagonal).sum()
    common = diagonal.mean(0, keepdims=True)
    return jnp.log(diagonal / common).sum(-1), jnp.log(common).sum()


def scaled_noise(
    noise: Float[Array, "*shape d"], scale: Array, covariance: Covariance, y: Int[Array, "*shape"]
) -> Float[Array, "*shape d"]:
    """`L_y ε`."""
    if covariance != "full":
        return jnp.broadcast_to(scale, (len(scale), noise.shape[-1]))[_copy(scale, y)] * noise
    if len(scale) == 1:
        return matmul(noise, scale[0].T)

    def add_class(k: Array, out: Array) -> Array:
        return jnp.where((y == k)[..., None], matmul(noise, scale[k].T), out)

    return lax.fori_loop(0, len(scale), add_class, noise)


def _copy(scale: Array, y: Array) -> Array:
    return y if len(scale) > 1 else jnp.zeros_like(y)
