"""The arithmetic of covariances of a few factors, and independent noise in each feature.

`Σ = diag(s²) + G Gᵀ`. A scale holds the deviations s and the loadings G as columns, (d, 1 + r). In
units of the noise, with g = G / s, `I + gᵀ g = L Lᵀ` and h = g L⁻ᵀ, Woodbury's identity gives

    (I + g gᵀ)⁻¹ = I - h hᵀ = Wᵀ W,    W = I - h C hᵀ,    C = Lᵀ (I + Lᵀ)⁻¹,
    W⁻¹ = I + g (I + L)⁻¹ gᵀ.

They are exact for any G, so that they can be differentiated.
"""

from __future__ import annotations

from jaxtyping import Float, Int

from genclf.covariance.scale import CANCELS, Scale, cholesky, finite, inverse_lower, squares
from genclf.numerics import loops
from genclf.numerics.namespace import Array, einsum, jax, jnp, matmul, namespace


class Loadings(Scale):
    """The arithmetic of scales `[s | G]`; the inverse of one is `[1/s | h | h C]`."""

    is_full, is_product = True, False
    of_scale, event_ndim, spread = "real", 2, "scatter matrix"

    def axes(self, shared: bool) -> str:
        return f"{'1' if shared else 'K'} d _"

    def row_size(self, d: int) -> int:
        return 4 * d

    def inverse(self, scale: Array) -> Array:
        noise, g = _in_units(scale)
        factor = _factor(g)
        h = matmul(g, inverse_lower(factor).mT)
        c = matmul(inverse_lower(_plus_identity(factor)), factor).mT
        return namespace(scale).concatenate([1 / noise, h, matmul(h, c)], -1)

    def whiten(self, inverse: Array, deviation: Float[Array, "n d"]) -> Float[Array, "n _"]:
        unit, (h, h_c) = inverse[..., 0], _columns(inverse)
        z = deviation * unit[None]
        return z - matmul(matmul(z, h), h_c.T)

    def weights(self, inverse: Array, z: Float[Array, "n _"]) -> Float[Array, "n d"]:
        unit, (h, h_c) = inverse[..., 0], _columns(inverse)
        return (z - matmul(matmul(z, h_c), h.T)) * unit[None]

    def squared_lengths(self, inverse: Array, deviation: Float[Array, "n d"]) -> Float[Array, "n"]:
        unit, (h, _) = inverse[..., 0], _columns(inverse)
        length = matmul(deviation * deviation, unit * unit)
        found = length - squares(matmul(deviation, unit[:, None] * h))
        is_exact = length <= CANCELS * (found + len(inverse))  # False on NaN
        whitened = lambda: squares(finite(self.whiten(inverse, deviation)))  # noqa: E731
        return loops.unlikely(~is_exact.all(), whitened, lambda: found)

    def diagonal(self, scale: Array) -> Float[Array, "..."]:
        return scale[..., 0]

    def matrices(self, scale: Array, d: int) -> Float[Array, "... d d"]:
        noise, loadings = scale[..., 0], scale[..., 1:]
        return Scale().matrices(noise, d) + einsum("...ij,...lj->...il", loadings, loadings)

    def triangular(self, scale: Array, d: int) -> Float[Array, "... d d"]:
        noise, g = _in_units(scale)
        return noise * cholesky(_plus_identity(matmul(g, g.mT)))

    def precisions(self, inverse: Array, d: int) -> Float[Array, "one_or_K d d"]:
        unit, (h, h_c) = inverse[..., :1], _columns(inverse)
        whitener = _plus_identity(-matmul(h_c, h.mT))
        return unit * matmul(whitener.mT, whitener) * unit.mT

    def traces(self, inverse: Array, scatter: Array) -> Float[Array, "K"]:
        xp = namespace(inverse)
        unit, (h, h_c) = inverse[..., :1], _columns(inverse)
        s = scatter * (unit * unit.mT)
        s = s - matmul(matmul(s, h), h_c.mT)
        own = s - matmul(h_c, matmul(h.mT, s))
        return xp.trace(own, axis1=-2, axis2=-1)

    def noise(
        self, noise: Float[Array, "*shape d"], scale: Array, y: Int[Array, "*shape"]
    ) -> Float[Array, "*shape d"]:
        deviation, g = _in_units(scale)
        g_b = matmul(g, inverse_lower(_plus_identity(_factor(g))))
        own = y if len(scale) > 1 else jnp.zeros_like(y)

        def of_row(row: tuple[Array, Array]) -> Array:
            z, k = row
            return deviation[k, :, 0] * (z + matmul(g_b[k], matmul(g[k].T, z)))

        rows = noise.reshape(-1, noise.shape[-1]), own.ravel()
        return jax.lax.map(of_row, rows).reshape(noise.shape)

    def log_determinants(
        self, scale: Array, d: int
    ) -> tuple[Float[Array, "one_or_K"], Float[Array, ""]]:
        xp = namespace(scale)
        own, common = super().log_determinants(scale, d)
        pivots = xp.diagonal(_factor(_in_units(scale)[1]), axis1=-2, axis2=-1)
        of_factors = xp.log(pivots).sum(-1)
        if len(scale) == 1:
            return own, common + of_factors[0]
        return own + of_factors, common


def _in_units(scale: Array) -> tuple[Array, Array]:
    """The deviations of the noise, (..., d, 1), and the loadings in their units."""
    noise = scale[..., :1]
    return noise, scale[..., 1:] / noise


def _columns(inverse: Array) -> tuple[Array, Array]:
    """H and h C of an inverse."""
    r = inverse.shape[-1] // 2
    return inverse[..., 1 : 1 + r], inverse[..., 1 + r :]


def _factor(g: Float[Array, "*batch d r"]) -> Float[Array, "*batch r r"]:
    """The Cholesky factor of `I + gᵀ g`."""
    return cholesky(_plus_identity(matmul(g.mT, g)))


def _plus_identity(a: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    xp = namespace(a)
    return a + xp.broadcast_to(xp.eye(a.shape[-1], dtype=a.dtype), a.shape)
