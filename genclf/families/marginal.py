"""Gaussians of which some coordinates are not seen: the density of the others, and what they say.

Rows differ in what is missing, and shapes must not. So every row eliminates its own coordinates:
a symmetric Gaussian elimination (LDLᵀ) of Σ that skips those which are missing. It leaves the
distance and the log-determinant of what is seen, and the conditional mean and covariance of what
is not. Rows are the last axis: the arithmetic is in vectors of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from genclf.accumulate import (
    ClassWeights,
    class_rows,
    einsum,
    fold_rows,
    matmul,
    moments,
    one_class,
)
from genclf.families.ellipsoid import Covariance, over_classes, squares
from genclf.statistics import Moments


class Eliminated(NamedTuple):
    """What is left of rows of c deviations each, after what is seen of them.

    Attributes:
        distance: squared Mahalanobis distance of what is seen.
        log_det: log-determinant of its covariance.
        deviation: less the conditional mean of what is missing; 0 where seen.
        covariance: conditional covariance of what is missing; 0 where seen.
    """

    distance: Float[Array, "c n"]
    log_det: Float[Array, "n"]
    deviation: Float[Array, "d c n"]
    covariance: Float[Array, "d d n"]


def eliminate(
    matrix: Float[Array, "d d"], deviation: Float[Array, "d c n"], seen: Bool[Array, "d n"]
) -> Eliminated:
    """Eliminate from N(0, matrix), row by row, the coordinates that are seen.

    Args:
        matrix: a covariance; its units should be near 1.
        deviation: from the mean, anything where missing.
        seen: which cells are.
    """
    d, c, n = deviation.shape
    least = 10 * d * jnp.finfo(matrix.dtype).eps * jnp.diagonal(matrix)

    def step(j: Array, left: Eliminated) -> Eliminated:
        here, own = seen[j], left.deviation[j]
        # What the others determine up to rounding has the variance of rounding.
        pivot = jnp.where(here, jnp.maximum(left.covariance[j, j], least[j]), 1)
        column = jnp.where(here[None], left.covariance[j], 0)
        share = column / pivot[None]
        return Eliminated(
            left.distance + jnp.where(here, 1 / pivot, 0)[None] * own * own,
            left.log_det + jnp.log(pivot),
            left.deviation - share[:, None] * own[None],
            left.covariance - share[:, None] * column[None],
        )

    start = Eliminated(
        jnp.zeros((c, n), matrix.dtype),
        jnp.zeros(n, matrix.dtype),
        jnp.where(seen[:, None], deviation, 0),
        jnp.broadcast_to(matrix[..., None], (d, d, n)),
    )
    end = lax.fori_loop(0, d, step, start)
    either = seen[:, None] | seen[None]
    return end._replace(
        deviation=jnp.where(seen[:, None], 0, end.deviation),
        covariance=jnp.where(either, 0, end.covariance),
    )


class Densities(NamedTuple):
    """Gaussians of K classes in units of their own: `unit` is a typical deviation of each feature.

    Attributes:
        mean: (K, d).
        matrix: covariances over `unit unitᵀ`, (K or 1, d, d).
        unit: (d,).
    """

    mean: Float[Array, "K d"]
    matrix: Float[Array, "copies d d"]
    unit: Float[Array, "d"]


def in_units(mean: Float[Array, "K d"], scale: Array, covariance: Covariance) -> Densities:
    """The densities of these means and scales."""
    d = mean.shape[-1]
    if covariance != "full":
        scale = jnp.broadcast_to(scale, (len(scale), d))
        scale = scale[..., None] * jnp.eye(d, dtype=scale.dtype)[None]
    unit = jnp.sqrt((scale * scale).sum(-1)).mean(0)
    root = scale / unit[None, :, None]
    return Densities(mean, einsum("kij,klj->kil", root, root), unit)


def map_eliminated(
    f: Callable[..., PyTree], x: Shaped[Array, "n d"], given: Densities, *leaves: PyTree
) -> PyTree:
    """`f(eliminated, mean_k, *leaves_k)` of each class, of rows x with NaN where missing.

    The eliminated deviations are (d, n) and in the given units.
    """
    seen = ~jnp.isnan(x.T)
    x = jnp.where(seen, x.T, 0).astype(given.mean.dtype)

    def deviation(mean: Array) -> Array:
        return (x - mean[:, None]) / given.unit[:, None]

    if len(given.matrix) == 1:  # one elimination serves all classes
        every = jnp.moveaxis(jax.vmap(deviation)(given.mean), 0, 1)
        shared = eliminate(given.matrix[0], every, seen)

        def of_shared(at: tuple) -> PyTree:
            distance, deviation, mean, own = at
            return f(shared._replace(distance=distance, deviation=deviation), mean, *own)

        deviations = jnp.moveaxis(shared.deviation, 1, 0)
        return lax.map(of_shared, (shared.distance, deviations, given.mean, leaves))

    def of_class(at: tuple) -> PyTree:
        matrix, mean, own = at
        found = eliminate(matrix, deviation(mean)[:, None], seen)
        one = found._replace(distance=found.distance[0], deviation=found.deviation[:, 0])
        return f(one, mean, *own)

    return lax.map(of_class, (given.matrix, given.mean, leaves))


def marginal_scores(x: Shaped[Array, "n d"], given: Densities) -> Float[Array, "n K"]:
    """`log N` of what is seen, less the part that all classes share: `common_norms`."""
    return map_eliminated(lambda e, _: -0.5 * (e.distance + e.log_det), x, given).T


def cell_scores(
    x: Shaped[Array, "n d"], mean: Float[Array, "K d"], scale: Array, unit: Float[Array, "d"]
) -> Float[Array, "n K"]:
    """The same where features are independent: the cells that are seen, each by itself."""
    seen = ~jnp.isnan(x.T)
    x = jnp.where(seen, x.T, 0).astype(mean.dtype)
    scale = jnp.broadcast_to(scale, mean.shape)

    def distance(mean: Array, scale: Array) -> Array:
        return squares(jnp.where(seen, (x - mean[:, None]) / scale[:, None], 0))

    norms = matmul(seen.T.astype(mean.dtype), jnp.log(scale / unit[None]).T)
    return -0.5 * over_classes(distance, mean, scale, x=x) - norms


def common_norms(x: Shaped[Array, "n d"], unit: Float[Array, "d"]) -> Float[Array, "n"]:
    """`-Σ log unit_j √2π` over the cells that are seen."""
    norm = -jnp.log(unit) - 0.5 * math.log(2 * math.pi)
    return matmul((~jnp.isnan(x)).astype(norm.dtype), norm)


def expected_moments(x: Shaped[Array, "n d"], w: ClassWeights, given: Densities) -> Moments:
    """Moments of each class as expected of complete rows, given what is seen of them.

    A missing cell counts with its conditional mean, and the scatter gains the conditional
    covariance: without it variances would shrink.
    """
    units = given.unit[:, None] * given.unit[None]

    def block(x: Array, w: ClassWeights) -> Moments:
        rows = class_rows(w)

        def of_class(e: Eliminated, mean: Array, w_k: Array) -> Moments:
            guess = mean[None] - (e.deviation * given.unit[:, None]).T
            found = one_class(jnp.where(jnp.isnan(x), guess, x.astype(mean.dtype)), w_k, full=True)
            more = units * einsum("ijn,n->ij", e.covariance, w_k)
            return Moments(found.count, found.mean, found.scatter + more)

        complete = ~(jnp.isnan(x) & (rows != 0).any(0)[:, None]).any()
        return lax.cond(
            complete,
            lambda: moments(x, w, full=True),
            lambda: map_eliminated(of_class, x, given, rows),
        )

    return fold_rows(block, x, w, 2 * x.shape[1] ** 2)


def missing_given_seen(
    x: Shaped[Array, "n d"], y: Int[Array, "n"], given: Densities
) -> Float[Array, "n d"]:
    """`Σ_mo Σ_oo⁻¹ x_o` of the class y of each row, 0 where seen."""
    about_zero = given._replace(mean=jnp.zeros_like(given.mean))
    shifts = map_eliminated(lambda e, _: -e.deviation, x, about_zero)
    of_class = jnp.take_along_axis(shifts, y[None, None], axis=0)[0]
    return of_class.T * given.unit[None]


class GaussianFeatures(NamedTuple):
    """What is known of the features of examples of which some are missing.

    Attributes:
        mean: expected values; of a cell that is seen its own, shape (..., d).
        covariance: 0 in the rows and columns of cells that are seen, shape (..., d, d).
    """

    mean: Float[Array, "*batch d"]
    covariance: Float[Array, "*batch d d"]


def expected_features(
    x: Shaped[Array, "n d"], r: Float[Array, "n K"], given: Densities
) -> GaussianFeatures:
    """Mean and covariance of rows whose class has the probabilities r."""
    units = given.unit[:, None] * given.unit[None]

    def of_class(e: Eliminated, mean: Array) -> tuple[Array, Array]:
        guess = mean[None] - (e.deviation * given.unit[:, None]).T
        covariance = jnp.moveaxis(e.covariance, 2, 0) * units[None]
        return jnp.where(jnp.isnan(x), guess, x.astype(mean.dtype)), covariance

    means, covariances = map_eliminated(of_class, x, given)
    mean = einsum("nk,knd->nd", r, means)
    apart = means - mean[None]
    within = einsum("nk,knij->nij", r, covariances)
    return GaussianFeatures(mean, within + einsum("nk,kni,knj->nij", r, apart, apart))
