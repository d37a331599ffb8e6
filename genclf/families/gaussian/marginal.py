"""Gaussians with missing cells: the density of the observed cells, and conditional moments.

Rows differ in which cells are missing, but array shapes must not depend on them. So each row has
its own symmetric Gaussian elimination (LDLᵀ) of Σ, which skips the missing coordinates. This gives
the distance and log-determinant of the observed cells, and the conditional mean and covariance of
the missing ones. Rows are the last axis, so that the arithmetic is vectorised over rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float, Int, Shaped

from genclf.arguments.reprs import summary
from genclf.covariance.scales import Scale, finite, squares
from genclf.families.capabilities import Completed
from genclf.families.gaussian.mahalanobis import Means, from_one, over_classes
from genclf.numerics import loops
from genclf.numerics.logarithms import LOG_2PI
from genclf.numerics.namespace import Array, namespace, on_host
from genclf.numerics.products import einsum, matmul
from genclf.sums.accumulate import moments, one_class
from genclf.sums.blocks import ClassWeights, class_rows
from genclf.sums.factors import any_member
from genclf.sums.statistics import Moments


class Eliminated(NamedTuple):
    """The result of `eliminate`, for rows of c deviations each.

    Attributes:
        distance: squared Mahalanobis distance of the observed cells.
        log_det: log-determinant of their covariance.
        deviation: minus the conditional mean deviation of the missing cells; 0 where observed.
        covariance: conditional covariance of the missing cells; 0 where observed.
    """

    distance: Float[Array, "c n"]
    log_det: Float[Array, "n"]
    deviation: Float[Array, "d c n"]
    covariance: Float[Array, "d d n"]


def eliminate(
    matrix: Float[Array, "d d"],
    deviation: Float[Array, "d c n"],
    seen: Bool[Array, "d n"],
    products: Callable[[Array], Array] = lambda own: own * own,
) -> Eliminated:
    """Eliminate the observed coordinates of N(0, matrix), separately for each row.

    Args:
        matrix: a covariance; its variances should be near 1.
        deviation: deviations from the mean; a missing cell may hold anything.
        seen: mask of the observed cells.
        products: a function of the whitened deviations of one coordinate, (c, n); `distance` is
            the sum of its results.
    """
    d, _, n = deviation.shape
    least = 10 * d * jnp.finfo(matrix.dtype).eps * jnp.diagonal(matrix)

    def step(j: Array, left: Eliminated) -> Eliminated:
        here, own = seen[j], finite(left.deviation[j])
        # A coordinate that the others determine up to rounding gets the variance of rounding.
        pivot = jnp.where(here, jnp.maximum(left.covariance[j, j], least[j]), 1)
        column = jnp.where(here[None], left.covariance[j], 0)
        share = column / pivot[None]
        return Eliminated(
            left.distance + jnp.where(here, 1 / pivot, 0)[None] * products(own),
            left.log_det + jnp.log(pivot),
            left.deviation - share[:, None] * own[None],
            left.covariance - share[:, None] * column[None],
        )

    start = Eliminated(
        jnp.zeros_like(products(deviation[0])),
        jnp.zeros(n, matrix.dtype),
        jnp.where(seen[:, None], deviation, 0),
        jnp.broadcast_to(matrix[..., None], (d, d, n)),
    )
    end = loops.fori_loop(0, d, step, start)
    either = seen[:, None] | seen[None]
    return end._replace(
        deviation=jnp.where(seen[:, None], 0, end.deviation),
        covariance=jnp.where(either, 0, end.covariance),
    )


class Densities(NamedTuple):
    """Gaussians of K classes; `unit` is a typical deviation of each feature.

    Attributes:
        means: (K, d).
        matrix: covariances over `unit unitᵀ`, (K or 1, d, d).
        unit: (d,).
    """

    means: Means
    matrix: Float[Array, "one_or_K d d"]
    unit: Float[Array, "d"]


def in_units(means: Means, scale: Array, structure: Scale) -> Densities:
    """The densities of these means and scales."""
    xp = namespace(scale)
    scale = structure.triangular(scale, means.high.shape[-1])
    unit = xp.sqrt((scale * scale).sum(-1)).mean(0)
    root = scale / unit[None, :, None]
    return Densities(means, einsum("kij,klj->kil", root, root), unit)


def eliminate_seen(x: Shaped[Array, "n d"], given: Densities) -> Eliminated:
    """`eliminate` for each class, in units of `given.unit`; NaN marks the missing cells of x.

    `distance` is (K, n) and `deviation` (K, d, n); `log_det` and `covariance` have a leading axis
    of length K, or 1 if the covariance is shared.
    """
    seen = ~jnp.isnan(x.T)
    x = jnp.where(seen, x.T, 0).astype(given.unit.dtype)

    def deviation(mean: Means) -> Array:
        column = jax.tree.map(lambda a: a[:, None], mean)
        return column.subtracted_from(x) / given.unit[:, None]

    if len(given.matrix) == 1:  # one elimination serves all classes
        every = jnp.moveaxis(jax.vmap(deviation)(given.means), 0, 1)
        shared = eliminate(given.matrix[0], every, seen)
        return Eliminated(
            shared.distance,
            shared.log_det[None],
            jnp.moveaxis(shared.deviation, 1, 0),
            shared.covariance[None],
        )

    def of_class(at: tuple[Array, Means]) -> Eliminated:
        matrix, mean = at
        found = eliminate(matrix, deviation(mean)[:, None], seen)
        return found._replace(distance=found.distance[0], deviation=found.deviation[:, 0])

    return lax.map(of_class, (given.matrix, given.means))


def _scores(left: Eliminated) -> Float[Array, "n K"]:
    return -0.5 * (left.distance + left.log_det).T


def marginal_scores(x: Shaped[Array, "n d"], given: Densities) -> Float[Array, "n K"]:
    """`log N` of the observed cells, minus the part that all classes share (`common_norms`)."""
    return _scores(eliminate_seen(x, given))


def cell_scores(
    x: Shaped[Array, "n d"], means: Means, scale: Array, unit: Float[Array, "d"]
) -> Float[Array, "n K"]:
    """`marginal_scores` for independent features: a sum over the observed cells."""
    xp = namespace(x, scale)
    seen = ~xp.isnan(x)
    x = xp.where(seen, x, 0).astype(unit.dtype)
    scale = xp.broadcast_to(scale, means.high.shape)

    def distance(mean: Means, scale: Array) -> Array:
        return squares(finite(xp.where(seen, from_one(x, mean) / scale[None], 0)))

    norms = matmul(seen.astype(unit.dtype), xp.log(scale / unit[None]).T)
    return -0.5 * over_classes(distance, means, scale, x=x) - norms


def common_norms(x: Shaped[Array, "n d"], unit: Float[Array, "d"]) -> Float[Array, "n"]:
    """`-Σ log (unit_j √2π)` over the observed cells."""
    xp = namespace(x, unit)
    norm = -xp.log(unit) - 0.5 * LOG_2PI
    return matmul((~xp.isnan(x)).astype(norm.dtype), norm)


def linear_marginal_scores(
    x: Shaped[Array, "n d"], given: Densities, label: Int[Array, "n"]
) -> Float[Array, "n K"]:
    """`(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ` of the observed cells; c is a class mean per row."""
    if on_host(x):  # rows so far are rare
        with jax.enable_x64(True):
            found = linear_marginal_scores(*jax.tree.map(jnp.asarray, (x, given, label)))
            host: Any = np.asarray(found)
            return host
    seen = ~jnp.isnan(x.T)
    x = jnp.where(seen, x.T, 0).astype(given.unit.dtype)
    own = jax.tree.map(lambda a: a.at[label].get(mode="promise_in_bounds").T, given.means)
    between = jax.tree.map(lambda a, c: a.T[:, :, None] - c[:, None], given.means, own)
    between = between.high if between.low is None else between.high + between.low
    deviation = jnp.concatenate([own.subtracted_from(x)[:, None], between], 1)
    deviation = deviation / given.unit[:, None, None]
    of_classes = lambda own: own[1:] * (own[:1] - 0.5 * own[1:])  # noqa: E731
    return eliminate(given.matrix[0], deviation, seen, of_classes).distance.T


def of_far_rows(
    x: Shaped[Array, "*batch d"],
    scores: Float[Array, "*batch K"],
    far: Bool[Array, "*batch"],
    again: Callable[[], Array],
) -> Float[Array, "*batch K"]:
    """The scores, replaced by those of `again` for far rows without infinite cells."""
    xp = namespace(scores)

    def replaced() -> Array:
        mask = far & ~xp.isinf(x).any(-1)
        return xp.where(mask[..., None], again(), scores)

    return loops.cond(any_member(far.any()), replaced, lambda: scores)


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
        return expected_moments(self, w)


def completed(x: Shaped[Array, "n d"], given: Densities) -> tuple[Float[Array, "n K"], Completion]:
    """`marginal_scores` of rows, and their completion."""
    left = eliminate_seen(x, given)
    guess = given.means.high[:, :, None] - left.deviation * given.unit[None, :, None]
    mean = jnp.where(jnp.isnan(x)[None], guess.mT, x.astype(guess.dtype)[None])
    units = given.unit[:, None] * given.unit[None]
    return _scores(left), Completion(x, mean, left.covariance * units[None, :, :, None])


def trivial_completion(x: Shaped[Array, "n d"], given: Densities) -> Completion:
    """The completion of rows without missing cells."""
    mean = jnp.broadcast_to(x.astype(given.unit.dtype), (len(given.means.high), *x.shape))
    return Completion(x, mean, jnp.zeros((*given.matrix.shape, x.shape[0]), mean.dtype))


def expected_moments(completion: Completion, w: ClassWeights) -> Moments:
    """Expected moments of the complete rows of each class, given their observed cells.

    A missing cell gets its conditional mean, and the scatter its conditional covariance, without
    which variances would shrink.
    """
    x, rows, pooled = completion.x, class_rows(w), len(completion.covariance) == 1

    def with_missing() -> Moments:
        of_class = lambda at: one_class(at[0], at[1], full=True)  # noqa: E731
        found = lax.map(of_class, (completion.mean, rows))
        covariance = completion.covariance
        if len(covariance) == 1:
            more = einsum("ijn,kn->kij", covariance[0], rows)
        else:
            more = einsum("kijn,kn->kij", covariance, rows)
        found = Moments(found.count, found.mean, found.scatter + more)
        return found.pool_classes() if pooled else found

    present = (rows != 0).any(0)[:, None]
    misses = (jnp.isnan(x) & present).any()
    return loops.cond(misses, with_missing, lambda: moments(x, w, full=True, pooled=pooled))


def missing_given_seen(
    x: Shaped[Array, "n d"], y: Int[Array, "n"], given: Densities
) -> Float[Array, "n d"]:
    """`Σ_mo Σ_oo⁻¹ x_o` for the class y of each row, 0 where observed."""
    shifts = -eliminate_seen(
        x, given._replace(means=Means(jnp.zeros_like(given.means.high)))
    ).deviation
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
