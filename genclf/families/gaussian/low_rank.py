"""Gaussian classes with covariances of low rank, fitted without a (d, d) array for each class.

Only the leading directions of a class are kept, so that of all classes at once there are d (1 + r)
numbers each. The directions of a class with at most m < d rows are those of the products of its
rows with each other, an (m, m) matrix.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Shaped

from genclf.covariance.leading import as_scale, leading_of_rows, least_variance, scale_of_matrix
from genclf.covariance.regularise import divisors, estimate_covariance
from genclf.covariance.shrinkage import Estimated
from genclf.covariance.structures import LowRank
from genclf.numerics import loops
from genclf.numerics.namespace import Array
from genclf.numerics.row_blocks import map_in_blocks
from genclf.numerics.scores.means import Means
from genclf.numerics.sizes import is_at_most, is_symbolic
from genclf.sums.accumulate import moments
from genclf.sums.blocks import (
    ClassWeights,
    Hard,
    host_labels,
    ignore_absent,
    of_some_classes,
    rows_at,
)
from genclf.sums.tiles import class_order

_FROM_CELLS = 2**24  # of the matrices of all classes, from which they are not held at once
_TOGETHER = 2**21  # cells of the matrices of classes that are


class _Each(NamedTuple):
    """What the covariances of the classes are made of, besides their rows; (K, ...).

    Class k has `share_k S_k + diag(added_k)`, S_k the scatter of the features that vary.
    """

    k: Int[Array, "K"]
    means: Means
    share: Float[Array, "K"]
    added: Float[Array, "K d"]
    least: Float[Array, "K"]
    variance: Float[Array, "K d"]
    singular: Shaped[Array, "K d"]


def is_by_class(family: Any, x: Shaped[Array, "n d"], w: ClassWeights) -> bool:
    """Whether `fit_by_class` has the estimate, and the matrices of all classes would be large."""
    if not isinstance(family.structure, LowRank) or not isinstance(w, Hard) or family.shared:
        return False
    if host_labels(w) is not None or is_symbolic(x.shape[0]):
        return False
    large = w.num_classes * x.shape[1] ** 2 > _FROM_CELLS
    return large and not isinstance(family.shrinkage, Estimated) and family.pooling is None


@jax.custom_jvp
def fit_by_class(family: Any, x: Shaped[Array, "n d"], w: Hard) -> Any:
    """The fit of a `Gaussian`, from the rows of a few classes at a time."""
    stats = moments(x, w, full=False)
    found = estimate_covariance(stats, family.regularisation(), spherical=False, shared=False)
    low = None if stats.rounding is None else stats.rounding[1]
    divisor = divisors(stats.count, jnp.asarray(family.ddof, stats.count.dtype))
    each = _Each(
        jnp.arange(w.num_classes, dtype=w.label.dtype),
        Means(stats.mean, low),
        (1 - found.shrinkage) / divisor,
        jnp.broadcast_to(found.added, found.variance.shape),
        least_variance(found),
        found.variance,
        found.is_singular,
    )
    scale = _scales(x, w, each, family.structure.r)
    empty = stats.count == 0

    def filled() -> Array:
        together = replace(family, shared=True, ddof=0.0)
        pooled = together.estimate(together.stats(x, w)).scale
        return jnp.where(empty[:, None, None], pooled, scale)

    scale = loops.unlikely(empty.any(), filled, lambda: scale)
    return family.of_scale(stats, found, scale, "low-rank")


@fit_by_class.defjvp
def _(primals: tuple[Any, Array, Hard], tangents: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    # The derivative needs all directions: it is that of the estimate from statistics. So is the
    # value here, because directions have a sign, and each road may find another one.
    from_stats = lambda family, x, w: family.estimate(family.stats(x, w))  # noqa: E731
    return jax.jvp(from_stats, primals, tangents)


def _scales(x: Shaped[Array, "n d"], w: Hard, each: _Each, r: int) -> Float[Array, "K d _"]:
    (n, d), dtype = x.shape, w.weight.dtype
    order, first, size = class_order(w)
    # The products of the rows of a class are those of twice the mean number of rows.
    most = max(1 << (2 * n // w.num_classes).bit_length(), r + 1)

    def rows_of(own: _Each) -> Array:
        """The rows of a class about its mean, times the root of their share in the covariance."""
        offset = jnp.arange(most)
        rows = order.at[first[own.k] + offset].get(mode="clip")
        weight = jnp.where(offset < size[own.k], w.weight[rows], 0)
        cells = ignore_absent(rows_at(x, rows).astype(dtype), weight != 0)
        z = own.means.at(None).subtracted_from(cells)
        return jnp.where(own.singular[None], 0, jnp.sqrt(weight * own.share)[:, None] * z)

    def by_products(own: _Each) -> Array:
        num = (~own.singular).sum().astype(dtype)
        found = leading_of_rows(rows_of(own), own.added[0], r, own.least, num)
        return as_scale(*found, own.variance, own.singular)

    def by_matrix(own: _Each, scatter: Array) -> Array:
        matrix = scatter * own.share + jnp.diag(own.added)
        return scale_of_matrix(matrix, own.variance, own.singular, own.least, r)

    def by_matrices(own: _Each) -> Array:
        scatter = moments(x, of_some_classes(w, own.k), full=True).scatter
        return jax.vmap(by_matrix)(own, scatter)

    def of_classes(own: _Each) -> Array:
        differ = (own.added != own.added[:, :1]).any()  # by a ridge, or towards the variances
        large = loops.any_member(differ | (size[own.k] > most).any())
        return loops.cond(large, lambda: by_matrices(own), lambda: jax.vmap(by_products)(own))

    few = max(1, _TOGETHER // d**2)
    return map_in_blocks(of_classes if is_at_most(most, d - 1) else by_matrices, each, few)
