"""Distributions of the means and covariances of Gaussian classes: normal-inverse-Wishart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import multigammaln
from jaxtyping import Bool, Float

from genclf.arguments.domains import Scalar
from genclf.arguments.module import static
from genclf.covariance.scales import SCALES, Covariance, OfForm
from genclf.families.conjugate.base import Conjugate, Interval, central, quantile
from genclf.numerics.batched import cholesky, inverse_lower
from genclf.numerics.logarithms import LOG_2PI, log_pochhammer
from genclf.numerics.namespace import Array, einsum, matmul
from genclf.sums.merging import merge
from genclf.sums.statistics import Moments


class NormalInverseWishartDistribution(OfForm, Conjugate):
    """The distribution of all classes' means and covariances.

    The parameters are `mean` and `scale` as in `GaussianParams`; the density and the intervals are
    those of the mean and of Σ (of the variances, for "diag" and "spherical").

    Attributes:
        mean: shape (K, d).
        kappa: κ of each class, shape (K,).
        scale: Ψ: (K or 1, d, d), (K or 1, d) or (K or 1, 1), with 1 if Σ is shared.
        dof: ν, shape (K or 1,).
        covariance: "full", "diag" or "spherical".
        shared: whether all classes have one Σ.
    """

    example: ClassVar = "Gaussian(prior=NormalInverseWishart())"

    mean: Float[Array, "..."]
    kappa: Float[Array, "..."]
    scale: Float[Array, "..."]
    dof: Float[Array, "..."]
    covariance: Covariance = static()
    shared: bool = static()

    @property
    def _p(self) -> int:
        """The dimension of one inverse Wishart variable."""
        return self.arithmetic.dimension(self.mean.shape[-1])

    @property
    def _coordinates(self) -> int:
        """Number of features that one variance stands for."""
        return self.arithmetic.coordinates(self.mean.shape[-1])

    def _diagonal(self) -> Float[Array, "..."]:
        return self.arithmetic.diagonal(self.scale)

    def root(self) -> Float[Array, "..."]:
        """Square root of Ψ: Cholesky factor, or square roots; NaN if Ψ is not positive definite."""
        sd = jnp.sqrt(self._diagonal())
        if not self.arithmetic.is_full:
            return sd
        # Factor the correlation matrix, so that very different units cost no precision.
        correlation = self.scale / (sd[..., :, None] * sd[..., None, :])
        return sd[..., :, None] * cholesky(correlation)

    @property
    def proper(self) -> Bool[Array, "K"]:
        root = self.root()
        regular = jnp.isfinite(root).all(tuple(range(1, root.ndim)))
        regular = regular & (self._diagonal() > 0).all(-1) & (self.dof > self._p - 1)
        return (self.kappa > 0) & jnp.broadcast_to(regular, self.kappa.shape)

    def why_improper(self, k: int) -> str:
        copy = 0 if self.shared else k
        if not float(self.kappa[k]) > 0:
            return f"kappa is {float(self.kappa[k]):g}, expected > 0"
        if not float(self.dof[copy]) > self._p - 1:
            return f"dof is {float(self.dof[copy]):g}, expected > {self._p - 1}"
        return "scale is not positive definite"

    def pseudo_moments(self, like: Moments) -> tuple[Moments, Array]:
        """The prior as pseudo-examples: κ of each class, with scatter Ψ; and a ddof for the mode.

        Merged with the statistics of the data, these pseudo-examples have the mean and the scatter
        of the posterior mode. The divisor of the mode is the merged count minus ddof. Counts have
        the form of those of `like`.
        """
        num_classes, d = self.mean.shape
        shape = (d, d) if self.arithmetic.is_full else (d,)
        scatter = jnp.broadcast_to(self.scale / self._coordinates, (len(self.scale), *shape))
        means = num_classes if self.shared else 1
        kappa = self.kappa.sum() if self.shared else self.kappa
        determinant = (self.dof[0] if self.shared else self.dof) + self._p + 1
        count, ddof = self.kappa, kappa - determinant / self._coordinates - means
        if like.of_cells:
            count = jnp.broadcast_to(count[:, None], like.count.shape)
            ddof = ddof[:, None] if ddof.ndim else ddof
        return Moments(count, self.mean, scatter), ddof

    def update(self, stats: Moments) -> NormalInverseWishartDistribution:
        merged, scatter, count = self._added(stats)
        return NormalInverseWishartDistribution(
            merged.mean,
            merged.count,
            self.scale + scatter,
            self.dof + count,
            self.covariance,
            self.shared,
        )

    def _added(self, stats: Moments) -> tuple[Moments, Array, Array]:
        """The merged counts and means, and what the data add to scale and dof."""
        merged = merge(Moments(self.kappa, self.mean, jnp.zeros_like(stats.scatter)), stats)
        scatter, count = merged.scatter, stats.count * self._coordinates
        if self.arithmetic.is_spherical:
            scatter = scatter.sum(-1, keepdims=True)
        return merged, scatter, count.sum(keepdims=True) if self.shared else count

    @property
    def predictive_dof(self) -> Float[Array, "*batch one_or_K"]:
        """Degrees of freedom of the predictive distribution of one example."""
        return self.dof - self._p + 1

    def _log_constant(self) -> Float[Array, ""]:
        """Log of the normalising constant, without the powers of 2π of the means."""
        d, p, half = self.mean.shape[-1], self._p, 0.5 * self.dof
        if self.arithmetic.is_full:
            log_det = 2 * jnp.log(jnp.diagonal(self.root(), axis1=-2, axis2=-1)).sum(-1)
            each = half * log_det - half * p * math.log(2) - multigammaln(half, p)
        else:
            of_one = half * math.log(2) + multigammaln(half, 1)
            each = half * jnp.log(self.scale).sum(-1) - self.scale.shape[-1] * of_one
        return each.sum() + 0.5 * d * jnp.log(self.kappa).sum()

    def log_evidence(self, stats: Moments) -> Float[Array, ""]:
        """`Σ log Γ_p(ν'/2) / Γ_p(ν/2) |Ψ|^(ν/2) / |Ψ'|^(ν'/2) + ½ d log κ/κ' - ½ n d log π`.

        ν', Ψ', κ' are those of the posterior. A strong prior has large logarithms, which are
        therefore never subtracted from each other.
        """
        after, d = self.update(stats), self.mean.shape[-1]
        _, scatter, gained = self._added(stats)
        if self.arithmetic.is_full:
            inverse = inverse_lower(self.root())
            share = matmul(matmul(inverse, scatter), jnp.swapaxes(inverse, -1, -2))
            more = _log_det_identity_plus(share)
            size = 2 * jnp.log(jnp.diagonal(after.root(), axis1=-2, axis2=-1)).sum(-1)
        else:
            more = jnp.log1p(scatter / self.scale).sum(-1)
            size = jnp.log(after.scale).sum(-1)
        less = jnp.arange(self._p, dtype=self.dof.dtype)[None]
        half = jnp.broadcast_to(0.5 * gained[:, None], (len(gained), self._p))
        gammas = log_pochhammer(0.5 * (self.dof[:, None] - less), half).sum(-1)
        variables = 1 if self.arithmetic.is_full else self.scale.shape[-1]
        covariances = variables * gammas - 0.5 * self.dof * more - 0.5 * gained * size
        means = -0.5 * d * jnp.log1p(stats.count / self.kappa).sum()
        return covariances.sum() + means - 0.5 * d * math.log(math.pi) * stats.count.sum()

    def log_prob(self, arrays: Mapping[str, Array]) -> Float[Array, ""]:
        """`log IW(Σ; ν, Ψ) + Σ_k log N(μ_k; mean_k, Σ / κ_k)`."""
        mean, scale, copies = arrays["mean"], arrays["scale"], len(self.mean)
        deviation, p = mean - self.mean, self._p
        if self.arithmetic.is_full:
            inverse = inverse_lower(scale)
            log_det = 2 * jnp.log(jnp.diagonal(scale, axis1=-2, axis2=-1)).sum(-1)
            trace = (matmul(inverse, self.root()) ** 2).sum((-2, -1))
            z = einsum("kij,kj->ki", jnp.broadcast_to(inverse, (copies, p, p)), deviation)
        else:
            log_det = 2 * jnp.log(scale).sum(-1)
            trace = (self.scale / scale**2).sum(-1)
            z = deviation / jnp.broadcast_to(scale, mean.shape)
        covariances = -0.5 * (self.dof + p + 1) * log_det - 0.5 * trace
        log_det = jnp.broadcast_to(log_det * self._coordinates, (copies,))
        means = -0.5 * log_det - 0.5 * self.kappa * (z**2).sum(-1) - 0.5 * mean.shape[-1] * LOG_2PI
        return self._log_constant() + covariances.sum() + means.sum()

    def expected(self) -> dict[str, Array]:
        """`mean` for the means, and `Ψ / (ν - p - 1)` for Σ; NaN if ν <= p + 1: Σ has no mean."""
        divisor = jnp.where(self.dof > self._p + 1, self.dof - self._p - 1, jnp.nan)
        divisor = jnp.expand_dims(divisor, tuple(range(1, self.scale.ndim)))
        return {"mean": self.mean, "scale": self.root() / jnp.sqrt(divisor)}

    def sample(self, key: Array) -> dict[str, Array]:
        """Bartlett's triangular factor of a Wishart variable, inverted; then the means given Σ."""
        key_chi, key_off, key_mean = jax.random.split(key, 3)
        dtype, d = self.mean.dtype, self.mean.shape[-1]
        noise = jax.random.normal(key_mean, self.mean.shape, dtype)
        noise = noise / jnp.sqrt(self.kappa)[:, None]
        if not self.arithmetic.is_full:
            degrees = jnp.broadcast_to(self.dof[:, None], self.scale.shape)
            scale = self.root() / jnp.sqrt(_chi_squared(key_chi, degrees))
            return {"mean": self.mean + scale * noise, "scale": scale}
        # W = TᵀT ~ Wishart(ν, I) if T is lower triangular and T_ii² ~ χ²(ν - d + i), i = 1..d. With
        # Ψ = L Lᵀ, the factor of Σ = L W⁻¹ Lᵀ is then the lower triangular L T⁻¹.
        degrees = self.dof[:, None] - d + jnp.arange(1.0, d + 1, dtype=dtype)[None]
        chi = jnp.sqrt(_chi_squared(key_chi, degrees))
        below = jnp.tril(jax.random.normal(key_off, self.scale.shape, dtype), -1)
        factor = jnp.where(jnp.eye(d, dtype=bool)[None], chi[..., None], below)
        scale = matmul(self.root(), inverse_lower(factor))
        moved = einsum("kij,kj->ki", jnp.broadcast_to(scale, (*self.mean.shape, d)), noise)
        return {"mean": self.mean + moved, "scale": scale}

    def interval(self, level: Array) -> dict[str, Interval]:
        """Each mean is Student-t with ν - p + 1 degrees, each variance inverse gamma."""
        degrees = self.predictive_dof[..., None]
        scale = self._diagonal()
        spread = jnp.sqrt(scale / degrees) / jnp.sqrt(self.kappa)[..., None]
        shape = jnp.broadcast_to(0.5 * degrees, scale.shape)
        return {
            "mean": central(level, lambda p: self.mean + spread * quantile("stdtrit", degrees, p)),
            "variance": central(level, lambda p: 0.5 * scale / quantile("gammainccinv", shape, p)),
        }


