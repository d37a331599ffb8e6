"""Gaussians of the observed cells of rows, by elimination.

Rows differ in which cells are missing, but array shapes must not depend on them. So each row has
its own symmetric Gaussian elimination (LDLᵀ) of Σ, which skips the missing coordinates. This gives
the distance and log-determinant of the observed cells, and the conditional mean and covariance of
the missing ones. Rows are the last axis, so that the arithmetic is vectorised over rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float, Int, Shaped

from genclf.covariance.scale import finite
from genclf.numerics import loops
from genclf.numerics.namespace import Array, jax, jnp, lax
from genclf.numerics.scores.cells import Densities
from genclf.numerics.scores.means import Means


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


def eliminate_seen(x: Shaped[Array, "n d"], given: Densities) -> Eliminated:
    """`eliminate` for each class, in units of `given.unit`; NaN marks the missing cells of x.

    `distance` is (K, n) and `deviation` (K, d, n); `log_det` and `covariance` have a leading axis
    of length K, or 1 if the covariance is shared.
    """
    seen = ~jnp.isnan(x.T)
    x = jnp.where(seen, x.T, 0).astype(given.unit.dtype)

    def deviation(mean: Means) -> Array:
        column = (slice(None), None)
        return mean.at(column).subtracted_from(x) / given.unit[:, None]

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


def scores_of(left: Eliminated) -> Float[Array, "n K"]:
    """`log N` of the observed cells, minus the part that all classes share."""
    return -0.5 * (left.distance + left.log_det).T


def marginal_scores(x: Shaped[Array, "n d"], given: Densities) -> Float[Array, "n K"]:
    """`log N` of the observed cells, minus the part that all classes share (`common_norms`)."""
    return scores_of(eliminate_seen(x, given))


def linear_marginal_scores(
    x: Shaped[Array, "n d"], given: Densities, label: Int[Array, "n"]
) -> Float[Array, "n K"]:
    """`(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ` of the observed cells; c is a class mean per row."""
    seen = ~jnp.isnan(x.T)
    x = jnp.where(seen, x.T, 0).astype(given.unit.dtype)
    own = jax.tree.map(lambda a: a.at[label].get(mode="promise_in_bounds").T, given.means)
    between = jax.tree.map(lambda a, c: a.T[:, :, None] - c[:, None], given.means, own)
    between = between.high if between.low is None else between.high + between.low
    deviation = jnp.concatenate([own.subtracted_from(x)[:, None], between], 1)
    deviation = deviation / given.unit[:, None, None]
    of_classes = lambda own: own[1:] * (own[:1] - 0.5 * own[1:])  # noqa: E731
    return eliminate(given.matrix[0], deviation, seen, of_classes).distance.T
