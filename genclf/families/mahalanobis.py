"""Mahalanobis distances from class means, and other code of Gaussian and Student-t densities.

A scale is a square root of a covariance with a class axis of length 1 where classes share it:
"full": lower Cholesky factors (K or 1, d, d); "diag": (K or 1, d); "spherical": (K or 1, 1).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from genclf.sums import loops
from genclf.sums.batched import inverse_lower
from genclf.sums.covariance import Covariance
from genclf.sums.products import matmul
from genclf.sums.sizes import is_at_most

_SMALL = 2**16  # numbers of an (n, K, d) array that is quick to make
_QUICK = 2**18  # multiplications that cost less than to decide whether they are needed
_SOME_CLASSES = 33  # from so many on, linear scores are reduced block by block
_CANCELS = 16  # a difference of numbers this many times as large is computed in another way


def axes_of_scale(covariance: Covariance, shared: bool) -> str:
    """The axes of a square root of covariances, which classes may share, by their names."""
    return ("1 " if shared else "K ") + {"full": "d d", "spherical": "1"}.get(covariance, "d")


class Means(NamedTuple):
    """Class means `high + low`; low is what rounding took from them, None if they are exact."""

    high: Float[Array, "K d"]
    low: Float[Array, "K d"] | None = None

    @property
    def centre(self) -> Float[Array, "1 d"]:
        """A point among the means, of their dtype; it is the mean if all are equal.

        It is made of a matrix product, which is computed once: a mean may be computed anew in each
        loop that takes it, with another rounding, and what is subtracted from rows and from means
        would not be the same.
        """
        share = jnp.full((1, len(self.high)), 1 / len(self.high), self.high.dtype)
        return self.high[:1] + matmul(share, self.high - self.high[:1])

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
    total = jnp.zeros(deviation.shape[0], deviation.dtype)
    for start, end in pairwise(d * i // pieces for i in range(pieces + 1)):
        z = whiten(inverse[start:end, :end], deviation[:, :end], covariance)
        # A sum can overflow before it reaches a finite number; a single product cannot.
        total = total + squares(finite(z))
    return total


def from_one(x: Float[Array, "n d"], mean: Means) -> Float[Array, "n d"]:
    """Deviations of rows from the mean of one class."""
    return jax.tree.map(lambda a: a[None], mean).subtracted_from(x)


def over_classes(f: Callable[..., Array], *leaves: PyTree, x: Array) -> Array:
    """Map f over classes: vectorised if x is small, else in turn, as (n, K, d) would be large."""
    if is_at_most(x.size * len(jax.tree.leaves(leaves)[0]), _SMALL):
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

    return loops.fori_loop(0, len(scale), add_class, noise)


def _copy(scale: Array, y: Array) -> Array:
    return y if len(scale) > 1 else jnp.zeros_like(y)
