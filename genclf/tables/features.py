"""The columns of a table as the models of `compare` take them: texts are tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jaxtyping import PyTree

from genclf.families.base import Family
from genclf.families.combined.combinator import leaf_families
from genclf.families.combined.product import Product
from genclf.families.tokens import Tokens
from genclf.tables.arrays import arrays_of
from genclf.tables.columns import Column
from genclf.tables.frames import CellsOf
from genclf.tables.place import Place
from genclf.text import Vocabulary

MAX_WORDS = 1000  # words read from each text, since all rows are padded to the longest


def features_of(
    cells: CellsOf, columns: Sequence[Column], family: Family | None, *, learning: bool
) -> PyTree:
    """The arrays of these columns for a family; None if cells of all parts may be missing."""
    parts: Any = family.parts if isinstance(family, Product) else {None: family}

    def may_miss(part: str | None) -> bool:
        return family is None or may_be_missing(parts[part])

    return arrays_of(
        cells, columns, Place("table"), learning=learning, may_miss=may_miss, words=_tokens_in
    )


def may_be_missing(family: Family) -> bool:
    """Whether cells of a part of a model may be missing."""
    leaves = [leaf for (leaf,) in leaf_families(family)]
    return any(getattr(leaf, "missing", "error") != "error" for leaf in leaves)


def _tokens_in(texts: Iterable[str], column: Column) -> Tokens:
    """The first words of each text."""
    vocabulary = Vocabulary(column.values, lowercase=column.lowercase)
    padded = vocabulary.tokens(texts, max_length=MAX_WORDS)
    longest = max(int(padded.mask.sum(1).max(initial=0)), 1)
    return jax.tree.map(lambda leaf: leaf[:, :longest], padded)
