"""Columns of predictions for tables, without JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from genclf.numerics.scores.posterior import most_probable, normalised
from genclf.stream.batches import ArrowTable
from genclf.stream.rows import Rows
from genclf.stream.schema import Schema
from genclf.tables.arrow_cells import ArrowColumn, ArrowType
from genclf.tables.place import Place


@dataclass(frozen=True)
class Predictor:
    """A function from tables to columns of predictions.

    Attributes:
        schema: how the model reads the columns.
        discriminant: the scores of rows, as `HostScores.discriminant`.
        prediction: the name of the column of classes.
        posterior: the name of the column of `p(y=k | x)`; None for no such column.
    """

    schema: Schema
    discriminant: Callable[[Rows], Float[np.ndarray, "n K"]]
    prediction: str
    posterior: str | None

    def __post_init__(self) -> None:
        if self.prediction == self.posterior:
            raise ValueError(
                f"prediction and posterior are both {self.prediction!r}, expected different names"
            )

    def __call__(self, table: ArrowTable, place: Place) -> dict[str, ArrowColumn]:
        """The columns to add to a table of Arrow; raise if the table has a column of that name."""
        import pyarrow as pa

        if taken := [n for n in (self.prediction, self.posterior) if n in table.column_names]:
            raise place.error("exists already, expected a new name for the predictions", taken[0])
        score = self.discriminant(self.schema.read(table, place, labelled=False))
        code = most_probable(score)
        values = pa.array(self.schema.classes, type_of_classes(self.schema))
        found = {self.prediction: values.take(pa.array(code, mask=code < 0))}
        if self.posterior is not None:
            cells = np.exp(normalised(score))
            ends = np.arange(len(cells) + 1, dtype=np.int32) * cells.shape[1]
            found[self.posterior] = pa.ListArray.from_arrays(ends, cells.ravel())
        return found


def type_of_classes(schema: Schema) -> ArrowType:
    """The Arrow type of the classes."""
    import pyarrow as pa

    return pa.array(schema.classes).type
