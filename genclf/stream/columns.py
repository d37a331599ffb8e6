"""Columns of a data set, and their cells as arrays of NumPy."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from genclf.tables.frames import is_index

Kind = Literal["numeric", "count", "categorical", "text"]

MISSING, UNSEEN = -1, -2  # codes


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
    values: tuple[Any, ...] = ()
    lowercase: bool = True


@dataclass(frozen=True)
class Place:
    """Consecutive rows of a file, so that errors can locate a cell.

    Attributes:
        source: the file, or the name of the part.
        first: the index in the file of the first of these rows.
        counts: which rows count; only their cells have to fit. None for all.
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

    def refuse(self, wrong: np.ndarray, cells: Any, column: str, expected: str) -> None:
        """Raise for the first row that counts and is marked in `wrong`, if any."""
        wrong = wrong if self.counts is None else wrong & self.counts
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            found = cells[row]
            found = found.as_py() if hasattr(found, "as_py") else found
            raise self.error(f"{found!r:.40}, expected {expected}", column, row)


def as_tables(batches: Any) -> Iterator[Any]:
    """The batches, which are tables of any library or dicts of arrays, as Arrow tables."""
    single = is_batch(batches) or isinstance(batches, str)
    if not single and not isinstance(batches, Iterable):
        raise ValueError(f"batches is {batches!r:.60}, {_EXPECTED}")
    for batch in [batches] if single else batches:
        table = _as_table(batch)
        yield _decoded(table.drop_columns(list(filter(is_index, table.column_names))))


_ONE_TYPE = "expected cells of one type, which Arrow has"
_EXPECTED = "expected record batches of Arrow, tables, or dicts of arrays"


def _decoded(table: Any) -> Any:
    """The table, without run-end encoding, which Arrow cannot compute with."""
    from pyarrow import compute, types

    for place, (name, dtype) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if types.is_run_end_encoded(dtype):
            table = table.set_column(place, name, compute.run_end_decode(table[place]))
    return table


def is_batch(given: Any) -> bool:
    """Whether this is one table, of any library, or a dict of arrays."""
    if isinstance(given, Iterator) or hasattr(given, "read_next_batch"):  # a stream of batches
        return False
    if _is_lazy(given):  # whose columns are not yet known
        return True
    is_frame = hasattr(given, "columns") and hasattr(given, "shape")
    return isinstance(given, Mapping) or hasattr(given, "schema") or is_frame


def _is_lazy(given: Any) -> bool:
    return hasattr(given, "collect")


def _as_table(batch: Any) -> Any:
    pa = _arrow()
    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if isinstance(batch, Mapping):
        columns = {str(name): _as_column(name, cells) for name, cells in batch.items()}
        lengths = {name: len(cells) for name, cells in columns.items()}
        if len({*lengths.values()}) > 1:
            raise ValueError(f"the columns of a batch differ in length: {lengths!r:.200}")
        return pa.table(columns)
    if isinstance(batch, str | os.PathLike):
        raise ValueError(
            f"batches hold the path {os.fspath(batch)!r}, {_EXPECTED}; genclf.stream.sum_batches "
            "takes several files"
        )
    if _is_lazy(batch):
        raise ValueError(f"batches hold a {type(batch).__name__}, {_EXPECTED} in memory")
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(batch, eager_only=True)
        return frame.to_arrow().select(frame.columns)  # without the index of pandas
    except TypeError as error:
        raise ValueError(f"batches hold a {type(batch).__name__}, {_EXPECTED}") from error
    except pa.ArrowException as error:
        raise ValueError(f"a table cannot be read: {error.args[0]}; {_ONE_TYPE}") from error


def _as_column(name: Any, cells: Any) -> Any:
    pa = _arrow()
    if isinstance(cells, pa.Array | pa.ChunkedArray):
        return cells
    if isinstance(cells, list | tuple):
        return _array(name, cells)
    if isinstance(cells, np.ma.MaskedArray) and cells.ndim == 1:
        return pa.array(cells.data, mask=np.ma.getmaskarray(cells), from_pandas=True)
    cells = np.asarray(cells)
    cells = cells.astype(cells.dtype.newbyteorder("="), copy=False)  # as Arrow needs it
    if cells.ndim == 2:
        flat = _array(name, np.ascontiguousarray(cells).ravel())
        return pa.FixedSizeListArray.from_arrays(flat, cells.shape[1])
    if cells.ndim != 1:
        raise ValueError(f"the array {name!r} has shape {cells.shape}, expected (n,) or (n, d)")
    return _array(name, cells)


def _array(name: Any, cells: Any) -> Any:
    pa = _arrow()
    try:
        return pa.array(cells, from_pandas=True)
    except pa.ArrowException as error:
        raise ValueError(f"column {name!r}: {error}; {_ONE_TYPE}") from error


def what_is(dtype: Any) -> str:
    """The kind of the cells of an Arrow type, in words."""
    types = _arrow().types
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


def check_numbers(cells: Any, column: Column, place: Place) -> None:
    """Raise unless the cells have the type of a column of numbers, or are null."""
    found, width = what_is(cells.type), column.width
    if found == "lists of numbers":
        found = _numbers(cells.type.list_size)
    expected = "truth values" if column.values else _numbers(width)
    if found not in (expected, "nulls"):
        raise place.error(f"{found}, expected {expected}", column.name)


def numbers_of(cells: Any, column: Column, place: Place) -> Float[np.ndarray, "n width"]:
    """The numbers of a column, NaN where missing; raise for infinite numbers and other types."""
    pa = _arrow()
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


def distinct(cells: Any, name: str, place: Place) -> tuple[list[Any], Int[np.ndarray, "n"]]:
    """The distinct values of a column, and the index of each cell's value, -1 for null.

    Whole numbers become ints in a column of floats too, as nulls can turn ints into floats.
    """
    pa = _arrow()
    if what_is(cells.type) not in ("numbers", "truth values", "strings", "nulls"):
        raise place.error(
            f"{cells.type}, expected numbers, strings or truth values: make strings of it", name
        )
    if pa.types.is_dictionary(cells.type) and cells.num_chunks > 1:
        holes = any(chunk.dictionary.null_count for chunk in cells.chunks)
        cells = cells.cast(cells.type.value_type) if holes else cells.unify_dictionaries()
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


def different(given: Any, name: str) -> tuple[Any, ...]:
    """The values that a user gives, as Python objects; raise unless they differ, of one type."""
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


def codes_of(cells: Any, values: tuple[Any, ...], name: str, place: Place) -> Int[np.ndarray, "n"]:
    """The index of each cell in `values`: `MISSING` for null, `UNSEEN` for any other value."""
    found, code = distinct(cells, name, place)
    known = [value for value in found if value is not None]
    if known and values and type_of(known[0]) != type_of(values[0]):
        raise place.error(
            f"{type_of(known[0])}, and the schema has {type_of(values[0])}, as {values[0]!r}", name
        )
    where = {value: i for i, value in enumerate(values)}
    new = [MISSING if value is None else where.get(value, UNSEEN) for value in found]
    return np.array([*new, MISSING])[code]


def type_of(value: Any) -> str:
    """The type of a categorical value, in words."""
    if isinstance(value, bool):
        return "truth values"
    return "strings" if isinstance(value, str) else "numbers"


def texts_of(cells: Any, name: str, place: Place) -> list[str]:
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


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError('record batches need pyarrow: pip install "genclf[stream]"') from error
    return pyarrow
