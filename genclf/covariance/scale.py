"""The arithmetic of square roots of covariances, for standard deviations of the features."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from genclf.numerics import on_host as host
from genclf.numerics.namespace import Array, jnp, matmul, namespace, on_host

CANCELS = 16  # a difference of numbers this many times as large counts as cancelled


class Scale:
    """The arithmetic of scales that are standard deviations of the features.

    Attributes:
        is_full: whether a scale holds correlations.
        is_spherical: whether it is one number for all features.
        is_product: whether the density is a product over the features.
        of_scale: the name of the set that a scale is in.
        event_ndim: number of its axes in addition to that of classes.
        spread: what a scatter is called in messages.
    """

    is_full, is_spherical, is_product = False, False, True
    of_scale, event_ndim, spread = "positive", 1, "scatter of each"

    def shape(self, d: int) -> tuple[int, ...]:
        """The shape of one scale of d features."""
        return (d,)

    def axes(self, shared: bool) -> str:
        """The axes of scales, by their names."""
        names = "d d" if self.is_full else "1" if self.is_spherical else "d"
        return f"{'1' if shared else 'K'} {names}"

    def num_parameters(self, d: int) -> int:
        """Free numbers of one covariance of d features."""
        return d

    def dimension(self, d: int) -> int:
        """The order of the matrices whose prior is an inverse Wishart distribution."""
        return 1

    def coordinates(self, d: int) -> int:
        """The number of features that one variance stands for."""
        return 1

    def row_size(self, d: int) -> int:
        """Multiplications that whiten a row of d features, of one class."""
        return d

    def inverse(self, scale: Array) -> Array:
        """The inverse of each scale."""
        return 1 / scale

    def whiten(self, inverse: Array, deviation: Float[Array, "n d"]) -> Float[Array, "n _"]:
        """Whitened deviations z of one class, `|z|² = deviationᵀ Σ⁻¹ deviation`."""
        return deviation * inverse[None]

    def weights(self, inverse: Array, z: Float[Array, "n _"]) -> Float[Array, "n d"]:
        """`L⁻ᵀ z` of one class: weights of whitened coordinates as weights of the features."""
        return z * inverse[None]

    def squared_lengths(self, inverse: Array, deviation: Float[Array, "n d"]) -> Float[Array, "n"]:
        """`deviationᵀ Σ⁻¹ deviation`, of one class."""
        return squares(self.whiten(inverse, deviation))

    def diagonal(self, scale: Array) -> Float[Array, "..."]:
        """The diagonal of each scale; one number if it is spherical."""
        return scale

    def deviations(self, scale: Array) -> Float[Array, "..."]:
        """Standard deviations; one number if the scale is spherical."""
        return namespace(scale).sqrt((scale**2).sum(-1)) if self.is_full else scale

    def matrices(self, scale: Array, d: int) -> Float[Array, "... d d"]:
        """The covariance matrices `L Lᵀ`."""
        return self.triangular(scale**2, d)

    def triangular(self, scale: Array, d: int) -> Float[Array, "... d d"]:
        """The scales as triangular ones."""
        xp = namespace(scale)
        scale = xp.broadcast_to(scale, (*scale.shape[:-1], d))
        eye = xp.eye(d, dtype=scale.dtype)
        return scale[..., None] * xp.broadcast_to(eye, (*scale.shape, d))

    def precisions(self, inverse: Array, d: int) -> Float[Array, "one_or_K d d"]:
        """The matrices `L⁻ᵀ L⁻¹` from the inverse scales."""
        return self.triangular(inverse**2, d)

    def traces(self, inverse: Array, scatter: Array) -> Float[Array, "K"]:
        """`tr Σ_k⁻¹ S_k` from the inverse scales."""
        return (scatter * inverse**2).sum(-1)

    def noise(
        self, noise: Float[Array, "*shape d"], scale: Array, y: Int[Array, "*shape"]
    ) -> Float[Array, "*shape d"]:
        """`L_y ε`."""
        own = y if len(scale) > 1 else jnp.zeros_like(y)
        return jnp.broadcast_to(scale, (len(scale), noise.shape[-1]))[own] * noise

    def log_determinants(
        self, scale: Array, d: int
    ) -> tuple[Float[Array, "one_or_K"], Float[Array, ""]]:
        """`½ log |Σ_k|` as two terms: one per class, without units, and one that all share."""
        xp = namespace(scale)
        diagonal = self.diagonal(scale)
        diagonal = xp.broadcast_to(diagonal, (len(diagonal), d))
        if len(diagonal) == 1:
            return xp.zeros(1, scale.dtype), xp.log(diagonal).sum()
        common = diagonal.mean(0, keepdims=True)
        return xp.log(diagonal / common).sum(-1), xp.log(common).sum()


def finite(z: Array) -> Array:
    """Replace infinite numbers by NaN, since comparing infinite scores would pick some class.

    If a cell is infinite or a number overflows, the class of the row is unknown.
    """
    xp = namespace(z)
    known = xp.isfinite(z)
    return z if on_host(z) and known.all() else xp.where(known, z, xp.nan)


def cholesky(a: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """`batched.cholesky`, also where there is no JAX."""
    if on_host(a):
        return host.cholesky(a)
    from genclf.numerics.batched import cholesky  # workers have no JAX

    return cholesky(a)


def inverse_lower(factor: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """`batched.inverse_lower`, also where there is no JAX."""
    if on_host(factor):
        return host.inverse_lower(factor)
    from genclf.numerics.batched import inverse_lower  # workers have no JAX

    return inverse_lower(factor)


def squares(z: Float[Array, "n d"]) -> Float[Array, "n"]:
    """|z|² of each row; of JAX as a matrix product, which is faster than a sum."""
    if on_host(z):
        return np.einsum("nd,nd->n", z, z)
    return matmul(z * z, jnp.ones(z.shape[1], z.dtype))
