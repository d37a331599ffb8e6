"""The columns of a table: how each is read, by stated rules or as a user says."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np
from jaxtyping import Int

from genclf.tables.cells import (
    LISTS,
    NULLS,
    NUMBERS,
    STRINGS,
    TRUTH,
    Cells,
    Value,
    checked_values,
    type_of,
)
from genclf.tables.frames import CellsOf
from genclf.tables.rules import OF_VALUES, Kind, discrete, extent, kind_by_rules, values_of
from genclf.tables.words import words_of

if TYPE_CHECKING:
    from genclf.text import Vocabulary

    Given: TypeAlias = "Kind | Sequence[Value] | Vocabulary"
else:  # no check at run time: messages are those of this library
    Given = object

Unseen = Literal["error", "other", "ignore"]
KINDS = get_args(Kind)

_BINS = 10
_HUGE = 1e150  # numbers above it, or all below its inverse, are scaled: squares would not fit
_TYPE_OF_NULLS: dict[str, str] = {"numeric": NUMBERS, "count": NUMBERS, "text": STRINGS}
_OF_NUMBERS: tuple[str, ...] = (NUMBERS, TRUTH, LISTS, NULLS)
_OF_STRINGS: tuple[str, ...] = (STRINGS, NULLS)


@dataclass(frozen=True)
class Column:
    """How a column is read.

    Attributes:
        name: its name, or its number in an array.
        kind: "numeric", "count", "categorical", "binary", "binned", "text" or "drop".
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
    detail: str = field(default="", compare=False)
    num_missing: int = field(default=0, compare=False)

    def __repr__(self) -> str:
        return f"Column({self.name!r}, {self.kind!r}, {self.detail!r})"

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
        kind = "categorical" if self.kind == "binary" and len(values) > 2 else self.kind
        return replace(self, kind=kind, values=values)


def read_columns(
    cells: CellsOf,
    kinds: Mapping[Any, Given] | None = None,
    *,
    label: Cells | None = None,
    rows: Int[np.ndarray, "n"] | None = None,
    missing: Literal["ignore", "value"] = "ignore",
    unseen: Unseen | None = None,
) -> tuple[Column, ...]:
    """How each column is read.

    Args:
        cells: the columns, without the label.
        kinds: how a user wants columns to be read: a dict from their names to a kind, the list of
            values of a categorical column, or the `Vocabulary` of texts.
        label: the labels; a copy of them is dropped.
        rows: the rows' numbers in the whole table; a column of them is dropped.
        missing: whether a missing cell of a categorical column is ignored, or one more value.
        unseen: as in `Column`.

    Raises:
        ValueError: `kinds` names no column, or a column cannot be read as it says.
    """
    if strange := [name for name in kinds or {} if name not in cells]:
        raise ValueError(f"kinds names the column {strange[0]!r}, expected one of {[*cells]}")
    given = dict(kinds or {})
    return tuple(
        read_column(
            name, own, given.get(name), label=label, rows=rows, missing=missing, unseen=unseen
        )
        for name, own in cells.items()
    )


def read_column(
    name: Hashable,
    cells: Cells,
    given: Any = None,
    *,
    label: Cells | None = None,
    rows: Int[np.ndarray, "n"] | None = None,
    missing: Literal["ignore", "value"] = "ignore",
    unseen: Unseen | None = None,
) -> Column:
    """How a column is read; the arguments are those of `read_columns`."""
    check_kind(name, given)
    kind: Kind
    if hasattr(given, "words"):
        words = tuple(given.words)
        return Column(name, "text", f"text {name}", STRINGS, words, lowercase=given.lowercase)
    if given is not None and not isinstance(given, str):
        checked = checked_values(given, f"kinds[{name!r}]")
        values: list[Value | None] = [*checked]
        about: dict[str, Any] = {"type": type_of(checked[0]), "unseen": unseen}
        values += [None] * (missing == "value" and bool(cells.missing.any()))
        kind, about["detail"] = discrete(values)
        return Column(name, kind, "categorical", values=tuple(values), **about)
    if given == "drop":
        return Column(name, "drop", detail="by kinds")
    values, code = values_of(cells)
    num_missing = int(cells.missing.sum())
    if missing == "value" and num_missing:
        values = [*values, None]
    if given is None:
        kind, detail = kind_by_rules(name, cells, values, code, label, rows)
    else:
        kind = cast(Kind, given)
        _check_type(name, cells, kind)
        is_number = kind in ("numeric", "count") and cells.type == NUMBERS
        detail = extent(cells.numbers()) if is_number else ""
    type = _TYPE_OF_NULLS.get(kind, NULLS) if cells.type == NULLS else cells.type
    common: dict[str, Any] = {"type": type, "detail": detail, "num_missing": num_missing}
    if kind == "drop":
        return Column(name, kind, **common)
    if kind == "text":
        words = words_of(cells.texts())
        if not words and given == "text":
            raise ValueError(f"column {name!r} is read as text, but has no word of two letters")
        if not words:
            return Column(name, "drop", **common | {"detail": "text without a word of two letters"})
        detail = f"{len(words)} different words, {_length(cells):.0f} in a text"
        return Column(name, kind, f"text {name}", values=words, **common | {"detail": detail})
    if kind in ("numeric", "count"):
        return Column(
            name, kind, kind, width=cells.width, exponent=_exponent(cells, kind), **common
        )
    if kind == "binned":
        edges = _edges(name, cells)
        detail = f"{len(edges) + 1} bins, cut from {edges[0]:.6g} to {edges[-1]:.6g}"
        hole = (None,) if missing == "value" and num_missing else ()
        binned: dict[str, Any] = common | {"detail": detail, "values": hole, "edges": edges}
        return Column(name, kind, "categorical", **binned)
    if kind == "binary" and len(values) > 2:
        raise ValueError(f'kinds[{name!r}] is "binary", but the column has {len(values)} values')
    how: dict[str, Any] = {"values": in_order(values), "unseen": unseen}
    return Column(name, kind, "categorical", **how, **common)


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


