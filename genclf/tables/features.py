"""The columns of a table as models of its families take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jaxtyping import PyTree

from genclf.families.base import Family
from genclf.families.combined.combinator import leaf_families
from genclf.families.combined.product import Product
from genclf.sums.sparse import is_sparse
from genclf.tables.arrays import arrays_of
from genclf.tables.columns import Column
from genclf.tables.frames import CellsOf
from genclf.tables.place import Place


def features_of(
    cells: CellsOf, columns: Sequence[Column], family: Family | None, *, learning: bool
) -> PyTree:
    """The arrays of these columns for a family; None if cells of all parts may be missing."""
    parts: Any = family.parts if isinstance(family, Product) else {None: family}

    def may_miss(part: str | None) -> bool:
        return family is None or may_be_missing(parts[part])

    return arrays_of(cells, columns, Place("table"), learning=learning, may_miss=may_miss)


def may_be_missing(family: Family) -> bool:
    """Whether cells of a part of a model may be missing."""
    leaves = [leaf for (leaf,) in leaf_families(family)]
    return any(getattr(leaf, "missing", "error") != "error" for leaf in leaves)


def dense(x: PyTree) -> PyTree:
    """The rows as arrays, for compiled code."""
    return jax.tree.map(lambda a: a.toarray() if is_sparse(a) else a, x, is_leaf=is_sparse)
