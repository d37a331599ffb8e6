"""The first pass over the rows, which finds the kinds of the columns and their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from genclf.stream.columns import Column, Kind, Place, distinct, plain, texts_of, type_of, what_is
from genclf.tables.frames import looks_like_text

_KINDS = (*get_args(Kind), "drop")


def assigned(
    wanted: Mapping[str | None, Kind] | None,
    table: Any,
    others: Sequence[str | None],
    kinds: Mapping[str, Any] | None,
    parts: Mapping[str, Sequence[str]] | None,
) -> tuple[Column, ...]:
    """The columns that the parts of a model read, without their values.

    Args:
        wanted: the kind of each part, under the key None for a model without parts; None to make
            one part for each kind.
        table: a table of Arrow.
        others: the columns of labels and weights.
        kinds: how columns are read.
        parts: the columns of each part.
    """
    lists = lambda v: v.tolist() if isinstance(v, np.ndarray) else v  # noqa: E731
    names, kinds = table.column_names, {name: lists(v) for name, v in (kinds or {}).items()}
    part_of = {name: part for part, own in (parts or {}).items() for name in own}
    for name in [*(o for o in others if o is not None), *kinds, *part_of]:
        if name not in names:
            raise ValueError(f"the batch has no column {name!r}; the columns are {names}")
    if unknown := sorted({*(parts or {})} - {*(wanted or ())}):
        raise ValueError(
            f"parts names {unknown[0]!r}, and the model has {sorted(map(str, wanted or ()))}"
        )
    found = []
    for name in names:
        if name in others or kinds.get(name) == "drop":
            continue
        column = _as_given(name, kinds.get(name), table[name])
        if wanted is None:
            part = f"text {name}" if column.kind == "text" else column.kind
        elif None in wanted:
            part = None
        else:
            part = part_of.get(name) or _part_for(column, wanted)
        if wanted is not None:
            as_before = column.kind
            column = _fitted_to(column, wanted[part], name in kinds)
            if column.kind != as_before and what_is(table[name].type) == "strings":
                raise ValueError(
                    f"column {name!r} holds strings, and the model takes it as {column.kind}: "
                    f'leave it out, kinds={{{name!r}: "drop"}}'
                )
        found.append(replace(column, part=part))
    read = {column.part for column in found}
    if idle := [part for part in wanted or [] if part not in read]:
        raise ValueError(f"part {idle[0]!r} of the model has no column: name it by parts=")
    for part in read:
        own = [column for column in found if column.part == part]
        if len(own) > 1 and (text := [c for c in own if c.kind == "text"]):
            raise ValueError(
                f"column {text[0].name!r} is text and shares its part of the model with "
                f"{[c.name for c in own if c is not text[0]]}: give each text a part of a Product"
            )
    if not found:
        raise ValueError(f"there is no column beside {others[0]!r}")
    return tuple(found)


def _as_given(name: str, given: Any, cells: Any) -> Column:
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
        return Column(name, "categorical", values=_different(given, f"kinds[{name!r}]"))
    if given is not None and given not in _KINDS:
        raise ValueError(
            f"kinds[{name!r}] is {given!r}, expected one of {', '.join(_KINDS)}, a list of values "
            "or a Vocabulary"
        )
    if given is None:
        if what not in ("numbers", "lists of numbers", "strings", "truth values"):
            raise ValueError(
                f"column {name!r} has the type {cells.type}, expected numbers, strings or truth "
                f'values: make such of it, or leave it out, kinds={{{name!r}: "drop"}}'
            )
        given = "numeric" if what in ("numbers", "lists of numbers") else "categorical"
        if what == "strings" and not _is_dictionary(cells):
            known = [cell for cell in cells.to_pylist() if cell is not None]
            given = "text" if looks_like_text(known, len(set(known)), len(cells)) else given
    return Column(name, given, width=width)


def _is_dictionary(cells: Any) -> bool:
    return hasattr(cells.type, "value_type") and hasattr(cells.type, "index_type")


def _part_for(column: Column, wanted: Mapping[str | None, Kind]) -> str | None:
    if column.name in wanted:
        return column.name
    kind = "count" if column.kind == "text" else column.kind
    able = [part for part, own in wanted.items() if own == kind]
    if len(able) != 1:
        some = f"{len(able)} parts" if able else "no part"
        raise ValueError(
            f"column {column.name!r} is {column.kind}, and {some} of the model would take it: name "
            f'the columns of a part by parts=, or leave it out, kinds={{{column.name!r}: "drop"}}'
        )
    return able[0]


def _fitted_to(column: Column, kind: Kind, is_given: bool) -> Column:
    """The column as a part of this kind reads it."""
    as_it_is = column.kind == kind or (column.kind, kind) == ("text", "count")
    if as_it_is:
        return column
    if is_given or column.kind == "text" or column.width > 1:
        raise ValueError(f"column {column.name!r} is {column.kind}, and its part takes {kind}")
    return replace(column, kind=kind)


def learned(
    columns: tuple[Column, ...], label: str, tables: Iterable[Any], classes: Iterable[Any] | None
) -> tuple[tuple[Column, ...], tuple[Any, ...]]:
    """The columns with their values, and the classes, collected from all tables."""
    open_ones = [c for c in columns if c.kind in ("categorical", "text") and not c.values]
    found: dict[str, set[Any]] = {column.name: set() for column in open_ones}
    seen: set[Any] = set()
    for number, table in enumerate(tables):
        place = Place(f"batch {number}")
        for column in columns:
            is_text = what_is(_only(table, column.name, place).type) == "strings"
            if is_text and column.kind in ("numeric", "count"):
                raise place.error("strings, expected numbers", column.name)
        if classes is None:
            _add(seen, table, label, place)
        for column in open_ones:
            if column.kind == "text":
                found[column.name] |= _words(
                    texts_of(_only(table, column.name, place), column.name, place)
                )
            else:
                _add(found[column.name], table, column.name, place)
        if classes is not None and not open_ones:
            break
    if classes is None and not seen:
        raise ValueError(f"the label {label!r} is missing in every row")
    for column in open_ones:
        if not found[column.name]:
            raise ValueError(
                f"column {column.name!r} has no value: leave it out, or give its values by kinds="
            )
    values = {name: tuple(sorted(own)) for name, own in found.items()}
    return (
        tuple(replace(c, values=values.get(c.name, c.values)) for c in columns),
        tuple(sorted(seen)) if classes is None else _different(classes, "classes"),
    )


def _different(given: Any, name: str) -> tuple[Any, ...]:
    """The values that a user gives, as Python objects; raise if one is repeated or missing."""
    values = [plain(value.item() if hasattr(value, "item") else value) for value in given]
    if None in values:
        raise ValueError(f"{name} holds {list(given)[values.index(None)]!r}, expected values")
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise ValueError(f"{name} holds {twice!r} twice")
    return tuple(values)


def _add(values: set[Any], table: Any, name: str, place: Place) -> None:
    own, code = distinct(_only(table, name, place), name, place)
    used = {own[i] for i in set(code.tolist()) if i >= 0}
    one, other = next(iter(values), None), next(iter(used), None)
    if one is not None and other is not None and type_of(one) != type_of(other):
        raise place.error(f"{type_of(other)}, and {type_of(one)} before", name)
    values |= used


def _only(table: Any, name: str, place: Place) -> Any:
    if table.column_names.count(name) != 1:
        raise place.error(f"no column {name!r}; the columns are {table.column_names}")
    return table[name]


def _words(texts: list[str]) -> set[str]:
    from sklearn.feature_extraction.text import CountVectorizer

    try:
        return set(CountVectorizer().fit(texts).vocabulary_)
    except ValueError:  # no word at all
        return set()
