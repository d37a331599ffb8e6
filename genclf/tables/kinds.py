"""How each column of a table is read: by the rules, or as a user says."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
from genclf.tables.columns import Column, Unseen, in_order
from genclf.tables.dates import PARTS, TYPES
from genclf.tables.frames import CellsOf
from genclf.tables.rules import (
    OF_VALUES,
    Kind,
    discrete,
    extent,
    kind_by_rules,
    values_as_strings,
    values_of,
)
from genclf.tables.words import words_of

if TYPE_CHECKING:
    from genclf.text import Vocabulary

    Given: TypeAlias = "Kind | Literal['date'] | Sequence[Value] | Vocabulary"
else:  # no check at run time: messages are those of this library
    Given = object

KINDS = (*get_args(Kind), "date")
"""The kinds that a user may give; "date" is read as its parts."""

_BINS = 10
_HUGE = 1e150  # numbers above it, or all below its inverse, are scaled: squares would not fit
_TYPE_OF_NULLS: dict[str, str] = dict.fromkeys(("numeric", "kernel", "count"), NUMBERS)
_TYPE_OF_NULLS["text"] = STRINGS
_NUMERIC = "numbers", (NUMBERS, TRUTH, LISTS, NULLS)
_CODED = "numbers, strings or truth values", OF_VALUES
_TYPES: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("numeric", "kernel", "count", "binned"), _NUMERIC),
    **dict.fromkeys(("categorical", "binary"), _CODED),
    "text": ("strings", (STRINGS, NULLS)),
    "date": ("dates, or strings such as 2024-05-31", TYPES),
}


@dataclass(frozen=True)
class Reading:
    """What decides how the columns of a table are read, besides the kinds that a user gives.

    Attributes:
        missing: whether a missing cell of a categorical column is ignored, or one more value.
        unseen: as in `Column`.
        label: the labels; a copy of them is dropped.
        rows: the rows' numbers in the whole table; a column of them is dropped.
    """

    missing: Literal["ignore", "value"] = "ignore"
    unseen: Unseen | None = None
    label: Cells | None = None
    rows: Int[np.ndarray, "n"] | None = None

    @cached_property
    def _labels(self) -> np.ndarray | None:
        return None if self.label is None else values_as_strings(*values_of(self.label))

    def of_table(self, cells: CellsOf, kinds: Mapping[Any, Given] | None) -> tuple[Column, ...]:
        """How each column is read.

        Args:
            cells: the columns, without the label.
            kinds: how a user wants columns to be read: a dict from their names to a kind, the list
                of values of a categorical column, or the `Vocabulary` of texts.

        Raises:
            ValueError: `kinds` names no column, or a column cannot be read as it says.
        """
        given = dict(kinds or {})
        if strange := [name for name in given if name not in cells]:
            raise ValueError(f"kinds names the column {strange[0]!r}, expected one of {[*cells]}")
        read = [c for name, own in cells.items() for c in self.of(name, own, given.get(name))]
        names = [column.name for column in read]
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{twice!r} is a column, and a part of a date: rename the column")
        return tuple(read)

    def of(self, name: Hashable, cells: Cells, given: Any = None) -> list[Column]:
        """How a column is read: one `Column`, or one for each part of a date."""
        check_kind(name, given)
        if not isinstance(given, str) or given != "date":
            return [self.single(name, cells, given)]
        _check_type(name, cells, "date")
        dates, found = cells.dates(), []
        if (wrong := np.isnat(dates) & ~cells.missing).any():
            cell = cells.shown(int(wrong.argmax()))
            raise ValueError(
                f"column {name!r} holds {cell!r:.40}, expected dates, as 2024-05-31, since "
                f"kinds[{name!r}] is 'date'"
            )
        for part, of_date in PARTS.items():
            own, own_name = of_date.cells(dates), f"{name} {part}"
            if len(only := own.encoded()[0]) < 2:
                column = Column(own_name, "drop", values=tuple(only), detail="constant")
            else:
                column = self.single(own_name, own, of_date.values)
            found.append(replace(column, unseen=None, date=name, date_part=part))
        return found

    def single(self, name: Hashable, cells: Cells, given: Any = None) -> Column:
        """How a column that is not a date is read."""
        if hasattr(given, "words"):
            words = tuple(given.words)
            return Column(name, "text", f"text {name}", STRINGS, words, lowercase=given.lowercase)
        if given is not None and not isinstance(given, str):
            return self._of_values(name, cells, checked_values(given, f"kinds[{name!r}]"))
        if given == "drop":
            return Column(name, "drop", detail="by kinds")
        values, code = values_of(cells)
        num_missing = int(cells.missing.sum())
        if self.missing == "value" and num_missing:
            values = [*values, None]
        if given is None:
            kind, detail = kind_by_rules(name, cells, values, code, self._labels, self.rows)
        else:
            _check_type(name, cells, given)
            kind, detail = cast(Kind, given), ""
        type = _TYPE_OF_NULLS.get(kind, NULLS) if cells.type == NULLS else cells.type
        common: dict[str, Any] = {"type": type, "detail": detail, "num_missing": num_missing}
        if kind == "drop":
            return Column(name, kind, **common)
        if kind == "text":
            return _text(name, cells, common, required=given is not None)
        if kind in ("numeric", "kernel", "count"):
            return _numeric(name, cells, kind, common)
        if kind == "binned":
            return _binned(name, cells, common, [None] * values.count(None))
        if kind == "binary" and len(values) > 2:
            raise ValueError(
                f'kinds[{name!r}] is "binary", but the column has {len(values)} values'
            )
        how: dict[str, Any] = {"values": in_order(values), "unseen": self.unseen}
        return Column(name, kind, "categorical", **how, **common)

    def _of_values(self, name: Hashable, cells: Cells, given: tuple[Value, ...]) -> Column:
        """A column whose values a user gives."""
        num_missing = int(cells.missing.sum())
        hole = (None,) if self.missing == "value" and num_missing else ()
        kind, detail = discrete([*given, *hole])
        how: dict[str, Any] = {"detail": detail, "num_missing": num_missing, "unseen": self.unseen}
        return Column(name, kind, "categorical", type_of(given[0]), (*given, *hole), **how)


def _text(name: Hashable, cells: Cells, common: dict[str, Any], *, required: bool) -> Column:
    texts = cells.texts()
    words = words_of(texts)
    if not words and required:
        raise ValueError(f"column {name!r} is read as text, but has no word of two letters")
    if not words:
        return Column(name, "drop", **common | {"detail": "text without a word of two letters"})
    known = [text for text, hole in zip(texts, cells.missing, strict=True) if not hole]
    length = sum(len(text.split()) for text in known) / max(len(known), 1)
    detail = f"{len(words)} different words, {length:.0f} in a text"
    return Column(name, "text", f"text {name}", values=words, **common | {"detail": detail})


def _numeric(name: Hashable, cells: Cells, kind: Kind, common: dict[str, Any]) -> Column:
    if not common["detail"] and cells.type == NUMBERS:
        common = common | {"detail": extent(cells.numbers())}
    exponent = _exponent(cells, kind)
    return Column(name, kind, kind, width=cells.width, exponent=exponent, **common)


def _exponent(cells: Cells, kind: Kind) -> int:
    """The power of two by which numbers are divided so that their squares fit in float64."""
    if kind == "count" or cells.type == NULLS:
        return 0
    number = np.abs(cells.numbers())
    largest = np.max(number, where=np.isfinite(number), initial=0.0)
    fits = 1 / _HUGE < largest < _HUGE or largest == 0
    return 0 if fits else int(np.frexp(largest)[1])


def _binned(name: Hashable, cells: Cells, common: dict[str, Any], holes: list[None]) -> Column:
    """Numbers in bins of about equally many."""
    from genclf.discretize import quantile_edges

    number = cells.numbers()[:, 0]
    seen = number[np.isfinite(number)]
    distinct = len(np.unique(seen))
    if distinct < 2 or cells.width > 1:
        raise ValueError(f'kinds[{name!r}] is "binned", but the column has {distinct} numbers')
    edges = tuple(quantile_edges(seen, min(_BINS, distinct)).tolist())
    detail = f"{len(edges) + 1} bins, cut from {edges[0]:.6g} to {edges[-1]:.6g}"
    how = {"values": tuple(holes), "edges": edges, **common, "detail": detail}
    return Column(name, "binned", "categorical", **how)


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


def _check_type(name: Hashable, cells: Cells, kind: str) -> None:
    """Raise unless cells of this type can be read as this kind."""
    expected, types = _TYPES[kind]
    if cells.type not in types:
        raise ValueError(
            f"column {name!r} holds {cells.type}, expected {expected}, since kinds[{name!r}] is "
            f"{kind!r}"
        )
    if types is OF_VALUES:
        try:
            cells.encoded()
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from error
