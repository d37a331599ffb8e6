"""`compare`: cross-validate every model that applies to a table, and fit the best one."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float, Int, PyTree, Shaped

from genclf.arguments.domains import shown, whole
from genclf.arguments.reprs import summary
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.explanation import Explanation, class_index, explain
from genclf.classifier.scores import log_posterior
from genclf.fitting.fit import fit
from genclf.select.chunks import PROGRESS, Progress
from genclf.tables.candidates import candidates
from genclf.tables.columns import Column, read_columns
from genclf.tables.features import PartReader, Parts, Reader, Words
from genclf.tables.frames import Frame, Table, as_table, make_table
from genclf.tables.held_out import stratified_folds
from genclf.tables.labels import TableError, label_of, usable_rows
from genclf.tables.notes import score_notes, table_notes
from genclf.tables.training_words import of_all_words
from genclf.tables.trials import ModelScore, Trial, trials_of


@dataclass(frozen=True)
class TableModel:
    """A model that was fitted to a table, with a reader of such tables.

    Attributes:
        name: name of the model.
        classifier: the model.
        params: its fitted params, arrays of NumPy in float64.
        classes: the classes, in the order of the model: numbers if all labels are, else strings.
    """

    name: str
    classifier: Classifier
    params: ClassifierParams
    classes: Shaped[np.ndarray, "K"]
    reader: Reader

    def __repr__(self) -> str:
        return summary(self)

    def _problems(self) -> list[str]:
        """Messages, each starting with the name of a field, about fields that do not match."""
        found, d, count = [], self.params.num_features, len(self.classes)
        if not self.params.num_classes == self.classifier.num_classes == count:
            found.append(f"classes has {count} classes, but params {self.params.num_classes}")
        for reader, part in self.parts:
            width = d if part is None else d.get(part) if isinstance(d, dict) else None
            if width != reader.num_features:
                found.append(f"reader has {reader.num_features} features, but params {d}")
        return found

    def read(self, table: Frame) -> PyTree:
        """The rows of a table as the model takes them, for functions such as `log_marginal`.

        Args:
            table: a table with the columns that the model uses; others are ignored, and so are
                categories and words that the training table does not have, and missing categories
                of a column that had none.

        Raises:
            ValueError: a column is missing, a cell of a column of numbers is not a number, or a
                number is missing and the model is LDA or QDA of a table without missing numbers.
        """
        return self.reader(_table(table, "table"))

    def log_posterior(self, table: Frame) -> Float[np.ndarray, "n K"]:
        """`log p(class | row)`, natural logarithms; NaN for a row impossible in all classes.

        Args:
            table: as for `read`.
        """
        with jax.enable_x64(True):
            return np.asarray(log_posterior(self.params, self.read(table)))

    def predict(self, table: Frame) -> Shaped[np.ndarray, "n"]:
        """The most probable class of each row.

        Args:
            table: as for `read`.

        Raises:
            ValueError: a row is impossible in all classes.
        """
        found = self.log_posterior(table)
        if len(rows := np.flatnonzero(np.isnan(found).any(1))):
            raise ValueError(f"table row {rows[0]} is impossible in all classes under {self.name}")
        return self.classes[found.argmax(1)]

    @property
    def parts(self) -> list[tuple[PartReader, str | None]]:
        """The reader and the name of each part of the model; the name is None for a single part."""
        if not isinstance(self.reader, Parts):
            return [(self.reader, None)]
        return [(one, part) for part, one in self.reader.parts.items()]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the terms of `explain` belong to, in their order."""
        return tuple(name for reader, _ in self.parts for name in reader.names)

    def explain(self, table: Frame, *, of: object = None, against: object = None) -> Explanation:
        """How much each column contributes to the class of each row; see `genclf.explain`.

        Args:
            table: as for `read`.
            of: a class of `classes`; None for the most probable one other than `against`.
            against: a class of `classes`; None for the most probable one other than `of`.

        Returns:
            `Explanation`, whose `features` have shape (n, d), a term for each of `columns`; the
            term of a text is the sum over its words. `of` and `against` are indices in `classes`.

        Raises:
            ValueError: as for `genclf.explain`, such as for QDA; or there is no such class.
        """
        indices = {
            name: class_index(given, self.classes, name)
            for name, given in (("of", of), ("against", against))
        }
        with jax.enable_x64(True):
            found = jax.tree.map(np.asarray, explain(self.params, self.read(table), **indices))
        terms = []
        for reader, part in self.parts:
            own = found.features if part is None else found.features[part]
            terms.append(own.sum(-1, keepdims=True) if isinstance(reader, Words) else own)
        return Explanation(found.of, found.against, np.concatenate(terms, -1), found.constant)


