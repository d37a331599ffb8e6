"""The conjugate prior of Gaussian classes as pseudo-statistics, and the predictive density."""

from __future__ import annotations

import jax.numpy as jnp

from genclf.families.conjugate.gaussian import NormalInverseWishartDistribution
from genclf.families.gaussian.student_t import StudentTParams
from genclf.numerics.namespace import Array
from genclf.sums.statistics import Moments


def pseudo_moments(
    prior: NormalInverseWishartDistribution, stats: Moments
) -> tuple[Moments, Array]:
    """The prior as pseudo-examples, in the form of the statistics; and a ddof for the mode."""
    pseudo, ddof = prior.pseudo_moments()
    if stats.of_cells:
        count = jnp.broadcast_to(pseudo.count[:, None], stats.count.shape)
        ddof = ddof[:, None] if ddof.ndim else ddof
        pseudo = Moments(count, pseudo.mean, pseudo.scatter)
    return pseudo, ddof


def pseudo_and_others(
    prior: NormalInverseWishartDistribution, stats: Moments
) -> tuple[Moments, Array]:
    """The prior as pseudo-examples, and how many further ones the divisor counts."""
    pseudo, ddof = pseudo_moments(prior, stats)
    share = -ddof / len(stats.count) if prior.shared else -ddof
    return pseudo, jnp.full_like(stats.count, share)


def student_t(posterior: NormalInverseWishartDistribution) -> StudentTParams:
    """The predictive density of one example; see `StudentTParams`."""
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
