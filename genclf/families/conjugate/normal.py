"""Distributions of the means of Gaussian classes whose covariance is known: normal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from genclf.covariance.pencil import Pencil
from genclf.covariance.scale import Scale
from genclf.families.conjugate.base import Conjugate, Interval, central, quantile
from genclf.numerics.batched import cholesky
from genclf.numerics.compensated import add_to, rounded, single
from genclf.numerics.logarithms import LOG_2PI
from genclf.numerics.namespace import Array, matmul
from genclf.sums.statistics import Moments


class NormalDistribution(Conjugate):
    """The distribution of all classes' means, `μ_k ~ N(mean_k, L U diag(ψ_k) Uᵀ Lᵀ)`.

    The parameters are `mean` and `scale` as in `GaussianParams`; the scale L is known. A ratio ψ of
    0 fixes the mean in that direction; the density is then that within the other directions.

    Attributes:
        mean: shape (K, d).
        ratio: ψ of each class, (K, d) or (K, 1).
        pencil: L and U; its ratio is that of the prior.
        rounding: the rounding errors of the means in float32, as in `GaussianParams`.
    """

    example: ClassVar = "Gaussian(shared=True, prior=TwoCovariance(0.0, between=1.0, within=1.0))"

    mean: Float[Array, "..."]
    ratio: Float[Array, "..."]
    pencil: Pencil
    rounding: Float[Array, "..."] | None = None

    @property
    def arithmetic(self) -> Scale:
        """The arithmetic of the square root of the covariance."""
        return self.pencil.arithmetic

    @property
    def proper(self) -> Bool[Array, "K"]:
        known = jnp.isfinite(self.pencil.scale).all()
        return jnp.isfinite(self.mean).all(-1) & jnp.isfinite(self.ratio).all(-1) & known

    def why_improper(self, k: int) -> str:
        return (
            "within is not positive definite, between is not positive semi-definite, or the mean "
            "is not known"
        )

    def update(self, stats: Moments) -> NormalDistribution:
        """`mean_k + n ψ / (1 + n ψ) (m_k - mean_k)` in each coordinate, and `ψ / (1 + n ψ)`."""
        count = stats.per_feature(stats.count)
        inflation = 1 + count * self.ratio
        nowhere = count == 0
        # m_k plus a share of the way back, so that in float32 the mean keeps its low part.
        low = jnp.zeros_like(stats.mean) if stats.rounding is None else stats.rounding[1]
        at = jnp.where(nowhere, self.mean, stats.mean), jnp.where(nowhere, 0, low)
        back = rounded(add_to(single(self.mean), (-at[0], -at[1])))
        moved = self.pencil.back(self.pencil.coordinates(back) / inflation)
        high, low = add_to(at, moved)
        rounding = low if high.dtype == np.float32 else None
        return NormalDistribution(high, self.ratio / inflation, self.pencil, rounding)

    def log_evidence(self, stats: Moments) -> Float[Array, ""]:
        """`-½ (n log |2π W| + tr W⁻¹ S + Σ_kj log(1 + n_k ψ_j) + n_k z_kj² / (1 + n_k ψ_j))`.

        S is the scatter of the rows about the means of their classes, and z_k the coordinates of
        the mean of class k.
        """
        z = self.pencil.coordinates(mean_deviations(stats, self.mean))
        count = jnp.broadcast_to(stats.per_feature(stats.count), z.shape)
        growth = count * jnp.broadcast_to(self.ratio, z.shape)
        terms = jnp.log1p(growth) + count * z * z / (1 + growth)
        scale, d = self.pencil.scale, z.shape[-1]
        own, common = self.arithmetic.log_determinants(scale, d)
        inverse = self.arithmetic.inverse(scale)
        traces = self.arithmetic.traces(inverse, stats.pool_classes().scatter).sum()
        norms = stats.count.sum() * (own.sum() + common + 0.5 * d * LOG_2PI)
        return -norms - 0.5 * (traces + terms.sum())

    def log_prob(self, arrays: Mapping[str, Array]) -> Float[Array, ""]:
        """`Σ_k log N(μ_k; mean_k, V_k)`; -inf outside the directions in which means vary.

        A deviation in another direction counts as rounding up to √ε of the typical one, and 8 ε of
        the means.
        """
        mean, rounding = arrays["mean"], arrays.get("rounding")
        deviation = mean - self.mean
        z = self.pencil.coordinates(deviation if rounding is None else deviation + rounding)
        free = jnp.broadcast_to(self.ratio > 0, z.shape)
        ratio = jnp.broadcast_to(jnp.where(free, self.ratio, 1), z.shape)
        each = jnp.where(free, z * z / ratio + jnp.log(ratio) + LOG_2PI, 0)
        eps, eye = jnp.finfo(z.dtype).eps, jnp.eye(z.shape[-1], dtype=z.dtype)
        of_means = matmul(jnp.abs(mean), jnp.abs(self.pencil.coordinates(eye)))
        size = jnp.maximum(jnp.abs(z).max(-1, keepdims=True), 1)
        outside = ~free & (jnp.abs(z) > jnp.sqrt(eps) * size + 8 * eps * of_means)
        volumes = jax.vmap(self._log_volume)(free).sum()
        return jnp.where(outside.any(), -jnp.inf, -0.5 * each.sum() - volumes)

    def _log_volume(self, free: Bool[Array, "d"]) -> Float[Array, ""]:
        """Log-volume of the cube of unit coordinates in these directions."""
        if not self.arithmetic.is_full:
            scale = jnp.broadcast_to(self.pencil.scale[0], free.shape)
            return jnp.where(free, jnp.log(scale), 0).sum()
        basis = self.pencil.basis()
        gram = jnp.where(free[:, None] & free[None], matmul(basis.T, basis), 0)
        gram = gram + jnp.diag(jnp.where(free, 0, 1).astype(gram.dtype))
        return jnp.log(jnp.diagonal(cholesky(gram))).sum()

    def expected(self) -> dict[str, Array]:
        """`mean` for the means; the scale is known."""
        return {"mean": self.mean, "scale": self.pencil.scale}

    def sample(self, key: Array) -> dict[str, Array]:
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        return self.at_noise(noise)

    def at_noise(self, noise: Float[Array, "K d"]) -> dict[str, Array]:
        """The parameters of standard normal noise: the means `mean_k + L U √ψ_k ε_k`."""
        mean = self.mean + self.pencil.back(jnp.sqrt(self.ratio) * noise)
        return {"mean": mean, "scale": self.pencil.scale}

    def interval(self, level: Array) -> dict[str, Interval]:
        """Each mean is normal; the variances are known, so both bounds of one are that number."""
        if self.pencil.rotation is None:
            variance = self.arithmetic.deviations(self.pencil.scale) ** 2 * self.ratio
        else:
            squares = matmul(self.pencil.scale[..., 0, :, :], self.pencil.rotation) ** 2
            variance = matmul(self.ratio, jnp.swapaxes(squares, -1, -2))
        spread = jnp.sqrt(jnp.broadcast_to(variance, self.mean.shape))
        known = self.arithmetic.deviations(self.pencil.scale) ** 2
        return {
            "mean": central(level, lambda p: self.mean + spread * quantile("ndtri", p)),
            "variance": Interval(known, known),
        }


def mean_deviations(stats: Moments, centre: Float[Array, "... d"]) -> Float[Array, "K d"]:
    """The means of the classes about a centre, or about one of each class."""
    deviation = stats.mean - jnp.broadcast_to(centre, stats.mean.shape)
    return deviation if stats.rounding is None else deviation + stats.rounding[1]
