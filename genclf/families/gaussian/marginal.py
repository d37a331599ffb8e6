"""The missing cells of rows, given the observed ones: moments and draws under Gaussians."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, Int, Shaped

from genclf.arguments.reprs import summary
from genclf.families.capabilities import Completed
from genclf.numerics import loops
from genclf.numerics.namespace import Array, einsum
from genclf.numerics.scores.cells import Densities
from genclf.numerics.scores.elimination import eliminate_seen, scores_of
from genclf.numerics.scores.means import Means
from genclf.sums.accumulate import moments, one_class
from genclf.sums.blocks import ClassWeights, class_rows
from genclf.sums.statistics import Moments


class Completion(Completed):
    """The distribution of the missing cells of rows, given the class and the observed cells.

    Attributes:
        x: the rows.
        mean: rows with conditional means for missing cells, (K, n, d).
        covariance: conditional covariances, 0 where observed, (K or 1, d, d, n).
    """

    x: Shaped[Array, "n d"]
    mean: Float[Array, "K n d"]
    covariance: Float[Array, "one_or_K d d n"]

    def stats(self, w: ClassWeights) -> Moments:
        """Expected moments of the complete rows of each class, given their observed cells.

        A missing cell gets its conditional mean, and the scatter its conditional covariance,
        without which variances would shrink.
        """
        x, rows, pooled = self.x, class_rows(w), len(self.covariance) == 1

        def with_missing() -> Moments:
            of_class = lambda at: one_class(at[0], at[1], full=True)  # noqa: E731
            found = lax.map(of_class, (self.mean, rows))
            if pooled:
                more = einsum("ijn,kn->kij", self.covariance[0], rows)
            else:
                more = einsum("kijn,kn->kij", self.covariance, rows)
            found = replace(found, scatter=found.scatter + more)
            return found.pool_classes() if pooled else found

        present = (rows != 0).any(0)[:, None]
        misses = (jnp.isnan(x) & present).any()
        return loops.cond(misses, with_missing, lambda: moments(x, w, full=True, pooled=pooled))


def completed(x: Shaped[Array, "n d"], given: Densities) -> tuple[Float[Array, "n K"], Completion]:
    """`marginal_scores` of rows, and their completion."""
    left = eliminate_seen(x, given)
    guess = given.means.high[:, :, None] - left.deviation * given.unit[None, :, None]
    mean = jnp.where(jnp.isnan(x)[None], guess.mT, x.astype(guess.dtype)[None])
    units = given.unit[:, None] * given.unit[None]
    return scores_of(left), Completion(x, mean, left.covariance * units[None, :, :, None])


def trivial_completion(x: Shaped[Array, "n d"], given: Densities) -> Completion:
    """The completion of rows without missing cells."""
    mean = jnp.broadcast_to(x.astype(given.unit.dtype), (len(given.means.high), *x.shape))
    return Completion(x, mean, jnp.zeros((*given.matrix.shape, x.shape[0]), mean.dtype))


def missing_given_seen(
    x: Shaped[Array, "n d"], y: Int[Array, "n"], given: Densities
) -> Float[Array, "n d"]:
    """`Σ_mo Σ_oo⁻¹ x_o` for the class y of each row, 0 where observed."""
    centred = given._replace(means=Means(jnp.zeros_like(given.means.high)))
    shifts = -eliminate_seen(x, centred).deviation
    of_class = jnp.take_along_axis(shifts, y[None, None], axis=0)[0]
    return of_class.T * given.unit[None]


class GaussianFeatures(NamedTuple):
    """Conditional mean and covariance of the features of examples with missing cells.

    Attributes:
        mean: expected values; for an observed cell its value, shape (..., d).
        covariance: 0 in the rows and columns of observed cells, shape (..., d, d).
    """

    mean: Float[Array, "*batch d"]
    covariance: Float[Array, "*batch d d"]

    def __repr__(self) -> str:
        return summary(self)


def expected_features(
    x: Shaped[Array, "n d"], r: Float[Array, "n K"], given: Densities
) -> GaussianFeatures:
    """Mean and covariance of the features of rows with class probabilities r."""
    _, found = completed(x, given)
    means, covariance = found.mean, found.covariance
    mean = einsum("nk,knd->nd", r, means)
    deviation = means - mean[None]
    covariances = jnp.broadcast_to(covariance, (len(means), *covariance.shape[1:]))
    within = einsum("nk,kijn->nij", r, covariances)
    return GaussianFeatures(mean, within + einsum("nk,kni,knj->nij", r, deviation, deviation))
