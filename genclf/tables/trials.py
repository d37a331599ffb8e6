"""The scores of a candidate, and of its substitutes if a covariance is singular."""

from __future__ import annotations

from math import nan
from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from genclf.classifier.classifier import Classifier
from genclf.families.base import Family
from genclf.tables.candidates import Candidate
from genclf.tables.columns import Column
from genclf.tables.held_out import HeldOut, held_out

SINGULAR, TOO_LONG = "singular", "too long"


class ModelScore(NamedTuple):
    """How well a model predicts rows that it was not fitted to.

    Attributes:
        model: its name.
        features: the columns that it uses.
        log_loss: mean of `-log p(class | row)`, nats.
        log_loss_error: its standard error over the folds.
        accuracy: share of rows whose most probable class is right.
        accuracy_error: its standard error over the folds.
        problem: "singular" or "too long" for a model without scores; else empty.
    """

    model: str
    features: str
    log_loss: float
    log_loss_error: float
    accuracy: float
    accuracy_error: float
    problem: str = ""


class Trial(NamedTuple):
    """A model that was tried.

    Attributes:
        model: its name.
        features: the columns that it uses.
        family: the density of these columns.
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

    @property
    def score(self) -> ModelScore:
        """The row of this model in the table of models."""
        if self.scores is None or self.problem:
            return ModelScore(self.model, self.features, nan, nan, nan, nan, self.problem)
        overall, error = self.scores.overall, self.scores.error
        return ModelScore(
            model=self.model,
            features=self.features,
            log_loss=overall("log_loss"),
            log_loss_error=error("log_loss"),
            accuracy=overall("accuracy"),
            accuracy_error=error("accuracy"),
        )

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The order of models: those with scores first, by log-loss, then by accuracy."""
        score = self.score
        return (True, 0.0, 0.0) if score.problem else (False, score.log_loss, -score.accuracy)


def trials_of(
    candidate: Candidate, x: PyTree, y: np.ndarray, num_classes: int, folds: np.ndarray
) -> list[Trial]:
    """The trials of a candidate; if a fit fails, its next family is tried."""
    name, features, columns, families = candidate
    if not families:
        return [Trial(name, features, None, columns, None, TOO_LONG)]
    found = []
    for added, family in families.items():
        scores = held_out(Classifier(family, num_classes), x, y, folds)
        singular = bool(scores.singular.any())
        problem = SINGULAR if singular else ""
        found.append(Trial(name + added, features, family, columns, scores, problem))
        if not singular and scores.converged.all():
            break
    return found
