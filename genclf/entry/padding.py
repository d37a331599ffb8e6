"""Batches of many sizes through few programs: rows of host arrays are padded to a few sizes.

A compiled function is made for one number of rows. Batches that arrive as NumPy arrays are of any
number, so they are scored in pieces of one of six sizes, the last piece padded. Arrays of JAX are
taken as they are: their size is the program's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree

from genclf.arguments.arrays import host_numbers
from genclf.entry.rows import as_arrays, check_examples, in_range
from genclf.families.tokens import Tokens

SIZES = (64, 256, 1024, 4096, 16384, 65536)  # a piece is padded to at most four times its rows


def by_rows(f: Callable[[Any, PyTree], Array], params: Any, x: PyTree) -> Array:
    """`f(params, x)` of a compiled function that works row by row.

    Args:
        f: of params and rows; its result has the leading axes of the rows.
        params: what it takes besides.
        x: one example, or leading batch axes; arrays of NumPy, or of JAX.
    """
    if not _is_host_batch(x) or any(isinstance(a, Tracer) for a in jax.tree.leaves(params)):
        return f(params, as_arrays(x, "x"))
    as_arrays(jax.tree.map(lambda a: a[:1], x), "x")
    check_examples(params, x)  # whose message names the shape of x, not of a piece
    pieces = [(f(params, piece), rows) for piece, rows in _pieces(x)]
    if any(isinstance(found, Tracer) for found, _ in pieces):  # within somebody's jit
        return jnp.concatenate([found[:rows] for found, rows in pieces])
    # Cut on the host: on the device every number of rows would be a program of its own.
    return jax.device_put(np.concatenate([np.asarray(found)[:rows] for found, rows in pieces]))


def _is_host_batch(x: PyTree) -> bool:
    """Whether x is rows of NumPy arrays, of a number that is no size of a program yet."""
    leaves = jax.tree.leaves(x)
    if isinstance(x, Tokens) or not all(type(a) is np.ndarray for a in leaves):
        return False
    rows = {a.shape[0] if a.ndim == 2 else 0 for a in leaves}
    return len(rows) == 1 and rows.isdisjoint({0, *SIZES})


def _pieces(x: PyTree) -> Iterator[tuple[PyTree, int]]:
    """Pieces of x, each of one of the sizes, and how many of their rows are of x."""
    n = len(jax.tree.leaves(x)[0])
    for start in range(0, n, SIZES[-1]):
        rows = min(n - start, SIZES[-1])
        size = min(size for size in SIZES if size >= rows)

        def piece(a: np.ndarray, start: int = start, rows: int = rows, size: int = size) -> Any:
            cut = a[start : start + rows]
            cut = in_range(host_numbers(cut, "x"), "x")
            cut = cut.astype(np.int8) if cut.dtype == bool else cut
            more = np.broadcast_to(cut[:1], (size - rows, *cut.shape[1:]))
            # `jnp.asarray` would compile a program for each shape.
            return jax.device_put(np.concatenate([cut, more]))

        yield jax.tree.map(piece, x), rows
