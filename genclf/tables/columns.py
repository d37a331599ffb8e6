"""The columns of a table: the kind of each by stated rules, and the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

from genclf.tables.cells import Cells, Value, is_plain_number, read_cells, texts_of
from genclf.tables.frames import Series, Table, is_index, looks_like_text
from genclf.text import learn_vocabulary

Kind = Literal["numeric", "binary", "categorical", "text", "dropped"]

RULES = (
    ("numeric", "numbers, unless whole with at most 10 values"),
    ("categorical", "whole numbers with at most 10 values; strings that repeat"),
    ("binary", "the same with two values; a missing cell is a value too"),
    ("text", "strings of 3 words or more on average, over 50 values or rarely repeated"),
    ("dropped", "constant; row numbers; strings that rarely repeat; a copy of the label"),
)

MISSING = "(missing)"


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: its name.
        kind: how it is read: "numeric", "binary", "categorical", "text" or "dropped".
        detail: what it holds, or why it was dropped, in words.
        num_missing: number of cells without a value.
    """

    name: str
    kind: Kind
    detail: str
    num_missing: int
    cells: Cells

    def __repr__(self) -> str:
        return f"Column({self.name!r}, {self.kind!r}, {self.detail!r})"


def values_of(cells: Cells) -> tuple[Value, ...]:
    """The values of a categorical column, and `MISSING` as the last if some cells are missing."""
    return (*cells.values, MISSING) if cells.missing.any() else cells.values


def codes_of(cells: Cells) -> Int[np.ndarray, "n"]:
    """The index of each cell in `values_of(cells)`."""
    return np.where(cells.missing, len(cells.values), cells.code)


def read_columns(table: Table, label: Series, rows: np.ndarray) -> tuple[Column, ...]:
    """The kind of each column but the label; `rows` are the rows' numbers in the whole table."""
    names = [name for name in table.columns if name != label.name]
    return tuple(_read(table[name], label, rows) for name in names)


def _read(series: Series, label: Series, rows: np.ndarray) -> Column:
    cells = read_cells(series)
    kind, detail = _kind(series, cells, label, rows)
    return Column(str(series.name), kind, detail, int(cells.missing.sum()), cells)


def _kind(series: Series, cells: Cells, label: Series, rows: np.ndarray) -> tuple[Kind, str]:
    n, missing, distinct = len(series), cells.missing, len(cells.values)
    num_values = len(values_of(cells))
    dtype = str(series.dtype).partition("(")[0]
    if not (series.dtype.is_numeric() or dtype in _CATEGORICAL_DTYPES):
        return "dropped", f"{series.dtype}: make numbers or strings of it"
    if is_index(series.name):
        return "dropped", "the index of pandas"
    if num_values <= 1:
        return "dropped", "constant"
    if texts_of(series) == texts_of(label):
        return "dropped", "a copy of the label"
    if cells.notation is not None:
        seen = cells.number[~missing]
        whole = (seen == seen.round()).all()
        if whole and distinct <= 10 and num_values <= n / 2:
            return _discrete(cells, num_values)
        if distinct <= 1:
            return "dropped", "constant where it is not missing"
        if whole and len(np.unique(seen - rows[~missing])) == 1:
            return "dropped", "contains the row numbers"
        written = f", {cells.notation}" if cells.notation else ""
        return "numeric", f"{distinct} numbers, {seen.min():.6g} to {seen.max():.6g}{written}"
    known = [text for text, absent in zip(texts_of(series), missing, strict=True) if not absent]
    if looks_like_text(known, distinct, n):
        try:
            num_words = len(learn_vocabulary(known))
        except ValueError:
            return "dropped", "text without a word of two letters"
        words = sum(len(text.split()) for text in known) / len(known)
        return "text", f"{num_words} different words, {words:.0f} in a text"
    strange = _not_numbers(known)
    if num_values <= n / 2:
        return _discrete(cells, num_values, strange)
    return "dropped", f"{distinct} strings in {n} rows: {strange or 'they rarely repeat'}"


_CATEGORICAL_DTYPES = ("String", "Categorical", "Enum", "Boolean", "Object")


def _not_numbers(known: list[str]) -> str:
    """A description of the cells that are not numbers, if most cells are; else an empty string."""
    other = [cell for cell in known if not is_plain_number(cell)]
    if 2 * len(other) >= len(known):
        return ""
    cells = "1 cell is not a number" if len(other) == 1 else f"{len(other)} cells are not numbers"
    return f"{cells}, such as {other[0]!r:.24}"


def _discrete(cells: Cells, num_values: int, strange: str = "") -> tuple[Kind, str]:
    shown = strange or ", ".join([*cells.names, MISSING][:num_values])
    shown = shown if strange or len(shown) <= 24 else shown[:21] + "..."
    return ("binary" if num_values == 2 else "categorical"), f"{num_values} values: {shown}"
