"""The first pass over the rows, which finds the kinds of the columns and their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from genclf.stream.assignment import Assignment
from genclf.stream.batches import ArrowTable
from genclf.stream.files import ROWS
from genclf.tables.arrays import check_type, column_in, in_words, numbers_in, texts_in
from genclf.tables.arrow_cells import ArrowCells, ArrowColumn, arrow
from genclf.tables.cells import NULLS, Cells, Value, checked_values, type_of
from genclf.tables.columns import Column, in_order, warn_dropped
from genclf.tables.place import Place
from genclf.tables.words import words_of

Tables = Iterable[tuple[str, ArrowTable]]


def learned(
    assignment: Assignment, tables: Tables, others: Sequence[str], classes: Iterable[object] | None
) -> tuple[tuple[Column, ...], tuple[Value, ...]]:
    """The columns that are read, with their values, and the classes, from a pass over all rows.

    The first 65,536 rows decide how a column is read; a column that is null there is decided by the
    first table in which it is not.

    Args:
        assignment: what decides how a column is read.
        tables: tables of Arrow, each with the name of its file or batch.
        others: the column of labels, and that of weights if there is one.
        classes: the classes; None to collect them.
    """
    rest = iter(tables)
    first = _first_look(rest)
    if not first:
        raise ValueError("batches is empty: there are no columns")
    pa = arrow()
    names = assignment.names(first[0][1].column_names, others)
    first = [(source, _with_weight(table, others, Place(source))) for source, table in first]
    look = {name: _joined(first, name) for name in [*names, others[0]]}
    label = look.pop(others[0])
    columns: dict[str, Column | None] = {}
    for name, own in look.items():
        columns |= _decided(assignment, name, own, label)
    values = {name: {*c.values} for name, c in columns.items() if c and assignment.collects(c)}
    seen = values_in(label, others[0], Place(first[0][0])) if classes is None else set()
    if None not in columns.values():
        assignment.check(_read(columns))
    for source, table in () if _is_complete(assignment, columns, classes) else rest:
        place = Place(source)
        table = _with_weight(table, others, place)
        for name, column in columns.items():
            at = name if column is None else column.source
            whole = ArrowCells(_single_column(table, at, place))
            cells = whole if column is None else column_in({at: whole}, column, place)
            if column is None:
                own = pa.table({name: whole.column})
                look[name] = _joined([(source, _one_row(look[name], name)), (source, own)], name)
                columns |= _decided(assignment, name, look[name], None)
                column = columns[name]
                if column is not None and assignment.collects(column):
                    values[name] = {*column.values}
            elif column.kind != "drop":
                collected(values.get(name), cells, column, place, assignment.missing)
                if assignment.has_many(column, values.get(name, ())):
                    columns[name] = Column(name, "numeric", "numeric", width=column.width)
                    del values[name]
        if classes is None:
            cells = ArrowCells(_single_column(table, others[0], place))
            _add(seen, values_in(cells, others[0], place), others[0], place)
    if classes is None and not seen:
        raise ValueError(f"the label {others[0]!r} is missing in every row")
    for name, column in columns.items():
        if column is None:
            columns[name] = column = _without_value(assignment, name, look[name])
        if name in values:
            columns[name] = _with_values(column, values[name])
    warn_dropped(filter(None, columns.values()), stacklevel=4)
    known = _read(columns)
    if not known:
        raise ValueError("there is no column to read: give other kinds")
    assignment.check(known)
    if classes is None:
        return tuple(known), tuple(sorted(seen))
    return tuple(known), checked_values(classes, "classes")


def _read(columns: dict[str, Column | None]) -> list[Column]:
    return [column for column in columns.values() if column and column.kind != "drop"]


def _decided(
    assignment: Assignment, name: str, cells: Cells, label: Cells | None
) -> dict[str, Column | None]:
    """How a column is read, by its name or those of its parts.

    It is None as long as the column is null, or has one value.
    """
    if cells.type == NULLS:
        return {name: None}
    read = assignment.columns(name, cells, label)
    open = lambda c: c.kind == "drop" and c.detail.startswith("constant") and not c.date_part  # noqa: E731
    return {column.name: None if open(column) else column for column in read}


def _one_row(cells: Cells, name: str) -> ArrowTable:
    """The first value of a column that has no other."""
    row = np.flatnonzero(~cells.missing)[:1] if cells.type != NULLS else np.arange(1)
    found = cells.take(row)
    assert isinstance(found, ArrowCells)
    return arrow().table({name: found.column})


def _is_complete(
    assignment: Assignment, columns: dict[str, Column | None], classes: object
) -> bool:
    """Whether nothing remains to be collected."""
    known = [column for column in columns.values() if column is not None]
    return (
        classes is not None
        and len(known) == len(columns)
        and not any(assignment.collects(column) for column in known)
    )


def _first_look(tables: Iterator[tuple[str, ArrowTable]]) -> list[tuple[str, ArrowTable]]:
    """The first tables, of 65,536 rows or more together if there are so many."""
    found, rows = [], 0
    for source, table in tables:
        found.append((source, table))
        rows += len(table)
        if rows >= ROWS:
            break
    return found


def _joined(tables: Sequence[tuple[str, ArrowTable]], name: str) -> ArrowCells:
    """The cells of a column in several tables; raise if their types differ."""
    pa, chunks = arrow(), []
    kinds: dict[tuple[str, int], None] = {}
    for source, table in tables:
        place = Place(source)
        cells = ArrowCells(_single_column(table, name, place))
        if cells.type != NULLS:
            kinds[cells.type, cells.width] = None
        if len(kinds) > 1:
            earlier = in_words(*next(iter(kinds)))
            what = f"{in_words(cells.type, cells.width)}, expected {earlier}, as in earlier batches"
            raise place.error(what, name)
        chunks.append(cells.column)
    if len({chunk.type for chunk in chunks}) > 1:
        each = [pa.table({name: _plain(chunk)}) for chunk in chunks]
        return ArrowCells(pa.concat_tables(each, promote_options="permissive")[name])
    every = list(chain.from_iterable(chunk.chunks for chunk in chunks))
    return ArrowCells(pa.chunked_array(every, chunks[0].type))


def _plain(cells: ArrowColumn) -> ArrowColumn:
    """The cells without a dictionary."""
    is_dictionary = arrow().types.is_dictionary(cells.type)
    return cells.cast(cells.type.value_type) if is_dictionary else cells


def _with_weight(table: ArrowTable, others: Sequence[str], place: Place) -> ArrowTable:
    """The rows of a table that have weight."""
    if len(others) < 2:
        return table
    cells = ArrowCells(_single_column(table, others[1], place))
    weight = numbers_in(cells, Column(others[1], "numeric"), place)[:, 0]
    return table if weight.all() else table.filter(weight != 0)


def in_one_order(known: Sequence[Any], new: set[Any]) -> tuple[Any, ...]:
    """The known values, then the new ones, sorted; None, for a missing cell, as the last."""
    more = in_order(new - {*known} - {None})
    own = [value for value in known if value is not None]
    return (*own, *more, *[None] * (None in known))


def collected(
    found: set[Any] | None, cells: Cells, column: Column, place: Place, missing: str
) -> None:
    """Add the values or words of the cells to those found, or check the type of numbers."""
    if found is None or cells.type == NULLS:
        check_type(cells, column, place)
    elif column.kind == "text":
        found |= {*words_of(texts_in(cells, column, place))}
    else:
        _add(found, values_in(cells, column.name, place), column.name, place)
    if found is not None and column.is_coded and missing == "value" and cells.missing.any():
        found.add(None)


def values_in(cells: Cells, name: str, place: Place) -> set[Any]:
    """The values of the cells."""
    if cells.type == NULLS:
        return set()
    try:
        own, code = cells.encoded()
    except ValueError as error:
        raise place.error(str(error), name) from error
    except arrow().ArrowException as error:
        raise place.error(
            f"{cells.type}, expected numbers, strings or truth values: convert it to strings", name
        ) from error
    return {own[i] for i in np.unique(code) if i >= 0}


def _add(values: set[Any], used: set[Any], name: str, place: Place) -> None:
    known = next((value for value in values if value is not None), None)
    other = next(iter(used), None)
    if known is not None and other is not None and type_of(known) != type_of(other):
        what = f"the column holds {type_of(other)} here, but {type_of(known)} in earlier batches"
        raise place.error(what, name)
    values |= used


def _with_values(column: Column, values: set[Any]) -> Column:
    """The column with these values, in order."""
    ordered = in_order(values)
    if not ordered:
        raise ValueError(
            f"column {column.name!r} has no value: drop it, or give its kind or values by kinds="
        )
    return replace(column.with_values(ordered), num_missing=0)


def _without_value(assignment: Assignment, name: str, cells: Cells) -> Column:
    """A column that is null in all rows, or has one value."""
    if assignment.wanted is not None and name not in assignment.kinds:
        raise ValueError(
            f"column {name!r} has no value: drop it, or give its kind or values by kinds="
        )
    (column,) = assignment.columns(name, cells)
    return column


def _single_column(table: ArrowTable, name: str, place: Place) -> ArrowColumn:
    if table.column_names.count(name) != 1:
        raise place.error(f"no column {name!r}; the columns are {table.column_names}")
    return table[name]


def longer_lists(
    tables: Tables, known: Sequence[Column], label: str, classes: Sequence[Value]
) -> tuple[tuple[Column, ...], tuple[Value, ...]]:
    """These columns and classes, with the values that the rows have beside theirs."""
    values = {c.name: {*c.values} for c in known if c.has_values and not c.is_listed}
    seen: set[Any] = {*classes}
    for source, table in tables:
        place = Place(source)
        for column in known:
            whole = ArrowCells(_single_column(table, column.source, place))
            cells = column_in({column.source: whole}, column, place)
            check_type(cells, column, place)
            if column.name in values:
                collected(values[column.name], cells, column, place, "ignore")
        cells = ArrowCells(_single_column(table, label, place))
        _add(seen, values_in(cells, label, place), label, place)
    columns = tuple(
        c.with_values(in_one_order(c.values, values[c.name])) if c.name in values else c
        for c in known
    )
    return columns, in_one_order(classes, seen)
