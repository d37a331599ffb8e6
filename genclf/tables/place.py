"""Where a cell is, for messages."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from genclf.tables.cells import Cells


@dataclass(frozen=True)
class Place:
    """Consecutive rows of a table or file, so that errors can locate a cell.

    Attributes:
        source: the file, the name of the part, or that of the argument.
        first: the index in it of the first of these rows.
        counts: which rows count; only their cells are checked. None for all.
    """

    source: str
    first: int = 0
    counts: Bool[np.ndarray, "n"] | None = None

    def error(
        self, what: str, column: Hashable | None = None, row: int | None = None
    ) -> ValueError:
        """A `ValueError` with the location and the problem."""
        where = [repr(self.source)]
        where += [] if row is None else [f"row {self.first + int(row)}"]
        where += [] if column is None else [f"column {column!r}"]
        return ValueError(f"{', '.join(where)}: {what}")

    def refuse(
        self, wrong: np.ndarray, cells: Cells | list, column: Hashable, expected: str
    ) -> None:
        """Raise for the first row that counts with a mark in `wrong`, (n,) or (n, width)."""
        if not wrong.any():
            return
        rows = wrong.reshape(len(wrong), -1).any(1)
        rows = rows if self.counts is None else rows & self.counts
        if rows.any():
            row = int(rows.argmax())
            found = cells.shown(row) if isinstance(cells, Cells) else cells[row]
            item = ""
            if isinstance(found, list | np.ndarray) and wrong.ndim == 2:
                at = int(wrong[row].argmax())
                found, item = found[at], f", item {at} of the list"
            raise self.error(f"{found!r:.40}{item}, expected {expected}", column, row)
