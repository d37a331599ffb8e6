"""`compare`: cross-validate every model that applies to a table, and fit the best one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float, Int, PyTree

from genclf.arguments.domains import FLAG, shown, whole
from genclf.arguments.hyperparameters import kind_of
from genclf.arguments.sharding import compiled
from genclf.classifier.by_numpy import fit_by_numpy, sums_by_numpy
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.pieces import on_host
from genclf.fitting.fit import fitted
from genclf.select.chunks import PROGRESS, Progress
from genclf.select.fold_fits import held_out
from genclf.select.membership.typicality import typicality_test
from genclf.select.recalibration import Recalibration
from genclf.tables.arrays import column_in, weights_of
from genclf.tables.baselines import on_columns, on_terms
from genclf.tables.calibrated import calibrations
from genclf.tables.candidates import candidates
from genclf.tables.choices import MISSING
from genclf.tables.columns import Column
from genclf.tables.features import dense, features_of
from genclf.tables.frames import CellsOf, Frame, cells_of, library_of, make_table, num_rows, take
from genclf.tables.held_out import stratified_folds
from genclf.tables.kinds import Given, Reading
from genclf.tables.labels import TableError, label_of, usable_rows
from genclf.tables.model import TableModel
from genclf.tables.place import Place
from genclf.tables.remarks import column_remarks, misfits, score_notes, table_notes
from genclf.tables.training_words import of_all_words
from genclf.tables.trials import ModelScore, Trial, trials_of


@dataclass(frozen=True)
class Comparison:
    """The comparison of models on a table, as `compare` returns it.

    Attributes:
        columns: how each column is read.
        models: the scores of all models, best log-loss first; those without scores are last.
        notes: remarks on the table and on the scores, including problems, as sentences.
        best: the first of the generative models, fitted to all rows that have a label.
        shares: share of the rows in each class, by weight.
        num_rows: number of rows that were used.
        num_folds: number of folds.
        table: `models` as a table of the library that made the given one.
        rows: the rows of the table that were used, shape (n,).
        y: their classes, 0..K-1, shape (n,).
        log_posterior: `log p(class | row)` under the model of `best`, fitted without the row's
            fold, shape (n, K): for `genclf.score` and `genclf.plot.reliability`.
        recalibration: what `genclf.recalibrate` finds for `log_posterior`; to use it, give
            `genclf.with_calibration(best.params, recalibration)` as the params of `best`.
        log_posterior_calibrated: `log_posterior` by the calibration without the row's fold, (n, K).
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
    recalibration: Recalibration
    log_posterior_calibrated: Float[np.ndarray, "n K"]

    def __repr__(self) -> str:
        best = next(model for model in self.models if model.model == self.best.name)
        return (
            f"Comparison({len(self.models)} models of {self.num_rows} rows, best: {best.model}, "
            f"log-loss {best.log_loss:.3f}, accuracy {best.accuracy:.1%})"
        )


def _name(given: Any, name: str) -> Hashable:
    """The name of a column; raise for what cannot be one."""
    if not isinstance(given, Hashable) or hasattr(given, "shape"):
        raise ValueError(f"{name} is {shown(given)}, expected the name of a column")
    return given


