"""Rows sorted by class, in tiles of one class each."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Int

from genclf.sums.blocks import Hard


def class_tiles(w: Hard, tile: int) -> tuple[int, Callable[[Array], tuple[Array, Array, Array]]]:
    """Group rows into tiles of one class each; return their number and t -> (class, rows, weights).

    Unused places in a tile, and unused tiles at the end, hold some row with weight 0.
    """
    num_classes = w.num_classes
    label = jnp.where(w.label < 0, num_classes, w.label)
    order, first_row = _stable_order(label, num_classes)
    size = jnp.diff(first_row)
    tiles = -(-size // tile)
    first_tile = jnp.cumsum(tiles) - tiles

    def tile_of(t: Array) -> tuple[Array, Array, Array]:
        k = (first_tile <= t).sum() - 1
        offset = (t - first_tile[k]) * tile + jnp.arange(tile)
        rows = order.at[first_row[k] + offset].get(mode="clip")
        return k, rows, jnp.where(offset < size[k], w.weight[rows], 0)

    return len(label) // tile + num_classes, tile_of


def _stable_order(
    label: Int[Array, "n"], num_classes: int
) -> tuple[Int[Array, "n"], Int[Array, "_"]]:
    """Row numbers sorted by label, and where each label begins; labels in 0..num_classes."""
    n, labels = len(label), jnp.arange(num_classes + 1, dtype=label.dtype)
    if (num_classes + 1) * n < 2**31:  # packed keys are sorted in a quarter of the time of argsort
        keys = jnp.sort(label.astype(jnp.int32) * n + jnp.arange(n, dtype=jnp.int32))
        order, first = keys % n, jnp.searchsorted(keys, labels.astype(jnp.int32) * n)
    else:
        order = jnp.argsort(label, stable=True)
        first = jnp.searchsorted(label[order], labels)
    return order, first.astype(jnp.result_type(int))
