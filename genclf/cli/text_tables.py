"""Text of CSV and ARFF as columns: numbers, truth values and strings; and remarks on how."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from genclf.tables.cells import some

HOLES = ("", "?", "NA", "N/A", "NaN", "nan", "null")
"""The spellings of a missing cell; of a label, the empty cell alone."""

BLANKS = r"\s+"

_PLAIN = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)", re.I)
_GROUPED = re.compile(r"[+-]?(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?")
_COMMA = re.compile(
    r"[+-]?(?:[1-9][0-9]{0,2}(?:\.[0-9]{3})+|[0-9]+)(?:,[0-9]+)?(?:e[+-]?[0-9]+)?", re.I
)
_CODE = re.compile(r"[+-]?0[0-9]+")  # a number with leading zeros, such as a postal code
# Notations of numbers, each with a conversion to Python's; the first that fits all cells is used.
# 1,234 fits the last two. If all cells are ambiguous, the choice only scales the column by 1000.
_NOTATIONS: dict[str, tuple[re.Pattern[str], Callable[[str], str]]] = {
    "": (_PLAIN, lambda cell: cell),
    "a comma between thousands": (_GROUPED, lambda cell: cell.replace(",", "")),
    "a decimal comma": (_COMMA, lambda cell: cell.replace(".", "").replace(",", ".")),
}
_TRUTH = {"true": True, "false": False}


@dataclass
class FileTable:
    """The table in a file.

    Attributes:
        columns: its columns by name, or a table of a library.
        remarks: how it was read, where another reading is possible, as sentences.
    """

    columns: Any
    remarks: list[str] = field(default_factory=list)


class ParseError(Exception):
    """The text is not a table; the message has all problems."""


def parsed(
    text: str, separator: str | None, header: bool, label: str, holes: Sequence[str]
) -> FileTable:
    """The table in a text of CSV, with the arguments of `read_table`.

    Without a header, columns are named "1", "2" and so on.
    """
    remarks: list[str] = []
    if separator is None:
        separator, remarks = _separator_of(text)
    frame = _rows(text, separator)
    if header and (found := _looks_like_data(frame)) is not None:
        if label.isdecimal() and label not in set(frame.iloc[0]):
            header = False
            remarks.append(
                f"The first line is read as a row: it holds {found!r} in a column of numbers. "
                "Columns are named by their numbers."
            )
        else:
            remarks.append(
                f"The header line holds {found!r} in a column of numbers: if it is a row, use "
                "--no-header, and the number of the column as --label."
            )
    if header:
        names = [str(name) or f"Unnamed: {i}" for i, name in enumerate(frame.iloc[0])]
        frame = frame.iloc[1:]
    else:
        names = [str(number) for number in range(1, frame.shape[1] + 1)]
    if frame.empty:
        raise ParseError("has a header but no rows")
    if names.count(label) > 1:
        raise ParseError(
            f"{names.count(label)} columns are named {label!r}: which is the label? A copy of it "
            "among the features would reveal it; rename or remove all but one"
        )
    if len(set(names)) < len(names):
        names = [n if n == label else f"{n} (column {i})" for i, n in enumerate(names, 1)]
    columns, notes = {}, _Notes()
    for position, name in enumerate(names):
        cells = frame.iloc[:, position].tolist()
        columns[name] = typed(cells, name, ("",) if name == label else holes, notes)
    return FileTable(columns, remarks + notes.sentences())


@dataclass
class _Notes:
    """What was read in columns that could be read otherwise."""

    holes: dict[str, Counter[str]] = field(default_factory=dict)
    notations: dict[str, list[str]] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        found = []
        each = [
            f"{name} {', '.join(f'{spelling!r} {n}' for spelling, n in sorted(own.items()))}"
            for name, own in self.holes.items()
        ]
        if each:
            found.append(f"Read as missing cells: {'; '.join(each)}.")
        for notation, names in self.notations.items():
            found.append(f"Read as numbers with {notation}: {', '.join(names)}.")
        return found


def typed(cells: Sequence[str], name: str, holes: Sequence[str], notes: _Notes) -> Any:
    """The cells of a column: floats, truth values, or strings as they are spelled."""
    spelled = [cell.strip() for cell in cells]
    missing = np.array([cell in holes for cell in spelled], bool)
    counted = Counter(cell for cell in spelled if cell and cell in holes)
    if counted:
        notes.holes[name] = counted
    known = dict.fromkeys(cell for cell, hole in zip(spelled, missing, strict=True) if not hole)
    if not known:
        return np.full(len(cells), np.nan)
    if not any(map(_CODE.fullmatch, known)):
        for notation, (pattern, plain) in _NOTATIONS.items():
            if all(map(pattern.fullmatch, known)):
                if notation:
                    notes.notations.setdefault(notation, []).append(name)
                number = {cell: plain(cell) for cell in known}
                # A hole that is a number may be spelled in another way, as 0 and 0.0.
                numeric = {float(hole) for hole in holes if _PLAIN.fullmatch(hole)}
                equal = {cell for cell, own in number.items() if float(own) in numeric}
                if more := Counter(cell for cell in spelled if cell in equal):
                    notes.holes[name] = counted + more
                    missing |= np.array([cell in equal for cell in spelled], bool)
                return _numbers(spelled, missing, number)
    if all(cell.lower() in _TRUTH for cell in known):
        of = {cell: _TRUTH[cell.lower()] for cell in known}
        return [of.get(cell) for cell in spelled]
    return [None if hole else cell for cell, hole in zip(cells, missing, strict=True)]


def _numbers(spelled: list[str], missing: np.ndarray, plain: dict[str, str]) -> Any:
    """Floats, or ints of Python if all are whole and some are too large for floats."""
    number = {cell: float(own) for cell, own in plain.items()}
    finite = [value for value in number.values() if np.isfinite(value)]
    whole = all(value == round(value) for value in finite)
    if whole and len(finite) == len(number) and any(abs(value) >= 2**53 for value in finite):
        exact = {
            cell: int(float(own)) if "." in own or "e" in own.lower() else int(own)
            for cell, own in plain.items()
        }
        return [None if hole else exact[c] for c, hole in zip(spelled, missing, strict=True)]
    return np.array(
        [np.nan if hole else number[c] for c, hole in zip(spelled, missing, strict=True)]
    )


def _separator_of(text: str) -> tuple[str, list[str]]:
    """A comma, or what separates columns if no comma does; with a remark."""
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    if not lines or _fields(lines, ",") > 1:
        return ",", []
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars"), (BLANKS, "blanks")):
        if _fields(lines, separator) > 1:
            return separator, [f"Columns are separated by {name}."]
    return ",", []


def _fields(lines: Sequence[str], separator: str) -> int:
    """The number of fields of these lines; 0 if they differ."""
    if separator == BLANKS:
        sizes = {len(line.split()) for line in lines}
    else:
        sizes = {len(row) for row in csv.reader(lines, delimiter=separator)}
    return sizes.pop() if len(sizes) == 1 else 2 * (separator == "," and min(sizes) > 1)


def _rows(text: str, separator: str) -> pd.DataFrame:
    """The rows of a text of CSV, the header among them, as strings."""
    how: dict[str, Any] = {"sep": separator, "header": None, "dtype": str, "na_filter": False}
    how |= {"skipinitialspace": separator != " ", "index_col": False}
    try:
        width = pd.read_csv(io.StringIO(text), nrows=1, **how).shape[1]
        # One more column, for rows that end with a separator.
        frame = pd.read_csv(io.StringIO(text), names=range(width + 1), **how).fillna("")
    except pd.errors.EmptyDataError:
        raise ParseError("the file is empty") from None
    except pd.errors.ParserError as error:
        raise ParseError(_problems(text, separator, str(error))) from None
    if (frame[width] != "").any():
        raise ParseError(_problems(text, separator, "rows have more fields than the first line"))
    return frame.iloc[:, :width]


def _problems(text: str, separator: str, reason: str) -> str:
    """All lines that do not fit, or else the reason."""
    if separator != BLANKS:
        sizes: dict[int, int] = {}
        reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
        try:
            for row in reader:
                if row:
                    sizes[reader.line_num] = len(row)
        except csv.Error as error:
            return f"not a CSV file: line {reader.line_num}: {error}"
        first = next(iter(sizes.values()), 0)
        if wrong := [f"line {line} has {n}" for line, n in sizes.items() if n > first]:
            return f"not a CSV file: the first line has {first} fields, but {some(wrong, 5)}"
    return f"not a CSV file: {' '.join(reason.split())}"


def _looks_like_data(frame: pd.DataFrame) -> str | None:
    """A number in the first line that stands above numbers alone; None if there is none."""
    for position in range(frame.shape[1]):
        first, *rest = frame.iloc[:1000, position].str.strip()
        known = [cell for cell in rest if cell not in HOLES]
        if known and _PLAIN.fullmatch(first) and all(map(_PLAIN.fullmatch, known)):
            return first
    return None


def parsed_arff(text: str) -> FileTable:
    """The table in a text of ARFF, whose header declares the values of categories."""
    from scipy.io import arff

    try:
        rows, about = arff.loadarff(io.StringIO(text))
    except (arff.ArffError, NotImplementedError, ValueError) as error:
        raise ParseError(f"not an ARFF file: {' '.join(str(error).split())}") from None
    columns: dict[str, Any] = {}
    for name in about.names():
        cells = rows[name]
        if cells.dtype.kind == "S":
            texts = [cell.decode() for cell in cells.tolist()]
            columns[name] = [None if cell == "?" else cell for cell in texts]
        else:
            columns[name] = cells
    if not len(rows):
        raise ParseError("has a header but no rows")
    return FileTable(columns)