@checked_arguments(
    label=_name,
    weights=_name,
    kinds=kind_of(Mapping, such_as='{"age": "numeric"}', optional=True),
    missing=MISSING,
    num_folds=whole(2),
    conformal=FLAG,
    seed=whole(0, 2**32 - 1),
    progress=PROGRESS,
)
def compare(
    table: Frame,
    label: Hashable,
    *,
    drop: Iterable[Hashable] = (),
    kinds: Mapping[Any, Given] | None = None,
    weights: Hashable = None,
    missing: Literal["ignore", "value"] = "ignore",
    num_folds: int = 10,
    conformal: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Cross-validate every model that applies to a table, and fit the best one.

    Columns are read by these rules. Numbers are numeric, unless they are whole with at most 10
    values. Strings and such whole numbers are categorical if each value occurs twice on average,
    and binary if there are two values, as truth values are. Strings of three words or more on
    average are text if they have over 50 values or rarely repeat. Other columns are dropped, with
    the reason: constants, row numbers, strings that rarely repeat, copies of the label, dates. A
    missing cell is integrated out, and a missing text is empty. The only rows dropped are those
    without a label and those of classes of one row.

    Baselines are the class prior, softmax regression on standardized numbers and indicators of
    categories, with a missing number at the mean, and softmax regression on the terms of naive
    Bayes: the log-ratio of the classes for each column. The models are LDA, QDA and Gaussian naive
    Bayes of the numbers, and naive Bayes of kernel densities; Bernoulli and categorical naive
    Bayes; multinomial naive Bayes of counts and of the words of each text; and naive Bayes of all
    columns, which is that of `genclf.sklearn.MixedNB`. If a covariance is singular in some fold, a
    ridge of 0.001 of each feature's variance is tried, or a prior where numbers are missing.
    Smoothing is alpha = 1. The values of a column, the edges of bins and the scales of softmax
    regression are those of the whole table; everything else is learned from training rows.

    The command `python -m genclf compare` calls this function.

    Args:
        table: a table of pandas, polars, pyarrow or any library that narwhals supports, or a dict
            of columns.
        label: the name of the column to predict.
        drop: names of columns to leave out, such as one that is not known when a class is
            predicted.
        kinds: how columns are read, if not by these rules: a dict from their names to "numeric",
            "kernel" (numbers with kernel densities), "count", "categorical", "binary", "binned"
            (numbers in ten bins of about equally many), "text", "date" (its year, month, weekday
            and hour) or "drop", the list of values of a categorical column, or the `Vocabulary` of
            texts.
        weights: the name of the column of weights of the rows, >= 0, in fits and scores; None for
            ones. A row of weight 0 is left out.
        missing: "ignore" integrates out a missing cell of a categorical column; with "value" it is
            one more value, for cells whose absence tells something about the class.
        num_folds: number of folds, stratified; at most the size of the largest class is used.
        conformal: whether `best` keeps the training rows' log-densities in the same folds, for
            its `typicality` and `predict_set`.
        seed: seed of the shuffle of the folds.
        progress: called with the number of models done and the total.

    Returns:
        `Comparison`.

    Raises:
        ValueError: there is no such column; the label has fewer than two classes with at least two
            rows, or looks continuous; a number is infinite; or no column can be used.
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
    given = cells_of(table, "table")
    labels = label_of(given, label)
    weight = _weights(given, weights)
    usable = usable_rows(labels, label, weight)
    y, rows = usable.y, usable.rows
    w = weight[rows]
    used = take({name: own for name, own in given.items() if name not in (label, weights)}, rows)
    wanted = dict(kinds or {}) | dict.fromkeys(_names(drop, used), "drop")
    columns = Reading(missing, label=labels.take(rows), rows=rows).of_table(used, wanted)
    dates = {c.name: column_in(used, c, Place("table")) for c in columns if c.date_part}
    used = {**used, **dates}
    if all(column.kind == "drop" for column in columns):
        reasons = "; ".join(f"{column.name}: {column.detail}" for column in columns[:5])
        raise TableError(f"no column can be used as a feature ({reasons or 'there is no other'})")
    count, requested = np.bincount(y), num_folds
    num_folds = min(num_folds, int(count.max()))
    with jax.enable_x64(True):  # a user's numbers may need it, and tables are small
        folds = stratified_folds(y, num_folds, seed)
        tried = candidates(columns, len(y), len(count), num_folds)
        trials: list[Trial] = []
        for done, candidate in enumerate(tried):
            x = features_of(used, candidate.columns, None, learning=True)
            trials += trials_of(candidate, x, y, len(count), folds, w)
            if progress is not None:
                progress(done + 1, len(tried))
        trials += on_columns(used, columns, y, folds, w) + on_terms(tried[-1], x, y, folds, w)
        trials.sort(key=lambda trial: trial.rank)
        # The class prior has scores.
        best = next(i for i, trial in enumerate(trials) if trial.family is not None)
        first = trials[best]
        assert trials[0].scores is not None and first.scores is not None
        clf, own = Classifier(of_all_words(first.family), len(count)), first.columns
        x = features_of(used, own, None, learning=True)
        params = _fit(clf, x, y, w)
        membership = None
        if conformal:
            held = held_out(clf, partial(_fit, clf), x, y, w, folds, members=True)
            membership = on_host(typicality_test(clf, held.found))
        calibrated = calibrations(trials, y, folds, w)
    models = tuple(
        trial.score(trials[0].scores, None if one is None else one.map)
        for trial, one in zip(trials, calibrated, strict=True)
    )
    of_best = calibrated[best]
    assert of_best is not None
    notes = table_notes(usable, used, columns, requested, num_folds)
    notes += column_remarks(used, columns, y, w) + score_notes(
        trials, models, misfits(used, columns)
    )
    shares = (np.bincount(y, w) / w.sum()).tolist()
    return Comparison(
        columns=columns,
        models=models,
        notes=tuple(notes),
        best=TableModel(first.model, clf, params, usable.classes, own, membership),
        shares=dict(zip(usable.names, shares, strict=True)),
        num_rows=len(y),
        num_folds=num_folds,
        table=make_table(
            {name: [getattr(model, name) for model in models] for name in ModelScore._fields},
            library_of(table),
        ),
        rows=rows,
        y=y,
        log_posterior=first.scores.log_posterior,
        recalibration=of_best.map,
        log_posterior_calibrated=of_best.log_posterior,
    )


_fit_once = compiled(fitted, fast_compile=2**62)


def _fit(clf: Classifier, x: PyTree, y: np.ndarray, w: np.ndarray) -> ClassifierParams:
    """The fit to all rows, by NumPy if it can."""
    if sums_by_numpy(clf, x):
        return fit_by_numpy(clf, x, y, w)[1]
    return on_host(_fit_once(clf, dense(x), y, w))


def _weights(cells: CellsOf, name: Hashable) -> np.ndarray:
    """The weight of each row, ones if there is no column of weights; raise for wrong ones."""
    if name is None:
        return np.ones(num_rows(cells))
    if name not in cells:
        raise ValueError(f"weights names the column {name!r:.60}, expected one of {[*cells]}")
    return weights_of(cells[name], name, Place("table"))


def _names(drop: Any, cells: CellsOf) -> list[Hashable]:
    """The columns to leave out; raise for one that the table does not have."""
    if isinstance(drop, str | bytes | Mapping) or not isinstance(drop, Iterable):
        raise ValueError(f"drop is {shown(drop)}, expected a list of names of columns")
    names = [_name(name, "drop") for name in drop]
    if strange := [name for name in names if name not in cells]:
        raise ValueError(f"drop names the column {strange[0]!r:.60}, expected one of {[*cells]}")
    return names
