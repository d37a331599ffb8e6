"""Dates: their parts, each as the column that it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from genclf.tables.cells import DATES, NULLS, STRINGS, Cells, NumberCells, ObjectCells, Value

TYPES = (DATES, STRINGS, NULLS)
"""The types of cells that may be dates."""

_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class DatePart(NamedTuple):
    """A part of a date.

    Attributes:
        of: the index of the part of each date, from its microseconds since 1970.
        values: the values that it can have, in order; None for a number.
    """

    of: Callable[[np.ndarray], np.ndarray]
    values: tuple[Value, ...] | None

    def code(self, value: Value | None) -> int:
        """The index of a value, -1 for None."""
        return -1 if value is None or self.values is None else self.values.index(value)

    def cells(self, dates: np.ndarray) -> Cells:
        """The part of each date, missing where the date is."""
        missing, code = np.isnat(dates), self.of(dates.astype("datetime64[us]"))
        if self.values is None or not isinstance(self.values[0], str):
            first = 0 if self.values is None else self.values[0]
            return NumberCells(np.where(missing, np.nan, code + first))
        names = [self.values[i] for i in np.where(missing, 0, code)]
        return ObjectCells([None if hole else v for v, hole in zip(names, missing, strict=True)])


def _since(unit: str, start: str) -> Callable[[np.ndarray], np.ndarray]:
    """How many of a unit have passed since the start of the larger one."""
    unit, start = f"datetime64[{unit}]", f"datetime64[{start}]"
    return lambda dates: (dates.astype(unit) - dates.astype(start).astype(unit)).astype(int)


PARTS = {
    "year": DatePart(lambda at: at.astype("datetime64[Y]").astype(int) + 1970, None),
    "month": DatePart(_since("M", "Y"), tuple(range(1, 13))),
    # 1970-01-01 was a Thursday.
    "weekday": DatePart(lambda at: (at.astype("datetime64[D]").astype(int) + 3) % 7, _WEEKDAYS),
    "hour": DatePart(_since("h", "D"), tuple(range(24))),
}
"""The parts of a date, by their names."""


def date_of(parts: Mapping[str, Any]) -> np.ndarray:
    """The first date of each year and month with this weekday, at this hour; NaT where one lacks.

    Years are rounded.
    """
    year = np.rint(np.asarray(parts["year"], float))
    month, day, hour = (
        np.array([PARTS[part].code(value) for value in parts[part]])
        for part in ("month", "weekday", "hour")
    )
    missing = np.isnan(year) | (np.minimum(month, np.minimum(day, hour)) < 0)
    first = np.where(missing, 0, (year - 1970) * 12 + month).astype("datetime64[M]")
    first = first.astype("datetime64[D]")
    after = ((day - PARTS["weekday"].of(first)) % 7).astype("timedelta64[D]")
    found = (first + after).astype("datetime64[us]") + hour.astype("timedelta64[h]")
    return np.where(missing, np.datetime64("NaT", "us"), found)


OFFER = 'dates: the kind "date" reads ' + ", ".join(PARTS)


def are_dates(strings: Sequence[str]) -> bool:
    """Whether strings are dates as ISO 8601 writes them."""
    return bool(strings) and all(_ISO.fullmatch(string) for string in strings)
