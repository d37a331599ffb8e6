"""Tables of pandas, polars, Arrow and others, and dicts of columns, read as cells."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from genclf.arguments.extras import imported
from genclf.tables.arrow_cells import ArrowCells, arrow
from genclf.tables.cells import Cells, NumberCells, ObjectCells

if TYPE_CHECKING:  # narwhals is imported where a table is read
    import narwhals
    from narwhals.stable.v2.typing import IntoDataFrame

    Frame: TypeAlias = IntoDataFrame | Mapping[Any, Any]
    Series: TypeAlias = narwhals.Series[Any]
else:
    Frame = Series = object

CellsOf: TypeAlias = Mapping[Any, Cells]
"""The cells of each column of a table, by name."""

_INDEX = re.compile(r"__index_level_\d+__")
_EXPECTED = "a table of pandas, polars, Arrow or others, or a dict of columns"


def is_table(given: object) -> bool:
    """Whether this is a table, or a dict of columns."""
    is_sparse = hasattr(given, "tocsr")  # some of SciPy's sparse arrays are dicts of cells
    return not is_sparse and (isinstance(given, Mapping) or _frame(given) is not None)


def cells_of(given: object, name: str) -> CellsOf:
    """The columns of a table, or of a dict of columns; `name` is that of the argument.

    Raises:
        ValueError: it is not a table, has no rows or a name twice, or columns differ in length.
    """
    check_names(given, name)
    if isinstance(given, Mapping):
        found = {column: _cells(column, cells) for column, cells in given.items()}
    elif (frame := _frame(given)) is None:
        what = f"a {type(given).__name__}" if len(repr(given)) > 60 else repr(given)
        of_rows = isinstance(given, list) and bool(given) and isinstance(given[0], Mapping)
        hint = f"; of a list of rows: {{key: [row[key] for row in {name}] for key in {name}[0]}}"
        raise ValueError(f"{name} is {what}, expected {_EXPECTED}{hint * of_rows}")
    elif frame.implementation.is_pyarrow():
        native = frame.to_native()
        found = {column: ArrowCells(native[column]) for column in native.column_names}
    else:
        found = {series.name: _of_series(series) for series in frame.iter_columns()}
    lengths = {column: len(cells) for column, cells in found.items()}
    if len({*lengths.values()}) > 1:
        raise ValueError(f"the columns of {name} differ in length: {lengths!r:.200}")
    if not sum(lengths.values()):
        raise ValueError(f"{name} has no rows (0 sample(s)), expected at least one")
    return found


def take(cells: CellsOf, rows: np.ndarray) -> CellsOf:
    """These rows of all columns."""
    return {name: own.take(rows) for name, own in cells.items()}


def num_rows(cells: CellsOf) -> int:
    """The number of rows of a table."""
    return len(next(iter(cells.values())))


def library_of(given: object) -> str | None:
    """The library of a table; None for a dict of columns."""
    frame = _frame(given)
    return None if frame is None else frame.implementation.value


def make_table(columns: Mapping[Any, Any], library: str | None) -> Frame:
    """A table of these columns, of this library; a dict of them if it is None."""
    if library is None:
        return dict(columns)
    return _narwhals().from_dict(columns, backend=library).to_native()


def is_index(name: object) -> bool:
    """Whether pandas writes an index without a name under this column name."""
    return _INDEX.fullmatch(str(name)) is not None


def _narwhals() -> ModuleType:
    return imported("narwhals.stable.v2", "sklearn", "tables need")


def _frame(given: object) -> Any:
    """The table as a `DataFrame` of narwhals; None if it is not a table."""
    nw = _narwhals()
    if hasattr(given, "schema") and hasattr(given, "num_columns"):  # a record batch of Arrow
        pa = arrow()
        given = pa.Table.from_batches([given]) if isinstance(given, pa.RecordBatch) else given
    found = nw.from_native(given, eager_only=True, pass_through=True)
    return found if isinstance(found, nw.DataFrame) else None


def check_names(given: Any, what: str) -> None:
    """Raise if two columns of a table have the same name; `what` is the table, in words."""
    if isinstance(given, Mapping) or not hasattr(given, "columns"):
        return
    names = getattr(given, "column_names", None) or list(given.columns)
    try:
        if len(set(names)) == len(names):
            return
    except TypeError:  # of columns themselves, which have no names
        return
    twice = next(name for name in names if names.count(name) > 1)
    raise ValueError(f"{what} has the column {twice!r} twice, expected different names")


def _of_series(series: Series) -> Cells:
    nw, dtype = _narwhals(), series.dtype
    if isinstance(dtype, nw.Categorical | nw.Enum):
        return ObjectCells.of(series.to_list(), is_category=True)
    if dtype.is_float():
        return NumberCells(series.cast(nw.Float64).to_numpy())
    if (dtype.is_integer() or isinstance(dtype, nw.Boolean)) and not series.null_count():
        return NumberCells(np.asarray(series.to_numpy()))
    return ObjectCells.of(series.to_list())


def _cells(name: Hashable, given: Any) -> Cells:
    """The cells of one entry of a dict of columns."""
    if isinstance(given, Cells):
        return given
    if isinstance(given, list | tuple):
        return ObjectCells.of(given)
    if hasattr(given, "null_count") and hasattr(given, "to_pylist"):  # of Arrow
        return ArrowCells(given)
    if not isinstance(given, np.ndarray):
        nw = _narwhals()
        series = nw.from_native(given, series_only=True, pass_through=True)
        if isinstance(series, nw.Series):
            return _of_series(series)
    if isinstance(given, np.ma.MaskedArray):
        given = given.tolist() if given.ndim == 1 else np.ma.filled(given.astype(float), np.nan)
    array = np.asarray(given)
    if array.ndim not in (1, 2):
        what = f"an array of shape {array.shape}" if array.ndim else f"{given!r:.60}"
        raise ValueError(f"column {name!r} is {what}, expected a list of cells, (n,) or (n, d)")
    if array.dtype.kind in "biuf":
        return NumberCells(array)
    return ObjectCells.of(array.tolist() if array.dtype.kind in "OU" else list(array))
