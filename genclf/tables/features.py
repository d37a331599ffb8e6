"""Readers of tables: the arrays that a model takes, made in the same way as for training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float, Int, PyTree

from genclf.families.tokens import Tokens
from genclf.tables.cells import Value, codes_like, numbers_like, texts_of
from genclf.tables.columns import MISSING, Column, values_of
from genclf.tables.frames import Series, Table
from genclf.text import Vocabulary, learn_vocabulary

MAX_WORDS = 1000  # words read from each text, since all rows are padded to the longest


@dataclass(frozen=True)
class Nothing:
    """Rows without information about the class, for the class prior alone."""

    names: tuple[str, ...] = ("nothing",)

    @property
    def num_features(self) -> int:
        """The width of the array of zeros."""
        return 1

    def __call__(self, table: Table) -> Int[np.ndarray, "n 1"]:
        """Zeros."""
        return np.zeros((len(table), 1), np.int32)


@dataclass(frozen=True)
class Numbers:
    """Columns of numbers, divided by powers of two, so that their squares fit in float64.

    This changes no posterior: ridge and prior of a Gaussian are relative to the scale of the data.
    """

    names: tuple[str, ...]
    notations: tuple[str, ...]
    exponents: tuple[int, ...]
    may_miss: bool

    def _problems(self) -> list[str]:
        return _lengths_that_differ(self.names, notations=self.notations, exponents=self.exponents)

    @property
    def num_features(self) -> int:
        """The number of columns."""
        return len(self.names)

    @staticmethod
    def of(columns: list[Column], may_miss: bool) -> Numbers:
        """The reader of these columns; `may_miss`: whether cells may be missing."""
        largest = [np.nanmax(np.abs(column.cells.number)) for column in columns]
        exponents = tuple(np.frexp(largest)[1].tolist())
        notations = tuple(column.cells.notation or "" for column in columns)
        return Numbers(_names(columns), notations, exponents, may_miss)

    def __call__(self, table: Table) -> Float[np.ndarray, "n d"]:
        """The numbers, NaN where missing or infinite."""
        each = zip(self.names, self.notations, self.exponents, strict=True)
        x = [np.ldexp(numbers_like(_column(table, name), how), -e) for name, how, e in each]
        if not self.may_miss:
            for name, cells in zip(self.names, x, strict=True):
                if len(rows := np.flatnonzero(np.isnan(cells))):
                    raise ValueError(
                        f"column {name!r}, row {rows[0]} is missing, but no number was missing "
                        "in the table that the model was fitted to: fill it in, or drop the row"
                    )
        return np.stack(x, 1)


@dataclass(frozen=True)
class Codes:
    """Categorical columns, as indices of their values among those of the training table."""

    names: tuple[str, ...]
    notations: tuple[str | None, ...]
    values: tuple[tuple[Value, ...], ...]

    def _problems(self) -> list[str]:
        return _lengths_that_differ(self.names, notations=self.notations, values=self.values)

    @property
    def num_features(self) -> int:
        """The number of columns."""
        return len(self.names)

    @staticmethod
    def of(columns: list[Column]) -> Codes:
        """The reader of these columns."""
        values = tuple(values_of(column.cells) for column in columns)
        return Codes(_names(columns), tuple(c.cells.notation for c in columns), values)

    def __call__(self, table: Table) -> Int[np.ndarray, "n d"]:
        """The codes; -1 (unknown) for a value that the training table did not have.

        A missing cell has a code of its own if the training table had missing cells, else -1.
        """
        x = []
        for name, notation, values in zip(self.names, self.notations, self.values, strict=True):
            has_missing = values[-1:] == (MISSING,)
            code = codes_like(_column(table, name), values[: len(values) - has_missing], notation)
            x.append(np.where(code == -1, len(values) - 1 if has_missing else -1, code))
        return np.maximum(np.stack(x, 1), -1).astype(np.int32)


@dataclass(frozen=True)
class Words:
    """A column of texts, as the words of a vocabulary in their order."""

    name: str
    vocabulary: Vocabulary

    @property
    def num_features(self) -> int:
        """The number of words."""
        return len(self.vocabulary)

    @property
    def names(self) -> tuple[str, ...]:
        """The column, in the form that other readers have."""
        return (self.name,)

    @staticmethod
    def of(column: Column, table: Table) -> Words:
        """The reader of this column, with all words of a table."""
        return Words(column.name, learn_vocabulary(texts_of(table[column.name])))

    def __call__(self, table: Table) -> Tokens:
        """The first words of each text; a missing text has no words."""
        padded = self.vocabulary.tokens(texts_of(_column(table, self.name)), max_length=MAX_WORDS)
        longest = max(int(padded.mask.sum(1).max(initial=0)), 1)
        return jax.tree.map(lambda leaf: leaf[:, :longest], padded)


PartReader = Nothing | Numbers | Codes | Words
"""A reader of one array."""


@dataclass(frozen=True)
class Parts:
    """The columns of each kind, for a model with a part for each kind."""

    parts: Mapping[str, PartReader]

    def __call__(self, table: Table) -> dict[str, PyTree]:
        """The arrays of each reader for the table."""
        return {name: read(table) for name, read in self.parts.items()}


Reader = PartReader | Parts


def _lengths_that_differ(names: tuple[str, ...], **each: tuple[object, ...]) -> list[str]:
    """Messages about fields that do not have one entry for each name."""
    return [
        f"{field} has {len(given)} entries, but names {len(names)}"
        for field, given in each.items()
        if len(given) != len(names)
    ]


def _names(columns: list[Column]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


def _column(table: Table, name: str) -> Series:
    if name not in table.columns:
        raise ValueError(f"table has no column {name!r}, which the model reads")
    return table[name]
