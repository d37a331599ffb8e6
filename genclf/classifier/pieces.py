"""Fits and scores of any number of rows, by a few compiled programs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from genclf.classifier.classifier import Classifier, ClassifierStats
from genclf.classifier.estimation import stats, sums
from genclf.classifier.padding import by_rows, longer, pieces
from genclf.families.tokens import is_dense
from genclf.numerics.sizes import LARGEST, padded_size
from genclf.sums.merging import merge_at_once
from genclf.sums.sparse import holds_sparse, is_sparse

ArrayRows = tuple[PyTree, np.ndarray, np.ndarray]
"""x, labels and weights."""


def statistics(clf: Classifier, x: PyTree, y: np.ndarray, w: np.ndarray) -> ClassifierStats:
    """The statistics, summed over pieces that are padded to a few sizes by rows of weight 0."""
    if holds_sparse(x):
        return stats(clf, x, y, w)
    return reduce(merge_at_once, (sums(clf, *padded(*piece)) for piece in cut(x, y, w)))


def cut(x: PyTree, y: np.ndarray, w: np.ndarray) -> Iterator[ArrayRows]:
    """The rows in pieces of at most `LARGEST`; sparse rows in one piece."""
    if holds_sparse(x):
        yield x, y, w
        return
    for start in range(0, len(y), LARGEST):
        at = slice(start, start + LARGEST)
        yield jax.tree.map(lambda a, at=at: a[at], (x, y, w))


def padded(x: PyTree, y: np.ndarray, w: np.ndarray, shares: int = 1) -> ArrayRows:
    """The rows, padded by rows of weight 0 to one of a few sizes, and to equal shares."""
    if holds_sparse(x):
        return x, y, w
    size = padded_size(len(y)) if is_dense(x) else len(y)
    more = size + -size % shares - len(y)
    if not more:
        return x, y, w
    return (*jax.tree.map(lambda a: longer(a, more), (x, y)), np.append(w, np.zeros(more)))


def by_pieces(function: Any, params: PyTree, x: PyTree, form: str = "discriminant") -> np.ndarray:
    """`by_rows` without checks, which is faster for a few rows."""
    if holds_sparse(x):
        return np.asarray(by_rows(function, params, x, form))
    found = [np.asarray(function(params, own))[:rows] for own, rows in pieces(x, single=True)]
    return found[0] if len(found) == 1 else np.concatenate(found)


def rows_of(x: PyTree, rows: np.ndarray) -> PyTree:
    """Some rows of arrays, or of sparse matrices."""
    return jax.tree.map(lambda a: a[rows], x, is_leaf=is_sparse)


def on_host(tree: PyTree) -> PyTree:
    """The same tree, of NumPy arrays."""
    return jax.tree.map(np.asarray, tree)
