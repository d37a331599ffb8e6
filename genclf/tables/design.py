"""Columns as one matrix, for the baseline that does not model them: softmax regression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from genclf.tables.arrays import codes_in, numbers_in
from genclf.tables.columns import Column
from genclf.tables.frames import CellsOf, num_rows
from genclf.tables.place import Place


def design_matrix(cells: CellsOf, columns: Sequence[Column]) -> Float[np.ndarray, "n p"]:
    """Standardized numbers, and an indicator of each value and of missing numbers.

    A missing number is the mean, 0. Texts, and columns without variance, are left out.
    """
    place = Place("table")
    found = [np.zeros((num_rows(cells), 0))]
    for column in columns:
        own = cells.get(column.name)
        if own is None or column.kind in ("drop", "text"):
            continue
        if column.is_coded:
            code = codes_in(own, column, place, learning=False)
            found.append((code[:, None] == np.arange(column.size)).astype(float))
            continue
        number = numbers_in(own, column, place)
        hole = np.isnan(number).any(1, keepdims=True)
        seen = number[~hole[:, 0]]
        scale = seen.std(0)
        scaled = np.where(hole, 0, (number - seen.mean(0)) / np.where(scale > 0, scale, 1))
        found.append(scaled[:, scale > 0])
        if hole.any():
            found.append(hole.astype(float))
    return np.hstack(found)
