"""Process rows with class weights in blocks, so that temporary arrays have the size of a block."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float, Int, PyTree, Shaped

from genclf.arguments.module import Module
from genclf.arguments.static import static
from genclf.numerics import loops
from genclf.numerics.compensated import Pair, add_to
from genclf.numerics.namespace import Array, namespace, on_host
from genclf.numerics.sizes import is_symbolic, on_cpu
from genclf.sums.host import LabelledRows
from genclf.sums.merging import merged

S = TypeVar("S")
Sum = tuple[Pair, ...]


MANY_CLASSES = 256  # from which it takes long to write the scores of all rows to memory
_BLOCK_BYTES = 2**21  # a block stays in the second-level cache of a CPU
_HOST_BLOCK = 2**17  # numbers of a block of NumPy
_ON_ACCELERATOR = 16  # times as many rows in a block there: starting a kernel takes long


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
    return jax.tree.map(lambda a: f(a) if eqx.is_inexact_array(a) else a, w)


def one_label_each(rows: Shaped[Array, "n ..."], w: ClassWeights) -> tuple[Array, Hard]:
    """The rows with hard labels; with responsibilities each class gets a copy of each row."""
    if isinstance(w, Hard):
        return rows, w
    n, k = w.shape
    label = jnp.repeat(jnp.arange(k, dtype=jnp.int32), n)
    return jnp.tile(rows, (k, *[1] * (rows.ndim - 1))), Hard(label, w.T.ravel(), k)


def block_rows(row_size: int) -> int:
    """Number of rows in a block, for rows of `row_size` numbers.

    It is a power of two in 256..32768, on an accelerator in 4096..524288.
    """
    wanted = max(1, _BLOCK_BYTES // (4 * max(row_size, 1)))
    rows = min(max(1 << (wanted.bit_length() - 1), 256), 32768)
    return rows if on_cpu() else _ON_ACCELERATOR * rows


def _even(n: int, block: int) -> int:
    """The size of blocks if n rows are cut into as many blocks of about equal size."""
    return -(-n // -(-n // block))


def _slice(tree: PyTree, start: Array, size: int) -> PyTree:
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, start, size), tree)


def num_rows(tree: PyTree) -> Any:
    """The length of the first axis; it may be symbolic."""
    return jax.tree.leaves(tree)[0].shape[0]


def zeros_as(function: Callable, *args: PyTree) -> PyTree:
    """Zeros of the shapes and dtypes that `function(*args)` returns."""
    return jax.tree.map(jnp.zeros_like, jax.eval_shape(function, *args))


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

    first = _slice((x, w), jnp.asarray(0), block)
    return scan_rows(step, zeros_as(block_stats, *first), x, w, block)


def scan_rows(step: Callable[[S, PyTree, W], S], start: S, x: PyTree, w: W, block: int) -> S:
    """Repeat `total = step(total, x_block, w_block)` over blocks of `block` rows, from `start`."""
    n = num_rows(w)
    if is_symbolic(n) or n <= block:
        return step(start, x, w)
    block = _even(n, block)
    return _scan(step, start, x, w, block, jnp.arange(0, n, block))


def sum_rows(
    step: Callable[[Sum, PyTree, W], Sum],
    zero: Sum,
    x: PyTree,
    w: W,
    block: int,
    together: int,
) -> Sum:
    """`scan_rows` for sums that start at 0, in groups of up to `together` blocks.

    Rounding errors are kept when groups are added up, so a step may drop those of its own sums.
    """
    n = num_rows(w)
    if is_symbolic(n) or n <= block:
        return step(zero, x, w)
    block = _even(n, block)
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
        x_block, w_block = _slice((x, w), first, block)
        fresh = first + jnp.arange(block) >= begin
        return step(total, x_block, masked(fresh, w_block)), None

    return loops.scan(one, start, starts)[0]


def map_rows(f: Callable[[PyTree], S], x: PyTree, row_size: int) -> S:
    """`f(x)` for a row-wise f, block by block; `row_size` counts the temporaries of f per row.

    A symbolic number of rows is one block: the caller of the program chooses the number.
    """
    return map_in_blocks(f, x, block_rows(row_size))


def map_in_blocks(f: Callable[[PyTree], S], x: PyTree, block: int) -> S:
    """`map_rows` in blocks of at most `block` rows."""
    n = num_rows(x)
    if is_symbolic(n) or n <= block:
        return f(x)
    block = _even(n, block)

    def step(out: S, start: Array) -> tuple[S, None]:
        first = jnp.minimum(start, n - block)
        put = lambda a, part: lax.dynamic_update_slice_in_dim(a, part, first, 0)  # noqa: E731
        return jax.tree.map(put, out, f(_slice(x, first, block))), None

    def all_rows(x: PyTree) -> S:
        one = f(_slice(x, jnp.asarray(0), block))
        return jax.tree.map(lambda a: jnp.broadcast_to(a[:1], (n, *a.shape[1:])), one)

    return loops.scan(step, zeros_as(all_rows, x), jnp.arange(0, n, block))[0]


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


def reduce_scores(
    f: Callable[[PyTree], Array], x: PyTree, num_classes: int, from_classes: int
) -> Array:
    """`f(x)` for a row-wise f that computes the scores of all classes and returns less.

    On a CPU, with `from_classes` or more, it is computed in blocks of rows.
    """
    if num_classes < from_classes or not isinstance(x, jax.Array):
        return f(x)
    by_blocks = lambda x: over_rows(f, x, 1, max(x.shape[-1], num_classes) // 2)  # noqa: E731
    return lax.platform_dependent(x, cpu=by_blocks, default=f)


def over_rows(f: Callable[[PyTree], Array], x: PyTree, event_ndim: int, row_size: int) -> Array:
    """A row-wise f applied over all leading axes of x, in blocks of rows."""
    if isinstance(x, np.ndarray) and x.ndim == event_ndim + 1:
        block = max(1, _HOST_BLOCK // max(row_size, 1))
        if len(x) <= block:
            return f(x)
        parts: Any = np.concatenate(
            [f(x[start : start + block]) for start in range(0, len(x), block)]
        )
        return parts
    leaf = jax.tree.leaves(x)[0]
    batch = leaf.shape[: leaf.ndim - event_ndim]
    rows = jax.tree.map(lambda a: a.reshape(math.prod(batch), *a.shape[len(batch) :]), x)
    out = map_rows(f, rows, row_size)
    return out.reshape(*batch, *out.shape[1:])


def broadcast_rows(
    v: Float[Array, "..."], like: Float[Array, "*batch K"]
) -> Float[Array, "*batch K"]:
    """Broadcast one number per class to every example of `like`."""
    xp = namespace(v, like)
    return xp.broadcast_to(v, like.shape)
