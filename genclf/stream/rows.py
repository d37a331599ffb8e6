"""Columns of a table as arrays of NumPy; a cell that does not fit the schema raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from genclf.stream.recipes import PartOfModel
from genclf.tables.arrays import (
    MAY_MISS,
    codes_in,
    column_in,
    numbers_in,
    texts_in,
    words_in,
)
from genclf.tables.cells import Cells
from genclf.tables.columns import Column
from genclf.tables.frames import CellsOf
from genclf.tables.place import Place

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Array: TypeAlias = np.ndarray | list[np.ndarray] | csr_array
else:
    Array = object


class Rows(NamedTuple):
    """Rows as arrays.

    Attributes:
        x: the columns of the model, or a dict with the columns of each part: numbers (n, d), a
            list of columns of codes, or sparse counts of words.
        label: the class of each row, -1 without one.
        weight: weight of each row; None for ones.
        unseen: how many of its label and categories the schema does not have and ignores; None
            for none.
    """

    x: Any
    label: Int[np.ndarray, "n"]
    weight: Float[np.ndarray, "n"] | None
    unseen: Int[np.ndarray, "n"] | None = None

    def num_unseen(self) -> int:
        """How many labels and categories are not in the schema and are ignored."""
        return 0 if self.unseen is None else int(self.unseen.sum())

    def counted(self, unlabelled: bool = False) -> Bool[np.ndarray, "n"]:
        """Which rows are summed: those with weight and, unless `unlabelled`, a label."""
        labelled = np.full(len(self.label), True) if unlabelled else self.label >= 0
        return labelled if self.weight is None else labelled & (self.weight > 0)


def arrays_in(
    part: PartOfModel, columns: list[Column], cells: CellsOf, place: Place, learning: bool
) -> Array:
    """The columns of a part of the model."""
    each = [(column, column_in(cells, column, place)) for column in columns]
    if columns[0].is_coded:
        how: dict[str, Any] = {"learning": learning, "may_miss": part.missing}
        return [codes_in(own, column, place, **how) for column, own in each]
    if columns[0].kind == "text":
        (column, own), *_ = each
        return words_in(texts_in(own, column, place), column)
    found = []
    for column, own in each:
        number = numbers_in(own, column, place)
        _check(number, part, own, column, place)
        found.append(number)
    return np.hstack(found)


def no_cells(part: PartOfModel, columns: list[Column]) -> Array:
    """The result of `arrays_in` for zero rows."""
    if columns[0].is_coded:
        return [np.zeros(0, np.int64) for _ in columns]
    return np.zeros((0, sum(column.size for column in columns)))


def weights_of(cells: Cells, name: str, place: Place) -> Float[np.ndarray, "n"]:
    """The weight of each row; a missing weight is 0 if the row does not count."""
    weight = numbers_in(cells, Column(name, "numeric"), place)[:, 0]
    place.refuse(~(weight >= 0), cells, name, "a weight >= 0")
    return np.where(weight >= 0, weight, 0)


def _check(
    number: np.ndarray, part: PartOfModel, cells: Cells, column: Column, place: Place
) -> None:
    missing, recipe = np.isnan(number), part.recipe
    expected = "a number" if recipe is None else recipe.expected
    if not part.missing:
        place.refuse(missing.any(1), cells, column.name, f"{expected}; {MAY_MISS}")
    if recipe is not None:
        wrong = ~(recipe.valid(number) | missing)
        place.refuse(wrong.any(1), cells, column.name, expected)
