"""Functions of rows, block by block, so that temporary arrays have the size of a block."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from genclf.numerics import loops
from genclf.numerics.namespace import Array, PyTree, jax, jnp, lax, namespace
from genclf.numerics.sizes import is_symbolic, on_cpu

S = TypeVar("S")

MANY_CLASSES = 256  # from which it takes long to write the scores of all rows to memory
_BLOCK_BYTES = 2**21  # a block stays in the second-level cache of a CPU
_HOST_BLOCK = 2**17  # numbers of a block of NumPy
_ON_ACCELERATOR = 16  # times as many rows in a block there: starting a kernel takes long


def block_rows(row_size: int) -> int:
    """Number of rows in a block, for rows of `row_size` numbers.

    It is a power of two in 256..32768, on an accelerator in 4096..524288.
    """
    wanted = max(1, _BLOCK_BYTES // (4 * max(row_size, 1)))
    rows = min(max(1 << (wanted.bit_length() - 1), 256), 32768)
    return rows if on_cpu() else _ON_ACCELERATOR * rows


def even(n: int, block: int) -> int:
    """The size of blocks if n rows are cut into as many blocks of about equal size."""
    return -(-n // -(-n // block))


def rows_from(tree: PyTree, start: Array, size: int) -> PyTree:
    """`size` rows from `start` on."""
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, start, size), tree)


def num_rows(tree: PyTree) -> Any:
    """The length of the first axis; it may be symbolic."""
    return jax.tree.leaves(tree)[0].shape[0]


def zeros_as(function: Callable, *args: PyTree) -> PyTree:
    """Zeros of the shapes and dtypes that `function(*args)` returns."""
    return jax.tree.map(jnp.zeros_like, jax.eval_shape(function, *args))


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
    block = even(n, block)

    def step(out: S, start: Array) -> tuple[S, None]:
        first = jnp.minimum(start, n - block)
        put = lambda a, part: lax.dynamic_update_slice_in_dim(a, part, first, 0)  # noqa: E731
        return jax.tree.map(put, out, f(rows_from(x, first, block))), None

    def all_rows(x: PyTree) -> S:
        one = f(rows_from(x, jnp.asarray(0), block))
        return jax.tree.map(lambda a: jnp.broadcast_to(a[:1], (n, *a.shape[1:])), one)

    return loops.scan(step, zeros_as(all_rows, x), jnp.arange(0, n, block))[0]


def reduce_scores(
    f: Callable[[PyTree], Array], x: PyTree, num_classes: int, from_classes: int
) -> Array:
    """`f(x)` for a row-wise f that computes the scores of all classes and returns less.

    On a CPU, with `from_classes` or more, it is computed in blocks of rows.
    """
    if num_classes < from_classes or isinstance(x, np.ndarray) or not isinstance(x, Array):
        return f(x)
    by_blocks = lambda x: over_rows(f, x, 1, max(x.shape[-1], num_classes) // 2)  # noqa: E731
    return loops.by_platform(by_blocks, f, x)


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
