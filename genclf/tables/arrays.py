"""The columns of a table as arrays; a cell that does not fit its column raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from genclf.tables.cells import LISTS, NULLS, STRINGS, Cells, type_of
from genclf.tables.columns import Column
from genclf.tables.dates import PARTS, TYPES, date_of
from genclf.tables.frames import CellsOf, num_rows
from genclf.tables.place import Place
from genclf.tables.words import counts_of

MISSING, UNSEEN = -1, -2  # codes

MAY_MISS = 'or a model with missing="marginalize"'


def arrays_of(
    cells: CellsOf,
    columns: Sequence[Column],
    place: Place,
    *,
    learning: bool,
    may_miss: Callable[[str | None], bool] = lambda part: True,
) -> Any:
    """The array of each part of a model, or the array of a model without parts.

    Numbers and counts are floats, (n, d); categories are int32 codes, (n, d), -1 where missing;
    words are sparse counts, (n, V). A model that reads no column has an array of zeros, (n, 1).

    Args:
        cells: the table; columns that are not read may be absent.
        columns: how its columns are read.
        place: where the rows are, for messages.
        learning: whether a value that a column does not have is an error by default.
        may_miss: whether cells of this part may be missing.

    Raises:
        ValueError: a column is absent, has another type than its `Column`, or holds an infinite
            number, a count below 0 or a value that is an error.
    """
    found: dict[str | None, list[Any]] = {}
    for column in columns:
        if column.kind == "drop":
            continue
        own, holes = column_in(cells, column, place), may_miss(column.part)
        array: Any
        if column.kind == "text":
            array = words_in(texts_in(own, column, place), column)
        elif column.is_coded:
            code = codes_in(own, column, place, learning=learning, may_miss=holes)
            array = code[:, None].astype(np.int32)
        else:
            array = numbers_in(own, column, place)
            if column.kind == "count":  # documents have no missing counts
                place.refuse(np.isnan(array), own, column.name, "a count >= 0")
            elif not holes:
                place.refuse(np.isnan(array), own, column.name, f"a number; {MAY_MISS}")
        found.setdefault(column.part, []).append(array)
    x = {part: own[0] if len(own) == 1 else np.hstack(own) for part, own in found.items()}
    return x[None] if None in x else x or np.zeros((num_rows(cells), 1), np.int32)


def column_in(cells: CellsOf, column: Column, place: Place) -> Cells:
    """The cells of a column of the table, or of its part of a date; raise if there is none."""
    if column.name in cells:
        return cells[column.name]
    if column.source not in cells:
        raise place.error(
            f"no column {column.source!r}, expected one; the columns are "
            f"{', '.join(map(repr, cells)):.200}"
        )
    whole = cells[column.source]
    if whole.type not in TYPES:
        raise place.error(f"{whole.type}, expected dates", column.source)
    dates = whole.dates()
    place.refuse(np.isnat(dates) & ~whole.missing, whole, column.source, "a date, as 2024-05-31")
    return PARTS[column.date_part].cells(dates)


def numbers_in(cells: Cells, column: Column, place: Place) -> Float[np.ndarray, "n width"]:
    """The numbers of a column, NaN where missing; raise for infinite ones and other types."""
    check_type(cells, column, place)
    if cells.type == NULLS:
        return np.full((len(cells), column.width), np.nan)
    try:
        number = cells.numbers()
    except OverflowError as error:
        what = "a whole number above 1.8e308, expected finite numbers"
        raise place.error(what, column.name) from error
    place.refuse(np.isinf(number), cells, column.name, "finite numbers")
    if column.kind == "count":
        place.refuse(number < 0, cells, column.name, "a count >= 0")
    return np.ldexp(number, -column.exponent) if column.exponent else number


def weights_of(cells: Cells, name: Any, place: Place) -> Float[np.ndarray, "n"]:
    """The weight of each row; a missing weight is 0 if the row does not count."""
    weight = numbers_in(cells, Column(name, "numeric"), place)[:, 0]
    place.refuse(~(weight >= 0), cells, name, "a weight >= 0")
    return np.where(weight >= 0, weight, 0)


def codes_in(
    cells: Cells, column: Column, place: Place, *, learning: bool, may_miss: bool = True
) -> Int[np.ndarray, "n"]:
    """The index of each cell in the values; `MISSING` if missing.

    An unseen value is an error, one more value, or no evidence, as `Column.unseen` says. No
    evidence is `MISSING` where cells may be missing, else an index past the last.
    """
    check_type(cells, column, place)
    if column.kind == "binned":
        number = numbers_in(cells, column, place)[:, 0]
        code = np.searchsorted(column.edges, number, side="right")
        code = np.where(np.isnan(number), MISSING, code)
    else:
        code = index_in(cells, column.values, column.name, place)
    if column.values[-1:] == (None,):
        code = np.where(code == MISSING, column.size - 1 - (column.unseen == "other"), code)
    if not may_miss:
        place.refuse(code == MISSING, cells, column.name, f"a value; {MAY_MISS}")
    unseen = column.unseen or ("error" if learning or not may_miss else "ignore")
    if unseen == "error":
        refuse_unseen(code, cells, column, place)
    if unseen == "ignore" and may_miss:
        return np.maximum(code, MISSING)
    return np.where(code == UNSEEN, len(column.values), code)  # the last is that of others


def index_in(cells: Cells, values: Sequence[Any], name: Any, place: Place) -> Int[np.ndarray, "n"]:
    """The index of each cell in `values`: `MISSING` if missing, `UNSEEN` for any other value."""
    try:
        found, code = cells.encoded()
    except (TypeError, ValueError) as error:
        what = str(error) if isinstance(error, ValueError) else f"{cells.type}, expected values"
        raise place.error(what, name) from error
    index = {value: i for i, value in enumerate(values)}
    return np.array([*(index.get(value, UNSEEN) for value in found), MISSING])[code]


def refuse_unseen(
    code: np.ndarray,
    cells: Cells,
    column: Column,
    place: Place,
    expected: str = 'one of {}; or unseen="other"',
) -> None:
    """Raise for a cell whose value is not among those of its column."""
    values = [value for value in column.values if value is not None]
    known = ", ".join(map(repr, values[:10])) + (", ..." if len(values) > 10 else "")
    place.refuse(code == UNSEEN, cells, column.name, expected.format(known))


def texts_in(cells: Cells, column: Column, place: Place) -> list[str]:
    """The texts of a column, empty where missing."""
    check_type(cells, column, place)
    return cells.texts()


def check_type(cells: Cells, column: Column, place: Place) -> None:
    """Raise unless the cells have the type of the column, or are all missing."""
    expected = STRINGS if column.kind == "text" else column.type
    if cells.type == NULLS or (cells.type, cells.width) == (expected, column.width):
        return
    if column.is_coded and column.values:
        values = [value for value in column.values if value is not None]
        if values and cells.type == type_of(values[0]):
            return
        expected = f"{expected}, as {values[0]!r}"
    found, row = in_words(cells.type, cells.width), None
    if other := cells.of_another_type(STRINGS if column.kind == "text" else column.type):
        row, found = other
    raise place.error(f"{found}, expected {in_words(expected, column.width)}", column.name, row)


def in_words(type: str, width: int) -> str:
    """The type of cells, with the length of lists."""
    return f"lists of {width} numbers" if type == LISTS else type


def words_in(texts: Iterable[str], column: Column) -> Any:
    """Counts of each word of a column in each text, as a sparse array."""
    return counts_of(texts, column.values, column.lowercase)


def columns_in(
    x: dict[str, np.ndarray], columns: Sequence[Column]
) -> dict[Any, list[Any] | np.ndarray]:
    """The cells of the columns of each part: the inverse of `arrays_of`.

    A date is the first one that has the parts.
    """
    start = dict.fromkeys(x, 0)
    found: dict[Any, Any] = {}
    for column in columns:
        if column.part is None or column.kind == "drop":
            continue
        array, at = x[column.part], start[column.part]
        start[column.part] += 1 if column.is_coded else column.size
        if column.kind == "text":
            words = np.array(column.values)
            counts = np.asarray(array).astype(int)
            found[column.name] = [" ".join(words.repeat(row)) for row in counts]
        elif column.kind == "binned":
            ends = np.array([column.edges[0], *column.edges, column.edges[-1], np.nan])
            centres = np.append((ends[:-2] + ends[1:-1]) / 2, [np.nan, np.nan])
            found[column.name] = centres[array[:, at]]  # NaN for a missing cell, the last
        elif column.is_coded:
            values = [*column.values, None]  # the last for code -1, and for other values
            found[column.name] = [values[code] for code in array[:, at]]
        elif column.width > 1:
            found[column.name] = array[:, at : at + column.width].tolist()
        else:
            found[column.name] = np.ldexp(array[:, at], column.exponent)
    n = len(next(iter(x.values())))
    for date in dict.fromkeys(c.date for c in columns if c.date_part and c.name in found):
        own = [column for column in columns if column.date_part and column.date == date]
        found[date] = date_of({c.date_part: found.pop(c.name, [*c.values] * n) for c in own})
    in_order = dict.fromkeys(column.source for column in columns)
    return {name: found[name] for name in in_order if name in found}


def terms_of_columns(terms: Any, columns: Sequence[Column]) -> np.ndarray:
    """The term of each column that is read: a text has the sum over its words, (n, d)."""
    is_text = {column.part for column in columns if column.kind == "text"}
    found: list[np.ndarray] = []
    start: dict[str | None, int] = {}
    for column in columns:
        own = terms[column.part] if isinstance(terms, dict) else terms
        at = start.get(column.part, 0)
        width = own.shape[1] if column.part in is_text else column.width
        found.append(own[:, at : at + width].sum(1))
        start[column.part] = at + width
    if not found:  # the class prior alone
        return np.zeros((len(terms), 0))
    return np.stack(found, 1)
