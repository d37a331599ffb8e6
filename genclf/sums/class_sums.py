"""Sums over the rows of each class, in one pass over the rows for any number of classes."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, Int

from genclf.numerics import loops
from genclf.numerics.compensated import Pair, add_to
from genclf.numerics.namespace import Array, matmul, on_host
from genclf.numerics.row_blocks import block_rows, num_rows
from genclf.numerics.sizes import at_most, is_symbolic, on_cpu
from genclf.sums.blocks import ClassWeights, Hard, class_rows, host_labels, sample_indices

_ROWS = 64  # rows in a partial sum; a shorter one does not pay
_FEW_PARTS = 4  # fewer partial sums do not pay
_HALVINGS = 6
_SAMPLE = 2**15
_MOST_PARTS = 2**_HALVINGS


class PartialSums(NamedTuple):
    """The partial sums of each class: more for a class with more rows.

    If cells have few digits, as pixels do, the rounding errors of a long sum have the same sign.

    Attributes:
        first: the index of the first partial sum of a class.
        number: the number of partial sums of a class, at most 64.
    """

    first: Int[Array, "K"]
    number: Int[Array, "K"]


def partial_sums_of(w: Hard, n: int) -> PartialSums:
    """The partial sums for about n rows, allotted by the labels of about `_SAMPLE` rows."""
    given = num_rows(w)
    step = 1 if is_symbolic(given) else 1 << (max(1, given // _SAMPLE).bit_length() - 1)
    label = _label(w).at[sample_indices(given, step)].get(mode="promise_in_bounds")
    rows = jnp.zeros(w.num_classes, jnp.int32).at[label].add(1, mode="promise_in_bounds")
    share = rows.astype(jnp.float32) / (rows.sum() + 1).astype(jnp.float32)
    wanted = _most(n, w.num_classes) * share
    number = jnp.minimum(wanted, _MOST_PARTS).astype(jnp.int32)
    number = jnp.where(number < _FEW_PARTS, 1, number)
    return PartialSums(jnp.cumsum(number) - number, number)


def class_sums(rows: Float[Array, "n d"], w: ClassWeights) -> Float[Array, "K d"]:
    """`Σ_n w_nk row_n` for each class k, without partial sums."""
    as_product = lambda rows, w: matmul(class_rows(w), rows)  # noqa: E731
    if not isinstance(w, Hard):
        return as_product(rows, w)

    def one_by_one(rows: Array, w: Hard) -> Array:
        zero = jnp.zeros((w.num_classes, rows.shape[1]), rows.dtype)
        return zero.at[_label(w)].add(w.weight[:, None] * rows, mode="promise_in_bounds")

    return loops.by_platform(one_by_one, as_product, rows, w)


def rows_in_parts(num_classes: int) -> int:
    """The number of rows from which the number of partial sums no longer grows."""
    return _MOST_PARTS * _ROWS * num_classes


def zero_partial_sums(zero: Float[Array, "K d"], n: int) -> Pair:
    """Partial sums of n rows, all 0."""
    num_classes, d = zero.shape
    more = _most(n, num_classes)
    more = min(more, (_MOST_PARTS - 1) * num_classes) if more >= _FEW_PARTS else 0
    every = jnp.broadcast_to(zero[:1], (num_classes + more, d))
    return every, every


def _most(n: int, num_classes: int) -> int:
    if not on_cpu():  # sums are products there
        return 0
    return n // (_ROWS if n >= _ROWS * num_classes else 8 * _ROWS)


def class_totals(totals: list[Pair], parts: PartialSums) -> list[Pair]:
    """The sums of each class from its partial sums."""
    first, number = parts
    length = len(totals[0][0])
    if length == len(first):
        return totals

    def folded() -> list[Pair]:
        index = jnp.arange(length, dtype=first.dtype)
        label = jnp.searchsorted(first, index, side="right") - 1
        rank, last = index - first[label], number[label]

        def halve(i: Array, pairs: list[Pair]) -> list[Pair]:
            step = jnp.left_shift(1, i)
            takes = (rank & (2 * step - 1) == 0) & (rank + step < last)
            other = jnp.where(takes, index + step, 0)
            move = lambda a: jnp.where(takes[:, None], a[other], 0)  # noqa: E731
            return [add_to(pair, (move(pair[0]), move(pair[1]))) for pair in pairs]

        pairs = loops.fori_loop(0, _HALVINGS, halve, totals)
        return jax.tree.map(lambda a: a.at[first].get(mode="promise_in_bounds"), pairs)

    def one_each() -> list[Pair]:
        return jax.tree.map(lambda a: a[: len(first)], totals)

    return loops.cond(loops.any_member((number > 1).any()), folded, one_each)


def add_rows(total: Pair, rows: Float[Array, "n d"], w: Hard, parts: PartialSums) -> Pair:
    """Add `Σ_n w_nk row_n` to partial sums."""
    # A CPU adds rows one by one at the speed of memory; an accelerator is better at products.
    high = loops.by_platform(_add_each, _add_product, total[0], rows, w, parts)
    return high, total[1]


def _add_product(sums: Array, rows: Array, w: Hard, parts: PartialSums) -> Array:
    return sums.at[parts.first].add(matmul(class_rows(w), rows))


def _add_each(sums: Array, rows: Array, w: Hard, parts: PartialSums) -> Array:
    label, weighted = _label(w), w.weight[:, None] * rows
    part = _spread(rows.shape[0])
    first, number = (a.at[label].get(mode="promise_in_bounds") for a in parts)
    index = first + (part * number >> _HALVINGS)
    return sums.at[index].add(weighted, mode="promise_in_bounds")


def _spread(n: Any) -> Int[Array, "n"]:
    """A number below 64 for each row."""
    # Multiples of the golden ratio are evenly spread, whatever the period of the labels.
    spread = jnp.arange(n, dtype=jnp.uint32) * jnp.uint32(0x9E3779B9)
    return (spread >> (32 - _HALVINGS)).astype(jnp.int32)


def _label(w: Hard) -> Int[Array, "n"]:
    """The class of each row; an arbitrary one for a row without a class, whose weight is 0."""
    return jnp.maximum(w.label, 0).astype(jnp.int32)


def of_rows(of_class: Float[Array, "K d"], w: Hard) -> Float[Array, "n d"]:
    """The entry of each row's class; an arbitrary one for a row without a class."""
    if on_host(of_class):
        return of_class[w.label]
    return of_class.at[_label(w)].get(mode="promise_in_bounds")


def class_counts(w: ClassWeights) -> Float[Array, "K"]:
    """Total weight per class; pairwise sums of blocks make a float32 count of 2²⁵ rows exact."""
    if (rows := host_labels(w)) is not None:
        return rows.counts()
    return _class_counts(w)


@partial(jax.jit, inline=True)
def _class_counts(w: ClassWeights) -> Float[Array, "K"]:
    n, block = num_rows(w), block_rows(1)
    parts = 1 << (max(1, min(_MOST_PARTS, at_most(n, block) // w.shape[1])).bit_length() - 1)

    def one_by_one(w: Hard) -> Array:
        part = _spread(num_rows(w)) * parts >> _HALVINGS
        every = jnp.zeros(parts * w.num_classes, w.weight.dtype)
        sums = every.at[part * w.num_classes + _label(w)].add(w.weight, mode="promise_in_bounds")
        return sums.reshape(parts, w.num_classes).sum(0)

    def as_product(w: ClassWeights) -> Array:
        return class_rows(w).sum(1)

    def of_block(w: ClassWeights) -> Array:
        if not isinstance(w, Hard):
            return as_product(w)
        return loops.by_platform(one_by_one, as_product, w)

    if is_symbolic(n) or n <= block:
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
