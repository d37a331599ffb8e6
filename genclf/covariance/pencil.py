"""Two covariances in the coordinates in which one is the identity and the other is diagonal."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from genclf.arguments.module import static
from genclf.arguments.reprs import ShowsNumbers
from genclf.covariance.scales import SCALES, Covariance, OfForm
from genclf.numerics.batched import cholesky, eigh, inverse_lower
from genclf.numerics.namespace import Array, matmul, namespace

_ASYMMETRY = 1e-5


class Pencil(OfForm, ShowsNumbers):
    """Covariances `W = L Lᵀ` and `B = L U diag(ψ) Uᵀ Lᵀ`, U orthogonal.

    The coordinates of a deviation δ are `z = Uᵀ L⁻¹ δ`: their covariances are I under W, and
    diag(ψ) under B.

    Attributes:
        scale: L, as in `GaussianParams`: (1, d, d), (1, d) or (1, 1).
        rotation: U, (d, d); None unless the covariance is "full".
        ratio: ψ, (d,); one number for a spherical covariance.
        covariance: "full", "diag" or "spherical".
    """

    scale: Float[Array, "..."]
    rotation: Float[Array, "..."] | None
    ratio: Float[Array, "..."]
    covariance: Covariance = static()

    def coordinates(self, deviation: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """`z = Uᵀ L⁻¹ δ` of each row."""
        z = self.arithmetic.whiten(self.arithmetic.inverse(self.scale)[0], deviation)
        return z if self.rotation is None else matmul(z, self.rotation)

    def back(self, z: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """The deviations `L U z` of each row."""
        z = z if self.rotation is None else matmul(z, self.rotation.T)
        return matmul(z, self.scale[0].T) if self.arithmetic.is_full else z * self.scale[0][None]

    def basis(self) -> Float[Array, "d d"]:
        """`L U`, whose columns are the directions of the coordinates."""
        return self.back(jnp.eye(self.scale.shape[-1], dtype=self.scale.dtype)).T

    def covariance_of(self, ratio: Float[Array, "..."]) -> Float[Array, "..."]:
        """The covariance with these variances of the coordinates, in the shape of W."""
        if not self.arithmetic.is_full:
            return self.scale[0] ** 2 * ratio
        basis = self.basis()
        return matmul(basis * ratio[None], basis.T)


def pencil_of(
    between: Float[Array, "..."],
    within: Float[Array, "..."],
    covariance: Covariance,
    diagonal: bool,
) -> tuple[Pencil, Bool[Array, ""]]:
    """The pencil of B and W, and whether B is positive semi-definite beyond rounding.

    Ratios within rounding of 0, and negative ones, are 0. If W is not positive definite, all is
    NaN. A derivative by whole matrices exists if no two ratios above 0 are equal, and is NaN
    otherwise; at a singular B it is that by a factor F of `B = F Fᵀ`.

    Args:
        between: B: (d, d); variances (d,) or (1,) of a diagonal covariance.
        within: W, in the same shape.
        covariance: "full", "diag" or "spherical".
        diagonal: whether both are known to be diagonal.
    """
    arithmetic, eps = SCALES[covariance], jnp.finfo(within.dtype).eps
    if not arithmetic.is_full or diagonal:
        variance, other = (
            (jnp.diagonal(within), jnp.diagonal(between))
            if arithmetic.is_full
            else (within, between)
        )
        scale = jnp.sqrt(jnp.where(variance > 0, variance, jnp.nan))
        ratio = other / variance
        is_valid = (ratio >= 0).all() & (variance > 0).all()
        ratio, rotation = jnp.where(ratio < 0, 0, ratio), None
        if arithmetic.is_full:
            scale, rotation = jnp.diag(scale), jnp.eye(len(ratio), dtype=ratio.dtype)
        return Pencil(scale[None], rotation, ratio, covariance), is_valid
    sd = jnp.sqrt(jnp.diagonal(within))
    # The factor of the correlations: very different units cost no precision.
    factor = sd[:, None] * cholesky(within / (sd[:, None] * sd[None]))
    inverse = inverse_lower(factor)
    whitened = matmul(matmul(inverse, between), inverse.T)
    ratio, rotation = _spectrum(0.5 * (whitened + whitened.T))
    size = jnp.abs(ratio).max()
    is_valid = ratio[0] >= -len(sd) * jnp.sqrt(eps) * size
    is_valid = is_valid & is_covariance(between) & is_covariance(within)
    ratio = jnp.where(ratio <= _rounding(ratio), 0, ratio)  # NaN stays
    known = jnp.isfinite(factor).all()
    return Pencil(
        factor[None],
        jnp.where(known, rotation, jnp.nan),
        jnp.where(known, ratio, jnp.nan),
        covariance,
    ), is_valid


def is_covariance(a: Float[Array, "d d"]) -> Bool[Array, ""]:
    """Whether a matrix is symmetric, with variances >= 0, in units of the deviations."""
    xp = namespace(a)
    variance = xp.diagonal(a)
    sd = xp.sqrt(xp.abs(variance))
    symmetric = xp.abs(a - a.T) <= _ASYMMETRY * sd[:, None] * sd[None]
    return (variance >= 0).all() & symmetric.all()


def _rounding(values: Float[Array, "d"]) -> Float[Array, ""]:
    """The size below which an eigenvalue is rounding."""
    return len(values) * jnp.finfo(values.dtype).eps * jnp.abs(values).max()


@jax.custom_jvp
def _spectrum(a: Float[Array, "d d"]) -> tuple[Float[Array, "d"], Float[Array, "d d"]]:
    known = jnp.isfinite(a).all()
    values, vectors = eigh(jnp.where(known, a, 0))
    return jnp.where(known, values, jnp.nan), vectors


@_spectrum.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple, tuple]:
    # dλ_i = m_ii and dU = U (F ∘ M), M = Uᵀ da U and F_ij = 1 / (λ_j - λ_i). Directions whose
    # eigenvalues count as 0 are treated alike, so that they do not have to turn among themselves.
    values, vectors = _spectrum(*primals)
    middle = matmul(matmul(vectors.T, tangents[0]), vectors)
    least = _rounding(values)
    gap = values[None, :] - values[:, None]
    null = values <= least
    alike = null[:, None] & null[None, :] | jnp.eye(len(values), dtype=bool)
    tied = jnp.abs(gap) <= least
    turn = jnp.where(alike, 0, jnp.where(tied, jnp.nan, 1 / jnp.where(tied, 1, gap)))
    return (values, vectors), (jnp.diagonal(middle), matmul(vectors, turn * middle))
