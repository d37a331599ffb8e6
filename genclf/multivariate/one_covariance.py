"""Gaussian classes with one covariance, from params or statistics."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from genclf.arguments.domains import Domain, shown
from genclf.arguments.sharding import compiled
from genclf.classifier.classifier import ClassifierParams
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.gaussian.params import GaussianParams
from genclf.families.gaussian.row_space import RowSpaceParams
from genclf.numerics.scores.means import Means
from genclf.sums.statistics import ClassifierStats, Moments, divide

PARAMS_OR_STATISTICS = Domain(
    "params of Gaussian classes with one covariance, or statistics of classes",
    lambda value: isinstance(value, ClassifierParams | ClassifierStats),
)


def with_scatters(stats: ClassifierStats) -> Moments:
    """The moments of the statistics; raise unless they have scatter matrices."""
    moments = stats.conditional
    if not isinstance(moments, Moments) or not moments.is_full:
        raise ValueError(
            "the statistics have no scatter matrix: make them with a full Gaussian, such as lda"
        )
    return moments


def with_one_covariance(
    source: ClassifierParams | ClassifierStats, **rules: Any
) -> ClassifierParams:
    """Params whose classes share a covariance; from statistics, they are estimated by the rules."""
    if isinstance(source, ClassifierStats):
        return _estimated(Gaussian(shared=True, **rules), source)
    conditional = source.conditional
    inside = conditional.inside if isinstance(conditional, RowSpaceParams) else conditional
    if not isinstance(inside, GaussianParams) or not inside.shared:
        raise ValueError(
            f"the params hold {shown(inside)}, expected one covariance that all classes share: fit "
            "Gaussian(shared=True), such as lda"
        )
    return source


@partial(compiled, fast_compile=2**14)
def _estimated(family: Gaussian, stats: ClassifierStats) -> ClassifierParams:
    log_prior = jnp.log(divide(stats.count, stats.count.sum(keepdims=True)))
    return ClassifierParams(log_prior, family.estimate(family.pooled(with_scatters(stats))))


def about_their_mean(
    means: Means, share: Float[Array, "K"]
) -> tuple[Float[Array, "d"], Float[Array, "K d"]]:
    """The mean of the class means with these shares, and the class means about it."""
    deviation = means.about(means.centre)
    shift = (share[:, None] * deviation).sum(0, keepdims=True)
    return (means.centre + shift)[0], deviation - shift
