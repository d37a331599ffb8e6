"""Gaussian classes of rows with columns of zeros after their features."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Float, Int

from genclf.covariance.regularise import estimate_covariance
from genclf.families.base import Density, Wrapping
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.gaussian.params import GaussianParams
from genclf.numerics.namespace import Array
from genclf.sums.statistics import Moments


def can_pad(family: object) -> bool:
    """Whether `PaddedGaussian(family, d)` gives the scores of the family for its features alone."""
    if not isinstance(family, Gaussian) or family.arithmetic.is_spherical:
        return False
    rules = family.prior, family.soft_threshold, family.structure
    plain = all(rule is None for rule in rules)
    return plain and not family.may_miss


class PaddedGaussian(Wrapping):
    """A `Gaussian` of the first d columns, so that d can vary in one compiled program.

    Args:
        family: a `Gaussian` that `can_pad`.
        num_features: d; all further columns are 0.
    """

    num_features: Int[Array, ""]

    def estimate(self, stats: Moments) -> GaussianParams:
        """The densities of the features; a standard normal in all further columns."""
        rule = self.family.regularisation()
        d = self.num_features.astype(stats.mean.dtype)
        found = estimate_covariance(
            stats, rule._replace(num_features=d), spherical=False, shared=self.family.shared
        )
        params = self.family.of_covariances(stats, found)
        is_feature = jnp.arange(stats.mean.shape[-1], dtype=jnp.int32) < self.num_features
        one = jnp.ones((1, len(is_feature)), params.scale.dtype)
        if params.arithmetic.is_full:
            is_feature, one = is_feature[:, None] & is_feature[None], jnp.eye(len(is_feature))[None]
        scale = jnp.where(is_feature[None], params.scale, one.astype(params.scale.dtype))
        return replace(params, scale=scale)

    def log_prior_density(self, params: Density, stats: Moments) -> Float[Array, ""]:
        raise ValueError("the penalty of a shrinkage is not known for padded rows")