def check_kind(name: Hashable, given: Any) -> None:
    """Raise unless this is what a user may say of a column."""
    if hasattr(given, "words"):
        if given.words[-1:] == ("<unknown>",):
            raise ValueError(
                f"kinds[{name!r}] is a Vocabulary that counts unknown words: expected one without "
                "unknown=True"
            )
    elif isinstance(given, Iterable) and not isinstance(given, str):
        if not len(list(given)):
            raise ValueError(f"kinds[{name!r}] is empty, expected the values of the column")
    elif given is not None and given not in KINDS:
        raise ValueError(
            f"kinds[{name!r}] is {given!r}, expected one of {', '.join(KINDS)}, a list of values "
            "or a Vocabulary"
        )


def warn_dropped(columns: Iterable[Column], stacklevel: int) -> None:
    """Warn of columns that a user did not drop."""
    each = [
        f"{c.name!r} ({c.detail})" for c in columns if c.kind == "drop" and c.detail != "by kinds"
    ]
    if each:
        names = ", ".join(each[:5]) + (f" and {len(each) - 5} more" if len(each) > 5 else "")
        warnings.warn(
            f"columns are not read: {names}; kinds= says otherwise", stacklevel=stacklevel + 1
        )


def _check_type(name: Hashable, cells: Cells, kind: Kind) -> None:
    """Raise unless cells of this type can be read as this kind."""
    if kind in ("numeric", "count", "binned"):
        expected, own = "numbers", _OF_NUMBERS
    elif kind == "text":
        expected, own = "strings", _OF_STRINGS
    else:
        expected, own = "numbers, strings or truth values", OF_VALUES
    if cells.type not in own:
        raise ValueError(
            f"column {name!r} holds {cells.type}, expected {expected}, since kinds[{name!r}] is "
            f"{kind!r}"
        )
    if own is OF_VALUES:
        try:
            cells.encoded()
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from error


def _length(cells: Cells) -> float:
    """The mean number of words in a text."""
    known = [text for text, hole in zip(cells.texts(), cells.missing, strict=True) if not hole]
    return sum(len(text.split()) for text in known) / max(len(known), 1)


def _edges(name: Hashable, cells: Cells) -> tuple[float, ...]:
    """The edges of bins of about equally many numbers."""
    from genclf.discretize import quantile_edges

    number = cells.numbers()[:, 0]
    seen = number[np.isfinite(number)]
    distinct = len(np.unique(seen))
    if distinct < 2 or cells.width > 1:
        raise ValueError(f'kinds[{name!r}] is "binned", but the column has {distinct} numbers')
    return tuple(quantile_edges(seen, min(_BINS, distinct)).tolist())


def _exponent(cells: Cells, kind: Kind) -> int:
    """The power of two by which numbers are divided so that their squares fit in float64."""
    if kind != "numeric" or cells.type == NULLS:
        return 0
    number = np.abs(cells.numbers())
    largest = np.max(number, where=np.isfinite(number), initial=0.0)
    fits = 1 / _HUGE < largest < _HUGE or largest == 0
    return 0 if fits else int(np.frexp(largest)[1])
