"""Columns of a table as arrays of NumPy; a cell that does not fit the schema raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from genclf.stream.recipes import PartOfModel
from genclf.tables.arrays import (
    MAY_MISS,
    MISSING,
    UNSEEN as UNSEEN_CODE,
    check_type,
    codes_in,
    column_in,
    index_in,
    numbers_in,
    refuse_unseen,
    texts_in,
    weights_of,
    words_in,
)
from genclf.tables.arrow_cells import ArrowCells
from genclf.tables.cells import Cells, type_of
from genclf.tables.columns import Column
from genclf.tables.frames import CellsOf, num_rows
from genclf.tables.place import Place

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from genclf.stream.batches import ArrowTable
    from genclf.stream.schema import Schema

    Array: TypeAlias = np.ndarray | list[np.ndarray] | csr_array
else:
    Array = ArrowTable = Schema = object


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


def rows_in(
    schema: Schema, table: ArrowTable | CellsOf, place: Place, labelled: bool, unlabelled: bool
) -> Rows:
    """The rows of a table as arrays; see `Schema.read`."""
    of: Callable[[Any], Cells]
    if isinstance(table, Mapping):
        names, of = list(table), table.__getitem__
    else:
        names, of = table.column_names, lambda name: ArrowCells(table[name])
    wanted = schema.names if labelled else schema.sources
    for name in wanted:
        if (number := names.count(name)) != 1:
            raise place.error(
                f"{number or 'no'} column{'s' * (number > 1)} {name!r}, expected one; the "
                f"columns are {', '.join(map(repr, names)):.200}"
            )
    cells = {name: of(name) for name in wanted}
    label, weight, unseen = np.full(num_rows(cells), MISSING), None, None
    if labelled:
        own = Column(
            schema.label, "categorical", type=type_of(schema.classes[0]), values=schema.classes
        )
        check_type(cells[schema.label], own, place)
        label = index_in(cells[schema.label], schema.classes, schema.label, place)
        if schema.weight is not None:
            counts = None if unlabelled else label != MISSING
            weight = weights_of(cells[schema.weight], schema.weight, replace(place, counts=counts))
            place = replace(place, counts=weight > 0)
        if schema.unseen_labels == "error":
            hint = 'one of {}; or unseen_labels="ignore"'
            refuse_unseen(label, cells[schema.label], own, place, hint)
        unseen = _ignored(schema, label, cells, place)
        label = np.maximum(label, MISSING)
        place = replace(place, counts=Rows(None, label, weight).counted(unlabelled))
    x = {
        part.name: arrays_in(part, schema.columns_of(part.name), cells, place, labelled)
        for part in schema.parts
    }
    return Rows(x[None] if None in x else x, label, weight, unseen)


def _ignored(
    schema: Schema, label: np.ndarray, cells: CellsOf, place: Place
) -> Int[np.ndarray, "n"] | None:
    """How many values of each row are ignored; None if unseen ones are errors, or others."""
    ignoring = [c for c in schema.columns if c.is_coded and c.unseen == "ignore" and c.has_values]
    if not ignoring and schema.unseen_labels == "error":
        return None
    each = [index_in(column_in(cells, c, place), c.values, c.name, place) for c in ignoring]
    return sum((code == UNSEEN_CODE).astype(int) for code in [label, *each])


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
    numbers = np.hstack([numbers_in(own, column, place) for column, own in each])
    _check(numbers, part, each, place)
    return numbers


def no_cells(part: PartOfModel, columns: list[Column]) -> Array:
    """The result of `arrays_in` for zero rows."""
    if columns[0].is_coded:
        return [np.zeros(0, np.int64) for _ in columns]
    return np.zeros((0, sum(column.size for column in columns)))


def _check(
    numbers: np.ndarray, part: PartOfModel, each: list[tuple[Column, Cells]], place: Place
) -> None:
    """Raise for the first column with a number that this part of the model does not take."""
    missing, recipe = np.isnan(numbers), part.recipe
    valid = ~missing if recipe is None else recipe.valid(numbers)
    expected = "a number" if recipe is None else recipe.expected
    if (valid | missing if part.missing else valid).all():
        return
    first = 0
    for column, cells in each:
        own = np.s_[:, first : (first := first + column.width)]
        if not part.missing:
            place.refuse(missing[own], cells, column.name, f"{expected}; {MAY_MISS}")
        place.refuse(~(valid | missing)[own], cells, column.name, expected)
