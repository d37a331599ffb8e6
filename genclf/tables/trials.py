"""The scores of a candidate, and of its substitutes if a covariance is singular."""

from __future__ import annotations

from math import inf, nan
from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from genclf.classifier.classifier import Classifier
from genclf.families.base import Family
from genclf.select.recalibration import Recalibration
from genclf.tables.candidates import Candidate
from genclf.tables.columns import Column
from genclf.tables.held_out import HeldOut, held_out, p_value

SINGULAR, TOO_LONG = "singular", "too long"


class ModelScore(NamedTuple):
    """How well a model predicts rows that it was not fitted to.

    Attributes:
        model: its name.
        features: the columns that it uses.
        log_loss: mean of `-log p(class | row)`, nats.
        log_loss_error: its standard error over the folds.
        brier: mean of `Σ_k (p_k - [class = k])²`, from 0 to 2.
        brier_error: its standard error over the folds.
        accuracy: share of rows whose most probable class is right.
        accuracy_error: its standard error over the folds.
        balanced_accuracy: mean of the accuracies within each class.
        auc: area under the ROC curve of the second class, or the mean of those of each class
            against the others.
        average_precision: average precision of the class of least weight against the others.
        log_loss_calibrated: the log-loss after `recalibrate`, with a temperature and biases that
            were fitted without the fold of the row; NaN if the log-loss is infinite.
        gain_error: standard error over the folds of `log_loss - log_loss_calibrated`.
        temperature: that of the calibration to all rows; above 1 the posteriors were too extreme.
            inf if they are no better than none; NaN where larger biases are always better, so
            that there is no calibration.
        p_value: of the hypothesis that its log-loss and its Brier score are those of the best
            model, by paired t-tests over the folds (Nadeau & Bengio 2003), the smaller p-value
            times two; 1 for the best.
        problem: "singular" or "too long" for a model without scores; else empty.
    """

    model: str
    features: str
    log_loss: float
    log_loss_error: float
    brier: float
    brier_error: float
    accuracy: float
    accuracy_error: float
    balanced_accuracy: float
    auc: float
    average_precision: float
    log_loss_calibrated: float
    gain_error: float
    temperature: float
    p_value: float
    problem: str = ""


class Trial(NamedTuple):
    """A model that was tried.

    Attributes:
        model: its name.
        features: the columns that it uses.
        family: the density of these columns; None for a model without one.
        columns: how it reads them.
        scores: the scores on held-out rows; None if there are none.
        problem: why the scores are missing or do not count; else empty.
    """

    model: str
    features: str
    family: Family | None
    columns: tuple[Column, ...]
    scores: HeldOut | None
    problem: str = ""

    def score(self, best: HeldOut, calibrated: Recalibration | None) -> ModelScore:
        """The row of this model in the table of models, compared with the best one."""
        if self.scores is None or calibrated is None:
            nothing = dict.fromkeys(ModelScore._fields[2:-1], nan)
            return ModelScore(self.model, self.features, **nothing, problem=self.problem)
        slope = float(calibrated.slope)
        overall, error = self.scores.overall, self.scores.error
        return ModelScore(
            model=self.model,
            features=self.features,
            log_loss=overall("log_loss"),
            log_loss_error=error("log_loss"),
            brier=overall("brier"),
            brier_error=error("brier"),
            accuracy=overall("accuracy"),
            accuracy_error=error("accuracy"),
            balanced_accuracy=self.scores.balanced_accuracy,
            auc=self.scores.auc,
            average_precision=self.scores.average_precision,
            log_loss_calibrated=float(calibrated.log_loss_nested),
            gain_error=float(calibrated.gain_error),
            temperature=(1 / slope if slope else inf) if calibrated.converged else nan,
            p_value=1.0 if self.scores is best else p_value(self.scores, best),
        )

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The order of models: those with scores first, by log-loss, then by accuracy."""
        if self.scores is None or self.problem:
            return True, 0.0, 0.0
        return False, self.scores.overall("log_loss"), -self.scores.overall("accuracy")


def trials_of(
    candidate: Candidate,
    x: PyTree,
    y: np.ndarray,
    num_classes: int,
    folds: np.ndarray,
    w: np.ndarray,
) -> list[Trial]:
    """The trials of a candidate; if a fit fails, its next family is tried."""
    name, features, columns, families = candidate
    if not families:
        return [Trial(name, features, None, columns, None, TOO_LONG)]
    found = []
    for added, family in families.items():
        scores = held_out(Classifier(family, num_classes), x, y, folds, w)
        problem = SINGULAR if scores.singular.any() else ""
        found.append(Trial(name + added, features, family, columns, scores, problem))
        if not problem and scores.converged.all():
            break
    return found
