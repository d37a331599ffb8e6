"""Rows with their labels, weights and folds, which all cross-validations share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from genclf.classifier.conversion import float_dtype
from genclf.numerics import loops
from genclf.select.groups import ALWAYS_TRAIN
from genclf.select.splits import FoldsOrPairs, Splits, splits_of


class Data(NamedTuple):
    """Rows with labels, weights and folds.

    Attributes:
        x: the rows.
        y: their labels, (n,), or responsibilities, (n, K).
        w: their weights in fits, (n,).
        folds: the fold that tests each row, (n,).
        rows: the row numbers of each fold, padded with the value n, (F, m).
        real: which of them are not padding, (F, m).
        always_train: the numbers of the rows in every training set.
        by: the group of each row, (n,), if each group has a score; else None.
        trains: the rows that each fold is trained on, (F, n); None if these are all that it does
            not test.
    """

    x: PyTree
    y: Array
    w: Float[Array, "n"]
    folds: Int[Array, "n"]
    rows: Int[Array, "F m"]
    real: Bool[Array, "F m"]
    always_train: Int[Array, "r"]
    by: Int[Array, "n"] | None = None
    trains: Bool[Array, "F n"] | None = None

    @property
    def counts(self) -> Float[Array, "n"]:
        """The weights of labelled rows in scores: 0 for those that are never held out."""
        return jnp.where((self.folds >= 0) & (self.y >= 0), self.w, 0)

    def each_fold(self, function: Callable[[Array, Array], PyTree]) -> PyTree:
        """Call `function(weights, rows)` for each fold, and stack the results.

        `weights` is 0 for the rows of the fold, and `rows` are their numbers, with the padding.
        """

        def one(fold: tuple[Array, Array]) -> PyTree:
            trains = fold[0]
            if self.trains is None:
                trains = (self.folds >= ALWAYS_TRAIN) & (self.folds != fold[0])
            return function(jnp.where(trains, self.w, 0), fold[1])

        number = jnp.arange(len(self.rows), dtype=self.folds.dtype)
        return loops.mapped(one, (number if self.trains is None else self.trains, self.rows))

    def in_row_order(self, found: Float[Array, "F m K"]) -> Float[Array, "n K"]:
        """The values of the rows of each fold, in the order of all rows; NaN for rows in none."""
        empty = jnp.full((len(self.y), found.shape[-1]), jnp.nan, found.dtype)
        return empty.at[self.rows].set(found, mode="drop")


def data_of(x: PyTree, y: Array, splits: Splits, weights: Array | None) -> Data:
    """The data of checked arguments."""
    folds, trains = splits
    dtype = float_dtype(x)
    w = jnp.ones(len(y), dtype) if weights is None else weights.astype(dtype)
    kept, held = np.flatnonzero(folds == ALWAYS_TRAIN), np.flatnonzero(folds >= 0)
    size = np.bincount(folds[held])
    real = np.arange(size.max()) < size[:, None]
    rows = np.full(real.shape, len(folds), np.int32)
    rows[real] = held[np.argsort(folds[held], kind="stable")]
    found = Data(x, y, w, *map(jnp.asarray, (folds, rows, real, kept.astype(np.int32))))
    return found if trains is None else found._replace(trains=jnp.asarray(trains))


def labelled_data(
    x: PyTree,
    y: Array,
    folds: FoldsOrPairs,
    weights: Array | None,
    test_on: np.ndarray | None = None,
) -> Data:
    """`data_of`; raise unless each row has a label and a fold."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}, expected one label of each row")
    for row in np.flatnonzero(labels < 0)[:1]:
        raise ValueError(f"y[{row}] is {labels[row]}, expected a label 0..K-1 of each row")
    return data_of(x, y, splits_of(folds, test_on, y, weights), weights)


def take(rows: PyTree, index: Array | np.ndarray) -> PyTree:
    """Rows by index; an index past the end gives the last row."""
    return jax.tree.map(lambda a: a.at[index].get(mode="clip"), rows)
