"""The log-ratio of two Gaussian classes as a sum over the features."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, Int, Shaped

from genclf.covariance.scale import finite
from genclf.numerics.namespace import Array, namespace
from genclf.numerics.scores.means import Means


def _deviation(x: Shaped[Array, "*batch d"], means: Means, k: Int[Array, "*batch"]) -> Array:
    """The rows minus the means of their classes k."""
    return jax.tree.map(lambda a: a[k], means).subtracted_from(x)


def independent_terms(
    x: Shaped[Array, "*batch d"],
    y: Int[Array, "*batch"],
    other: Int[Array, "*batch"],
    means: Means,
    scale: Float[Array, "..."],
    may_miss: bool,
) -> Float[Array, "*batch d"]:
    """`log N(x_j; μ_yj, s_yj) - log N(x_j; μ_other,j, s_other,j)`; 0 where x is missing."""
    xp = namespace(x, scale)
    scale = xp.broadcast_to(scale, means.high.shape)

    def each(k: Array) -> Array:
        return -0.5 * (_deviation(x, means, k) / scale[k]) ** 2 - xp.log(scale[k])

    found = finite(each(y) - each(other))
    return xp.where(xp.isnan(x), 0, found) if may_miss else found


def shared_terms(
    x: Shaped[Array, "*batch d"],
    y: Int[Array, "*batch"],
    other: Int[Array, "*batch"],
    means: Means,
    coef: Float[Array, "K d"],
) -> Float[Array, "*batch d"]:
    """`a_j (x_j - ½ (μ_y + μ_other)_j)`, with `a = Σ⁻¹ (μ_y - μ_other)`.

    A term depends neither on the origin nor on the unit of x. `coef` is `Σ⁻¹ μ_k` up to a vector
    that all classes share.
    """
    both = _deviation(x, means, y) + _deviation(x, means, other)
    return finite((coef[y] - coef[other]) * (0.5 * both))


def terms_of_seen(
    x: Shaped[Array, "*batch d"],
    y: Int[Array, "*batch"],
    other: Int[Array, "*batch"],
    means: Means,
    covariance: Float[Array, "d d"],
) -> Float[Array, "*batch d"]:
    """`shared_terms` of the observed cells of each row, under their own covariance."""

    def of_row(row: tuple[Array, Array, Array]) -> Array:
        x, y, other = row
        seen = ~jnp.isnan(x)
        # Σ of the observed cells, and the identity for the missing ones.
        observed = seen[:, None] & seen[None]
        sigma = jnp.where(observed, covariance, jnp.eye(len(x), dtype=covariance.dtype))
        between = jax.tree.map(lambda a: a[y] - a[other], means)
        between = between.high if between.low is None else between.high + between.low
        factor = jnp.linalg.cholesky(sigma)
        coef = jax.scipy.linalg.cho_solve((factor, True), jnp.where(seen, between, 0))
        both = _deviation(x, means, y) + _deviation(x, means, other)
        return jnp.where(seen, finite(coef * (0.5 * both)), 0)

    d = x.shape[-1]
    found = lax.map(of_row, (x.reshape(-1, d), y.reshape(-1), other.reshape(-1)))
    return found.reshape(x.shape)
