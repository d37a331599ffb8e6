"""The columns of a user's file: the kind of each by stated rules, and its cells as arrays."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import jax
import numpy as np
import pandas as pd

import genclf as gcf
from genclf.cli.files import InputError
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
MAX_WORDS = 1000  # read from each text: all rows are padded to the longest

_PLAIN = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)", re.I)
_GROUPED = re.compile(r"[+-]?(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?")
_COMMA = re.compile(
    r"[+-]?(?:[1-9][0-9]{0,2}(?:\.[0-9]{3})+|[0-9]+)(?:,[0-9]+)?(?:e[+-]?[0-9]+)?", re.I
)
# Notations of numbers, each with a conversion to Python's; the first that fits all cells is used.
# 1,234 fits both of the last two; if all cells are like it, the choice only changes the unit.
_NOTATIONS: tuple[tuple[str, re.Pattern[str], Callable[[str], str]], ...] = (
    ("", _PLAIN, lambda cell: cell),
    ("comma between thousands", _GROUPED, lambda cell: cell.replace(",", "")),
    ("decimal comma", _COMMA, lambda cell: cell.replace(".", "").replace(",", ".")),
)
_EXACT = 2**53  # whole numbers below it are exact in float64


@dataclass(frozen=True)
class Cells:
    """The values that the strings of a column stand for.

    Attributes:
        value: numbers if all cells are numbers (a column with whole numbers from 2^53 on holds
            Python integers, which are exact), else strings. Missing cells are missing here too.
        number: the numbers as float64, NaN where missing; None if not all cells are numbers.
        missing: cells without a value, including infinite numbers.
        notation: how the numbers are written, if not as in Python.
        infinite: number of infinite cells.
    """

    value: pd.Series
    number: np.ndarray | None
    missing: np.ndarray
    notation: str = ""
    infinite: int = 0


@dataclass(frozen=True)
class Column:
    """One column of the file.

    Attributes:
        name: its header.
        kind: what it is read as.
        detail: what it holds, or why it was dropped, in words.
        cells: its values.
    """

    name: str
    kind: Kind
    detail: str
    cells: Cells


def read_cells(strings: pd.Series) -> Cells:
    """The values of a column of strings, NaN where missing."""
    code, distinct = pd.factorize(strings)
    missing = code < 0
    words = [str(word).strip() for word in distinct]
    for notation, pattern, plain in _NOTATIONS:
        if not words or not all(map(pattern.fullmatch, words)):
            continue
        words = [plain(word) for word in words]
        floats = np.array([*map(float, words), np.nan])  # the last for code -1
        number, infinite = floats[code], int(np.isinf(floats[code]).sum())
        number = np.where(np.isinf(number), np.nan, number)
        value = pd.Series(number, strings.index)
        known = floats[np.isfinite(floats)]
        if (np.abs(known) >= _EXACT).any() and (known == known.round()).all():
            finite = np.isfinite(floats[:-1])
            whole = [_whole(w) if ok else None for w, ok in zip(words, finite, strict=True)]
            value = pd.Series([*whole, None], dtype=object).take(code).set_axis(strings.index)
        return Cells(value, number, np.isnan(number), notation, infinite)
    truth = {word: word.capitalize() for word in words}
    if set(truth.values()) <= {"True", "False"}:
        return Cells(strings.str.strip().map(truth), None, missing)
    return Cells(strings, None, missing)


def _whole(word: str) -> int:
    """A whole number as it is written, digit by digit; its exponent is at most that of a float."""
    return int(Decimal(word))


def pop_label(frame: pd.DataFrame, name: str) -> tuple[pd.DataFrame, pd.Series]:
    """The other columns and the label, in rows that have a label; `InputError` if unusable."""
    names = list(frame)
    if name not in names:
        lower = {column.lower(): column for column in names}
        close = difflib.get_close_matches(name.lower(), lower, n=3)
        hint = f"did you mean {' or '.join(repr(lower[c]) for c in close)}? " if close else ""
        hint += "is the separator another one (--sep)? " if len(names) == 1 else ""
        raise InputError(f"no column {name!r}; {hint}the columns are {_some(names)}")
    if names.count(name) > 1:
        raise InputError(
            f"{names.count(name)} columns are named {name!r}: which is the label? A copy of it "
            "among the features would reveal it; rename or remove all but one"
        )
    label = frame[name]
    others = [place for place, other in enumerate(names) if other != name]
    frame = frame.iloc[:, others].set_axis(_different(names, others), axis=1)
    frame, label = frame[label.notna()], label[label.notna()]
    if not len(label):
        raise InputError(f"label {name!r} is missing in every row")
    cells = read_cells(label)
    num_classes = cells.value.nunique()
    if num_classes > 20:
        number = cells.number
        whole = number is not None and not cells.infinite and (number == number.round()).all()
        if number is not None and not (whole and num_classes <= len(label) / 10):
            raise InputError(
                f"label {name!r} has {num_classes} different numbers in {len(label)} rows: it "
                "looks continuous; classification needs classes, e.g. bin it by genclf.discretize"
            )
        if num_classes > len(label) / 2:
            raise InputError(
                f"label {name!r} has {num_classes} classes in {len(label)} rows, too many to learn"
            )
    return frame, label


def _different(names: list[str], places: list[int]) -> list[str]:
    """The names at these positions; if some are equal, each is followed by its position."""
    chosen = [names[place] for place in places]
    if len(set(chosen)) == len(chosen):
        return chosen
    return [f"{name} (column {place + 1})" for name, place in zip(chosen, places, strict=True)]


def classes(label: pd.Series) -> tuple[np.ndarray, list[str]]:
    """The class of each row, given a label in every row, and the names of the classes."""
    cells = read_cells(label)
    # An infinite number is a class like any other, named as in the file.
    return codes(Cells(label, None, label.isna().to_numpy()) if cells.infinite else cells)


def decide(frame: pd.DataFrame, label: pd.Series) -> list[Column]:
    """The kind of each column."""
    return [_decide(frame[name], label) for name in frame]


def _decide(strings: pd.Series, label: pd.Series) -> Column:
    cells = read_cells(strings)
    n, missing, number = len(strings), cells.missing, cells.number
    known = cells.value[~missing]
    distinct = known.nunique()
    num_values = distinct + int(missing.any())

    def column(kind: Kind, detail: str) -> Column:
        return Column(str(strings.name), kind, detail, cells)

    if num_values <= 1:
        return column("dropped", "constant")
    if strings.equals(label):
        return column("dropped", "a copy of the label")
    if number is not None:
        seen = number[~missing]
        whole = (seen == seen.round()).all()
        if whole and distinct <= 10 and num_values <= n / 2:
            return _discrete(column, cells, num_values)
        if distinct <= 1:
            return column("dropped", "constant where it is not missing")
        if whole and len(np.unique(seen - strings.index[~missing])) == 1:  # the file's rows
            return column("dropped", "numbers the rows")
        written = f", {cells.notation}" if cells.notation else ""
        return column(
            "numeric", f"{distinct} numbers, {seen.min():.6g} to {seen.max():.6g}{written}"
        )
    words = known.str.split().str.len().mean()
    if words >= 3 and (distinct > 50 or distinct > n / 2):
        try:
            num_words = len(learn_vocabulary(known.tolist()))
        except ValueError:
            return column("dropped", "text without a word of two letters")
        return column("text", f"{num_words} different words, {words:.0f} in a text")
    strange = _not_numbers(known)
    if num_values <= n / 2:
        return _discrete(column, cells, num_values, strange)
    return column("dropped", f"{distinct} strings in {n} rows: {strange or 'they rarely repeat'}")


def _not_numbers(known: pd.Series) -> str:
    """The cells that are not numbers, in words, if most cells are; else an empty string."""
    other = known[[_PLAIN.fullmatch(cell.strip()) is None for cell in known]]
    return (
        f"{len(other)} no number, as {other.iloc[0]!r:.24}" if 2 * len(other) < len(known) else ""
    )


def _discrete(
    column: Callable[[Kind, str], Column], cells: Cells, num_values: int, strange: str = ""
) -> Column:
    shown = strange or ", ".join(codes(cells)[1])
    shown = shown if strange or len(shown) <= 24 else shown[:21] + "..."
    return column("binary" if num_values == 2 else "categorical", f"{num_values} values: {shown}")


def codes(cells: Cells) -> tuple[np.ndarray, list[str]]:
    """The index of each value among the sorted values, missing last, and the values as strings."""
    code, distinct = pd.factorize(cells.value.where(~cells.missing), sort=True)
    names = [f"{v:.15g}" if isinstance(v, float) else str(v) for v in distinct.tolist()]
    if (code < 0).any():
        return np.where(code < 0, len(names), code), [*names, MISSING]
    return code, names


def tokens(values: pd.Series) -> gcf.Tokens:
    """The words of each text, none for a missing text; the vocabulary is that of all texts."""
    texts = values.fillna("").tolist()
    padded = learn_vocabulary(texts).tokens(texts, max_length=MAX_WORDS)
    longest = int(padded.mask.sum(1).max())
    return jax.tree.map(lambda leaf: leaf[:, :longest], padded)


def _some(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:20]) + (f" and {len(shown) - 20} more" if len(shown) > 20 else "")
