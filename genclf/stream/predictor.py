"""A fitted model in one file, for processes that serve predictions without JAX."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from genclf.arguments.calls import checked_call
from genclf.covariance.scales import SCALES
from genclf.files.container import FileError, from_bytes, put, replace_file, take, to_bytes
from genclf.numerics.scores.gaussian import GaussianScores
from genclf.numerics.scores.linear import LinearScore
from genclf.numerics.scores.means import Means
from genclf.numerics.scores.posterior import most_probable, normalised
from genclf.stream.schema import Schema
from genclf.stream.scoring import (
    BernoulliScores,
    CategoricalScores,
    HostScores,
    MultinomialScores,
    PoissonScores,
)
from genclf.tables import words
from genclf.tables.cells import Value
from genclf.tables.frames import Frame, cells_of
from genclf.tables.place import Place

if TYPE_CHECKING:
    from genclf.classifier.model import Fitted
else:  # imports JAX, which a loaded predictor does not need
    Fitted = object

_ROWS = Place("rows", 0)
_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(BernoulliScores, CategoricalScores, GaussianScores, MultinomialScores, PoissonScores),
        *(LinearScore, Means),
    )
}


@dataclass(frozen=True, eq=False)
class Predictor:
    """A fitted model and the columns that it reads, without JAX: it scores rows by NumPy.

    Threads may share it, and it can be pickled. Make it by `Predictor.of`, or read it from a file.

    Attributes:
        schema: how the model reads the columns of a table.
        scores: the scores of rows, in float64.

    Example:
        >>> import os, tempfile, genclf as gcf
        >>> from genclf.stream import Predictor, fit_batches
        >>> batches = [{"x": [1.0, 2.0, 8.0, 9.0], "y": ["low", "low", "high", "high"]}]
        >>> clf = gcf.lda(2)
        >>> schema = gcf.Schema.scan(clf, batches, label="y")
        >>> path = os.path.join(tempfile.mkdtemp(), "model.genclf")
        >>> Predictor.of(fit_batches(clf, batches, schema), schema).save(path)
        >>> served = Predictor.load(path)  # perhaps in a process without JAX
        >>> served.predict({"x": [7.0, 2.5]})
        ['high', 'low']
    """

    schema: Schema
    scores: HostScores

    @staticmethod
    def of(params: Fitted, schema: Schema) -> Predictor:
        """The predictor of a fitted model.

        Args:
            params: a fitted classifier of `Gaussian`, `Categorical`, `Bernoulli`, `Multinomial` and
                `Poisson` densities, or of a `Product` of them; perhaps with calibrated posteriors.
            schema: how it reads the columns.

        Raises:
            ValueError: the params do not fit the schema, hold NaN, or only JAX can score them.
        """
        from genclf.files.values import problem
        from genclf.stream.score_plan import host_scores

        if wrong := problem(params, "params"):
            raise ValueError(wrong)
        return Predictor(schema, host_scores(params, schema))

    @checked_call
    def predict(self, rows: Frame) -> list[Value | None]:
        """The most probable class of each row; None for a row without a posterior.

        Args:
            rows: a dict of columns, or a table of pandas, polars, Arrow or others; it needs no
                labels, and other columns are not read.

        Raises:
            ValueError: a column is missing, or a cell does not fit the schema; with column and row.
        """
        classes = [*self.schema.classes, None]  # -1 is the last
        return [classes[code] for code in most_probable(self._scored(rows)).tolist()]

    @checked_call
    def predict_proba(self, rows: Frame) -> Float[np.ndarray, "n K"]:
        """`p(y=k | x)` of each row, in the order of `schema.classes`; see `predict`."""
        return np.exp(normalised(self._scored(rows)))

    def _scored(self, rows: Frame) -> Float[np.ndarray, "n K"]:
        return self.scores.discriminant(
            self.schema.read(cells_of(rows, "rows"), _ROWS, labelled=False)
        )

    @checked_call
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the predictor to a file, which is replaced atomically; see `genclf.save`."""
        arrays: dict[str, np.ndarray] = {}
        written = partial(put, arrays=arrays, kinds=_KINDS, scales=SCALES)
        scores = {
            "log_prior": written(self.scores.log_prior),
            "parts": [[name, written(part)] for name, part in self.scores.parts.items()],
            "calibration": written(self.scores.calibration),
        }
        structure = {"predictor": {"schema": self.schema.to_json(), **scores}}
        replace_file(Path(path), to_bytes(structure, arrays))

    @staticmethod
    @checked_call
    def load(path: str | os.PathLike[str]) -> Predictor:
        """The predictor that `save` wrote. No code in the file is run, and JAX is not imported.

        Raises:
            ValueError: the file holds no predictor, or is damaged.
        """
        try:
            structure, arrays = from_bytes(Path(path).read_bytes())
            if "predictor" not in structure:
                raise FileError("it holds no predictor: read it by genclf.load")
            given = structure["predictor"]
            read = partial(take, arrays=arrays, kinds=_KINDS, scales=SCALES)
            scores = HostScores(
                read(given["log_prior"]),
                {name: read(part) for name, part in given["parts"]},
                read(given["calibration"]),
            )
            schema = Schema.from_json(given["schema"])
            if any(column.kind == "text" for column in schema.columns):
                words.import_counter()  # now, not at the first request
            return Predictor(schema, scores)
        except FileError as error:
            raise FileError(f"{path}: {error}") from error
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise FileError(f"{path}: it does not hold a predictor: {error}") from error
