"""The label of a table: its classes, and the rows that can be used."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from genclf.tables.cells import NULLS, NUMBERS, TRUTH, Cells, NumberCells, Value, names_of, some
from genclf.tables.frames import CellsOf


class TableError(ValueError):
    """A table or a label that cannot be used."""


def label_of(cells: CellsOf, name: Any) -> Cells:
    """The column of labels; raise if there is none, or it cannot be classified."""
    if name not in cells:
        lower = {str(column).lower(): column for column in cells}
        close = difflib.get_close_matches(str(name).lower(), lower, n=3)
        hint = f"did you mean {' or '.join(repr(lower[c]) for c in close)}? " if close else ""
        every = some([*map(repr, cells)], 20)
        raise TableError(f"label: table has no column {name!r}; {hint}the columns are {every}")
    label = cells[name]
    if label.type == NULLS:
        raise TableError(f"label {name!r} is missing in every row")
    values, code = _encoded(label, name)
    n, num_classes = int((code >= 0).sum()), len(values)
    if num_classes > 20 and label.type == NUMBERS:
        number = label.numbers()
        seen = number[~np.isnan(number)]
        whole = (seen == seen.round()).all() and np.isfinite(seen).all()
        if not (whole and num_classes <= n / 10):
            raise TableError(
                f"label {name!r} has {num_classes} different numbers in {n} rows: it "
                "looks continuous; classification needs classes, e.g. bin it by genclf.discretize"
            )
    if num_classes > 20 and num_classes > n / 2:
        raise TableError(f"label {name!r} has {num_classes} classes in {n} rows, too many to learn")
    return label


def _encoded(label: Cells, name: Any) -> tuple[list[Value], np.ndarray]:
    try:
        return label.encoded()
    except ValueError as error:
        raise TableError(f"label {name!r}: {error}") from error
    except TypeError as error:
        raise TableError(
            f"label {name!r} holds {label.type}, expected numbers, strings or truth values"
        ) from error


@dataclass(frozen=True)
class UsableRows:
    """The rows that have a label, in classes of two rows or more.

    Attributes:
        rows: their row numbers in the table, (n,).
        y: the class of each, (n,).
        classes: the classes, (K,), as the table holds them.
        names: the classes as strings.
        left_out: names of the classes of one row, which are left out.
        num_unlabelled: number of rows without a label.
        num_idle: number of rows of weight 0.
    """

    rows: Int[np.ndarray, "n"]
    y: Int[np.ndarray, "n"]
    classes: Shaped[np.ndarray, "K"]
    names: list[str]
    left_out: list[str]
    num_unlabelled: int
    num_idle: int = 0


def usable_rows(label: Cells, name: Any, weight: np.ndarray | None = None) -> UsableRows:
    """The rows of a column of labels; raise if fewer than two classes are left."""
    found, index = _encoded(label, name)
    try:
        order = sorted(range(len(found)), key=found.__getitem__)
    except TypeError as error:
        raise TableError(
            f"label {name!r} holds {label.type}, expected values of one type"
        ) from error
    values = [found[i] for i in order]
    code = np.array([*np.argsort(order), -1])[index]
    idle = np.zeros(len(code), bool) if weight is None else weight == 0
    code, unlabelled = np.where(idle, -1, code), int(((code < 0) & ~idle).sum())
    names, count = names_of(values), np.bincount(code[code >= 0])
    if len(names) < 2:
        raise TableError(
            f"label {name!r} has only one class, {names[0]!r}: there is nothing to classify"
        )
    kept, rare = np.flatnonzero(count > 1), [names[k] for k in np.flatnonzero(count == 1)]
    if len(kept) < 2:
        has = f"class {rare[0]!r} has" if len(rare) == 1 else f"each of {len(rare)} classes has"
        if idle.any():
            raise TableError(
                f"label {name!r} has {len(kept) or 'no'} class with two rows of weight above 0: "
                "expected two or more; see weights"
            )
        raise TableError(
            f"{has} one usable row, so it cannot be both learned and tested, and "
            f"{len(kept) or 'no'} other class is left; merge classes, or collect more rows"
        )
    rows = np.flatnonzero(np.isin(code, kept))
    y = np.searchsorted(kept, code[rows]).astype(np.int32)
    classes = np.array([values[k] for k in kept], bool if label.type == TRUTH else None)
    if isinstance(label, NumberCells) and label.array.dtype.kind == "f" and not unlabelled:
        classes = classes.astype(label.array.dtype)  # where holes made no floats
    names = [names[k] for k in kept]
    return UsableRows(rows, y, classes, names, rare, unlabelled, int(idle.sum()))
