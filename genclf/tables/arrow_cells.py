"""The cells of a column of Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from genclf.arguments.extras import imported
from genclf.tables.cells import (
    DATES,
    LISTS,
    NULLS,
    NUMBERS,
    STRINGS,
    TRUTH,
    Cells,
    Value,
    is_missing,
    plain,
)

if TYPE_CHECKING:  # PyArrow is imported where rows are read
    import pyarrow as pa

    ArrowColumn: TypeAlias = pa.Array | pa.ChunkedArray
    ArrowType: TypeAlias = pa.DataType
else:
    ArrowColumn = ArrowType = object


def arrow() -> ModuleType:
    """PyArrow, or an error that says how to install it."""
    return imported("pyarrow", "stream", "record batches need")


@dataclass(frozen=True, eq=False)
class ArrowCells(Cells):
    """The cells of a column of Arrow; null and NaN are missing."""

    column: ArrowColumn

    @cached_property
    def type(self) -> str:  # type: ignore[override]
        return _what_is(self.column.type)

    @property
    def width(self) -> int:  # type: ignore[override]
        return self.column.type.list_size if self.type == LISTS else 1

    @property
    def is_category(self) -> bool:  # type: ignore[override]
        """Whether the column has a dictionary, as categories of pandas have."""
        return arrow().types.is_dictionary(self.column.type)

    def __len__(self) -> int:
        return len(self.column)

    def numbers(self) -> Float[np.ndarray, "n width"]:
        pa, cells, width = arrow(), self.column, self.width
        if self.type == NULLS:
            return np.full((len(cells), 1), np.nan)
        if self.type == LISTS:
            chunks = getattr(cells, "chunks", [cells])
            flat = [c.values.slice(c.offset * width, len(c) * width) for c in chunks]
            cells = pa.chunked_array(flat, cells.type.value_type)
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        if self.type == TRUTH:
            cells = cells.cast(pa.int8())
        found = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        found = found.reshape(-1, width)
        if self.type == LISTS and self.column.null_count:
            found = np.where(_array(self.column.is_null())[:, None], np.nan, found)
        return found

    def encoded(self) -> tuple[list[Value], Int[np.ndarray, "n"]]:
        pa, cells = arrow(), self.column
        if not isinstance(cells, pa.ChunkedArray):
            cells = pa.chunked_array([cells])
        if self.is_category and cells.num_chunks > 1:
            has_nulls = any(chunk.dictionary.null_count for chunk in cells.chunks)
            cells = cells.cast(cells.type.value_type) if has_nulls else cells.unify_dictionaries()
        encoded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
        if not encoded.num_chunks:
            return [], np.zeros(0, np.int64)
        given = encoded.chunk(0).dictionary.to_pylist()
        index: dict[Value, int] = {}
        of_value = [
            -1 if is_missing(value) else index.setdefault(plain(value), len(index))
            for value in given
        ]
        # The index len(given) stands for null.
        each = [_array(c.indices.fill_null(len(given))) for c in encoded.chunks]
        return list(index), np.array([*of_value, -1])[np.concatenate(each)]

    def dates(self) -> np.ndarray:
        pa, cells = arrow(), self.column
        if self.type != DATES:
            return super().dates()
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        if getattr(cells.type, "tz", None) is not None:
            from pyarrow import compute

            cells = compute.local_timestamp(cells)
        return cells.cast(pa.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)

    def texts(self) -> list[str]:
        return ["" if cell is None else str(cell) for cell in self.column.to_pylist()]

    def take(self, rows: Int[np.ndarray, "m"]) -> Cells:
        return ArrowCells(self.column.take(arrow().array(rows)))

    def shown(self, row: int) -> object:
        return self.column[row].as_py()

    @property
    def missing(self) -> Bool[np.ndarray, "n"]:
        types = arrow().types
        if types.is_floating(self.column.type) or self.type == LISTS:
            return super().missing
        return _array(self.column.is_null())


def _what_is(dtype: ArrowType) -> str:
    types = arrow().types
    if types.is_dictionary(dtype):
        return _what_is(dtype.value_type)
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return NUMBERS
    if types.is_boolean(dtype):
        return TRUTH
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype):
        return STRINGS
    if types.is_date(dtype) or types.is_timestamp(dtype):
        return DATES
    if types.is_null(dtype):
        return NULLS
    if types.is_fixed_size_list(dtype) and _what_is(dtype.value_type) == NUMBERS:
        return LISTS
    return str(dtype)


def _array(cells: ArrowColumn) -> np.ndarray:
    """The cells as an array of NumPy, copied if they have to be."""
    return cells.to_numpy() if hasattr(cells, "chunks") else cells.to_numpy(zero_copy_only=False)
