"""Tables of pandas, polars and others, by one interface."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Float

from genclf.arguments.extras import imported

if TYPE_CHECKING:  # narwhals is imported where a table is read
    import narwhals
    import narwhals.stable.v2 as nw
    from narwhals.stable.v2.typing import IntoDataFrame

    Frame: TypeAlias = IntoDataFrame
    Table: TypeAlias = nw.DataFrame[Any]
    Series: TypeAlias = narwhals.Series[Any]
else:
    Frame = Table = Series = object

_INDEX = re.compile(r"__index_level_\d+__")
MANY = 50  # a column with more distinct strings than this is text if they are sentences


def as_table(given: object) -> Table | None:
    """The table as a `DataFrame` of narwhals; None if it is not a table."""
    nw = _narwhals()
    found = nw.from_native(given, eager_only=True, pass_through=True)
    return found if isinstance(found, nw.DataFrame) else None


def floats(series: Series) -> Float[np.ndarray, "n"]:
    """The cells of a column of numbers or truth values, NaN where missing."""
    return series.cast(_narwhals().Float64).to_numpy()


def is_missing(cell: object) -> bool:
    """Whether a cell holds no value: None, NaN, or the NA of pandas, which has no truth value."""
    try:
        return cell is None or bool(cell != cell)
    except TypeError:
        return True


def is_index(name: object) -> bool:
    """Whether pandas writes an index without a name under this column name."""
    return _INDEX.fullmatch(str(name)) is not None


def make_table(columns: Mapping[str, Sequence[object]], like: Table) -> Frame:
    """A table of these columns, of the same library as `like`."""
    return _narwhals().from_dict(columns, backend=like.implementation).to_native()


def _narwhals() -> ModuleType:
    return imported("narwhals.stable.v2", "sklearn", "tables need")


def looks_like_text(strings: Sequence[str], num_distinct: int, num_rows: int) -> bool:
    """Whether strings are texts rather than categories.

    Texts have three words or more on average, and over 50 distinct values or values that rarely
    repeat.
    """
    words = sum(len(string.split()) for string in strings)
    rare = num_distinct > MANY or num_distinct > num_rows / 2
    return rare and words >= 3 * len(strings) > 0
