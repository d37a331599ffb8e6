"""From weighted rows to statistics, one block of rows at a time.

The memory used beyond x is that of one block, for any n. Centred moments are computed by one of
three algorithms, each where it is the cheapest:

* hard labels, few rows: products with one-hot weights (`_few_rows`), for full scatters in float64;
* a pooled scatter, or hard labels: one pass about points near the class means (`centred`);
* soft labels, a scatter per class: the classes in turn in each block, 2 n d² K flops.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float, Shaped

from genclf.numerics import loops
from genclf.numerics.compensated import Pair, add_to, single, zero_low
from genclf.numerics.double import as_pairs, gram, is_cheap
from genclf.numerics.namespace import Array, matmul
from genclf.numerics.sizes import is_at_most
from genclf.sums import host
from genclf.sums.blocks import (
    ClassWeights,
    Hard,
    class_rows,
    host_labels,
    ignore_absent,
    merge_over_blocks,
)
from genclf.sums.centred import hard_moments, soft_pooled_moments, tiled_moments
from genclf.sums.class_sums import of_rows
from genclf.sums.near import some_row
from genclf.sums.statistics import Moments, Sums, about_mean, divide

_TILE_FROM = 2048  # rows; for fewer, a product with K-fold flops is cheaper than sorting
_MOST_PRODUCTS = 2**26  # products of `_few_rows`; those of full scatters are in float64
_PRODUCTS_A_SUM = 64  # what adding a number to its class costs, in products


def dense_sums(features: Float[Array, "n d"], w: Float[Array, "K n"] | ClassWeights) -> Sums:
    """`Sums` of one block of rows; rows without weight may hold anything."""
    if isinstance(w, Hard):
        rows = host_labels(w)
        return Sums.quick(rows.counts(), rows.sums(features))
    features = ignore_absent(features.astype(w.dtype), (w != 0).any(0))
    return Sums(w.sum(1), matmul(w, features))


def moments(
    x: Shaped[Array, "n d"],
    w: ClassWeights,
    *,
    full: bool,
    pooled: bool = False,
    near: Float[Array, "K d"] | None = None,
) -> Moments:
    """Centred moments of each class, by one of the algorithms in the module's docstring.

    Args:
        x: rows, shape (n, d); a non-finite cell makes its class's moments NaN; if pooled, all.
        w: class weights.
        full: True for scatter matrices, False for their diagonals.
        pooled: one scatter for all classes together.
        near: points near the class means, if known; this saves time.
    """
    if (rows := host_labels(w)) is not None:
        found: Any = host.moments(cast(Any, x), rows, full, pooled)
        return Moments.quick(found.count, found.mean, found.scatter)
    if isinstance(w, Hard):
        each = w.num_classes * x.shape[1] * (x.shape[1] if full else _PRODUCTS_A_SUM)
        if is_at_most(x.shape[0], min(_TILE_FROM, _MOST_PRODUCTS // max(1, each))):
            return _few_rows(x, w, full=full, pooled=pooled)
        if pooled or not full:
            return hard_moments(x, w, full=full, pooled=pooled)
        return tiled_moments(x, w)
    if pooled:
        return soft_pooled_moments(x, w, full=full, near=near)
    return merge_over_blocks(partial(_soft_block, full=full), x, w, x.shape[1])


def moments_of_cells(x: Shaped[Array, "n d"], seen: Bool[Array, "n d"], w: ClassWeights) -> Moments:
    """Moments of each class from the observed cells, with a count for each feature."""
    if (rows := host_labels(w)) is not None:
        found: Any = host.moments_of_cells(cast(Any, x), rows, pooled=False)
        return Moments.quick(found.count, found.mean, found.scatter)

    def of_cells(x: Array, seen: Array, w: Array) -> Moments:
        column = one_class(x[:, None], jnp.where(seen, w, 0), full=False)
        return jax.tree.map(lambda a: a.reshape(()), column)

    def block(rows: tuple[Array, Array], w: ClassWeights) -> Moments:
        of_class = jax.vmap(of_cells, (1, 1, None))
        return lax.map(lambda w_k: of_class(*rows, w_k), class_rows(w))

    return merge_over_blocks(block, (x, seen), w, 2 * x.shape[1])


def one_class(x: Shaped[Array, "n d"], w: Float[Array, "n"], full: bool) -> Moments:
    """Moments of the rows of one class, without a class axis."""
    x = ignore_absent(x.astype(w.dtype), w != 0)
    reference = some_row(x, w)
    x = x - reference[None]
    count = w.sum()
    centre = reference + divide(matmul(w, x), count)
    z = x - (centre - reference)[None]  # about the centre as it is rounded
    if full:
        scatter = gram(w, z, is_cheap(*z.shape))
    else:
        scatter = single(matmul(w, z * z))
    return about_mean(count, centre, matmul(w, z), scatter)


def _soft_block(x: Shaped[Array, "n d"], w: Float[Array, "n K"], *, full: bool) -> Moments:
    # Rows are the last axis, so that the arithmetic is vectorised over rows.
    exact = is_cheap(x.shape[0], x.shape[1] * w.shape[1])
    rows, x = w.T, x.T.astype(w.dtype)
    bad = ~jnp.isfinite(x)
    x = jnp.where(bad, 0, x)
    count = rows.sum(1)
    centre = divide(matmul(rows, x.T), count[:, None])

    def about_centre(at: tuple[Array, Array]) -> tuple[Array, Pair]:
        w, centre = at
        z = x - centre[:, None]
        if full:
            return matmul(z, w), gram(w, z.T, exact)
        return matmul(z, w), single(matmul(z * z, w))

    total, scatter = lax.map(about_centre, (rows, centre))
    spoiled = loops.unlikely(
        bad.any(), lambda: _spoiled(rows, bad.T), lambda: jnp.zeros_like(centre, bool)
    )
    return _with_nan(about_mean(count, centre, total, scatter), spoiled)


def _few_rows(x: Shaped[Array, "n d"], w: Hard, *, full: bool, pooled: bool) -> Moments:
    rows = class_rows(w)
    x = ignore_absent(x.astype(rows.dtype), w.weight != 0)
    own = w.weight[None] if pooled else rows

    def of(x: Array) -> Moments:
        count = rows.sum(1)
        # A product, which XLA does not compute again, with another rounding, where it is used.
        centre = matmul(divide(rows, count[:, None]), x)
        less = of_rows(centre, w)
        if not full:
            z = x - less
            return about_mean(count, centre, matmul(rows, z), single(matmul(own, z * z)))
        drift, scatter = _exact_moments(rows, own, x, less)
        (mean, low), of_count = add_to(single(centre), drift), zero_low(count)
        return Moments.quick(count, mean, scatter[0], of_count and (*of_count, low, scatter[1]))

    def without_bad_cells() -> Moments:
        bad = ~jnp.isfinite(x)
        return _with_nan(of(jnp.where(bad, 0, x)), _spoiled(rows, bad))

    found = of(x)
    # In a product, a non-finite cell makes the means of all classes NaN.
    return loops.unlikely(~jnp.isfinite(found.mean).all(), without_bad_cells, lambda: found)


def _spoiled(rows: Float[Array, "K n"], bad: Bool[Array, "n d"]) -> Bool[Array, "K d"]:
    """In which classes a bad cell has weight."""
    return matmul((rows != 0).astype(rows.dtype), bad.astype(rows.dtype)) > 0


def _with_nan(found: Moments, spoiled: Bool[Array, "K d"]) -> Moments:
    """The moments, NaN in these features of these classes; if pooled, of all."""
    if found.is_pooled:
        spoiled = spoiled.any(0, keepdims=True)
    mean = jnp.where(spoiled, jnp.nan, found.mean)
    if found.is_full:
        spoiled = spoiled[:, :, None] | spoiled[:, None]
    return replace(found, mean=mean, scatter=jnp.where(spoiled, jnp.nan, found.scatter))


@as_pairs
def _exact_moments(weight: Array, own: Array, x: Array, less: Array) -> tuple[Array, Array]:
    """The class means of the rows `x - less`, (..., K, d), and the scatters about them.

    The rows of `own` are those of `weight`, or their sum for one scatter of all classes.
    """
    # Rows are the last axis of the left factor, so loops over rows can be vectorised.
    z = x - less
    squares = own[..., None, :] * z.mT[..., None, :, :]
    n, d = x.shape[-2:]
    scatter = matmul(squares.reshape(*x.shape[:-2], own.shape[-2] * d, n), z)
    total = matmul(weight, z)
    mean = divide(total, weight.sum(-1)[..., None])
    if own.shape == weight.shape:
        between = mean[..., None] * total[..., None, :]
    else:
        between = matmul(mean.mT, total)[..., None, :, :]
    return mean, scatter.reshape(between.shape) - between
