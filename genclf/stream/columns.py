"""Columns of a data set, and their cells as arrays of NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from genclf.stream.batches import ArrowColumn, ArrowType, arrow

Kind = Literal["numeric", "count", "categorical", "text"]

MISSING, UNSEEN = -1, -2  # codes

Value: TypeAlias = bool | int | float | str
"""A class, or a value of a categorical column."""


@dataclass(frozen=True)
class Column:
    """How a model reads a column.

    Attributes:
        name: its name.
        kind: "numeric", "count", "categorical" or "text".
        part: the part of the model that reads it; None for a model without parts.
        width: how many numbers a cell holds; more than 1 for fixed-length lists, as embeddings.
        values: the values of a categorical column, or the words of a column of texts, in order;
            (False, True) for truth values that a model takes as the numbers 0 and 1.
        lowercase: whether texts are lowercased first.
    """

    name: str
    kind: Kind
    part: str | None = None
    width: int = 1
    values: tuple[Value, ...] = ()
    lowercase: bool = True


@dataclass(frozen=True)
class Place:
    """Consecutive rows of a file, so that errors can locate a cell.

    Attributes:
        source: the file, or the name of the part.
        first: the index in the file of the first of these rows.
        counts: which rows count; only their cells are checked. None for all.
    """

    source: str
    first: int = 0
    counts: Bool[np.ndarray, "n"] | None = None

    def error(self, what: str, column: str | None = None, row: int | None = None) -> ValueError:
        """A `ValueError` with the location and the problem."""
        where = [repr(self.source)]
        where += [] if row is None else [f"row {self.first + int(row)}"]
        where += [] if column is None else [f"column {column!r}"]
        return ValueError(f"{', '.join(where)}: {what}")

    def refuse(
        self, wrong: np.ndarray, cells: ArrowColumn | np.ndarray, column: str, expected: str
    ) -> None:
        """Raise for the first row that counts and is marked in `wrong`, if any."""
        wrong = wrong if self.counts is None else wrong & self.counts
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            found = cells[row]
            found = found.as_py() if hasattr(found, "as_py") else found
            raise self.error(f"{found!r:.40}, expected {expected}", column, row)


def what_is(dtype: ArrowType) -> str:
    """The kind of the cells of an Arrow type, in words."""
    types = arrow().types
    if types.is_dictionary(dtype):
        return what_is(dtype.value_type)
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return "numbers"
    if types.is_boolean(dtype):
        return "truth values"
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype):
        return "strings"
    if types.is_null(dtype):
        return "nulls"
    if types.is_fixed_size_list(dtype) and what_is(dtype.value_type) == "numbers":
        return "lists of numbers"
    return str(dtype)


def _numbers(width: int) -> str:
    return "numbers" if width == 1 else f"lists of {width} numbers"


def check_numbers(cells: ArrowColumn, column: Column, place: Place) -> None:
    """Raise unless the cells have the type of a column of numbers, or are null."""
    found, width = what_is(cells.type), column.width
    if found == "lists of numbers":
        found = _numbers(cells.type.list_size)
    expected = "truth values" if column.values else _numbers(width)
    if found not in (expected, "nulls"):
        raise place.error(f"{found}, expected {expected}", column.name)


def numbers_of(cells: ArrowColumn, column: Column, place: Place) -> Float[np.ndarray, "n width"]:
    """The numbers of a column, NaN where missing; raise for infinite numbers and other types."""
    pa = arrow()
    check_numbers(cells, column, place)
    given, found, width = cells, what_is(cells.type), column.width
    if found == "nulls":
        return np.full((len(cells), width), np.nan)
    if found == "lists of numbers":
        flat = [c.values.slice(c.offset * width, len(c) * width) for c in cells.chunks]
        cells = pa.chunked_array(flat, cells.type.value_type)
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if found == "truth values":
        cells = cells.cast(pa.int8())
    numbers = cells.cast(pa.float64(), safe=False).to_numpy().reshape(-1, width)
    if found == "lists of numbers" and given.null_count:
        numbers = np.where(given.is_null().to_numpy()[:, None], np.nan, numbers)
    place.refuse(np.isinf(numbers).any(1), given, column.name, "finite numbers")
    return numbers


def distinct(
    cells: ArrowColumn, name: str, place: Place
) -> tuple[list[Value | None], Int[np.ndarray, "n"]]:
    """The distinct values of a column, and the index of each cell's value, -1 for null.

    Whole numbers become ints in a column of floats too, as nulls can turn ints into floats.
    """
    pa = arrow()
    if what_is(cells.type) not in ("numbers", "truth values", "strings", "nulls"):
        raise place.error(
            f"{cells.type}, expected numbers, strings or truth values: convert it to strings", name
        )
    if pa.types.is_dictionary(cells.type) and cells.num_chunks > 1:
        has_nulls = any(chunk.dictionary.null_count for chunk in cells.chunks)
        cells = cells.cast(cells.type.value_type) if has_nulls else cells.unify_dictionaries()
    encoded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
    if not encoded.num_chunks:
        return [], np.zeros(0, np.int64)
    try:
        values = [plain(value) for value in encoded.chunk(0).dictionary.to_pylist()]
    except ValueError as error:
        raise place.error(str(error), name) from error
    # The index len(values) stands for null.
    each = [c.indices.fill_null(len(values)).to_numpy(zero_copy_only=False) for c in encoded.chunks]
    code = np.concatenate(each)
    of_value = np.array([MISSING if v is None else i for i, v in enumerate([*values, None])])
    return values, of_value[code]


def plain(value: Any) -> Any:
    """A value as a Python object, with 2.0 as 2; None for NaN; raise for floats from 2**53 on."""
    if value is None or isinstance(value, bool | str):
        return value
    if value != value:  # NaN
        return None
    whole = math.isfinite(value) and value == int(value)
    if whole and isinstance(value, float) and abs(value) >= 2**53:
        raise ValueError(
            f"{value!r} is a float, and floats of 2**53 or more are not all whole numbers: "
            "expected integers or strings"
        )
    return int(value) if whole else float(value)


def checked_values(given: Iterable[object], name: str) -> tuple[Value, ...]:
    """The user's values as Python objects; raise if two are equal or their types differ."""
    if isinstance(given, str):
        raise ValueError(f"{name} is {given!r}, expected a list of values")
    try:
        values = [plain(value.item() if hasattr(value, "item") else value) for value in given]
    except ValueError as error:
        raise ValueError(f"{name} holds {error}") from error
    if None in values:
        raise ValueError(f"{name} holds {list(given)[values.index(None)]!r}, expected values")
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise ValueError(f"{name} holds {twice!r} twice")
    if len(types := {type_of(value): value for value in values}) > 1:
        one, other = list(types.values())[:2]
        raise ValueError(f"{name} holds {one!r} and {other!r}, expected values of one type")
    return tuple(values)


