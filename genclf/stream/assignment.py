"""The kind of each column of a data set, and the part of the model that reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from genclf.stream.batches import ArrowColumn
from genclf.stream.columns import Column, Kind, Value, checked_values, what_is
from genclf.tables.frames import looks_like_text

if TYPE_CHECKING:
    from genclf.text import Vocabulary

    Given: TypeAlias = Kind | Literal["drop"] | Sequence[Value] | Vocabulary
else:  # no check at run time: messages are those of this library
    Given = object

_KINDS = (*get_args(Kind), "drop")


@dataclass(frozen=True)
class Assignment:
    """What decides how columns are read.

    Attributes:
        wanted: a dict from the parts of the model to their kinds (a model without parts has the
            single key None). If there is no dict, one part is made per kind, and per text.
        kinds: how a user wants columns to be read, by their names.
        part_of: the part that a user wants to read a column, by its name.
    """

    wanted: Mapping[str | None, Kind] | None
    kinds: Mapping[str, Any]
    part_of: Mapping[str, str]

    @staticmethod
    def given(
        wanted: Mapping[str | None, Kind] | None,
        kinds: Mapping[str, Given] | None,
        parts: Mapping[str, Sequence[str]] | None,
    ) -> Assignment:
        """The assignment that these arguments of `Schema.scan` describe."""
        if unknown := sorted({*(parts or {})} - {*(wanted or ())}):
            known = [part for part in wanted or () if part is not None]
            raise ValueError(f"parts names {unknown[0]!r}, but the parts of the model are {known}")
        for part, own in (parts or {}).items():
            if isinstance(own, str) or not all(isinstance(name, str) for name in own):
                raise ValueError(f"parts[{part!r}] is {own!r}, expected a list of column names")
        named = [name for own in (parts or {}).values() for name in own]
        if twice := [name for name in named if named.count(name) > 1]:
            raise ValueError(f"parts has column {twice[0]!r} twice")
        lists = lambda v: v.tolist() if isinstance(v, np.ndarray) else v  # noqa: E731
        part_of = {name: part for part, own in (parts or {}).items() for name in own}
        return Assignment(wanted, {k: lists(v) for k, v in (kinds or {}).items()}, part_of)

    def drops(self, name: str) -> bool:
        """Whether the user leaves this column out."""
        given = self.kinds.get(name)
        return isinstance(given, str) and given == "drop"

    def names(self, found: Sequence[str], others: Sequence[str]) -> list[str]:
        """The columns of the table that the model reads.

        `others` are the columns of labels and weights.
        """
        for name in [*others, *self.kinds, *self.part_of]:
            if name not in found:
                raise ValueError(f"the batch has no column {name!r}; the columns are {found}")
        for name in others:
            if name in self.kinds or name in self.part_of or others.count(name) > 1:
                raise ValueError(
                    f"column {name!r} has labels or weights, so it cannot have another role"
                )
        read = [name for name in found if name not in others and not self.drops(name)]
        if not read:
            raise ValueError(f"there is no column besides {others[0]!r}")
        return read

    def column(self, name: str, cells: ArrowColumn) -> Column:
        """The column, without the values that are still to be collected."""
        what, is_given = what_is(cells.type), name in self.kinds
        column = _as_given(name, self.kinds.get(name), cells)
        if self.wanted is None:
            part = f"text {name}" if column.kind == "text" else column.kind
        elif None in self.wanted:
            part = None
        else:
            part = self.part_of.get(name) or _part_for(column, self.wanted)
        if self.wanted is not None:
            before = column.kind
            column = _as_kind(column, self.wanted[part], is_given)
            if column.kind != before and what == "strings":
                raise ValueError(
                    f"column {name!r} holds strings, but the model reads it as {column.kind}: "
                    f'drop it by kinds={{{name!r}: "drop"}}'
                )
        as_numbers = what == "truth values" and column.kind in ("numeric", "count")
        return replace(column, part=part, values=(False, True) if as_numbers else column.values)

    def check(self, columns: Iterable[Column]) -> None:
        """Raise unless the parts of the model match these columns, taken as the complete list."""
        columns = list(columns)
        read = {column.part for column in columns}
        if idle := [part for part in self.wanted or [] if part not in read]:
            raise ValueError(f"part {idle[0]!r} of the model has no column: give some by parts=")
        for part in read:
            own = [column for column in columns if column.part == part]
            if len(own) > 1 and (text := [c for c in own if c.kind == "text"]):
                raise ValueError(
                    f"column {text[0].name!r} is text and shares its part of the model with "
                    f"{[c.name for c in own if c is not text[0]]}: give each text a part of a "
                    "Product"
                )


def _as_given(name: str, given: Any, cells: ArrowColumn) -> Column:
    """The column, read as its type implies or as `kinds` specifies."""
    what = what_is(cells.type)
    width = cells.type.list_size if what == "lists of numbers" else 1
    if hasattr(given, "words"):
        if given.words[-1:] == ("<unknown>",):
            raise ValueError(
                f"kinds[{name!r}] is a Vocabulary that counts unknown words: expected one without "
                "unknown=True"
            )
        return Column(name, "text", values=tuple(given.words), lowercase=given.lowercase)
    if isinstance(given, Sequence) and not isinstance(given, str):
        if not given:
            raise ValueError(f"kinds[{name!r}] is empty, expected the values of the column")
        return Column(name, "categorical", values=checked_values(given, f"kinds[{name!r}]"))
    if given is not None and given not in _KINDS:
        raise ValueError(
            f"kinds[{name!r}] is {given!r}, expected one of {', '.join(_KINDS)}, a list of values "
            "or a Vocabulary"
        )
    if given is None:
        if what not in ("numbers", "lists of numbers", "strings", "truth values"):
            raise ValueError(
                f"column {name!r} has the type {cells.type}, expected numbers, strings or truth "
                f'values: convert it, or drop it by kinds={{{name!r}: "drop"}}'
            )
        given = "numeric" if what in ("numbers", "lists of numbers") else "categorical"
        if what == "strings" and not _is_dictionary(cells):
            known = [cell for cell in cells.to_pylist() if cell is not None]
            given = "text" if looks_like_text(known, len(set(known)), len(cells)) else given
    return Column(name, given, width=width)


def _is_dictionary(cells: ArrowColumn) -> bool:
    return hasattr(cells.type, "value_type") and hasattr(cells.type, "index_type")


def _part_for(column: Column, wanted: Mapping[str | None, Kind]) -> str | None:
    if column.name in wanted:
        return column.name
    kind = "count" if column.kind == "text" else column.kind
    able = [part for part, own in wanted.items() if own == kind]
    if len(able) != 1:
        some = f"{len(able)} parts" if able else "no part"
        raise ValueError(
            f"column {column.name!r} is {column.kind}, but {some} of the model could read it: name "
            f'the columns of a part by parts=, or drop it by kinds={{{column.name!r}: "drop"}}'
        )
    return able[0]


def _as_kind(column: Column, kind: Kind, is_given: bool) -> Column:
    """Convert the column to the kind that its part of the model reads; raise if it cannot be."""
    as_it_is = column.kind == kind or (column.kind, kind) == ("text", "count")
    if as_it_is:
        return column
    if is_given or column.kind == "text" or column.width > 1:
        raise ValueError(f"column {column.name!r} is {column.kind}, but its part reads {kind}")
    return replace(column, kind=kind)
