"""Columns of a table as arrays of NumPy; a cell that does not fit the schema raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from genclf.stream.batches import ArrowTable
from genclf.stream.columns import (
    MISSING,
    UNSEEN,
    Column,
    Place,
    Value,
    codes_of,
    numbers_of,
    texts_of,
    words_in,
)
from genclf.stream.recipes import PartOfModel

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Cells: TypeAlias = np.ndarray | list[np.ndarray] | csr_array
else:
    Cells = object


class Rows(NamedTuple):
    """Rows as arrays.

    Attributes:
        x: the columns of the model, or a dict with the columns of each part: numbers (n, d), a
            list of columns of codes, or sparse counts of words.
        label: the class of each row, -1 without one.
        weight: weight of each row; None for ones.
    """

    x: Any
    label: Int[np.ndarray, "n"]
    weight: Float[np.ndarray, "n"] | None

    def counted(self, unlabelled: bool = False) -> Bool[np.ndarray, "n"]:
        """Which rows are summed: those with weight and, unless `unlabelled`, a label."""
        labelled = np.full(len(self.label), True) if unlabelled else self.label >= 0
        return labelled if self.weight is None else labelled & (self.weight > 0)


_MAY_MISS = 'or a model with missing="marginalize"'


def cells_of(
    part: PartOfModel, columns: list[Column], unseen: str, table: ArrowTable, place: Place
) -> Cells:
    """The columns of a part of the model."""
    if part.kind == "categorical":
        return [_codes(column, part, unseen, table, place) for column in columns]
    if columns[0].kind == "text":
        name = columns[0].name
        return words_in(texts_of(table[name], name, place), columns[0])
    x = np.empty((len(table), sum(column.width for column in columns)))
    start = 0
    for column in columns:
        cells = numbers_of(table[column.name], column, place)
        _check(cells, part, table, column.name, place)
        x[:, start : start + column.width] = cells
        start += column.width
    return x


def no_cells(part: PartOfModel, columns: list[Column]) -> Cells:
    """The result of `cells_of` for zero rows."""
    if part.kind == "categorical":
        return [np.zeros(0, np.int64) for _ in columns]
    widths = [len(c.values) if c.kind == "text" else c.width for c in columns]
    return np.zeros((0, sum(widths)))


def weights_of(table: ArrowTable, name: str, place: Place) -> Float[np.ndarray, "n"]:
    """The weight of each row; a missing weight is 0 if the row does not count."""
    weight = numbers_of(table[name], Column(name, "numeric"), place)[:, 0]
    place.refuse(~(weight >= 0), table[name], name, "a weight >= 0")
    return np.where(weight >= 0, weight, 0)


def _check(
    cells: np.ndarray, part: PartOfModel, table: ArrowTable, name: str, place: Place
) -> None:
    missing, recipe = np.isnan(cells), part.recipe
    expected = "a number" if recipe is None else recipe.expected
    if not part.missing:
        place.refuse(missing.any(1), table[name], name, f"{expected}; {_MAY_MISS}")
    if recipe is not None:
        wrong = ~(recipe.valid(cells) | missing)
        place.refuse(wrong.any(1), table[name], name, expected)


def _codes(
    column: Column, part: PartOfModel, unseen: str, table: ArrowTable, place: Place
) -> Int[np.ndarray, "n"]:
    cells = table[column.name]
    code = codes_of(cells, column.values, column.name, place)
    if not part.missing:
        place.refuse(code == MISSING, cells, column.name, f"a value; {_MAY_MISS}")
    if unseen == "other":
        return np.where(code == UNSEEN, len(column.values), code)
    refuse_unseen(code, table, column.name, column.values, place)
    return np.maximum(code, MISSING)


def refuse_unseen(
    code: np.ndarray, table: ArrowTable, name: str, values: tuple[Value, ...], place: Place
) -> None:
    """Raise for a cell whose value is not among those of its column."""
    known = ", ".join(map(repr, values[:10])) + (", ..." if len(values) > 10 else "")
    what = f'one of {known}; or make the schema with unseen="other"'
    place.refuse(code == UNSEEN, table[name], name, what)
