"""Predictions for streams of batches, of any number of rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, PyTree

from genclf.arguments.domains import Domain
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.model import Fitted, require_prior
from genclf.classifier.pieces import by_pieces
from genclf.classifier.scores import discriminants
from genclf.select.membership.rows import MembershipTest
from genclf.stream.batches import ArrowTable, Batches
from genclf.stream.on_device import arrays_of
from genclf.stream.partial import NAME, SCHEMA
from genclf.stream.predicting import PredictedColumns
from genclf.stream.reading import sliced
from genclf.stream.rows import Rows
from genclf.stream.schema import Schema
from genclf.stream.score_plan import NeedsJax, host_scores
from genclf.stream.units import units

OPTIONAL_NAME = Domain("a string, or None", NAME.contains, optional=True)


@checked_arguments(
    any_model=True,
    schema=SCHEMA,
    prediction=NAME,
    posterior=OPTIONAL_NAME,
    typicality=Domain(
        "what genclf.typicality_test returns, or None",
        lambda given: isinstance(given, MembershipTest),
        optional=True,
    ),
)
def predict_batches(
    params: Fitted,
    batches: Batches,
    schema: Schema,
    *,
    prediction: str = "prediction",
    posterior: str | None = None,
    typicality: MembershipTest | None = None,
) -> Iterator[ArrowTable]:
    """The rows of a stream with a further column, the most probable class of each.

    With `typicality` there is a column of that name too: p-values that the row is of each class, a
    list in the order of the classes. `genclf.novelty` of a table's p-values is the share of its
    rows that are typical of no class, for an alarm.

    Reads and scores at most 65,536 rows at a time. NumPy scores what `genclf.partial` sums by
    NumPy, in float64; JAX scores other models, in the dtype of its setting.

    Args:
        params: a fitted classifier, perhaps with calibrated posteriors.
        batches: files or batches, as `fit_batches` takes them; they need no labels.
        schema: how the model reads the columns.
        prediction: the name of the column of classes; null for a row that has no posterior.
        posterior: the name of a column of `p(y=k | x)`, a list in the order of the classes; None
            for no such column.
        typicality: from `genclf.typicality_test`; None for no such column.

    Returns:
        An iterator of tables of Arrow, with all columns of the batches; those of CSV that the
        schema does not read are strings, as they are written.

    Raises:
        ValueError: the params do not fit the schema. The iterator raises for a file that cannot be
            read, a column that is missing, a cell that does not fit the schema, with file, row and
            column, or a column that already has one of the names.

    Example:
        >>> import genclf as gcf
        >>> from genclf.stream import fit_batches, predict_batches
        >>> batches = [{"x": [1.0, 2.0, 8.0, 9.0], "y": ["low", "low", "high", "high"]}]
        >>> clf = gcf.lda(2)
        >>> schema = gcf.Schema.scan(clf, batches, label="y")
        >>> params = fit_batches(clf, batches, schema)
        >>> for table in predict_batches(params, [{"x": [7.0, 2.5]}], schema):
        ...     print(table["prediction"].to_pylist())
        ['high', 'low']
    """
    require_prior(params, "predict_batches")
    tested = None
    if typicality is not None:
        if typicality.num_classes != params.num_classes:
            raise ValueError(
                f"typicality is of {typicality.num_classes} classes, but params of "
                f"{params.num_classes}: expected a test of the same classes"
            )
        tested = partial(_by_jax, typicality, typicality.num_classes)
    return _predicted(
        PredictedColumns(schema, _scores(params, schema), prediction, posterior, tested), batches
    )


def _scores(params: Fitted, schema: Schema) -> Callable[[Rows], Float[np.ndarray, "n K"]]:
    """The discriminants of rows, by NumPy if it can."""
    try:
        return host_scores(params, schema).discriminant
    except NeedsJax:
        return partial(_by_jax, partial(by_pieces, discriminants, params), params.num_classes)


def _by_jax(
    function: Callable[[PyTree], Any], num_classes: int, rows: Rows
) -> Float[np.ndarray, "n K"]:
    """The numbers that a function of arrays gives for the rows."""
    if not len(rows.label):
        return np.zeros((0, num_classes))
    return np.asarray(function(arrays_of(rows)[0]), np.float64)


def _predicted(predictor: PredictedColumns, batches: Batches) -> Iterator[ArrowTable]:
    reader = replace(predictor.schema.reader, columns=None, codes=())
    for name, given in units(batches):
        for piece, place in sliced(reader.tables(name, given), name):
            for new, cells in predictor(piece, place).items():
                piece = piece.append_column(new, cells)
            yield piece
