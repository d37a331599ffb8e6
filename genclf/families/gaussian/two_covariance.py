"""Gaussian densities whose covariances are diagonal in one common basis."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Float, Int, Shaped

from genclf.covariance.scales import SCALES
from genclf.families.base import Density
from genclf.families.gaussian.params import GaussianParams
from genclf.families.mode import mode
from genclf.families.support import FINITE
from genclf.numerics.namespace import Array, matmul
from genclf.numerics.row_blocks import broadcast_rows


class TwoCovarianceParams(Density):
    """Gaussian densities with covariances that are diagonal in common coordinates.

    The coordinates are `z = Uᵀ L⁻¹ (x - centre)`, U orthogonal: the predictive densities of
    `TwoCovariance`, with W = L Lᵀ and the variances 1 + ψ_k of the coordinates.

    Attributes:
        inside: the densities of the coordinates, with a covariance of each class.
        centre: the point with coordinates 0, shape (d,).
        scale: L, shape (d, d).
        rotation: U, shape (d, d).
    """

    support: ClassVar = FINITE

    inside: GaussianParams
    centre: Float[Array, "d"]
    scale: Float[Array, "d d"]
    rotation: Float[Array, "d d"]

    @property
    def num_features(self) -> int:
        return self.centre.shape[-1]

    def _coordinates(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        x = x.astype(self.centre.dtype)
        whitening = matmul(SCALES["full"].inverse(self.scale[None])[0].T, self.rotation)
        return matmul(x - broadcast_rows(self.centre, x), whitening)

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log N(z; mean_k, diag(1 + ψ_k)) - log |L|`."""
        return self.inside.log_prob(self._coordinates(x)) - jnp.log(jnp.diagonal(self.scale)).sum()

    def discriminant(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log_prob` without `log |L|`, which all classes share."""
        return self.inside.discriminant(self._coordinates(x))

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Float[Array, "*shape d"]:
        """`centre + L U z`, z drawn from the density of the coordinates."""
        return self.rows(self.inside.sample(key, y))

    def rows(self, z: Any) -> Float[Array, "*batch d"]:
        """`centre + L U z`: the rows with coordinates z."""
        moved = matmul(matmul(z, self.rotation.T), self.scale.T)
        return broadcast_rows(self.centre, moved) + moved


@mode.register
def _(density: TwoCovarianceParams) -> Array:
    return density.rows(density.inside.mean)
