"""Neighbourhoods of features: lists of columns, or a matrix, as one padded array."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np
from jaxtyping import Int

from genclf.arguments.domains import shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from scipy.sparse import sparray, spmatrix

    Neighbours: TypeAlias = Iterable[ArrayLike] | ArrayLike | sparray | spmatrix
else:  # no check at run time: messages are those of this library
    Neighbours = object


def padded_index(neighbours: Any, num_columns: int) -> Int[np.ndarray, "C m"]:
    """The columns of each neighbourhood, padded with -1."""
    lists = _rows_of_matrix(neighbours, num_columns)
    if lists is None:
        try:
            lists = [np.asarray(each) for each in neighbours]
        except TypeError:
            lists = []
    if not lists:
        raise ValueError(
            f"neighbours is {shown(neighbours)}, expected the column numbers of each "
            "neighbourhood, or a matrix of them"
        )
    for place, each in enumerate(lists):
        if each.ndim != 1 or not len(each) or not np.issubdtype(each.dtype, np.integer):
            raise ValueError(
                f"neighbours[{place}] is {shown(each)}, expected at least one column, as integers"
            )
        wrong = (each < 0) | (each >= num_columns)
        if wrong.any() or len(np.unique(each)) != len(each):
            column = each[wrong][0] if wrong.any() else "a column twice"
            raise ValueError(
                f"neighbours[{place}] holds {column}, expected different columns of x, "
                f"0..{num_columns - 1}"
            )
    index = np.full((len(lists), max(map(len, lists))), -1, np.int32)
    for place, each in enumerate(lists):
        index[place, : len(each)] = each
    return index


def _rows_of_matrix(neighbours: Any, num_columns: int) -> list[np.ndarray] | None:
    """The nonzero columns of each row of a sparse or boolean matrix; None if it is not a matrix."""
    if hasattr(neighbours, "tocsr"):
        matrix = neighbours.tocsr()
        matrix.eliminate_zeros()
        width, bounds = matrix.shape[1], matrix.indptr
        lists = [matrix.indices[a:b] for a, b in itertools.pairwise(bounds)]
    elif isinstance(neighbours, np.ndarray | jax.Array) and neighbours.dtype == bool:
        width = neighbours.shape[-1]
        lists = [np.flatnonzero(row) for row in np.asarray(neighbours)]
    else:
        return None
    if width != num_columns:
        raise ValueError(
            f"neighbours has {width} columns, expected {num_columns}: one for each column of x"
        )
    return lists
