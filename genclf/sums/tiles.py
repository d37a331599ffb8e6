"""Rows sorted by class, in tiles of one class each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Int

from genclf.numerics.namespace import Array
from genclf.sums.blocks import Hard

_DIGITS = 32  # the base of the digits by which labels are sorted
_TOGETHER = 32  # rows of a group, in which each is compared with each


def class_tiles(w: Hard, tile: int) -> tuple[Any, Callable[[Array], tuple[Array, Array, Array]]]:
    """Group rows into tiles of one class each; return their number and t -> (class, rows, weights).

    Unused entries of a tile, and unused tiles at the end, hold some row with weight 0.
    """
    order, first_row, size = class_order(w)
    tiles = -(-size // tile)
    first_tile = jnp.cumsum(tiles) - tiles

    def tile_of(t: Array) -> tuple[Array, Array, Array]:
        k = (first_tile <= t).sum() - 1
        offset = (t - first_tile[k]) * tile + jnp.arange(tile)
        rows = order.at[first_row[k] + offset].get(mode="clip")
        return k, rows, jnp.where(offset < size[k], w.weight[rows], 0)

    return w.label.shape[0] // tile + w.num_classes, tile_of


def class_order(w: Hard) -> tuple[Int[Array, "n"], Int[Array, "K"], Int[Array, "K"]]:
    """Row numbers sorted by class, where in them each class begins, and how many rows it has."""
    num_classes = w.num_classes
    label = jnp.where(w.label < 0, num_classes, w.label).astype(jnp.int32)
    size = jnp.zeros(num_classes + 1, int).at[label].add(1, mode="promise_in_bounds")
    first = jnp.cumsum(size) - size
    return _stable_order(label, num_classes + 1), first[:-1], size[:-1]


def _stable_order(label: Int[Array, "n"], num_labels: int) -> Int[Array, "n"]:
    """Row numbers sorted by label: a radix sort, faster than that of XLA by 1.2 to 6 times."""
    base = min(num_labels, _DIGITS)
    order = _order_by_digit(label % base, base)
    power = base
    while power < num_labels:
        order = order[_order_by_digit(label[order] // power % base, base)]
        power *= base
    return order


def _order_by_digit(digit: Int[Array, "n"], base: int) -> Int[Array, "n"]:
    """Row numbers sorted by a number below `base`; equal ones stay in order."""
    n = digit.shape[0]
    groups = -(-n // _TOGETHER)
    rows = jnp.arange(groups * _TOGETHER, dtype=digit.dtype)
    own = jnp.pad(digit, (0, groups * _TOGETHER - n), constant_values=base - 1)
    own = own.reshape(groups, _TOGETHER)
    # Before a row come all smaller digits, and equal ones in earlier groups or earlier in its own.
    number = jnp.zeros((groups, base), digit.dtype)
    number = number.at[jnp.arange(groups)[:, None], own].add(1, mode="promise_in_bounds")
    in_all = number.sum(0, dtype=digit.dtype)
    before = (jnp.cumsum(in_all) - in_all)[None] + jnp.cumsum(number, 0) - number
    earlier = jnp.tri(_TOGETHER, k=-1, dtype=bool)[None] & (own[:, :, None] == own[:, None, :])
    index = jnp.take_along_axis(before, own, 1, mode="promise_in_bounds")
    index = index + earlier.sum(2, dtype=digit.dtype)
    order = rows.at[index.ravel()].set(rows, mode="promise_in_bounds", unique_indices=True)
    return order[:n]
