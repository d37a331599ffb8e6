"""What is in a user's file: each column's kind by stated rules, and the file as arrays."""

from __future__ import annotations

import difflib
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import jax
import numpy as np
import pandas as pd

import genclf as gcf
from genclf.text import learn_vocabulary

Kind = Literal["numeric", "binary", "categorical", "text", "dropped"]

RULES = (
    ("numeric", "numbers, unless whole with at most 10 values"),
    ("categorical", "whole numbers with at most 10 values; strings that repeat"),
    ("binary", "the same with two values; missing is one"),
    ("text", "strings of 3 words or more on average, over 50 values or rarely repeated"),
    ("dropped", "constant; row numbers; strings that rarely repeat; numbers mostly missing"),
)

MISSING = "(missing)"
MAX_WORDS = 1000  # that are read of a text: all rows are padded to the longest


class InputError(Exception):
    """The file or an option cannot be used; the message is one line for the user."""


@dataclass(frozen=True)
class Column:
    """One column of the file.

    Attributes:
        name: its header.
        kind: what it is read as.
        detail: why, or what it holds, in words.
        missing: number of rows without a value.
    """

    name: str
    kind: Kind
    detail: str
    missing: int


def read_file(path: str, separator: str) -> pd.DataFrame:
    """The file as a table; `InputError` if it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                path, sep=separator, index_col=False, low_memory=False, na_values="?"
            )
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a directory, expected a CSV file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text; save the file as UTF-8") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{path}: the file is empty") from None
    except pd.errors.ParserError as error:
        raise InputError(f"{path}: not a CSV file: {' '.join(str(error).split())}") from None
    except pd.errors.ParserWarning:
        raise InputError(f"{path}: rows have more fields than the header line") from None
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: {reason}") from None
    if frame.empty:
        raise InputError(f"{path}: has a header but no rows")
    return frame.rename(columns=str)


def pop_label(frame: pd.DataFrame, name: str) -> tuple[pd.DataFrame, pd.Series]:
    """The other columns and the label, of the rows that have one; `InputError` if unusable."""
    if name not in frame:
        lower = {column.lower(): column for column in frame}
        close = difflib.get_close_matches(name.lower(), lower, n=3)
        hint = f"did you mean {' or '.join(repr(lower[c]) for c in close)}? " if close else ""
        hint += "is the separator another one (--sep)? " if len(frame.columns) == 1 else ""
        raise InputError(f"no column {name!r}; {hint}the columns are {_some(list(frame))}")
    label = frame[name]
    frame, label = frame[label.notna()].drop(columns=name), label[label.notna()]
    num_classes = label.nunique()
    if num_classes == 0:
        raise InputError(f"label {name!r} is missing in every row")
    if num_classes > 20:
        whole = _is_number(label) and (label == label.round()).all()
        if _is_number(label) and not (whole and num_classes <= len(label) / 10):
            raise InputError(
                f"label {name!r} has {num_classes} different numbers in {len(label)} rows: it "
                "looks continuous; classification needs classes, e.g. cut it by genclf.discretize"
            )
        if num_classes > len(label) / 2:
            raise InputError(
                f"label {name!r} has {num_classes} classes in {len(label)} rows, too many to learn"
            )
    return frame, label


def decide(frame: pd.DataFrame) -> tuple[list[Column], pd.DataFrame]:
    """The kind of each column, and the rows in which no numeric column is missing.

    Kinds are those of the rows kept; the numbers of missing cells those of all rows.
    """
    missing = {name: int(_missing(frame[name]).sum()) for name in frame}
    while True:
        columns = [_decide(frame[name]) for name in frame]
        numeric = [c.name for c in columns if c.kind == "numeric"]
        complete = np.isfinite(frame[numeric].astype(float)).all(axis=1)
        if complete.all():
            return [replace(column, missing=missing[column.name]) for column in columns], frame
        if not complete.any():
            raise InputError(
                f"every row has a missing number in one of {_some(numeric)}; fill them in, or "
                "remove columns"
            )
        frame = frame[complete]


def _decide(values: pd.Series) -> Column:
    n, missing = len(values), _missing(values)
    known = values[~missing]
    distinct = known.nunique()
    num_values = distinct + int(missing.any())

    def column(kind: Kind, detail: str) -> Column:
        return Column(str(values.name), kind, detail, int(missing.sum()))

    if num_values <= 1:
        return column("dropped", "constant")
    if _is_number(values):
        whole = (known == known.round()).all()
        if whole and distinct <= 10 and num_values <= n / 2:
            return _discrete(column, known, num_values)
        if missing.mean() > 0.5:
            return column("dropped", "mostly missing")
        if whole and (known - known.index).nunique() == 1:  # the index numbers the file's rows
            return column("dropped", "numbers the rows")
        return column("numeric", f"{distinct} numbers, {known.min():.6g} to {known.max():.6g}")
    text = known.astype(str)
    words = text.str.split().str.len().mean()
    if words >= 3 and (distinct > 50 or distinct > n / 2):
        try:
            num_words = len(learn_vocabulary(text))
        except ValueError:
            return column("dropped", "text without a word of two letters")
        return column("text", f"{num_words} different words, {words:.0f} in a text")
    if num_values <= n / 2:
        return _discrete(column, text, num_values)
    return column("dropped", f"{distinct} strings in {n} rows: names")


def _discrete(column: Callable[[Kind, str], Column], known: pd.Series, num_values: int) -> Column:
    shown = ", ".join(codes(known)[1])
    shown = shown if len(shown) <= 24 else shown[:21] + "..."
    return column("binary" if num_values == 2 else "categorical", f"{num_values} values: {shown}")


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def _missing(values: pd.Series) -> pd.Series:
    return ~np.isfinite(values.astype(float)) if _is_number(values) else values.isna()


def codes(values: pd.Series) -> tuple[np.ndarray, list[str]]:
    """The place of each value among the sorted values, missing last, and the values as strings."""
    known = values if _is_number(values) else values.astype(str)
    code, distinct = pd.factorize(known.where(~_missing(values)), sort=True)
    names = [f"{value:.15g}" if _is_number(values) else value for value in distinct]
    if (code < 0).any():
        return np.where(code < 0, len(names), code), [*names, MISSING]
    return code, names


def tokens(values: pd.Series) -> gcf.Tokens:
    """The words of each text, none where missing; the vocabulary only names them all."""
    texts = values.fillna("").astype(str).tolist()
    padded = learn_vocabulary(texts).tokens(texts, max_length=MAX_WORDS)
    longest = int(padded.mask.sum(1).max())
    return jax.tree.map(lambda leaf: leaf[:, :longest], padded)


def _some(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:20]) + (f" and {len(shown) - 20} more" if len(shown) > 20 else "")
