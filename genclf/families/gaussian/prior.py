"""The conjugate prior of Gaussian classes as pseudo-statistics, and the predictive density."""

from __future__ import annotations

from functools import singledispatch

import jax.numpy as jnp

from genclf.families.base import Density
from genclf.families.conjugate.base import Conjugate
from genclf.families.conjugate.gaussian import NormalInverseWishartDistribution
from genclf.families.conjugate.normal import NormalDistribution
from genclf.families.gaussian.params import GaussianParams
from genclf.families.gaussian.student_t import StudentTParams
from genclf.families.gaussian.two_covariance import TwoCovarianceParams
from genclf.numerics.namespace import Array
from genclf.sums.merging import merge
from genclf.sums.statistics import Moments


@singledispatch
def at_mode(prior: Conjugate, stats: Moments) -> tuple[Moments, Array | float]:
    """Statistics whose maximum-likelihood estimate is the posterior mode; and their ddof."""
    raise TypeError(f"{type(prior).__name__} is no prior of Gaussian classes")


@at_mode.register
def _(prior: NormalInverseWishartDistribution, stats: Moments) -> tuple[Moments, Array | float]:
    pseudo, ddof = prior.pseudo_moments(stats)
    return merge(stats, pseudo), ddof


@at_mode.register
def _(prior: NormalDistribution, stats: Moments) -> tuple[Moments, Array | float]:
    posterior, pencil = prior.update(stats), prior.pencil
    # Every class counts; the mean is known, and so is the covariance.
    count = stats.count + 1
    total = stats.per_feature(count).sum(0)
    total = total[:, None] if prior.arithmetic.is_full else total
    covariance = pencil.covariance_of(jnp.ones_like(pencil.ratio))
    covariance = jnp.broadcast_to(covariance, stats.scatter.shape[1:])
    low = posterior.rounding
    scatter = (total * covariance)[None]
    rounding = None if low is None else (jnp.zeros_like(count), low, jnp.zeros_like(scatter))
    return Moments.quick(count, posterior.mean, scatter, rounding), 0.0


@singledispatch
def predictive_density(posterior: Conjugate) -> Density:
    """The density of one further row under this distribution of the parameters."""
    raise TypeError(f"{type(posterior).__name__} is no distribution of Gaussian classes")


@predictive_density.register
def _(posterior: NormalDistribution) -> Density:
    pencil = posterior.pencil
    spread = jnp.sqrt(1 + posterior.ratio)
    if pencil.rotation is None:  # the covariance is diagonal
        spread = spread * pencil.scale
        form = {"covariance": pencil.covariance, "shared": False, "missing": "error"}
        return GaussianParams.of_fields(
            mean=posterior.mean, scale=spread, rounding=posterior.rounding, **form
        )
    # The centre that is subtracted has to be the one that is stored, to the last bit: a mean of
    # means may be computed twice, in two ways.
    centre = posterior.mean[0]
    deviation = posterior.mean - centre[None]
    if posterior.rounding is not None:
        deviation = deviation + posterior.rounding
    inside = GaussianParams.of_fields(
        mean=pencil.coordinates(deviation),
        scale=spread,
        covariance="diag",
        shared=False,
        missing="error",
        rounding=None,
    )
    return TwoCovarianceParams(inside, centre, pencil.scale[0], pencil.rotation)


def pseudo_and_others(
    prior: NormalInverseWishartDistribution, stats: Moments
) -> tuple[Moments, Array]:
    """The prior as pseudo-examples, and how many further ones the divisor counts."""
    pseudo, ddof = prior.pseudo_moments(stats)
    share = -ddof / len(stats.count) if prior.shared else -ddof
    return pseudo, jnp.full_like(stats.count, share)


@predictive_density.register
def _(posterior: NormalInverseWishartDistribution) -> Density:
    dof = posterior.predictive_dof
    copies = jnp.expand_dims(dof, tuple(range(1, posterior.scale.ndim)))
    return StudentTParams(
        posterior.mean,
        posterior.root() / jnp.sqrt(copies),
        dof,
        1 + 1 / jnp.where(posterior.kappa > 0, posterior.kappa, jnp.nan),
        posterior.covariance,
        posterior.shared,
    )
