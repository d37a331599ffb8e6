"""Mahalanobis distances from class means, and other code of Gaussian and Student-t densities.

A scale is a square root of a covariance with a class axis of length 1 where classes share it:
"full": lower Cholesky factors (K or 1, d, d); "diag": (K or 1, d); "spherical": (K or 1, 1).
Deviations have features first and rows last, so that the arithmetic is vectorised over rows.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Shaped

from genclf.sums.blocks import over_rows
from genclf.sums.covariance import Covariance
from genclf.sums.factors import inverse_lower
from genclf.sums.products import matmul

_SMALL = 2**16  # numbers of an (n, K, d) array that is quick to make


def inverse_scale(scale: Array, covariance: Covariance) -> Array:
    """The inverse of each scale."""
    return inverse_lower(scale) if covariance == "full" else 1 / scale


def whiten(inverse: Array, deviation: Array, covariance: Covariance) -> Array:
    """Whitened deviations z (d, n), `|z|² = deviationᵀ Σ⁻¹ deviation`, of one class."""
    return matmul(inverse, deviation) if covariance == "full" else inverse[:, None] * deviation


def finite(z: Array) -> Array:
    """Replace infinite numbers by NaN, since comparing infinite scores would pick some class.

    If a cell is infinite, or overflows in between, the class of its row is unknown.
    """
    return jnp.where(jnp.isfinite(z), z, jnp.nan)


def squares(z: Array) -> Array:
    """|z|² over the first axis, as a matrix product, which is faster than a sum."""
    return matmul(jnp.ones(len(z), z.dtype), z * z)


def fold_distances(
    x: Shaped[Array, "*batch d"],
    mean: Float[Array, "K d"],
    scale: Array,
    covariance: Covariance,
    fold: Callable[[Array, Array], Array],
    of_class: Array,
) -> Float[Array, "*batch K"]:
    """`fold(z, of_class_k)` of every row's whitened deviation z from every class mean.

    Args:
        x: examples.
        mean: class means.
        scale: one for each class, or one for all.
        covariance: the structure of the covariance.
        fold: a function of z (d, rows) and one entry of `of_class`; returns a number per row.
        of_class: other values of each class that fold needs, with a leading class axis.
    """
    inverse = inverse_scale(scale, covariance)

    def per_class(rows: Array) -> Array:
        x = finite(rows.astype(mean.dtype).T)

        def distance(mean: Array, inverse: Array, own: Array) -> Array:
            z = whiten(inverse, x - mean[:, None], covariance)
            # A sum can overflow before it reaches a finite number; a single product cannot.
            return fold(finite(z) if covariance == "full" else z, own)

        return over_classes(distance, mean, inverse, of_class, x=x)

    def shared(rows: Array) -> Array:
        # Whiten once, about the centre of the means; classes then differ by a shift.
        centre = mean.mean(0, keepdims=True)
        z = finite(whiten(inverse[0], (rows.astype(mean.dtype) - centre).T, covariance))
        shift = whiten(inverse[0], (mean - centre).T, covariance).T
        return over_classes(lambda s, own: fold(z - s[:, None], own), shift, of_class, x=z)

    alike = len(scale) == 1
    return over_rows(shared if alike else per_class, x, 1, 8 * mean.shape[-1])


def diagonal_distances(
    x: Shaped[Array, "n d"], mean: Float[Array, "K d"], scale: Array
) -> Float[Array, "n K"]:
    """`Σ_j (x_j - μ_kj)² / σ_kj²`, multiplied out into two matrix products where that is precise.

    It is precise if, for the nearest class of every row, the parts that cancel are at most 16 times
    what is left of them. Otherwise the rows are compared with one class after the other.
    """
    scale = jnp.broadcast_to(scale, mean.shape)
    x, d = x.astype(mean.dtype), mean.shape[1]

    def one_by_one() -> Array:
        def distance(mean: Array, scale: Array) -> Array:
            return squares((x.T - mean[:, None]) / scale[:, None])

        return over_classes(distance, mean, scale, x=x)

    if x.size * len(mean) <= _SMALL:
        return one_by_one()
    centre, unit = mean.mean(0, keepdims=True), scale.mean(0, keepdims=True)
    z, m, inverse = (x - centre) / unit, (mean - centre) / unit, (unit / scale) ** 2
    parts = matmul(z * z, inverse.T) + (inverse * m * m).sum(1)[None]
    distances = parts - 2 * matmul(z, (inverse * m).T)
    nearest = distances.argmin(1, keepdims=True)
    at = lambda a: jnp.take_along_axis(a, nearest, 1, mode="promise_in_bounds")  # noqa: E731
    cancels = (at(parts) > 16 * (at(distances) + d)).any()  # False on NaN
    return lax.cond(cancels, one_by_one, lambda: distances)


def over_classes(f: Callable[..., Array], *leaves: Array, x: Array) -> Array:
    """Map f over classes: vectorised if x is small, else in turn, as (n, K, d) would be large."""
    if x.size * len(leaves[0]) <= _SMALL:
        return jax.vmap(f)(*leaves).T
    return lax.map(lambda leaf: f(*leaf), leaves).T


def log_determinants(
    scale: Array, covariance: Covariance, d: int
) -> tuple[Float[Array, "copies"], Float[Array, ""]]:
    """`½ log |Σ_k|` as two terms: one per class, free of units, and one that all share."""
    diagonal = jnp.diagonal(scale, axis1=-2, axis2=-1) if covariance == "full" else scale
    diagonal = jnp.broadcast_to(diagonal, (len(diagonal), d))
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
