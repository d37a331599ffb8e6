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
    order = _stable_order(label, num_classes + 1)
    classes = jnp.arange(num_classes, dtype=label.dtype)
    size = (label[None, :] == classes[:, None]).sum(1)
    tiles = -(-size // tile)
    first_row, first_tile = jnp.cumsum(size) - size, jnp.cumsum(tiles) - tiles

    def tile_of(t: Array) -> tuple[Array, Array, Array]:
        k = (first_tile <= t).sum() - 1
        offset = (t - first_tile[k]) * tile + jnp.arange(tile)
        rows = order.at[first_row[k] + offset].get(mode="clip")
        return k, rows, jnp.where(offset < size[k], w.weight[rows], 0)

    return len(label) // tile + num_classes, tile_of


def _stable_order(label: Int[Array, "n"], num_labels: int) -> Int[Array, "n"]:
    """Row numbers sorted by label; labels in 0..num_labels-1."""
    n = len(label)
    if num_labels * n < 2**31:  # one sort of packed keys is four times as fast as an argsort
        return jnp.sort(label.astype(jnp.int32) * n + jnp.arange(n, dtype=jnp.int32)) % n
    return jnp.argsort(label, stable=True)