def flat_prior(
    stats: Moments, scatter: Array, ddof: Scalar | Array, covariance: Covariance, shared: bool
) -> NormalInverseWishartDistribution:
    """The improper prior whose joint mode has the divisor count - ddof, with extra scatter."""
    num_classes, d = stats.mean.shape
    arithmetic = SCALES[covariance]
    coordinates, p = arithmetic.coordinates(d), arithmetic.dimension(d)
    if arithmetic.is_spherical:
        scatter = scatter.sum(-1, keepdims=True)
    means = num_classes if shared else 1
    dof = -coordinates * (jnp.asarray(ddof, stats.count.dtype) + means) - p - 1
    return NormalInverseWishartDistribution(
        stats.mean,
        jnp.zeros_like(stats.count),
        scatter,
        jnp.broadcast_to(dof, (len(scatter),)),
        covariance,
        shared,
    )


def _log_det_identity_plus(m: Float[Array, "K d d"]) -> Float[Array, "K"]:
    """`log |I + M|` of positive semi-definite M, in full precision for small M too."""
    trace = jnp.trace(m, axis1=-2, axis2=-1)
    square = matmul(m, m)
    # Σ tr Mⁱ (-1)^(i+1) / i up to i = 4, if M is so small that M⁵ is below rounding.
    series = trace - 0.5 * jnp.trace(square, axis1=-2, axis2=-1)
    series = series + (square * m).sum((-2, -1)) / 3 - (square * square).sum((-2, -1)) / 4
    eye = jnp.eye(m.shape[-1], dtype=m.dtype)[None]
    pivots = jnp.diagonal(cholesky(eye + m), axis1=-2, axis2=-1)
    small = trace < (5 * jnp.finfo(m.dtype).eps) ** 0.2
    return jnp.where(small, series, 2 * jnp.log(pivots).sum(-1))


def _chi_squared(key: Array, degrees: Array) -> Array:
    return 2 * jax.random.gamma(key, 0.5 * degrees)
