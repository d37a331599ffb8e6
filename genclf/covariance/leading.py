"""The leading directions of covariances, as loadings of factors, and the variance in all others."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from genclf.covariance.estimate import CovarianceEstimate
from genclf.numerics import batched
from genclf.numerics.logarithms import power_of_two
from genclf.numerics.namespace import Array, matmul, namespace, on_host
from genclf.sums.factors import Covariances, by_classes

Leading = tuple[Float[Array, "d r"], Float[Array, ""]]
_ROUNDING = 4  # times ε: the share of the largest variance up to which another may be rounding


def leading(
    covariance: Float[Array, "d d"], r: int, least: Float[Array, ""], num: Float[Array, ""]
) -> Leading:
    """Loadings `G = U √(λ - σ²)` of the r largest eigenvalues λ, and σ², the mean of the others.

    The others are `num - r`: `num` features vary, and those that do not have zeros in the matrix.
    If σ² is only rounding, it is `least` instead. The derivative of an eigenvector is not finite
    at equal eigenvalues. That of G is the one with `dG Gᵀ + G dGᵀ = d(G Gᵀ)` that is finite there,
    unless the r-th eigenvalue and the next are equal.
    """
    if on_host(covariance):
        return _of_spectrum(*_eigh(covariance), r, least, num)
    return _leading(covariance, least, num, r)


def leading_of_rows(
    z: Float[Array, "m d"],
    added: Float[Array, ""],
    r: int,
    least: Float[Array, ""],
    num: Float[Array, ""],
) -> Leading:
    """`leading` of the covariance `zᵀ z + added I`, from the products of the rows; r < m < d."""
    value, vector = _eigh(matmul(z, z.T))
    top = value[-r:]
    rest = _rest(value[:-r].sum() / _others(num, r) + added, top[-1] + added, least)
    excess = top + added - rest
    share = jnp.where(excess > 0, excess / jnp.where(excess > 0, top, 1), 0)
    return matmul(z.T, vector[:, -r:] * jnp.sqrt(share)[None]), rest


def low_rank_root(found: CovarianceEstimate, r: int) -> Float[Array, "one_or_K d _"]:
    """Scales of `Loadings`: r leading directions of each covariance, and one variance beside them.

    A feature that has no variance keeps its substitute as noise of its own.
    """
    assert found.exact is not None
    xp = namespace(found.variance)
    singular = xp.broadcast_to(found.is_singular, found.variance.shape)
    of = found.exact, found.variance, singular, least_variance(found)
    root = partial(_roots, r)
    return root(of) if on_host(found.variance) else by_classes(root, of)


def least_variance(found: CovarianceEstimate) -> Float[Array, "one_or_K"]:
    """The variance in directions that have none: a share ε^(2/3) of the mean over the features."""
    xp = namespace(found.variance)
    scale = xp.broadcast_to(found.scale, found.variance.shape).mean(-1)
    return xp.where(scale > 0, xp.finfo(scale.dtype).eps ** (2 / 3) * scale, 1)


def scale_of_matrix(
    matrix: Array, variance: Array, singular: Array, least: Array, r: int
) -> Float[Array, "d _"]:
    """The scale of one class from its covariance, whose singular features are left out."""
    xp, varies = namespace(variance), ~singular
    matrix = xp.where(varies[:, None] & varies[None], matrix, 0)
    found = leading(matrix, r, least, varies.sum().astype(variance.dtype))
    return as_scale(*found, variance, singular)


def as_scale(loadings: Array, rest: Array, variance: Array, singular: Array) -> Array:
    """The scale of one class, `[s | G]`, with s² the variance of singular features."""
    xp = namespace(loadings)
    noise = xp.sqrt(xp.where(singular, variance, rest))
    return xp.concatenate([noise[:, None], loadings], -1)


def _roots(r: int, of: tuple[Covariances, Array, Array, Array]) -> Float[Array, "K d _"]:
    exact, *others = of
    each, of_class = (exact.matrices(), *others), partial(scale_of_matrix, r=r)
    if on_host(exact.scatter):
        found: Any = np.stack([of_class(*own) for own in zip(*each, strict=True)])
        return found
    return jax.vmap(of_class)(*each)


def _eigh(covariance: Array) -> tuple[Array, Array]:
    # The rounding of LAPACK depends on the unit, so this is a power of two.
    unit, inverse = power_of_two(namespace(covariance).abs(covariance).max(keepdims=True))
    value, vector = batched.eigh((covariance * inverse)[None])
    return value[0] * unit[0], vector[0]


def _of_spectrum(value: Array, vector: Array, r: int, least: Array, num: Array) -> Leading:
    """From all eigenvalues, ascending, and vectors."""
    xp = namespace(value)
    rest = _rest(value[:-r].sum() / _others(num, r), value[-1], least)
    return vector[:, -r:] * xp.sqrt(xp.maximum(value[-r:] - rest, 0))[None], rest


def _others(num: Array, r: int) -> Array:
    """The number of directions that are not among the leading ones, at least 1."""
    return namespace(num).maximum(num - r, 1)


def _rest(mean: Array, largest: Array, least: Array) -> Array:
    """The mean of the other eigenvalues; `least` if it is only rounding of the largest."""
    xp = namespace(mean)
    return xp.where(mean <= _ROUNDING * xp.finfo(mean.dtype).eps * largest, least, mean)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def _leading(covariance: Array, least: Array, num: Array, r: int) -> Leading:
    return _of_spectrum(*_eigh(covariance), r, least, num)


@_leading.defjvp
def _(
    r: int, primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]
) -> tuple[Leading, Leading]:
    value, vector = _eigh(primals[0])
    loadings, rest = _of_spectrum(value, vector, r, *primals[1:])
    change = matmul(matmul(vector.T, tangents[0]), vector)
    is_least = rest == primals[1]
    of_mean = jnp.diagonal(change)[:-r].sum() / _others(primals[2], r)
    of_rest = jnp.where(is_least, tangents[1], of_mean)
    size = jnp.sqrt(jnp.maximum(value[-r:] - rest, 0))[None]
    inside = change[-r:, -r:] - of_rest * jnp.eye(r, dtype=rest.dtype)
    inside = jnp.where(size > 0, 0.5 * inside / jnp.where(size > 0, size, 1), 0)
    gap = value[None, -r:] - value[:-r, None]
    outside = size * change[:-r, -r:] * jnp.where(gap > 0, 1 / jnp.where(gap > 0, gap, 1), 0)
    turned = matmul(vector, jnp.concatenate([outside, inside]))
    return (loadings, rest), (turned, of_rest)
