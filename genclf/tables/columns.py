"""A column of a table, described: its name, its kind, its values."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from genclf.tables.cells import NUMBERS, Value, some
from genclf.tables.dates import PARTS
from genclf.tables.rules import Kind, listed

Unseen = Literal["error", "other", "ignore"]


@dataclass(frozen=True)
class Column:
    """How a column is read.

    Attributes:
        name: its name, or its number in an array.
        kind: "numeric", "kernel", "count", "categorical", "binary", "binned", "text" or "drop".
        part: the part of the model that reads it; None for a model without parts, and for "drop".
        type: what its cells are, in words, such as "numbers" or "truth values".
        values: the values of a categorical column, or the words of a column of texts, in order;
            None, as the last one, stands for a missing cell that is a value of its own.
        edges: where numbers are cut into bins, as `genclf.discretize.codes` cuts; for "binned".
        width: how many numbers a cell holds; more than 1 for fixed-length lists, as embeddings.
        exponent: numbers are divided by 2 to this power; 0 unless their squares would not fit.
        lowercase: whether texts are lowercased first.
        unseen: the treatment of a value that is not among `values`: "error"; "other", one more
            value; or "ignore", no evidence. None is "error" while learning, "ignore" after.
        date: the name of the column of dates of which it is a part; None for other columns.
        date_part: "year", "month", "weekday" or "hour"; empty for other columns.
        detail: what it holds, or why it was dropped, in words.
        num_missing: number of cells without a value, where the column was learned from.
    """

    name: Any
    kind: Kind
    part: str | None = None
    type: str = NUMBERS
    values: tuple[Any, ...] = ()
    edges: tuple[float, ...] = ()
    width: int = 1
    exponent: int = 0
    lowercase: bool = True
    unseen: Unseen | None = None
    date: Any = None
    date_part: str = ""
    detail: str = field(default="", compare=False)
    num_missing: int = field(default=0, compare=False)

    def __repr__(self) -> str:
        return f"Column({self.name!r}, {self.kind!r}, {self.detail!r})"

    @property
    def source(self) -> Any:
        """The name of the column of the table that holds it."""
        return self.date if self.date_part else self.name

    @property
    def is_listed(self) -> bool:
        """Whether its values are those of every table: months, weekdays and hours."""
        return bool(self.date_part) and PARTS[self.date_part].values is not None

    @property
    def size(self) -> int:
        """The number of features: of codes that a value can have, words, or numbers in a cell."""
        if self.kind == "binned":
            return len(self.edges) + 1 + len(self.values)
        if self.has_values:
            return len(self.values) + (self.is_coded and self.unseen == "other")
        return self.width

    @property
    def is_coded(self) -> bool:
        """Whether it is read as indices of its values."""
        return self.kind in ("categorical", "binary", "binned")

    @property
    def has_values(self) -> bool:
        """Whether it has a list of values or of words."""
        return self.kind in ("categorical", "binary", "text")

    def with_values(self, values: tuple[Any, ...]) -> Column:
        """The column with these values; a binary one with a third value is categorical."""
        if self.kind == "text":
            return replace(self, values=values, detail=f"{len(values)} different words")
        kind = "categorical" if self.kind == "binary" and len(values) > 2 else self.kind
        return replace(self, kind=kind, values=values, detail=listed(values))


def in_order(values: Iterable[Value | None]) -> tuple[Value | None, ...]:
    """The values, sorted; None, for a missing cell, as the last."""
    values = list(values)
    known = sorted(value for value in values if value is not None)
    return (*known, *[None] * (None in values))


def sizes_of(columns: Iterable[Column]) -> dict[str, tuple[int, ...]]:
    """The sizes of the columns of each part that reads some."""
    found: dict[str, tuple[int, ...]] = {}
    for column in columns:
        if column.kind != "drop":
            part = str(column.part)
            found[part] = (*found.get(part, ()), column.size)
    return found


def warn_dropped(columns: Iterable[Column], stacklevel: int) -> None:
    """Warn of columns that a user did not drop, besides constant parts of dates that vary."""
    columns = list(columns)
    read = {column.source for column in columns if column.kind != "drop"}
    each = [
        f"{c.name!r} ({c.detail})"
        for c in columns
        if c.kind == "drop" and c.detail != "by kinds" and c.source not in read
    ]
    if each:
        message = f"columns are not read: {some(each, 5)}; kinds= says otherwise"
        warnings.warn(message, stacklevel=stacklevel + 1)
