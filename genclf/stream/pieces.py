"""Fits and scores of any number of rows, by a few compiled programs."""

from __future__ import annotations

from functools import reduce
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from genclf.classifier.classifier import Classifier, ClassifierStats
from genclf.classifier.estimation import stats, sums
from genclf.classifier.padding import SIZES, by_rows
from genclf.families.tokens import is_dense
from genclf.many.packing import padded_size
from genclf.sums import merging
from genclf.sums.sparse import is_sparse

merged = jax.jit(merging.merged)

_PIECE = 65_536  # rows summed by one call


def statistics(clf: Classifier, x: PyTree, y: np.ndarray, w: np.ndarray) -> ClassifierStats:
    """The statistics, summed over pieces that are padded to a few sizes by rows of weight 0."""
    if _holds_sparse(x):
        return stats(clf, x, y, w)
    pieces = [slice(start, start + _PIECE) for start in range(0, len(y), _PIECE)]
    cut = lambda piece: jax.tree.map(lambda a: a[piece], (x, y, w))  # noqa: E731
    return reduce(merged, (sums(clf, *padded(*cut(piece))) for piece in pieces))


def padded(x: PyTree, y: np.ndarray, w: np.ndarray) -> tuple[PyTree, np.ndarray, np.ndarray]:
    """The rows, padded by rows of weight 0 to one of a few sizes."""
    more = padded_size(len(y)) - len(y)
    if not more or not is_dense(x) or _holds_sparse(x):
        return x, y, w
    longer = lambda a: _longer(a, more)  # noqa: E731
    return jax.tree.map(longer, x), longer(y), np.append(w, np.zeros(more))


def by_pieces(function: Any, params: PyTree, x: PyTree, form: str = "discriminant") -> np.ndarray:
    """`by_rows` without checks, which is faster for a few rows."""
    if _holds_sparse(x):
        return np.asarray(by_rows(function, params, x, form))
    leaves, form = jax.tree.flatten(x)
    count, found = len(leaves[0]), []
    for start in range(0, count, SIZES[-1]):
        rows = min(count - start, SIZES[-1])
        more = min(size for size in (1, *SIZES) if size >= rows) - rows
        pieces = [_longer(a[start : start + rows], more) for a in leaves]
        found.append(np.asarray(function(params, jax.tree.unflatten(form, pieces)))[:rows])
    return found[0] if len(found) == 1 else np.concatenate(found)


def _holds_sparse(x: PyTree) -> bool:
    return any(map(is_sparse, jax.tree.leaves(x)))


def _longer(a: np.ndarray, more: int) -> np.ndarray:
    """The rows, then `more` copies of the first, since any other cells might be invalid."""
    return np.concatenate([a, a[:1].repeat(more, 0)]) if more else a


def on_host(tree: PyTree) -> PyTree:
    """The same tree, of NumPy arrays."""
    return jax.tree.map(np.asarray, tree)
