"""The label of a table: its classes, and the rows that can be used."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from genclf.tables.cells import Cells, read_cells, read_strings
from genclf.tables.frames import Series, Table


class TableError(ValueError):
    """A table or a label that cannot be used."""


def label_of(table: Table, name: str) -> Series:
    """The column of labels; raise if there is none."""
    names = table.columns
    if name not in names:
        lower = {column.lower(): column for column in map(str, names)}
        close = difflib.get_close_matches(str(name).lower(), lower, n=3)
        hint = f"did you mean {' or '.join(repr(lower[c]) for c in close)}? " if close else ""
        every = some([*map(repr, names)], 20)
        raise TableError(f"label: table has no column {name!r}; {hint}the columns are {every}")
    label = table[name]
    cells = read_cells(label)
    n = int((~cells.missing).sum()) + cells.infinite
    if not n:
        raise TableError(f"label {name!r} is missing in every row")
    num_classes = len(cells.values)
    if num_classes > 20:
        number = cells.number[~cells.missing] if cells.notation is not None else None
        whole = number is not None and not cells.infinite and (number == number.round()).all()
        if number is not None and not (whole and num_classes <= n / 10):
            raise TableError(
                f"label {name!r} has {num_classes} different numbers in {n} rows: it "
                "looks continuous; classification needs classes, e.g. bin it by genclf.discretize"
            )
        if num_classes > n / 2:
            raise TableError(
                f"label {name!r} has {num_classes} classes in {n} rows, too many to learn"
            )
    return label


@dataclass(frozen=True)
class UsableRows:
    """The rows that have a label, in classes of two rows or more.

    Attributes:
        rows: their row numbers in the table, (n,).
        y: the class of each, (n,).
        classes: the classes, (K,): numbers if all labels are numbers, truth values, or strings.
        names: the classes as strings.
        left_out: names of the classes of one row, which are left out.
        num_unlabelled: number of rows without a label.
    """

    rows: Int[np.ndarray, "n"]
    y: Int[np.ndarray, "n"]
    classes: Shaped[np.ndarray, "K"]
    names: list[str]
    left_out: list[str]
    num_unlabelled: int


def usable_rows(label: Series) -> UsableRows:
    """The rows of a column of labels; raise if fewer than two classes are left."""
    cells = read_cells(label)
    if cells.infinite:  # an infinite number is a class like any other
        cells = read_strings(label)
    names, count = cells.names, np.bincount(cells.code[~cells.missing])
    if len(names) < 2:
        raise TableError(
            f"label {label.name!r} has only one class, {names[0]!r}: there is nothing to classify"
        )
    kept, rare = np.flatnonzero(count > 1), [names[k] for k in np.flatnonzero(count == 1)]
    if len(kept) < 2:
        has = f"class {rare[0]!r} has" if len(rare) == 1 else f"each of {len(rare)} classes has"
        raise TableError(
            f"{has} one usable row, so it cannot be both learned and tested, and "
            f"{len(kept) or 'no'} other class is left; merge classes, or collect more rows"
        )
    rows = np.flatnonzero(np.isin(cells.code, kept))
    y = np.searchsorted(kept, cells.code[rows]).astype(np.int32)
    classes = _classes(label, cells)[kept]
    unlabelled = int(cells.missing.sum())
    return UsableRows(rows, y, classes, [names[k] for k in kept], rare, unlabelled)


def _classes(label: Series, cells: Cells) -> Shaped[np.ndarray, "K"]:
    values = list(cells.values)
    if cells.notation is not None:
        return np.array([int(v) for v in values] if all(v == int(v) for v in values) else values)
    if str(label.dtype) == "Boolean":
        return np.array([value == "True" for value in values])
    return np.array(values)


def some(names: Sequence[str], most: int = 10) -> str:
    """The names, or the first of them and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
