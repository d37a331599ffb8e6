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

_TYPICALITY = "typicality"


@dataclass(frozen=True)
class PredictedColumns:
    """A function from tables to columns of predictions.

    Attributes:
        schema: how the model reads the columns.
        discriminant: the scores of rows, as `HostScores.discriminant`.
        prediction: the name of the column of classes.
        posterior: the name of the column of `p(y=k | x)`; None for no such column.
        typicality: p-values of rows, for a column of that name; None for no such column.
    """

    schema: Schema
    discriminant: Callable[[Rows], Float[np.ndarray, "n K"]]
    prediction: str
    posterior: str | None
    typicality: Callable[[Rows], Float[np.ndarray, "n K"]] | None = None

    def __post_init__(self) -> None:
        if self.prediction == self.posterior:
            raise ValueError(
                f"prediction and posterior are both {self.prediction!r}, expected different names"
            )
        for name in ("prediction", "posterior"):
            if self.typicality is not None and getattr(self, name) == _TYPICALITY:
                raise ValueError(f"{name} is {_TYPICALITY!r}, the name of the column of p-values")

    def __call__(self, table: ArrowTable, place: Place) -> dict[str, ArrowColumn]:
        """The columns to add to a table of Arrow; raise if the table has a column of that name."""
        import pyarrow as pa

        new = [self.prediction, self.posterior, None if self.typicality is None else _TYPICALITY]
        if taken := [name for name in new if name in table.column_names]:
            raise place.error("exists already, expected a new name for the predictions", taken[0])
        rows = self.schema.read(table, place, labelled=False)
        score = self.discriminant(rows)
        code = most_probable(score)
        values = pa.array(self.schema.classes, type_of_classes(self.schema))
        found = {self.prediction: values.take(pa.array(code, mask=code < 0))}
        if self.posterior is not None:
            found[self.posterior] = _lists(np.exp(normalised(score)))
        if self.typicality is not None:
            found[_TYPICALITY] = _lists(self.typicality(rows))
        return found


def _lists(cells: Float[np.ndarray, "n K"]) -> ArrowColumn:
    """A column of lists of K numbers."""
    import pyarrow as pa

    ends = np.arange(len(cells) + 1, dtype=np.int32) * cells.shape[1]
    return pa.ListArray.from_arrays(ends, cells.ravel())


def type_of_classes(schema: Schema) -> ArrowType:
    """The Arrow type of the classes."""
    import pyarrow as pa

    return pa.array(schema.classes).type
