"""Process rows with class weights in blocks, so that temporary arrays have the size of a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree, Shaped

from genclf.arguments.module import Module, static
from genclf.numerics import loops
from genclf.numerics.compensated import Pair, add_to
from genclf.numerics.namespace import Array, namespace, on_host
from genclf.numerics.row_blocks import block_rows, even, num_rows, rows_from, zeros_as
from genclf.numerics.sizes import is_symbolic
from genclf.sums.host import LabelledRows
from genclf.sums.merging import merged

S = TypeVar("S")
Sum = tuple[Pair, ...]


class Hard(Module):
    """Hard class weights: each row belongs to one class, w_nk = weight_n · [label_n = k].

    Attributes:
        label: class of each row, shape (n,); -1, with weight 0, for a row without a class.
        weight: weight of each row, shape (n,).
        num_classes: K.
    """

    label: Int[Array, "n"]
    weight: Float[Array, "n"]
    num_classes: int = static()

    @property
    def shape(self) -> tuple[Any, int]:
        """(n, K), the shape of responsibilities."""
        return self.weight.shape[0], self.num_classes


def host_labels(w: ClassWeights) -> Any:
    """Hard labels for sums by NumPy, `LabelledRows`, if they are arrays of NumPy; else None."""
    if not (isinstance(w, Hard) and on_host(w.weight)):
        return None
    label: Any = w.label
    weight: Any = w.weight
    return LabelledRows(label, weight, w.num_classes)


ClassWeights = Hard | Float[Array, "n K"]
"""Weights w[n, k] of rows in classes: `Hard` labels, or a dense array of responsibilities."""
W = TypeVar("W", bound=ClassWeights)


def class_rows(w: ClassWeights) -> Float[Array, "K n"]:
    """The weights as a dense array, class axis first; if rows are many, call it on a block of them.

    `Family.fit` gets class weights as hard labels or as a dense array; this takes both.
    """
    if not isinstance(w, Hard):
        return w.T
    classes = jnp.arange(w.num_classes, dtype=w.label.dtype)
    return jnp.where(w.label[None, :] == classes[:, None], w.weight[None, :], 0)


def row_weights(w: ClassWeights) -> Float[Array, "n"]:
    """The weight of each row, in all classes together."""
    return w.weight if isinstance(w, Hard) else w.sum(1)


def map_weights(f: Callable[[Array], Array], w: W) -> W:
    """The class weights with `f` applied to the array of weights, whose first axis is rows."""
    return jax.tree.map(lambda a: f(a) if jnp.issubdtype(a.dtype, jnp.inexact) else a, w)


def of_some_classes(w: Hard, k: Int[Array, "m"]) -> Hard:
    """The weights in m consecutive classes k; rows of other classes have none."""
    label = w.label - k[0]
    present = (label >= 0) & (label < len(k))
    return Hard(jnp.where(present, label, -1), jnp.where(present, w.weight, 0), len(k))


def one_label_each(rows: Shaped[Array, "n ..."], w: ClassWeights) -> tuple[Array, Hard]:
    """The rows with hard labels; with responsibilities each class gets a copy of each row."""
    if isinstance(w, Hard):
        return rows, w
    n, k = w.shape
    label = jnp.repeat(jnp.arange(k, dtype=jnp.int32), n)
    return jnp.tile(rows, (k, *[1] * (rows.ndim - 1))), Hard(label, w.T.ravel(), k)


def masked(rows: Bool[Array, "n"], w: W) -> W:
    """The weights, with 0 for the rows outside the mask `rows`."""
    return map_weights(lambda a: jnp.where(jnp.expand_dims(rows, range(1, a.ndim)), a, 0), w)


def accumulate(
    block_stats: Callable[[PyTree, Any], S], x: PyTree, w: ClassWeights, row_size: int
) -> S:
    """Merge `block_stats(x_block, weights (K, block))` over the blocks of rows of x.

    Rows without weight reach `block_stats` with weight 0 in every class; it has to ignore them. If
    the labels are arrays of NumPy, `block_stats` gets all rows with the labels.
    """
    if host_labels(w) is not None:
        return block_stats(x, w)
    return merge_over_blocks(lambda x, w: block_stats(x, class_rows(w)), x, w, row_size)


def merge_over_blocks(
    block_stats: Callable[[PyTree, ClassWeights], S], x: PyTree, w: ClassWeights, row_size: int
) -> S:
    """`accumulate` for `block_stats(x_block, w_block)`, with weights in the form of w."""
    block = block_rows(row_size)
    if is_symbolic(num_rows(w)) or num_rows(w) <= block:
        return block_stats(x, w)

    def step(total: S, x: PyTree, w: ClassWeights) -> S:
        return merged(total, block_stats(x, w))

    first = rows_from((x, w), jnp.asarray(0), block)
    return scan_rows(step, zeros_as(block_stats, *first), x, w, block)


def scan_rows(step: Callable[[S, PyTree, W], S], start: S, x: PyTree, w: W, block: int) -> S:
    """Repeat `total = step(total, x_block, w_block)` over blocks of `block` rows, from `start`."""
    n = num_rows(w)
    if is_symbolic(n) or n <= block:
        return step(start, x, w)
    block = even(n, block)
    return _scan(step, start, x, w, block, jnp.arange(0, n, block))


def sum_rows(
    step: Callable[[Sum, PyTree, W], Sum], zero: Sum, x: PyTree, w: W, block: int, together: int
) -> Sum:
    """`scan_rows` for sums that start at 0, in groups of up to `together` blocks.

    Rounding errors are kept when groups are added up, so a step may drop those of its own sums.
    """
    n = num_rows(w)
    if is_symbolic(n) or n <= block:
        return step(zero, x, w)
    block = even(n, block)
    groups = -(-n // (block * together))
    together = -(-n // (block * groups))
    starts = jnp.minimum(jnp.arange(groups * together) * block, n).reshape(groups, together)

    def group(total: Sum, starts: Array) -> tuple[Sum, None]:
        more = _scan(step, zero, x, w, block, starts)
        return tuple(add_to(*pair) for pair in zip(total, more, strict=True)), None

    if groups == 1:
        return _scan(step, zero, x, w, block, starts[0])
    return loops.scan(group, zero, starts)[0]


def _scan(
    step: Callable[[S, PyTree, W], S],
    start: S,
    x: PyTree,
    w: W,
    block: int,
    starts: Int[Array, "blocks"],
) -> S:
    last = num_rows(w) - block

    def one(total: S, begin: Array) -> tuple[S, None]:
        # The last block ends at the last row; rows that it repeats get weight 0.
        first = jnp.minimum(begin, last)
        x_block, w_block = rows_from((x, w), first, block)
        fresh = first + jnp.arange(block) >= begin
        return step(total, x_block, masked(fresh, w_block)), None

    return loops.scan(one, start, starts)[0]


def sample_indices(n: Any, step: int) -> Int[Array, "m"]:
    """The index of one of every `step` rows, a power of two; not periodic, as labels may be."""
    i = jnp.arange(n // step)
    return step * i + 5 * i % step


def rows_at(x: Shaped[Array, "n d"], indices: Int[Array, "m"]) -> Shaped[Array, "m d"]:
    """The rows of x at some indices, all of which are in bounds.

    A CPU copies a row number by number and waits for the next one, unless rows have short pieces.
    """
    n, d = x.shape
    piece = next((p for p in (2, 3, 5, 7) if d % p == 0), 1)
    pieces = x.reshape(n, d // piece, piece).at[indices].get(mode="promise_in_bounds")
    return pieces.reshape(-1, d)


def ignore_absent(x: Array, present: Array) -> Array:
    """Set non-finite cells of rows without weight to 0; the gradient in w needs finite cells."""
    xp = namespace(x, present)
    return xp.where(present[:, None] | xp.isfinite(x), x, 0)
