"""Batches of rows of any kind, as Arrow tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from genclf.tables.arrow_cells import ArrowColumn, arrow
from genclf.tables.frames import Frame, check_names, is_index

if TYPE_CHECKING:  # PyArrow is imported where rows are read
    import pyarrow as pa
    from numpy.typing import ArrayLike

    ArrowTable: TypeAlias = pa.Table
    RecordBatch: TypeAlias = pa.RecordBatch
    Batch: TypeAlias = ArrowTable | RecordBatch | Frame | Mapping[str, ArrayLike]
    Unit: TypeAlias = Batch | str | os.PathLike[str]
    Batches: TypeAlias = Unit | Iterable[Unit]
else:
    ArrowTable = RecordBatch = Batch = Unit = Batches = object

_ONE_TYPE = "expected cells of one type that Arrow supports"
_EXPECTED = "expected record batches of Arrow, tables, or dicts of arrays"


def as_tables(batches: Any) -> Iterator[ArrowTable]:
    """The batches, which are tables of any library or dicts of arrays, as Arrow tables."""
    single = is_batch(batches) or isinstance(batches, str)
    if not single and not isinstance(batches, Iterable):
        raise ValueError(f"batches is {batches!r:.60}, {_EXPECTED}")
    for batch in [batches] if single else batches:
        table = _as_table(batch)
        yield _decoded(table.drop_columns(list(filter(is_index, table.column_names))))


def _decoded(table: ArrowTable) -> ArrowTable:
    """The table, without run-end encoding, which Arrow cannot compute with."""
    from pyarrow import compute, types

    for index, (name, dtype) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if types.is_run_end_encoded(dtype):
            table = table.set_column(index, name, compute.run_end_decode(table[index]))
    return table


def is_batch(given: object) -> bool:
    """Whether this is one table, of any library, or a dict of arrays."""
    if isinstance(given, Iterator) or hasattr(given, "read_next_batch"):  # a stream of batches
        return False
    if hasattr(given, "collect"):  # a lazy table, whose columns are not yet known
        return True
    is_frame = hasattr(given, "columns") and hasattr(given, "shape")
    return isinstance(given, Mapping) or hasattr(given, "schema") or is_frame


def _as_table(batch: Any) -> ArrowTable:
    pa = arrow()
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
    if hasattr(batch, "collect"):  # a lazy table
        raise ValueError(f"batches hold a {type(batch).__name__}, {_EXPECTED} in memory")
    import narwhals.stable.v2 as nw

    check_names(batch, "a batch")
    try:
        frame = nw.from_native(batch, eager_only=True)
    except TypeError as error:
        raise ValueError(f"batches hold a {type(batch).__name__}, {_EXPECTED}") from error
    try:
        return frame.to_arrow().select(frame.columns)  # without the index of pandas
    except pa.ArrowException as error:
        reason = "; ".join(map(str, error.args))
        raise ValueError(f"a table cannot be read: {reason}; {_ONE_TYPE}") from error


def _as_column(name: object, cells: object) -> ArrowColumn:
    pa = arrow()
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


def _array(name: object, cells: object) -> ArrowColumn:
    pa = arrow()
    try:
        return pa.array(cells, from_pandas=True)
    except pa.ArrowException as error:
        raise ValueError(f"column {name!r}: {error}; {_ONE_TYPE}") from error
