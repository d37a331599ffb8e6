"""The first pass over the rows, which finds the kinds of the columns and their values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from genclf.stream.assignment import Assignment
from genclf.stream.batches import ArrowColumn, ArrowTable
from genclf.stream.columns import (
    Column,
    Place,
    Value,
    check_numbers,
    checked_values,
    distinct,
    numbers_of,
    texts_of,
    type_of,
    what_is,
)


def learned(
    assignment: Assignment,
    tables: Iterable[tuple[str, ArrowTable]],
    others: Sequence[str],
    classes: Iterable[object] | None,
) -> tuple[tuple[Column, ...], tuple[Value, ...]]:
    """The columns with their values, and the classes, from a pass over all rows.

    Args:
        assignment: what decides how a column is read, in the first table where it is not null.
        tables: tables of Arrow, each with the name of its file or batch.
        others: the column of labels, and that of weights if there is one.
        classes: the classes; None to collect them.
    """
    columns: dict[str, Column | None] = {}
    found: dict[str, set[Value]] = {}  # the values of columns whose values are not given
    seen: set[Value] = set()
    for source, table in tables:
        place = Place(source)
        if not columns:
            columns = dict.fromkeys(assignment.names(table.column_names, others))
        if len(others) > 1:
            table = _with_weight(table, others[1], place)
        for name in columns:
            cells = _single_column(table, name, place)
            if columns[name] is None and what_is(cells.type) != "nulls":
                columns[name] = own = assignment.column(name, cells)
                if own.kind in ("categorical", "text") and not own.values:
                    found[name] = set()
                if None not in columns.values():
                    assignment.check(filter(None, columns.values()))
            if (column := columns[name]) is not None:
                _collect(found, cells, column, place)
        if classes is None:
            _add(seen, _single_column(table, others[0], place), others[0], place)
        elif not found and None not in columns.values():
            break
    if not columns:
        raise ValueError("batches is empty: there are no columns")
    if classes is None and not seen:
        raise ValueError(f"the label {others[0]!r} is missing in every row")
    known = []
    for name, column in columns.items():
        if column is None and name in assignment.kinds:
            column = assignment.column(name, table[name])
        if column is not None and name in found:
            column = replace(column, values=tuple(sorted(found[name])))
        if column is None or (column.kind in ("categorical", "text") and not column.values):
            raise ValueError(
                f"column {name!r} has no value: drop it, or give its kind or values by kinds="
            )
        known.append(column)
    assignment.check(known)
    if classes is None:
        return tuple(known), tuple(sorted(seen))
    return tuple(known), checked_values(classes, "classes")


def _with_weight(table: ArrowTable, name: str, place: Place) -> ArrowTable:
    """The rows of a table that have weight."""
    column = Column(name, "numeric")
    weight = numbers_of(_single_column(table, name, place), column, place)[:, 0]
    return table if weight.all() else table.filter(weight != 0)


def _collect(
    found: dict[str, set[Value]], cells: ArrowColumn, column: Column, place: Place
) -> None:
    """Add the values or words of the cells to those found, or check the type of numbers."""
    if column.kind in ("numeric", "count"):
        check_numbers(cells, column, place)
    elif column.name in found and column.kind == "text":
        found[column.name] |= _words(texts_of(cells, column.name, place))
    elif column.name in found:
        _add(found[column.name], cells, column.name, place)


def _add(values: set[Value], cells: ArrowColumn, name: str, place: Place) -> None:
    own, code = distinct(cells, name, place)
    used = {own[i] for i in set(code.tolist()) if i >= 0}
    one, other = next(iter(values), None), next(iter(used), None)
    if one is not None and other is not None and type_of(one) != type_of(other):
        what = f"the column holds {type_of(other)} here, but {type_of(one)} in earlier batches"
        raise place.error(what, name)
    values |= used


def _single_column(table: ArrowTable, name: str, place: Place) -> ArrowColumn:
    if table.column_names.count(name) != 1:
        raise place.error(f"no column {name!r}; the columns are {table.column_names}")
    return table[name]


def _words(texts: list[str]) -> set[str]:
    from sklearn.feature_extraction.text import CountVectorizer

    try:
        return set(CountVectorizer().fit(texts).vocabulary_)
    except ValueError:  # no word at all
        return set()
