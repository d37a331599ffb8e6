"""All rows of a data set together, for EM of classes that share a covariance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Bool, Float, PyTree, Shaped

from genclf.arguments.module import Module
from genclf.covariance.scale import squares
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.gaussian.params import GaussianParams
from genclf.numerics.compensated import add_to, single
from genclf.numerics.double import product
from genclf.numerics.namespace import Array
from genclf.sums.accumulate import moments
from genclf.sums.blocks import Hard
from genclf.sums.statistics import Moments, Sums, about_mean


def whole_of_rows(family: Any, x: PyTree, weight: Float[Array, "n"]) -> WholeOfRows | None:
    """What class sums complete to the statistics of the family; None if they do not suffice."""
    if not isinstance(family, Gaussian) or family.may_miss or family.needs_fourth:
        return None
    if not (family.shared and family.arithmetic.is_full):
        return None
    one = Hard(jnp.zeros(x.shape[0], jnp.int32), weight, 1)
    return WholeOfRows(moments(x, one, full=True, pooled=True))


class WholeOfRows(Module):
    """What all rows give alike in each step of EM, if the classes share a full covariance.

    With T the scatter of all rows about their mean c, and s_k the sum of a class about c, the
    pooled scatter is `T - Σ_k s_k s_kᵀ / n_k`. So a step needs class sums alone, n K d operations
    and not n d².

    Attributes:
        moments: the moments of all rows as one class.
    """

    moments: Moments

    def is_precise(self, params: GaussianParams) -> Bool[Array, ""]:
        """Whether so little is subtracted from T that rounding errors stay small."""
        inverse = params.arithmetic.inverse(params.scale)[0]
        z = params.arithmetic.whiten(inverse, params.scores.means.about(self.moments.mean))
        most = jnp.finfo(z.dtype).eps ** -0.3  # squared standard deviations: 120 in float32
        return (squares(z).max() <= most) & jnp.isfinite(self.moments.scatter).all()

    def log_lik(self, params: GaussianParams) -> Float[Array, ""]:
        """The sum over all rows of `log_prob - discriminant`, which is the same for all classes."""
        centre = params.scores.means.centre
        return replace(params, mean=centre, rounding=None).log_lik(self.moments)

    def sums(self, x: Shaped[Array, "n d"], r: Float[Array, "n K"]) -> Sums:
        """The class sums about the mean of all rows."""
        return Sums(r.sum(0), product(r, x.astype(r.dtype) - self.moments.mean, exact=False)[0])

    def stats(self, sums: Sums) -> Moments:
        """The moments of the classes with these sums."""
        mean, scatter = self.moments.mean, single(self.moments.scatter)
        if self.moments.rounding is not None:  # T is about the mean with its low part
            _, low, rest = self.moments.rounding
            scatter = add_to(
                (self.moments.scatter, rest), self.moments.outer(self.moments.count, low)
            )
        centre = jnp.broadcast_to(mean, sums.total.shape)
        return about_mean(sums.count, centre, sums.total, scatter)
