"""Remarks on a table and on the scores of models, as sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genclf.tables.candidates import PRIOR, RIDGE
from genclf.tables.columns import Column
from genclf.tables.frames import CellsOf
from genclf.tables.labels import UsableRows, some
from genclf.tables.trials import SINGULAR, TOO_LONG, ModelScore, Trial

_ALIKE = 0.05


def table_notes(
    usable: UsableRows,
    cells: CellsOf,
    columns: Sequence[Column],
    requested: int,
    num_folds: int,
) -> list[str]:
    """Possible faults of the table, and how the folds differ from those requested."""
    count, notes = np.bincount(usable.y), []
    if usable.num_unlabelled:
        n = len(usable.y) + usable.num_unlabelled + len(usable.left_out) + usable.num_idle
        notes.append(f"Left out, without a label: {usable.num_unlabelled} of {n} rows.")
    if usable.num_idle:
        notes.append(f"Left out, of weight 0: {usable.num_idle} rows.")
    if usable.left_out:
        notes.append(
            "Left out, classes of one row, which cannot be both learned and tested: "
            f"{some(usable.left_out)}."
        )
    if copies := [str(c.name) for c in columns if _renames(cells, c, usable.y)]:
        notes.append(
            f"These columns determine the class one to one: {some(copies)}. Remove a column that "
            "is a copy of the label."
        )
    of_folds = []
    if num_folds < requested:
        of_folds.append(
            f"{num_folds} folds rather than {requested}: no class has more than {num_folds} rows."
        )
    if rare := [f"{usable.names[k]} {count[k]}" for k in np.flatnonzero(count < num_folds)]:
        of_folds.append(
            f"Fewer rows than folds: {some(rare)}. Such a class is absent from some test folds. It "
            "is in every training set, so all its rows are scored."
        )
    return [*notes, " ".join(of_folds)] if of_folds else notes


def _best(trials: Sequence[Trial], models: Sequence[ModelScore]) -> str:
    """Which generative model is the best, and how it compares with the best of all."""
    first = next(i for i, trial in enumerate(trials) if trial.family is not None)
    if models[first].model == PRIOR:
        return "No generative model has a lower log-loss than the class prior."
    best = f"The best generative model is {models[first].model}"
    if not first:
        return f"{best}; no other model has a lower log-loss."
    more = models[first].log_loss - models[0].log_loss
    return f"{best}; its log-loss is {more:.3f} above that of {models[0].model}."


def _renames(cells: CellsOf, column: Column, y: np.ndarray) -> bool:
    """Whether the values of a column correspond one to one to the classes."""
    if not column.is_coded or not column.has_values or column.num_missing:
        return False
    code = cells[column.name].encoded()[1]
    pairs = np.unique(np.stack([code, y]), axis=1).shape[1]
    return pairs == len(np.unique(code)) == len(np.unique(y))


def score_notes(
    trials: Sequence[Trial], models: Sequence[ModelScore], misfits: Sequence[str]
) -> list[str]:
    """Remarks on differences of scores, and on problems that the scores do not show.

    Args:
        trials: the models, best first.
        models: their scores.
        misfits: columns of numbers that Gaussians do not fit, in words.
    """
    problems, notes = {trial.problem for trial in trials}, [_best(trials, models)]
    if alike := [m for m in models[1:] if m.p_value >= _ALIKE]:
        each = [f"{model.model} ({model.p_value:.2f})" for model in alike]
        notes.append(
            f"Not distinguishable from {models[0].model} (p >= {_ALIKE}, paired t-tests of "
            "log-loss and Brier score over the folds, corrected for overlapping training sets): "
            f"{some(each)}."
        )
    # The class prior has no gain, up to rounding; nor has a model whose calibration has no maximum.
    gains = [m for m in models if m.model != PRIOR and not np.isnan(m.temperature)]
    if better := [m for m in gains if m.log_loss - m.log_loss_calibrated > 2 * m.gain_error]:
        each = [f"{m.model} ({m.log_loss:.3f} to {m.log_loss_calibrated:.3f})" for m in better]
        notes.append(
            "Calibration lowers these log-losses by more than two standard errors of the gain: "
            f'{some(each)}. See genclf.recalibrate, and calibrate="bias" of the estimators.'
        )
    (prior,) = [model.log_loss for model in models if model.model == PRIOR]
    if worse := [m.model for m in models if m.model != PRIOR and m.log_loss > prior]:
        notes.append(
            f"Worse than the class prior in log-loss: {some(worse)}. Their probabilities are too "
            "near 0 and 1, as where columns repeat each other's evidence, or their densities do "
            "not fit."
            + (f" Gaussians hardly fit {some(misfits, 5)}: read it as binned." * bool(misfits))
        )
    if SINGULAR in problems:
        notes.append(
            "singular: in some fold a covariance is not determined by the training rows (too few "
            "rows, or features that are constant or combinations of others within a class). The "
            f"ridge adds {RIDGE:g} of each feature's variance; the prior, for a fit by EM, is "
            "NormalInverseWishart()."
        )
    if TOO_LONG in problems:
        notes.append(
            "too long: with a missing number LDA and QDA are fitted by EM, which for so many "
            "columns and rows would take too long. Fill in the numbers, or remove columns."
        )
    for trial in trials:
        if trial.scores is None or trial.problem:
            continue
        if trial.scores.impossible:
            notes.append(
                f"inf: {trial.model} gave probability 0 to the true class of "
                f"{trial.scores.impossible} rows."
            )
        if not trial.scores.converged.all():
            method = "EM" if trial.family else "Newton's method"
            notes.append(
                f"{trial.model} is not at its maximum in {(~trial.scores.converged).sum()} folds: "
                f"{method} stopped before its tolerance."
            )
    return notes
