"""The rules by which a column of a table is read, the same for every door."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np

from genclf.tables.cells import DATES, LISTS, NULLS, NUMBERS, STRINGS, TRUTH, Cells, Value, names_of
from genclf.tables.dates import OFFER, are_dates
from genclf.tables.frames import is_index

Kind = Literal["numeric", "kernel", "count", "categorical", "binary", "binned", "text", "drop"]

RULES = (
    ("numeric", "numbers, unless whole with at most 10 values that repeat"),
    ("categorical", "whole numbers with at most 10 values that repeat; strings that repeat"),
    ("binary", "the same with two values; truth values"),
    ("text", "strings of 3 words or more on average, over 50 values or rarely repeated"),
    ("drop", "constants, row numbers, strings that rarely repeat, copies of the label, dates"),
)

_EXACT = 1e15  # whole numbers below it are written with all digits
FEW = 10  # whole numbers of at most so many values are categories
_MANY = 50  # a column with more distinct strings than this is text if they are sentences
OF_VALUES: tuple[str, ...] = (NUMBERS, TRUTH, STRINGS, NULLS)
"""The types of cells that have values."""


def values_of(cells: Cells) -> tuple[list[Value | None], np.ndarray]:
    """The distinct values, and codes; none for cells that have no values, such as lists."""
    if cells.type not in OF_VALUES:
        return [], np.full(len(cells), -1)
    try:
        found, code = cells.encoded()
    except ValueError:  # floats of 2**53 or more, which are numbers
        return [], np.full(len(cells), -1)
    return [*found], code


def kind_by_rules(
    name: Hashable,
    cells: Cells,
    values: list[Value | None],
    code: np.ndarray,
    labels: np.ndarray | None,
    rows: np.ndarray | None,
) -> tuple[Kind, str]:
    """The kind of a column by the rules, and what it holds in words.

    Args:
        name: its name.
        cells: its cells.
        values: its distinct values, with None for missing cells if they are a value.
        code: the index of the value of each cell, -1 where it is missing.
        labels: the label of each row as a string; a copy of them is dropped.
        rows: the rows' numbers in the whole table.
    """
    if is_index(name):
        return "drop", "the index of pandas"
    if cells.type == NULLS:
        return "drop", "no value"
    if cells.type == LISTS:
        return "numeric", f"lists of {cells.width} numbers"
    if cells.type == DATES:
        return "drop", OFFER
    if cells.type not in OF_VALUES:
        return "drop", f"{cells.type}: make numbers or strings of it"
    n, distinct = len(cells), len(set(code[code >= 0].tolist()))
    if labels is not None and any(labels) and (values_as_strings(values, code) == labels).all():
        return "drop", "a copy of the label"
    if cells.type == NUMBERS and not cells.is_category:
        return _kind_of_numbers(cells.numbers()[:, 0], values, rows)
    if len(values) <= 1:
        return "drop", "constant where it is not missing" if (code < 0).any() else "constant"
    if cells.type == TRUTH or cells.is_category:
        return discrete(values)
    known = [text for text, own in zip(cells.texts(), code, strict=True) if own >= 0]
    if are_dates(known):
        return "drop", OFFER
    if looks_like_text(known, distinct, n):
        return "text", ""
    strange = _not_numbers(known)
    if len(values) <= n / 2:
        kind, detail = discrete(values)
        return kind, f"{len(values)} values: {strange}" if strange else detail
    return "drop", f"{distinct} strings in {n} rows: {strange or 'they rarely repeat'}"


def _kind_of_numbers(
    number: np.ndarray, values: list[Value | None], rows: np.ndarray | None
) -> tuple[Kind, str]:
    seen = number[~np.isnan(number)]
    # Values are exact where floats are not; there are none if some are floats from 2**53 on.
    distinct = len({*values} - {None}) or len(np.unique(seen))
    num_values = distinct + (None in values)
    whole = bool((seen == seen.round()).all())
    if np.isinf(seen).any():
        return "numeric", f"{distinct} numbers, some of them infinite"
    if not len(seen):
        return "drop", "no value"
    if num_values <= 1:
        missing = len(seen) < len(number)
        return "drop", "constant where it is not missing" if missing else "constant"
    if whole and distinct <= FEW and num_values <= len(number) / 2:
        return discrete(values)
    if distinct <= 1:
        return "drop", "constant where it is not missing"
    at = np.arange(len(number)) if rows is None else rows
    if whole and distinct > FEW and len(np.unique(seen - at[~np.isnan(number)])) == 1:
        return "drop", "contains the row numbers"
    return "numeric", extent(seen)


def extent(number: np.ndarray) -> str:
    """The number of distinct numbers, and their range, in words."""
    seen = np.unique(number[~np.isnan(number)])
    if not len(seen):
        return "no number"
    whole = (seen == seen.round()).all() and np.abs(seen).max() < _EXACT
    least, most = (f"{end:.0f}" if whole else f"{end:.6g}" for end in (seen[0], seen[-1]))
    return f"{len(seen)} numbers, {least} to {most}"


def discrete(values: Sequence[Value | None]) -> tuple[Kind, str]:
    """The kind of a column of these values, and the values in words."""
    return ("binary" if len(values) == 2 else "categorical"), listed(values)


def listed(values: Sequence[Value | None]) -> str:
    """The values in words."""
    known = sorted(v for v in values if v is not None)
    names = [name if name.strip() else repr(name) for name in names_of(known)]
    shown = ", ".join(names + ["(missing)"] * (None in values))
    return f"{len(values)} values: {shown if len(shown) <= 24 else shown[:21] + '...'}"


def values_as_strings(values: Sequence[Value | None], code: np.ndarray) -> np.ndarray:
    """The value of each cell as a string, empty where it is missing."""
    return np.array([*(str(v) for v in values if v is not None), ""], object)[code]


def looks_like_text(strings: Sequence[str], num_distinct: int, num_rows: int) -> bool:
    """Whether strings are texts rather than categories.

    Texts have three words or more on average, and over 50 distinct values or values that rarely
    repeat.
    """
    words = sum(len(string.split()) for string in strings)
    rare = num_distinct > _MANY or num_distinct > num_rows / 2
    return rare and words >= 3 * len(strings) > 0


def _not_numbers(known: list[str]) -> str:
    """A description of the strings that are not numbers, if most are; else an empty string."""
    other = [cell for cell in known if not _is_number(cell)]
    if not other or 2 * len(other) >= len(known):
        return ""
    cells = "1 cell is not a number" if len(other) == 1 else f"{len(other)} cells are not numbers"
    return f"{cells}, such as {other[0]!r:.24}"


def _is_number(cell: str) -> bool:
    try:
        return "_" not in cell and float(cell) is not None
    except ValueError:
        return False
