"""The kind of each column of a data set, and the part of the model that reads it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genclf.tables.cells import LISTS, NUMBERS, STRINGS, TRUTH, Cells
from genclf.tables.columns import Column, Unseen
from genclf.tables.kinds import Given, Reading, check_kind
from genclf.tables.rules import FEW, Kind, looks_like_text


@dataclass(frozen=True)
class Assignment:
    """What decides how columns are read.

    Attributes:
        wanted: a dict from the parts of the model to their kinds (a model without parts has the
            single key None). If there is no dict, one part is made per kind, and per text.
        kinds: how a user wants columns to be read, by their names.
        part_of: the part that a user wants to read a column, by its name.
        missing: whether a missing cell of a categorical column is ignored, or one more value.
        unseen: the treatment of other values of categorical columns; see `Column`.
    """

    wanted: Mapping[str | None, Kind] | None
    kinds: Mapping[str, Any]
    part_of: Mapping[str, str]
    missing: Any = "ignore"
    unseen: Unseen | None = None

    @staticmethod
    def given(
        wanted: Mapping[str | None, Kind] | None,
        kinds: Mapping[str, Given] | None,
        parts: Mapping[str, Sequence[str]] | None,
        missing: str,
        unseen: Unseen | None,
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
        for name, kind in (kinds or {}).items():
            check_kind(name, kind)
            if isinstance(kind, str) and kind == "kernel":
                raise ValueError(
                    f"kinds[{name!r}] is 'kernel', but a kernel density needs all rows at once: "
                    "expected another kind, such as numeric or binned"
                )
        lists = lambda v: v.tolist() if isinstance(v, np.ndarray) else v  # noqa: E731
        part_of = {name: part for part, own in (parts or {}).items() for name in own}
        own_kinds = {name: lists(kind) for name, kind in (kinds or {}).items()}
        return Assignment(wanted, own_kinds, part_of, missing, unseen)

    def drops(self, name: str) -> bool:
        """Whether the user leaves this column out."""
        given = self.kinds.get(name)
        return isinstance(given, str) and given == "drop"

    def collects(self, column: Column) -> bool:
        """Whether the values or words of a column are those of the data."""
        given = self.kinds.get(column.name)
        listed = column.is_listed or not (given is None or isinstance(given, str))
        return column.has_values and not listed

    def has_many(self, column: Column, values: Collection[object]) -> bool:
        """Whether whole numbers that the rules took for categories turn out to have many values."""
        by_rule = self.wanted is None and column.source not in self.kinds
        return by_rule and column.is_coded and column.type == NUMBERS and len(values) > FEW

    def names(self, found: Sequence[str], others: Sequence[str]) -> list[str]:
        """The columns of the table that the model may read.

        `others` are the columns of labels and weights.
        """
        for name in others:
            if name in self.kinds or name in self.part_of or others.count(name) > 1:
                raise ValueError(
                    f"column {name!r} has labels or weights, so it cannot have another role"
                )
        for name in [*others, *self.kinds, *self.part_of]:
            if name not in found:
                raise ValueError(f"the batch has no column {name!r}; the columns are {found}")
        read = [name for name in found if name not in others and not self.drops(name)]
        if not read:
            raise ValueError(f"there is no column besides {others[0]!r}")
        return read

    def columns(self, name: str, cells: Cells, label: Cells | None = None) -> list[Column]:
        """How a column is read, with the values of these cells; a date is read as its parts.

        Without a model the rules of tables decide; a model reads what it can.
        """
        given = self.kinds.get(name)
        reading = Reading(self.missing, self.unseen, label)
        if self.wanted is None:
            return reading.of(name, cells, given)
        read = reading.of(name, cells, _implied(name, cells) if given is None else given)
        return [c if c.kind == "drop" else self._in_part(c, cells, given, reading) for c in read]

    def _in_part(self, column: Column, cells: Cells, given: Any, reading: Reading) -> Column:
        """The column with the part of the model that reads it; its kind may be that of the part."""
        assert self.wanted is not None
        name, part = column.name, None
        if None not in self.wanted:
            part = self.part_of.get(name) or _part_for(column, self.wanted)
        kind = self.wanted[part]
        if kind not in (column.kind, _kind_of_part(column)):
            if cells.type == STRINGS and given is None and column.kind != "text":
                raise ValueError(
                    f"column {name!r} holds strings, but the model reads it as {kind}: "
                    f'drop it by kinds={{{name!r}: "drop"}}'
                )
            if given is not None or column.kind == "text":
                raise ValueError(f"column {name!r} is {column.kind}, but its part reads {kind}")
            if cells.type == LISTS and kind != "count":
                raise ValueError(
                    f"column {name!r} holds {LISTS}, but its part reads {kind}: split the column"
                )
            column = reading.single(name, cells, kind)
        return replace(column, part=part, exponent=0)

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


def _implied(name: str, cells: Cells) -> Kind:
    """The kind that the type of a column implies for a model that reads it."""
    if cells.type in (NUMBERS, LISTS):
        return "numeric"
    if cells.type == TRUTH:
        return "categorical"
    if cells.type != STRINGS:
        raise ValueError(
            f"column {name!r} has the type {cells.type}, expected numbers, {LISTS}, strings or "
            f'truth values: convert it, or drop it by kinds={{{name!r}: "drop"}}'
        )
    known = [text for text in cells.texts() if text]
    is_text = not cells.is_category and looks_like_text(known, len(set(known)), len(cells))
    return "text" if is_text else "categorical"


def _kind_of_part(column: Column) -> Kind:
    if column.kind == "text":
        return "count"
    if column.kind == "kernel":
        return "numeric"
    return "categorical" if column.is_coded else column.kind


def _part_for(column: Column, wanted: Mapping[str | None, Kind]) -> str | None:
    if column.name in wanted:
        return column.name
    able = [part for part, own in wanted.items() if own == _kind_of_part(column)]
    if len(able) != 1:
        some = f"{len(able)} parts" if able else "no part"
        raise ValueError(
            f"column {column.name!r} is {column.kind}, but {some} of the model could read it: name "
            f'the columns of a part by parts=, or drop it by kinds={{{column.name!r}: "drop"}}'
        )
    return able[0]
