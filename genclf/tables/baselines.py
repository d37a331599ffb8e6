"""Softmax regression beside the generative models: on the columns, and on naive Bayes terms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, PyTree

from genclf.classifier.by_numpy import by_numpy, fit_by_numpy, terms_by_numpy
from genclf.classifier.classifier import Classifier
from genclf.classifier.pieces import rows_of
from genclf.numerics.logarithms import logsumexp
from genclf.tables.arrays import codes_in, numbers_in
from genclf.tables.candidates import Candidate
from genclf.tables.columns import Column
from genclf.tables.frames import CellsOf, num_rows
from genclf.tables.held_out import HeldOut, scored
from genclf.tables.place import Place
from genclf.tables.training_words import of_all_words
from genclf.tables.trials import Trial

_TOL, _STEPS = 1e-6, 1000  # of the gradient, and of Newton's method

Features = Callable[[Int[np.ndarray, "m"]], Float[np.ndarray, "n p"]]
"""The features of all rows, from the indices of the training rows."""


def on_columns(
    cells: CellsOf, columns: Sequence[Column], y: np.ndarray, folds: np.ndarray, w: np.ndarray
) -> list[Trial]:
    """Softmax regression on the columns besides texts; none if there is no such column.

    It is scikit-learn's `LogisticRegression` with `C=1`, on standardized numbers.
    """
    x = design_matrix(cells, columns)
    if not x.shape[1]:
        return []
    has_text = any(column.kind == "text" for column in columns)
    looks_at = "all columns but texts" if has_text else "all columns"
    scores = _softmax(lambda train: x, y, folds, w)
    return [Trial("softmax regression (baseline)", looks_at, None, (), scores)]


def design_matrix(cells: CellsOf, columns: Sequence[Column]) -> Float[np.ndarray, "n p"]:
    """Standardized numbers, and an indicator of each value and of missing numbers.

    A missing number is the mean, 0. Texts, and columns without variance, are left out.
    """
    place = Place("table")
    found = [np.zeros((num_rows(cells), 0))]
    for column in columns:
        own = cells.get(column.name)
        if own is None or column.kind in ("drop", "text"):
            continue
        if column.is_coded:
            code = codes_in(own, column, place, learning=False)
            found.append((code[:, None] == np.arange(column.size)).astype(float))
            continue
        number = numbers_in(own, column, place)
        hole = np.isnan(number).any(1, keepdims=True)
        seen = number[~hole[:, 0]]
        scale = seen.std(0)
        scaled = np.where(hole, 0, (number - seen.mean(0)) / np.where(scale > 0, scale, 1))
        found.append(scaled[:, scale > 0])
        if hole.any():
            found.append(hole.astype(float))
    return np.hstack(found)


def on_terms(
    candidate: Candidate, x: PyTree, y: np.ndarray, folds: np.ndarray, w: np.ndarray
) -> list[Trial]:
    """Softmax regression on the terms of naive Bayes, standardized; none if it has one term.

    A column's terms are its log-ratios of the classes, `log p(x_j | k) - log p(x_j | 0)`, under the
    fit to the training rows. With all weights 1 it is naive Bayes; columns that repeat each other's
    evidence get smaller ones.
    """
    family = next(iter(candidate.families.values()), None)
    is_one = sum(column.width for column in candidate.columns) < 2
    if is_one or family is None or not by_numpy(of_all_words(family)):
        return []
    clf = Classifier(family, int(y.max()) + 1)

    def features(train: np.ndarray) -> np.ndarray:
        _, params = fit_by_numpy(clf, rows_of(x, train), y[train], w[train])
        terms = terms_by_numpy(params, x)
        scale = terms[train].std(0)
        return (terms - terms[train].mean(0)) / np.where(scale > 0, scale, 1)

    scores = _softmax(features, y, folds, w)
    return [Trial("softmax on naive Bayes (baseline)", candidate.features, None, (), scores)]


def _softmax(features: Features, y: np.ndarray, folds: np.ndarray, w: np.ndarray) -> HeldOut:
    from sklearn.linear_model import LogisticRegression

    num_folds = int(folds.max()) + 1
    log_p, converged = np.full((len(y), int(y.max()) + 1), -np.inf), np.ones(num_folds, bool)
    how: dict[str, Any] = {"solver": "newton-cg", "tol": _TOL, "max_iter": _STEPS}
    for fold in range(num_folds):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        x = features(train)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = LogisticRegression(C=1.0, **how).fit(x[train], y[train], w[train])
        converged[fold] = not caught
        score = model.decision_function(x[test])  # its logarithms of probabilities underflow
        score = np.stack([np.zeros_like(score), score], 1) if score.ndim == 1 else score
        log_p[np.ix_(test, model.classes_)] = score - logsumexp(score)[:, None]
    return scored(log_p, y, folds, w, np.zeros(num_folds, bool), converged)
