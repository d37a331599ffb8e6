"""Student-t class densities: Gaussians whose parameters are uncertain."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Shaped

from genclf.arguments.module import static
from genclf.arguments.parameters import Parameter
from genclf.covariance.scale import finite
from genclf.covariance.scales import Covariance, OfForm
from genclf.families.base import Density
from genclf.families.mode import mode
from genclf.families.support import FINITE
from genclf.numerics import loops
from genclf.numerics.logarithms import log_pochhammer
from genclf.numerics.namespace import Array
from genclf.numerics.row_blocks import broadcast_rows, over_rows
from genclf.numerics.scores.distances import distances
from genclf.numerics.scores.means import Means, over_classes
from genclf.sums.far import far_row_factor


class StudentTParams(OfForm, Density):
    """Student-t densities of K classes: the predictive of `Gaussian`, or a heavy-tailed density.

    "full" and "spherical" are multivariate, with one random scale for all features of an example:
    `p(x|k) ∝ (1 + q_k(x) / ν)^(-(ν+d)/2)`, `q_k = (x-m_k)ᵀ Λ_k⁻¹ (x-m_k)`; "diag" is a product of
    one-dimensional ones. The scale matrix Λ is not the covariance, which is Λ ν / (ν - 2).

    Attributes:
        mean: location m of each class, shape (K, d).
        scale: a square root of the scale matrix, as in `GaussianParams`.
        dof: degrees of freedom ν, shape (K or 1,).
        inflation: a factor of the class's scale matrix, shape (K,): (κ+1)/κ if the mean was
            estimated from κ examples.
        covariance: "full", "diag" or "spherical".
        shared: whether all classes have one scale.

    References:
        Murphy (2012), Machine Learning: A Probabilistic Perspective, §4.6.3.6.
    """

    support: ClassVar = FINITE

    mean: Float[Array, "K d"]
    scale: Float[Array, "..."]
    dof: Float[Array, "one_or_K"]
    inflation: Float[Array, "K"]
    covariance: Covariance = static()
    shared: bool = static()

    @property
    def parameters(self) -> dict[str, Parameter]:
        positive = dict.fromkeys(("dof", "inflation"), Parameter("positive"))
        return {"mean": Parameter("real"), "scale": Parameter(self.arithmetic.of_scale), **positive}

    @property
    def axes(self) -> dict[str, str]:
        return {"scale": self.arithmetic.axes(self.shared)}

    def _own(self, x: Array) -> tuple[Array, Array]:
        """The log-density of each class minus a term that all classes share, and that term."""
        d = self.mean.shape[-1]
        p = 1 if self.arithmetic.is_product else d
        dof = jnp.broadcast_to(self.dof, self.inflation.shape)
        # For one t variable: log Γ((ν+p)/2) - log Γ(ν/2) - p/2 log πν - p/2 log inflation.
        norm = log_pochhammer(0.5 * dof, jnp.full_like(dof, 0.5 * p))
        norm = norm - 0.5 * p * jnp.log(jnp.pi * dof * self.inflation)
        own, common = self.arithmetic.log_determinants(self.scale, d)

        first, power = 1 / (self.inflation * dof), -0.5 * (dof + p)
        of_rows = self._cells if self.arithmetic.is_product else self._rows
        score = over_rows(lambda x: of_rows(x, first, power), x, 1, 8 * d)
        return score + broadcast_rows((d / p) * norm - own, score), -common

    def _rows(
        self, x: Shaped[Array, "n d"], first: Float[Array, "K"], power: Float[Array, "K"]
    ) -> Float[Array, "n K"]:
        def of_distances(x: Array) -> Array:
            inverse = self.arithmetic.inverse(self.scale)
            given = Means(self.mean), self.scale, inverse, self.arithmetic
            return distances(x, *given) * first[None]

        def far() -> Array:
            share = far_row_factor(x, self.arithmetic.deviations(self.scale))
            log_q = jnp.log(of_distances(x * share)) - 2 * jnp.log(share)
            return finite(jnp.where(jnp.isfinite(q), jnp.log1p(q), log_q))

        q = of_distances(x)
        logs = loops.unlikely(~jnp.isfinite(q).all(), far, lambda: jnp.log1p(q))
        return logs * power[None]

    def _cells(
        self, x: Shaped[Array, "n d"], first: Float[Array, "K"], power: Float[Array, "K"]
    ) -> Float[Array, "n K"]:
        # Rows are the last axis, so that the logarithms are vectorised over rows.
        x = finite(x.astype(self.mean.dtype).T)
        inverse = jnp.broadcast_to(1 / self.scale, self.mean.shape) * jnp.sqrt(first)[:, None]

        def of_class(mean: Means, inverse: Array, power: Array) -> Array:
            z = (x - mean.high[:, None]) * inverse[:, None]
            return jnp.log1p(z * z).sum(0) * power

        def of_far(mean: Means, inverse: Array, power: Array) -> Array:
            distance = jnp.abs(x - mean.high[:, None])
            log_z = jnp.log(distance) + jnp.log(inverse)[:, None]
            z = distance * inverse[:, None]
            is_far = z > far
            of_near = jnp.log1p(jnp.where(is_far, 0, z) ** 2)
            return jnp.where(is_far, 2 * log_z, of_near).sum(0) * power

        far = 1 / float(jnp.finfo(inverse.dtype).eps)  # 1 + z² is z² there
        means = Means(self.mean)
        found = over_classes(of_class, means, inverse, power, x=x)
        of_classes = lambda: over_classes(of_far, means, inverse, power, x=x)  # noqa: E731
        return loops.unlikely(~jnp.isfinite(found).all(), of_classes, lambda: found)

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log t_ν(x; m_k, Λ_k)`."""
        own, common = self._own(x)
        return own + common

    def discriminant(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log_prob` without the logarithm of the scale that all classes share."""
        return self._own(x)[0]

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Float[Array, "*shape d"]:
        """`m_y + L_y ε √(ν / χ²_ν)`, with one χ² for each example, or feature of "diag"."""
        key_noise, key_chi = jax.random.split(key)
        shape, dtype = (*y.shape, self.mean.shape[-1]), self.mean.dtype
        noise = jax.random.normal(key_noise, shape, dtype)
        half = 0.5 * jnp.broadcast_to(self.dof, self.inflation.shape)[y][..., None]
        chances = shape if self.arithmetic.is_product else (*y.shape, 1)
        gamma = jax.random.gamma(key_chi, jnp.broadcast_to(half, chances), dtype=dtype)
        noise = noise * jnp.sqrt(half / gamma * self.inflation[y][..., None])
        return self.mean[y] + self.arithmetic.noise(noise, self.scale, y)


@mode.register
def _(density: StudentTParams) -> Array:
    return density.mean
