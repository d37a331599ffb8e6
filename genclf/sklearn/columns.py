"""The columns of a table as arrays of numbers, categories, counts and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import narwhals.stable.v2 as nw
import numpy as np
from jaxtyping import Float, Int, PyTree, Shaped

from genclf.sklearn.types import Kind, Kinds
from genclf.tables.frames import Frame, Series, Table, is_missing, looks_like_text
from genclf.text import Vocabulary, learn_vocabulary

KINDS = get_args(Kind)
MISSING = -1
_CATEGORICAL_DTYPES = (nw.Boolean, nw.String, nw.Categorical, nw.Enum, nw.Object)


class Column(NamedTuple):
    """How a column is read.

    Attributes:
        name: its name, or its number in an array.
        kind: one of `KINDS`.
        values: the sorted values of a categorical column in the training rows; all other values
            count as one more.
        vocabulary: the words of a column of texts in the training rows; other words are left out.
    """

    name: Any
    kind: Kind
    values: Shaped[np.ndarray, "V"] | None = None
    vocabulary: Vocabulary | None = None

    @property
    def part(self) -> str:
        """The part of the model that has the column: one for each kind, and one for each text."""
        return f"text {self.name}" if self.kind == "text" else self.kind


def columns_of(table: Table, kinds: Kinds) -> list[Column]:
    """How each column is read: as its dtype implies, or as `kinds` specifies."""
    kinds = dict(kinds or {})
    if strange := [name for name in kinds if name not in table.columns]:
        raise ValueError(f"kinds names the column {strange[0]!r}, expected one of {table.columns}")
    return [_column(series, kinds.get(series.name)) for series in table.iter_columns()]


def _column(series: Series, given: Any) -> Column:
    name, dtype = series.name, series.dtype
    if isinstance(given, Sequence) and not isinstance(given, str):
        return Column(name, "categorical", np.unique(np.asarray(given)))
    if given is None:
        is_categorical = isinstance(dtype, _CATEGORICAL_DTYPES)
        if not is_categorical and not dtype.is_numeric():
            raise ValueError(
                f"column {name!r} has the dtype {dtype}, expected numbers, strings, categories or "
                f'booleans: convert it to numbers, or drop it by kinds={{{name!r}: "drop"}}'
            )
        given = "categorical" if is_categorical else "numeric"
        if is_categorical and not isinstance(dtype, nw.Boolean | nw.Categorical | nw.Enum):
            known = [cell for cell in series.to_list() if isinstance(cell, str)]
            given = "text" if looks_like_text(known, len(set(known)), len(series)) else given
    if given not in KINDS:
        raise ValueError(
            f"kinds[{name!r}] is {given!r}, expected one of {', '.join(KINDS)}, or a list of values"
        )
    if given == "text":
        try:
            return Column(name, given, vocabulary=learn_vocabulary(_texts(series)))
        except ValueError as error:
            raise ValueError(f"column {name!r} is read as text: {error}") from error
    if given != "categorical":
        return Column(name, given)
    cells, missing = _cells(series)
    return Column(name, given, np.unique(cells[~missing]))


def _texts(series: Series) -> list[str]:
    """The strings, empty where missing; raise for a cell that is not a string."""
    given = ["" if is_missing(cell) else cell for cell in series.to_list()]
    for row, cell in enumerate(given):
        if not isinstance(cell, str):
            raise ValueError(f"column {series.name!r}, row {row} is {cell!r:.40}, expected a str")
    return given


def _cells(series: Series) -> tuple[Shaped[np.ndarray, "n"], Shaped[np.ndarray, "n"]]:
    """Numbers or strings, and which of them are missing."""
    if series.dtype.is_numeric() or isinstance(series.dtype, nw.Boolean):
        cells = _numbers(series)
        return cells, np.isnan(cells)
    given = series.to_list()
    missing = np.array([is_missing(cell) for cell in given], bool)
    return np.array(["" if m else str(c) for c, m in zip(given, missing, strict=True)]), missing


def _numbers(series: Series) -> Float[np.ndarray, "n"]:
    """Numbers as float64, NaN where missing; raise for infinite ones."""
    try:
        cells = series.cast(nw.Float64).to_numpy()
    except Exception as error:  # each library of tables has its own exceptions
        raise ValueError(f"column {series.name!r} does not hold numbers: {error}") from error
    if len(rows := np.flatnonzero(np.isinf(cells))):
        raise ValueError(f"Input X contains infinity: column {series.name!r}, row {rows[0]}")
    return cells


def _counts(series: Series) -> Float[np.ndarray, "n"]:
    """Numbers >= 0; raise for other cells."""
    cells = _numbers(series)
    if len(rows := np.flatnonzero(~(cells >= 0))):
        raise ValueError(
            f"column {series.name!r}, row {rows[0]} is {cells[rows[0]]}, expected a count >= 0"
        )
    return cells


def _codes(series: Series, column: Column) -> Int[np.ndarray, "n"]:
    """The index of each cell in the column's values, V for other values, -1 where missing."""
    cells, missing = _cells(series)
    values = column.values
    assert values is not None
    if cells.dtype.kind != values.dtype.kind and len(values) and not missing.all():
        raise ValueError(
            f"column {column.name!r} has the dtype {series.dtype}, but in the training rows "
            f"its values were like {values.tolist()[0]!r}"
        )
    place = np.searchsorted(values, cells)
    known = values[np.minimum(place, len(values) - 1)] == cells if len(values) else missing
    return np.where(missing, MISSING, np.where(known, place, len(values))).astype(np.int32)


def arrays_of(table: Table, columns: list[Column]) -> dict[str, PyTree]:
    """One array with the columns of each kind, and sparse counts of words for each text."""
    found: dict[str, list[np.ndarray]] = {}
    texts: dict[str, Any] = {}
    for column, series in zip(columns, table.iter_columns(), strict=True):
        if column.vocabulary is not None:
            texts[column.part] = column.vocabulary.counts(_texts(series), np.float64)
        if column.kind == "categorical":
            found.setdefault("categorical", []).append(_codes(series, column))
        elif column.kind == "numeric":
            found.setdefault("numeric", []).append(_numbers(series))
        elif column.kind == "count":
            found.setdefault("count", []).append(_counts(series))
    if not found and not texts:
        raise ValueError("X has no column to read: give one, or other kinds")
    return {kind: np.stack(each, 1) for kind, each in found.items()} | texts


def as_rows(x: dict[str, np.ndarray], columns: list[Column], made_by: Any) -> Frame:
    """A table of the same library as the training rows: the inverse of `arrays_of`."""
    place = dict.fromkeys(x, 0)
    found: dict[Any, Any] = {}
    for column in columns:
        if column.kind == "drop":
            continue
        if column.vocabulary is not None:
            words = np.array(column.vocabulary.words)
            counts = np.asarray(x[column.part]).astype(int)
            found[column.name] = [" ".join(words.repeat(row)) for row in counts]
            continue
        cells: Any = x[column.kind][:, place[column.kind]]
        place[column.kind] += 1
        if column.values is not None:
            values = [*column.values.tolist(), None]
            cells = [values[code] for code in cells]
        found[column.name] = cells
    return nw.from_dict(found, backend=made_by).to_native()
