"""The cells of a column: one reading of them, whatever table holds them."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

Value: TypeAlias = bool | int | float | str | date
"""A class, or a value of a column."""

NUMBERS, TRUTH, STRINGS, DATES = "numbers", "truth values", "strings", "dates"
LISTS, NULLS = "lists of numbers", "nulls"
_EXACT = 2**53  # whole numbers below it are exact in float64
_NUMBER = (int, float, np.number, Decimal)


class Cells(abc.ABC):
    """The cells of a column.

    Attributes:
        type: what they are, in words: `NUMBERS`, `TRUTH`, `STRINGS`, `DATES`, `LISTS`, `NULLS` if
            all are missing, or the name of another type.
        width: how many numbers a cell holds; more than 1 for lists.
        is_category: whether the table declares the column as categorical.
    """

    type: str
    width: int = 1
    is_category: bool = False

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def numbers(self) -> Float[np.ndarray, "n width"]:
        """Numbers or truth values as floats, NaN where missing."""

    @abc.abstractmethod
    def encoded(self) -> tuple[list[Value], Int[np.ndarray, "n"]]:
        """Distinct values, and the index of the value of each cell, -1 where it is missing.

        Raises:
            ValueError: a value is a float from 2**53 on.
        """

    @abc.abstractmethod
    def texts(self) -> list[str]:
        """Strings, empty where missing."""

    def dates(self) -> np.ndarray:
        """Dates in microseconds, (n,), by the clock of their time zone; NaT for other cells."""
        values, code = self.encoded()
        return np.array([*map(_date, values), "NaT"], "datetime64[us]")[code]

    @abc.abstractmethod
    def take(self, rows: Int[np.ndarray, "m"]) -> Cells:
        """The cells of these rows."""

    def of_another_type(self, type: str) -> tuple[int, str] | None:
        """If cells are of several types: the first row, and cell, that is not of this type."""
        return None

    def shown(self, row: int) -> object:
        """One cell, for a message."""
        return self.take(np.array([row])).encoded()[0][0]

    @property
    def missing(self) -> Bool[np.ndarray, "n"]:
        """Which cells have no value."""
        return np.isnan(self.numbers()).any(1)


@dataclass(frozen=True, eq=False)
class NumberCells(Cells):
    """The cells of an array of numbers or truth values, (n,) or (n, width); NaN is missing."""

    array: np.ndarray
    is_category: bool = False

    @cached_property
    def type(self) -> str:  # type: ignore[override]
        if self.array.dtype != bool and not (self.array == self.array).any():
            return NULLS
        return TRUTH if self.array.dtype == bool else NUMBERS if self.array.ndim == 1 else LISTS

    @property
    def width(self) -> int:  # type: ignore[override]
        return 1 if self.array.ndim == 1 else self.array.shape[1]

    def __len__(self) -> int:
        return len(self.array)

    def numbers(self) -> Float[np.ndarray, "n width"]:
        return np.asarray(self.array, np.float64).reshape(len(self), self.width)

    def encoded(self) -> tuple[list[Value], Int[np.ndarray, "n"]]:
        found, code = np.unique(self.array, return_inverse=True)
        missing = found != found  # all NaN are the last value
        values = [plain(value) for value in found[~missing].tolist()]
        return values, np.where(missing, -1, np.arange(len(found)))[code.reshape(-1)]

    def texts(self) -> list[str]:
        return [""] * len(self)

    def take(self, rows: Int[np.ndarray, "m"]) -> Cells:
        return NumberCells(self.array[rows], self.is_category)

    def shown(self, row: int) -> object:
        return self.array[row].tolist()


@dataclass(frozen=True, eq=False)
class ObjectCells(Cells):
    """The cells of a list of objects; None, NaN and the NA of pandas are missing."""

    cells: list[Any]
    is_category: bool = False

    @staticmethod
    def of(given: Iterable[object], is_category: bool = False) -> ObjectCells:
        """These cells, missing ones as None."""
        return ObjectCells([None if is_missing(c) else c for c in given], is_category)

    @cached_property
    def type(self) -> str:  # type: ignore[override]
        names = sorted({_name(kind) for kind in {*map(type, self.cells)} - {type(None)}})
        if names == [LISTS]:
            of = {kind for cell in self.cells if cell is not None for kind in _types(cell)}
            names = ["lists of " + " and ".join(sorted({_name(kind) for kind in of} or {NUMBERS}))]
        if names == [LISTS] and len({len(c) for c in self.cells if c is not None}) > 1:
            return "lists of several lengths"
        return " and ".join(names) or NULLS

    @property
    def width(self) -> int:  # type: ignore[override]
        if self.type != LISTS:
            return 1
        return next(len(cell) for cell in self.cells if cell is not None)

    def __len__(self) -> int:
        return len(self.cells)

    def numbers(self) -> Float[np.ndarray, "n width"]:
        if self.type != LISTS:
            numbers = [np.nan if cell is None else float(cell) for cell in self.cells]
            return np.array(numbers, np.float64)[:, None]
        nothing = np.full(self.width, np.nan)
        lists = [nothing if cell is None else cell for cell in self.cells]
        return np.array(lists, np.float64).reshape(len(self), self.width)

    def encoded(self) -> tuple[list[Value], Int[np.ndarray, "n"]]:
        distinct = dict.fromkeys(cell for cell in self.cells if cell is not None)
        index: dict[Any, int] = {}
        code = {cell: index.setdefault(plain(cell), len(index)) for cell in distinct}
        return list(index), np.array([-1 if c is None else code[c] for c in self.cells], np.int64)

    def texts(self) -> list[str]:
        return ["" if cell is None else str(cell) for cell in self.cells]

    def take(self, rows: Int[np.ndarray, "m"]) -> Cells:
        return ObjectCells([self.cells[row] for row in rows.tolist()], self.is_category)

    def shown(self, row: int) -> object:
        cell = self.cells[row]
        return cell.item() if isinstance(cell, np.generic) else cell

    def of_another_type(self, type: str) -> tuple[int, str] | None:
        if " and " not in self.type:
            return None
        for row, cell in enumerate(self.cells):
            if cell is not None and _name(cell.__class__) != type:
                return row, f"{self.shown(row)!r:.40}"
        return None

    @property
    def missing(self) -> Bool[np.ndarray, "n"]:
        return np.array([cell is None for cell in self.cells], bool)


def _types(cell: Any) -> set[type]:
    """The types of the items of a list, beside those that are missing."""
    of_one = isinstance(cell, np.ndarray) and cell.dtype != object
    return {cell.dtype.type} if of_one else {*map(type, cell)} - {type(None)}


def _name(kind: type) -> str:
    """The type of a cell, in words."""
    if issubclass(kind, bool | np.bool_):
        return TRUTH
    if issubclass(kind, _NUMBER):
        return NUMBERS
    if issubclass(kind, str):
        return STRINGS
    if issubclass(kind, date | np.datetime64):
        return DATES
    return LISTS if issubclass(kind, list | tuple | np.ndarray) else kind.__name__


def _date(value: object) -> object:
    """A date, or a string of ISO 8601, without its time zone; NaT for any other value."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return "NaT"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value if isinstance(value, date) else "NaT"


