"""All rows of a data set together, for EM of classes that share a covariance."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, PyTree, Shaped

from genclf.arguments.module import Module
from genclf.covariance.scale import squares
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.gaussian.params import GaussianParams
from genclf.numerics.batched import cholesky
from genclf.numerics.compensated import Pair, add_to, single, zero_low
from genclf.numerics.double import centred_sums, gram, one_matrix, scaled, whitened_trace
from genclf.numerics.loops import zeros_like
from genclf.numerics.namespace import Array
from genclf.sums.accumulate import moments
from genclf.sums.blocks import Hard
from genclf.sums.statistics import Moments, Sums, divide


def whole_of_rows(family: Any, x: PyTree, weight: Float[Array, "n"]) -> WholeOfRows | None:
    """What class sums complete to the statistics of the family; None if they do not suffice."""
    if not isinstance(family, Gaussian) or family.may_miss or family.needs_fourth:
        return None
    if not (family.shared and family.arithmetic.is_full):
        return None
    one = Hard(jnp.zeros(x.shape[0], jnp.int32), weight, 1)
    return WholeOfRows(moments(x, one, full=True, pooled=True))


def _most(dtype: jnp.dtype) -> float:
    """The largest squared distance of a class from c, in standard deviations: 120 in float32."""
    return float(jnp.finfo(dtype).eps) ** -0.3


class WholeOfRows(Module):
    """What all rows give alike in each step of EM, if the classes share a full covariance.

    With T the scatter of all rows about their mean c, and s_k the sum of a class about c, the
    pooled scatter is `T - Σ_k s_k s_kᵀ / n_k`. So a step needs class sums alone, n K d operations
    and not n d².

    T loses digits where little of it remains, so `holds` tells whether enough does.

    Attributes:
        moments: the moments of all rows as one class.
    """

    moments: Moments

    def is_precise(self, params: GaussianParams) -> Bool[Array, ""]:
        """Whether scores about c are precise: no class is far away."""
        inverse = params.arithmetic.inverse(params.scale)[0]
        z = params.arithmetic.whiten(inverse, params.scores.means.about(self.moments.mean))
        return squares(z).max() <= _most(z.dtype)

    def holds(self, stats: Moments) -> Bool[Array, ""]:
        """Whether the pooled scatter is above `T / _most` in each direction, and T is regular.

        The difference, in units of T, is then positive definite by more than rounding.
        """
        whole = self.moments.scatter
        above = stats.scatter - whole / _most(whole.dtype)
        variance = self.moments.diagonal[0]
        unit = divide(jnp.ones_like(variance), jnp.sqrt(jnp.maximum(variance, 0)))
        pivots = jnp.diagonal(cholesky(unit[:, None] * above[0] * unit[None]))
        return (pivots**2 > jnp.finfo(pivots.dtype).eps ** 0.4).all()

    def log_lik(self, params: GaussianParams) -> Pair:
        """The sum over all rows of `log_prob - discriminant`, which is the same for all classes."""
        whole, centre = self.moments, params.scores.means.centre
        low = zeros_like(whole.scatter) if whole.rounding is None else whole.rounding[2]
        scatter = add_to((whole.scatter, low), whole.outer(whole.count, whole.mean - centre))
        norms = whole.count * sum(params.scores.log_norms())
        high, low = whitened_trace(params.scale, *scatter)
        return add_to((-0.5 * high, -0.5 * low), norms.sum()[None])

    def sums(self, x: Shaped[Array, "n d"], r: Float[Array, "n K"]) -> Sums:
        """The class sums about the mean of all rows."""
        # In float64: else features that are nearly equal would seem less so.
        count, (total, low) = r.sum(0), centred_sums(r, x.astype(r.dtype), self.moments.mean)
        of_count = zero_low(count)
        return Sums(count, total, of_count and (*of_count, low))

    def stats(self, sums: Sums) -> Moments:
        """The moments of the classes with these sums."""
        whole, total = self.moments, single(sums.total)
        mean, scatter = single(whole.mean), single(whole.scatter)
        if whole.rounding is not None and sums.rounding is not None:
            total = sums.total, sums.rounding[1]
            mean, scatter = (whole.mean, whole.rounding[1]), (whole.scatter, whole.rounding[2])
        # T is about the mean with its low part, the sums are not.
        scatter = add_to(scatter, whole.outer(whole.count, mean[1]))
        share = divide(jnp.ones_like(sums.count), sums.count)
        between = one_matrix(gram(share, total, exact=True))
        high, low = add_to(scatter, jax.tree.map(jnp.negative, between))
        every: Any = jax.tree.map(lambda a: jnp.broadcast_to(a, sums.total.shape), mean)
        centre, rest = add_to(every, scaled(*total, share))
        rounding = None if sums.rounding is None else (sums.rounding[0], rest, low)
        return Moments.quick(sums.count, centre, high, rounding)