def codes_of(
    cells: ArrowColumn, values: tuple[Value, ...], name: str, place: Place
) -> Int[np.ndarray, "n"]:
    """The index of each cell in `values`: `MISSING` for null, `UNSEEN` for any other value."""
    found, code = distinct(cells, name, place)
    known = [value for value in found if value is not None]
    if known and values and type_of(known[0]) != type_of(values[0]):
        raise place.error(
            f"{type_of(known[0])}, but the schema has {type_of(values[0])}, as {values[0]!r}", name
        )
    where = {value: i for i, value in enumerate(values)}
    new = [MISSING if value is None else where.get(value, UNSEEN) for value in found]
    return np.array([*new, MISSING])[code]


def type_of(value: Value) -> str:
    """The type of a categorical value, in words."""
    if isinstance(value, bool):
        return "truth values"
    return "strings" if isinstance(value, str) else "numbers"


def texts_of(cells: ArrowColumn, name: str, place: Place) -> list[str]:
    """The texts of a column, empty where missing."""
    if what_is(cells.type) not in ("strings", "nulls"):
        raise place.error(f"{what_is(cells.type)}, expected texts", name)
    return ["" if cell is None else cell for cell in cells.to_pylist()]


def words_in(texts: Iterable[str], column: Column) -> Any:
    """Counts of each word of a column in each text, as a sparse array."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import CountVectorizer

    places = {word: i for i, word in enumerate(column.values)}
    counter = CountVectorizer(vocabulary=places, lowercase=column.lowercase, dtype=np.float64)
    return csr_array(counter.transform(texts))
