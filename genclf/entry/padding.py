"""Pad NumPy batches to a few sizes, so that few programs are compiled.

A compiled program is for one number of rows. NumPy batches may have any number of rows, so they are
scored in pieces of one of six sizes, with the last piece padded. JAX arrays are not padded: a
program is compiled for each of their sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from genclf.arguments.arrays import host_numbers
from genclf.arguments.static import static
from genclf.entry.rows import as_arrays, check_examples, in_range, maybe_sparse
from genclf.families.base import Density
from genclf.families.support import Support
from genclf.families.tokens import Tokens
from genclf.sums.sparse import HostRows, is_sparse, is_traced, sparse_rows

SIZES = (64, 256, 1024, 4096, 16384, 65536)  # above 64 rows, padding less than quadruples a piece


def by_rows(
    f: Callable[[Any, PyTree], Array], params: Any, x: PyTree, form: str = "discriminant"
) -> Array:
    """`f(params, x)` for a compiled function that works row by row.

    Args:
        f: a function of params and rows; its result has the leading axes of the rows.
        params: the first argument of f.
        x: one example, or an array with leading batch axes, from NumPy or JAX; or sparse rows,
            which are scored on the host by NumPy and SciPy if they are SciPy's.
        form: the method of a density that f uses, "discriminant" or "log_prob".
    """
    if is_sparse(x):
        x = sparse_rows(x, "x")
        if isinstance(x, HostRows) and not is_traced(params):
            check_examples(params, x)
            score = getattr(params.conditional, form)(x)
            return by_rows(f, replace(params, conditional=_Scores(score.shape[1])), score)
    if not _is_host_batch(x) or is_traced(params):
        return f(params, maybe_sparse(x, "x"))
    as_arrays(jax.tree.map(lambda a: a[:1], x), "x")
    check_examples(params, x)  # before cutting, so that a message names the shape of x
    pieces = [(f(params, piece), rows) for piece, rows in _pieces(x)]
    if any(isinstance(found, Tracer) for found, _ in pieces):  # called inside jit
        return jnp.concatenate([found[:rows] for found, rows in pieces])
    # Cut on the host: a cut on the device would compile a program for each number of rows.
    return jax.device_put(np.concatenate([np.asarray(found)[:rows] for found, rows in pieces]))


class _Scores(Density):
    """A density whose examples are their own scores of the K classes."""

    num_classes: int = static()

    @property
    def support(self) -> Support:
        return Support(jnp.ones_like, "a score")

    @property
    def num_features(self) -> int:
        return self.num_classes

    def log_prob(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        """X itself."""
        return x

    def sample(self, key: Array, y: Array) -> Array:
        raise NotImplementedError("scores of given examples have no draws")


def _is_host_batch(x: PyTree) -> bool:
    """Whether x holds rows of NumPy arrays, with a number of rows that is not in `SIZES`."""
    leaves = jax.tree.leaves(x)
    if isinstance(x, Tokens) or not all(type(a) is np.ndarray for a in leaves):
        return False
    rows = {a.shape[0] if a.ndim == 2 else 0 for a in leaves}
    return len(rows) == 1 and rows.isdisjoint({0, *SIZES})


def _pieces(x: PyTree) -> Iterator[tuple[PyTree, int]]:
    """Pieces of x padded to one of the sizes, and the number of rows of each before padding."""
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