@dataclass(frozen=True)
class Comparison:
    """The comparison of models on a table, as `compare` returns it.

    Attributes:
        columns: how each column is read.
        models: the scores of all models, best log-loss first; those without scores are last.
        notes: remarks on the table and on the scores, including problems, as sentences.
        best: the first of the models, fitted to all rows that have a label.
        shares: share of the rows in each class.
        num_rows: number of rows that were used.
        num_folds: number of folds.
        table: `models` as a table of the library that made the given one.
        rows: the rows of the table that were used, shape (n,).
        y: their classes, 0..K-1, shape (n,).
        log_posterior: `log p(class | row)` under the first of the models, fitted without the row's
            fold, shape (n, K): for `genclf.score` and `genclf.plot.reliability`.
    """

    columns: tuple[Column, ...]
    models: tuple[ModelScore, ...]
    notes: tuple[str, ...]
    best: TableModel
    shares: dict[str, float]
    num_rows: int
    num_folds: int
    table: Frame
    rows: Int[np.ndarray, "n"]
    y: Int[np.ndarray, "n"]
    log_posterior: Float[np.ndarray, "n K"]

    def __repr__(self) -> str:
        best = self.models[0]
        return (
            f"Comparison({len(self.models)} models of {self.num_rows} rows, best: {best.model}, "
            f"log-loss {best.log_loss:.3f}, accuracy {best.accuracy:.1%})"
        )


def _table(given: Frame, name: str) -> Table:
    """The table; raise if it is not a table, or has no rows."""
    found = as_table(given)
    if found is None:
        raise ValueError(f"{name} is {shown(given)}, expected a table of pandas, polars or others")
    if not len(found):
        raise ValueError(f"{name} has no rows")
    return found


def _name(given: object, name: str) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{name} is {shown(given)}, expected the name of a column")
    return given


@checked_arguments(label=_name, num_folds=whole(2), seed=whole(0, 2**32 - 1), progress=PROGRESS)
def compare(
    table: Frame,
    label: str,
    *,
    num_folds: int = 10,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Cross-validate every model that applies to a table, and fit the best one.

    Columns are read by these rules. Numbers are numeric, unless they are whole with at most 10
    values. Strings, booleans and such whole numbers are categorical if each value occurs twice on
    average, and binary if there are two values; a missing cell is a value too. Strings of three
    words or more on average are text if they have over 50 values or rarely repeat. Strings that
    look like numbers ("1,234" or "0,5" in all rows) are numbers. Other columns are dropped, with
    the reason. A missing number is integrated out. The only rows dropped are those without a label
    and those of classes of one row.

    The models are the class prior; LDA, QDA and Gaussian naive Bayes of the numbers; Bernoulli and
    categorical naive Bayes; multinomial naive Bayes of the words of each text; and naive Bayes of
    all columns. If a covariance is singular in some fold, a ridge of 0.001 of each feature's
    variance is tried, or a prior where numbers are missing. Smoothing is alpha = 1. The values of a
    column are declared from the whole table; everything else is learned from training rows.

    The command `python -m genclf compare` calls this function.

    Args:
        table: a table of pandas, polars, pyarrow or any library that narwhals supports.
        label: the name of the column to predict.
        num_folds: number of folds, stratified; at most the size of the largest class is used.
        seed: seed of the shuffle of the folds.
        progress: called with the number of models done and the total.

    Returns:
        `Comparison`.

    Raises:
        ValueError: there is no such column; the label has fewer than two classes with at least two
            rows, or looks continuous; or no column can be used.
        ImportError: narwhals or scikit-learn is not installed.

    Example:
        >>> import pandas as pd, genclf as gcf
        >>> table = pd.DataFrame({
        ...     "weight": [4.1, 3.9, 4.4, 9.8, 10.4, 11.0],
        ...     "animal": ["cat", "cat", "cat", "dog", "dog", "dog"],
        ... })
        >>> found = gcf.compare(table, label="animal", num_folds=3)
        >>> print(found.best.name, found.best.predict(pd.DataFrame({"weight": [4.0, 10.0]})))
        LDA ['cat' 'dog']
    """
    given = _table(table, "table")
    labels = label_of(given, label)
    usable = usable_rows(labels)
    y, rows = usable.y, usable.rows
    used = given[rows.tolist()]
    columns = read_columns(used, labels[rows.tolist()], rows)
    if all(column.kind == "dropped" for column in columns):
        reasons = "; ".join(f"{column.name}: {column.detail}" for column in columns[:5])
        raise TableError(f"no column can be used as a feature ({reasons or 'there is no other'})")
    count, requested = np.bincount(y), num_folds
    num_folds = min(num_folds, int(count.max()))
    with jax.enable_x64(True):  # a user's numbers may need it, and tables are small
        folds = stratified_folds(y, num_folds, seed)
        tried = candidates(used, columns, len(count), num_folds)
        trials: list[Trial] = []
        for done, candidate in enumerate(tried):
            trials += trials_of(candidate, candidate.read(used), y, len(count), folds)
            if progress is not None:
                progress(done + 1, len(tried))
        trials.sort(key=lambda trial: trial.rank)
        assert trials[0].scores is not None  # the class prior has scores
        clf, read = Classifier(of_all_words(trials[0].family), len(count)), trials[0].read
        params = jax.tree.map(np.asarray, fit(clf, read(used), y))
    models = tuple(trial.score for trial in trials)
    notes = table_notes(usable, columns, requested, num_folds) + score_notes(trials)
    return Comparison(
        columns=columns,
        models=models,
        notes=tuple(notes),
        best=TableModel(models[0].model, clf, params, usable.classes, read),
        shares=dict(zip(usable.names, (count / len(y)).tolist(), strict=True)),
        num_rows=len(y),
        num_folds=num_folds,
        table=make_table(
            {name: [getattr(model, name) for model in models] for name in ModelScore._fields}, used
        ),
        rows=rows,
        y=y,
        log_posterior=trials[0].scores.log_posterior,
    )