def is_missing(cell: object) -> bool:
    """Whether a cell holds no value: None, NaN, or the NA of pandas, which has no truth value."""
    if cell is None:
        return True
    if isinstance(cell, str | bool | int | list | tuple | np.ndarray):
        return False
    try:
        return bool(cell != cell)
    except TypeError:
        return True


def plain(value: Any) -> Any:
    """A value as a Python object, with 2.0 as 2; raise for whole floats from 2**53 on.

    Holes turn whole numbers of some tables into floats, so both are one value.
    """
    if isinstance(value, np.datetime64):  # nanoseconds would be numbers
        return value.astype("datetime64[us]").item()
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, float | Decimal):
        return value
    if not (math.isfinite(value) and value == int(value)):
        return float(value)
    if isinstance(value, float) and abs(value) >= _EXACT:
        raise ValueError(
            f"{value!r} is a float, and floats of 2**53 or more are not all whole numbers: "
            "expected integers or strings"
        )
    return int(value)


def type_of(value: Value) -> str:
    """The type of a value, in words."""
    return _name(type(value))


def checked_values(given: Iterable[object], name: str) -> tuple[Value, ...]:
    """The user's values as Python objects; raise if two are equal or their types differ."""
    if isinstance(given, str):
        raise ValueError(f"{name} is {given!r}, expected a list of values")
    given = list(given)
    if holes := [value for value in given if is_missing(value)]:
        raise ValueError(f"{name} holds {holes[0]!r}, expected values")
    try:
        values = [plain(value) for value in given]
    except ValueError as error:
        raise ValueError(f"{name} holds {error}") from error
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise ValueError(f"{name} holds {twice!r} twice")
    if len(types := {type_of(value): value for value in values}) > 1:
        one, other = list(types.values())[:2]
        raise ValueError(f"{name} holds {one!r} and {other!r}, expected values of one type")
    return tuple(values)


def names_of(values: Sequence[Value]) -> list[str]:
    """The values as strings."""
    return [f"{v:.15g}" if isinstance(v, float) else str(v) for v in values]


def some(names: Sequence[str], most: int = 10) -> str:
    """The names, or the first of them and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
