"""The values of the cells of a column; strings may be numbers in one of three notations."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from genclf.tables.frames import Series, floats, is_missing

_PLAIN = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)", re.I)
_GROUPED = re.compile(r"[+-]?(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?")
_COMMA = re.compile(
    r"[+-]?(?:[1-9][0-9]{0,2}(?:\.[0-9]{3})+|[0-9]+)(?:,[0-9]+)?(?:e[+-]?[0-9]+)?", re.I
)
# Notations of numbers, each with a conversion to Python's; the first that fits all cells is used.
# 1,234 fits the last two notations. If all cells are ambiguous, the choice only scales the column
# by 1000.
_NOTATIONS: dict[str, tuple[re.Pattern[str], Callable[[str], str]]] = {
    "": (_PLAIN, lambda cell: cell),
    "comma between thousands": (_GROUPED, lambda cell: cell.replace(",", "")),
    "decimal comma": (_COMMA, lambda cell: cell.replace(".", "").replace(",", ".")),
}
_EXACT = 2**53  # whole numbers below it are exact in float64
_TRUTH = ("False", "True")

Value: TypeAlias = float | int | str
"""The value of a cell that is not missing."""


@dataclass(frozen=True)
class Cells:
    """The cells of a column.

    Attributes:
        values: the distinct values, sorted: numbers if all cells are numbers, else strings. If
            some are whole numbers from 2^53 on, all are ints of Python, which are exact.
        code: the index of the value of each cell, -1 where it is missing or infinite, (n,).
        notation: how the numbers are written, one of three; None if not all cells are numbers.
        infinite: number of infinite cells.
    """

    values: tuple[Value, ...]
    code: np.ndarray
    notation: str | None
    infinite: int = 0

    @property
    def missing(self) -> np.ndarray:
        """Cells without a value, (n,)."""
        return self.code < 0

    @property
    def number(self) -> np.ndarray:
        """The numbers, NaN where missing, (n,)."""
        return np.array([*map(float, self.values), np.nan])[self.code]  # the last for code -1

    @property
    def names(self) -> list[str]:
        """The values as strings."""
        return [f"{v:.15g}" if isinstance(v, float) else str(v) for v in self.values]


def is_plain_number(cell: str) -> bool:
    """Whether a string is a number in Python's notation, or infinite."""
    return _PLAIN.fullmatch(cell.strip()) is not None


def read_cells(series: Series) -> Cells:
    """The cells of a column of a table, in the first notation that fits all of them."""
    if series.dtype.is_numeric() and (found := _float_cells(series)):
        return found
    given, is_numeric = _given(series)
    distinct = list(dict.fromkeys(cell for cell in given if cell is not None))
    if is_numeric:
        return _as_cells(given, dict(zip(distinct, _floats(distinct), strict=True)), "")
    words = [cell.strip() for cell in distinct]
    for notation, (pattern, plain) in _NOTATIONS.items():
        if words and all(map(pattern.fullmatch, words)):
            numbers = _floats([plain(word) for word in words])
            return _as_cells(given, dict(zip(distinct, numbers, strict=True)), notation)
    truth = [word.capitalize() for word in words]
    values = truth if set(truth) <= {*_TRUTH} else distinct
    return _as_cells(given, dict(zip(distinct, values, strict=True)), None)


def read_strings(series: Series) -> Cells:
    """The values of a column as they are written."""
    given = [None if cell is None else str(cell) for cell in _given(series)[0]]
    return _as_cells(given, {cell: cell for cell in given if cell is not None}, None)


def codes_like(
    series: Series, values: Sequence[Value], notation: str | None
) -> Int[np.ndarray, "n"]:
    """The index in `values` of each cell, -1 where it is missing, -2 where it is not in them.

    The values and the notation are those of other `Cells`, as of the training table.
    """
    index = {value: i for i, value in enumerate(values)}
    cells: Sequence[Value | None]
    if notation is not None:
        cells = _numbers(series, notation)
    else:
        cells = words = [None if cell is None else str(cell) for cell in _given(series)[0]]
        if index.keys() <= {*_TRUTH}:
            cells = [None if word is None else word.strip().capitalize() for word in words]
    return np.array([-1 if cell is None else index.get(cell, -2) for cell in cells], int)


def numbers_like(series: Series, notation: str) -> Float[np.ndarray, "n"]:
    """The numbers of a column in this notation, NaN if missing or infinite; raise for strings."""
    if series.dtype.is_numeric():
        found = floats(series)
        return np.where(np.isinf(found), np.nan, found)
    return np.array([np.nan if n is None else float(n) for n in _numbers(series, notation)])


def _numbers(series: Series, notation: str) -> list[float | None]:
    """The numbers of a column as Python numbers, None where missing or infinite."""
    given, is_numeric = _given(series)
    known = [cell for cell in given if cell is not None]
    if not is_numeric:
        pattern, plain = _NOTATIONS[notation]
        for row, cell in enumerate(given):
            if cell is not None and not pattern.fullmatch(cell.strip()):
                raise ValueError(
                    f"column {series.name!r}, row {row} is {cell!r:.40}, expected a number, as in "
                    "the table that the model was fitted to"
                )
        known = [plain(cell.strip()) for cell in known]
    found = iter(_floats(known))
    return [None if cell is None else next(found) for cell in given]


def texts_of(series: Series) -> list[str]:
    """The strings of a column, empty where they are missing."""
    return ["" if cell is None else str(cell) for cell in _given(series)[0]]


def _given(series: Series) -> tuple[list[Any], bool]:
    """The cells, None where missing, and whether they are numbers; if not, they are strings."""
    is_numeric = series.dtype.is_numeric()
    cells = [None if is_missing(cell) else cell for cell in series.to_list()]
    if is_numeric:
        return cells, True
    return [cell if cell is None or isinstance(cell, str) else str(cell) for cell in cells], False


def _float_cells(series: Series) -> Cells | None:
    """The cells of a column of numbers as floats; None if a float may not be exact."""
    number = floats(series)
    finite = np.isfinite(number)
    if (np.abs(number[finite]) >= _EXACT).any():
        return None
    values, index = np.unique(number[finite], return_inverse=True)
    code = np.full(len(number), -1)
    code[finite] = index
    return Cells(tuple(values.tolist()), code, "", int(np.isinf(number).sum()))


def _floats(cells: Iterable[Any]) -> list[int | float | None]:
    """Numbers as floats, or as ints if all are whole and some too large; None for infinite ones."""
    cells = list(cells)
    floats = [float(cell) for cell in cells]
    finite = [f for f in floats if np.isfinite(f)]
    if any(abs(f) >= _EXACT for f in finite) and all(f == round(f) for f in finite):
        # Exact, where a float would lose digits.
        whole = lambda cell: int(Decimal(str(cell)))  # noqa: E731
        return [whole(c) if np.isfinite(f) else None for c, f in zip(cells, floats, strict=True)]
    return [f if np.isfinite(f) else None for f in floats]


def _as_cells(
    given: Sequence[Hashable], value_of: Mapping[Any, Value | None], notation: str | None
) -> Cells:
    values = sorted({value for value in value_of.values() if value is not None})
    index = {value: i for i, value in enumerate(values)}
    codes = {cell: -1 if value is None else index[value] for cell, value in value_of.items()}
    code = np.array([-1 if cell is None else codes[cell] for cell in given], int)
    infinite = [cell is not None and value_of[cell] is None for cell in given]
    return Cells(tuple(values), code, notation, sum(infinite))
