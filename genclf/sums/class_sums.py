"""Sums over the rows of each class, in one reading of the rows however many classes there are."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from genclf.sums.blocks import (
    ClassWeights,
    Hard,
    block_rows,
    class_rows,
    num_classes,
    num_rows,
    row_weights,
)
from genclf.sums.compensated import Pair, add_to, rounded
from genclf.sums.products import matmul

_ROWS = 64  # rows per class in a partial sum; a shorter one costs more than it gains


def class_sums(rows: Float[Array, "n d"], w: ClassWeights) -> Float[Array, "K d"]:
    """`Σ_n w_nk row_n` for each class k."""
    if not isinstance(w, Hard):
        return matmul(class_rows(w), rows)
    zero = jnp.zeros((num_classes(w), rows.shape[1]), rows.dtype)
    return rounded(add_class_sums((zero, zero), rows, w))


def add_class_sums(total: Pair, rows: Float[Array, "n d"], w: Hard) -> Pair:
    """`total_k + Σ_n w_nk row_n` for each class k, as high and low."""
    # A CPU adds row after row at the speed of memory; an accelerator is better at products.
    return lax.platform_dependent(total, rows, w, cpu=_add_rows, default=_add_product)


def _add_product(total: Pair, rows: Array, w: Hard) -> Pair:
    return add_to(total, matmul(class_rows(w), rows))


def _add_rows(total: Pair, rows: Array, w: Hard) -> Pair:
    label, weighted = jnp.maximum(w.label, 0), w.weight[:, None] * rows
    n, num_classes = len(rows), w.num_classes
    # If cells have few digits, as pixels do, the rounding errors of a long sum have the same sign.
    # So each class has several partial sums, which start at 0.
    parts = max(1, min(16, n // (_ROWS * num_classes)))
    place = label + num_classes * (jnp.arange(n, dtype=label.dtype) % parts)
    # For JAX these zeros depend on the rows, so they are sharded like the rows.
    zero = jnp.where(weighted[:1].sum() == 0, jnp.zeros((), rows.dtype), 0)
    zero = jnp.broadcast_to(zero, (parts * num_classes, rows.shape[1]))
    sums = zero.at[place].add(weighted, mode="promise_in_bounds")
    return add_to(total, sums.reshape(parts, num_classes, -1).sum(0))


def of_rows(of_class: Float[Array, "K d"], w: Hard) -> Float[Array, "n d"]:
    """The entry of each row's class; a row of no class gets the entry of an arbitrary class."""
    return of_class.at[jnp.maximum(w.label, 0)].get(mode="promise_in_bounds")


@partial(jax.jit, inline=True)
def class_counts(w: ClassWeights) -> Float[Array, "K"]:
    """Total weight per class; pairwise sums of blocks make a float32 count of 2²⁵ rows exact."""

    def of_block(w: ClassWeights) -> Array:
        return class_sums(jnp.ones_like(row_weights(w))[:, None], w)[:, 0]

    n, block = num_rows(w), block_rows(1)
    if n <= block:
        return of_block(w)
    padded = jax.tree.map(
        lambda leaf: jnp.pad(leaf, [(0, -n % block)] + [(0, 0)] * (leaf.ndim - 1)), w
    )
    blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, block, *leaf.shape[1:]), padded)
    counts = lax.map(of_block, blocks)
    while len(counts) > 1:
        counts = jnp.pad(counts, ((0, len(counts) % 2), (0, 0)))
        counts = counts[0::2] + counts[1::2]
    return counts[0]
