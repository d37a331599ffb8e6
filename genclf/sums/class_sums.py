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
from genclf.sums.compensated import Pair, fold, rounded
from genclf.sums.products import matmul

_MOST_PARTS = 64
_ROWS = 64  # rows in a partial sum; a shorter one costs more than it gains


def class_sums(rows: Float[Array, "n d"], w: ClassWeights) -> Float[Array, "K d"]:
    """`Σ_n w_nk row_n` for each class k."""
    if not isinstance(w, Hard):
        return matmul(class_rows(w), rows)
    zero = jnp.zeros((num_classes(w), rows.shape[1]), rows.dtype)
    return rounded(of_parts(add_rows(in_parts(zero, len(rows)), rows, w), w))


def rows_in_parts(num_classes: int) -> int:
    """The most rows that partial sums are for."""
    return _MOST_PARTS * _ROWS * num_classes


def in_parts(zero: Float[Array, "K d"], n: int) -> Pair:
    """Zeros, for the sums of n rows in several parts.

    If cells have few digits, as pixels do, the rounding errors of a long sum have the same sign.
    """
    parts = max(1, min(_MOST_PARTS, n // (_ROWS * len(zero))))
    every = jnp.broadcast_to(zero, (parts, *zero.shape)).reshape(-1, zero.shape[1])
    return every, every


def of_parts(total: Pair, w: Hard) -> Pair:
    """The sums of each class."""
    high, low = (a.reshape(-1, w.num_classes, a.shape[1]) for a in total)
    return fold(high, low)


def add_rows(total: Pair, rows: Float[Array, "n d"], w: Hard) -> Pair:
    """`Σ_n w_nk row_n` added to sums `in_parts`."""
    # A CPU adds row after row at the speed of memory; an accelerator is better at products.
    high = lax.platform_dependent(total[0], rows, w, cpu=_add_each, default=_add_product)
    return high, total[1]


def _add_product(sums: Array, rows: Array, w: Hard) -> Array:
    return sums.at[: w.num_classes].add(matmul(class_rows(w), rows))


def _add_each(sums: Array, rows: Array, w: Hard) -> Array:
    label, weighted = jnp.maximum(w.label, 0), w.weight[:, None] * rows
    parts = len(sums) // w.num_classes
    place = label + w.num_classes * (jnp.arange(len(rows), dtype=label.dtype) % parts)
    return sums.at[place].add(weighted, mode="promise_in_bounds")


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
