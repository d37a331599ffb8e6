"""The part of batches of rows, computed by JAX."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.estimation import stats
from genclf.classifier.pieces import padded, statistics
from genclf.families.structure import named_arrays
from genclf.fitting.e_step import Expectation
from genclf.stream.batches import Batches
from genclf.stream.convert import as_host
from genclf.stream.part import Part, part_of
from genclf.stream.reading import pieces
from genclf.stream.schema import Rows, Schema
from genclf.sums.blocks import Hard
from genclf.sums.merging import merge_at_once
from genclf.sums.sparse import is_sparse
from genclf.sums.statistics import ClassifierStats
from genclf.tables.place import Place


def device_part(clf: Classifier, schema: Schema, batches: Batches, part_id: str) -> Part:
    """The part of these batches, summed by JAX in float64."""
    rows = checked_pieces(clf, schema, batches, part_id)
    return _summed(partial(stats, clf), partial(statistics, clf), schema, rows, part_id, False)


def expected_part(
    clf: Classifier, params: ClassifierParams, schema: Schema, batches: Batches, part_id: str
) -> Part:
    """The `Part` with the expected statistics (E step) of these rows.

    Labels and cells may be missing. The digest is of the schema and the params.
    """
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda a: jnp.asarray(a, np.float64), params)
    of_rows = partial(_expected, clf, wide)
    by_pieces = lambda x, y, w: of_rows(*padded(x, y, w))  # noqa: E731
    rows = checked_pieces(clf, schema, batches, part_id, unlabelled=True)
    part = _summed(of_rows, by_pieces, schema, rows, part_id, True)
    if any(np.isnan(leaf).any() for leaf in jax.tree.leaves(part.stats)):
        raise ValueError(
            f"{part_id!r}: the statistics that are expected under the params are NaN, as if a "
            "component of a mixture lost its rows: start from other params, by init=, or give the "
            "components a prior"
        )
    leaves = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(params))
    return replace(part, digest=f"{schema.digest}-{hashlib.sha256(leaves).hexdigest()}")


Summing = Callable[[PyTree, Any, Any], ClassifierStats]


def _summed(
    of_rows: Summing,
    by_pieces: Summing,
    schema: Schema,
    each: Iterator[Rows],
    name: str,
    unlabelled: bool,
) -> Part:
    with jax.enable_x64(True):
        total, rows, used, unseen = no_sums(of_rows, arrays_of(schema.no_rows())), 0, 0, 0
        for piece in each:
            if len(piece.label):
                total = merge_at_once(total, by_pieces(*arrays_of(piece)))
                rows += len(piece.label)
                used += int(piece.counted(unlabelled).sum())
                unseen += piece.num_unseen()
        return part_of(as_host(total), rows, name, schema.digest, rows - used, unseen)


def no_sums(of_rows: Summing, example: PyTree) -> ClassifierStats:
    """Zero statistics, in the structure that the function returns for rows like the example."""
    one = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct((1, *a.shape[1:]), jax.dtypes.canonicalize_dtype(a.dtype)),
        example,
        is_leaf=is_sparse,
    )
    zeros = lambda leaf: jnp.zeros(leaf.shape, leaf.dtype)  # noqa: E731
    return jax.tree.map(zeros, jax.eval_shape(of_rows, *one))


@jax.jit
def _expected(
    clf: Classifier, params: ClassifierParams, x: PyTree, y: Array, w: Array
) -> ClassifierStats:
    rows = Hard(y, w, clf.num_classes)
    return Expectation(clf, x, rows).of_rows(params)[1]


def checked_pieces(
    clf: Classifier, schema: Schema, batches: Batches, part_id: str, *, unlabelled: bool = False
) -> Iterator[Rows]:
    """`pieces`; raise for a cell outside the support of a part that only JAX can sum."""
    by_jax = {part.name for part in schema.parts if part.recipe is None}
    first = 0
    for rows in pieces(schema, batches, part_id, unlabelled=unlabelled):
        place = Place(part_id, first, rows.counted(unlabelled))
        for _, path, support, cells in named_arrays(clf.support, arrays_of(rows)[0]):
            part = path[0] if path else None
            if part in by_jax and not is_sparse(cells):
                wrong = ~np.asarray(support.valid(jnp.asarray(cells)))
                names = [c.name for c in schema.columns_of(part) for _ in range(c.width)]
                for j in np.flatnonzero(wrong.any(0)):
                    place.refuse(wrong[:, j], cells[:, j].tolist(), names[j], support.expected)
        first += len(rows.label)
        yield rows


def arrays_of(rows: Rows) -> tuple[PyTree, np.ndarray, np.ndarray]:
    """The rows, labels and weights as a model takes them."""
    weight = np.ones(len(rows.label)) if rows.weight is None else rows.weight
    is_list = lambda node: isinstance(node, list)  # noqa: E731
    as_codes = lambda a: np.stack(a, 1).astype(np.int32) if is_list(a) else a  # noqa: E731
    x = jax.tree.map(as_codes, rows.x, is_leaf=is_list)
    return x, rows.label.astype(np.int32), weight
