"""Remarks that an expert would make on a table and on the scores of models, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from genclf.tables.candidates import PRIOR, RIDGE
from genclf.tables.cells import some
from genclf.tables.columns import Column
from genclf.tables.frames import CellsOf
from genclf.tables.labels import UsableRows
from genclf.tables.trials import SINGULAR, TOO_LONG, ModelScore, Trial

_LEVEL = 0.05  # p-value from which models are not distinguishable
ALIKE = 0.99  # correlation from which numbers are near copies
_LEAK = 0.99  # share of rows from which one column alone predicts too well
_BINS = 20
_MOSTLY = 0.5  # share of one number, from which a Gaussian hardly fits
_TAILS = 20.0  # kurtosis from which it hardly does


def table_notes(
    usable: UsableRows, cells: CellsOf, columns: Sequence[Column], requested: int, num_folds: int
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

    The trials and their scores are in order, best first; for the last argument, see `misfits`.
    """
    problems, notes = {trial.problem for trial in trials}, [_best(trials, models)]
    if alike := [m for m in models[1:] if m.p_value >= _LEVEL]:
        each = [f"{model.model} ({model.p_value:.2f})" for model in alike]
        notes.append(
            f"Not distinguishable from {models[0].model} (p >= {_LEVEL}, paired t-tests of "
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


def column_remarks(
    cells: CellsOf, columns: Sequence[Column], y: np.ndarray, w: np.ndarray
) -> list[str]:
    """Sentences on near copies among the columns, and on columns that give the class away."""
    found = []
    if pairs := [f"{a} and {b}" for a, b in _near_copies(cells, columns)]:
        found.append(
            f"Near copies of each other: {some(pairs)}. Naive Bayes counts the evidence of each: "
            "leave one out (drop)."
        )
    if names := [f"{name} ({share:.1%})" for name, share in _leaks(cells, columns, y, w)]:
        found.append(
            f"One column alone gives the class of nearly all rows: {some(names)}. If it is not "
            "known when a class is to be predicted, leave it out (drop)."
        )
    return found


def misfits(cells: CellsOf, columns: Sequence[Column]) -> list[str]:
    """Columns of numbers that Gaussians hardly fit: of one value mostly, or with heavy tails."""
    found = []
    for column in columns:
        if column.kind != "numeric" or column.width > 1:
            continue
        number = cells[column.name].numbers()[:, 0]
        number = number[~np.isnan(number)]
        values, count = np.unique(number, return_counts=True)
        share = count.max() / count.sum()
        z = number - number.mean()
        z = z / np.abs(z).max()
        tails = np.mean(z**4) / np.mean(z**2) ** 2
        if share >= _MOSTLY:
            found.append(f"{column.name} ({share:.0%} of it is {values[count.argmax()]:g})")
        elif tails >= _TAILS:
            found.append(f"{column.name} (a kurtosis of {tails:.0f}, where a Gaussian has 3)")
    return found


def _near_copies(cells: CellsOf, columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Pairs of numbers with a correlation of `ALIKE`, and of values that determine each other."""
    numeric = [c for c in columns if c.kind in ("numeric", "kernel", "count") and c.width == 1]
    if len(numeric) > 1:
        x = np.stack([cells[c.name].numbers()[:, 0] for c in numeric], 1)
        scale = np.nanmax(np.abs(x), 0)
        z = x / np.where(scale > 0, scale, 1)
        z = np.where(np.isnan(z), 0, z - np.nanmean(z, 0))
        norm = np.sqrt(np.square(z).sum(0))
        alike = np.abs(z.T @ z) >= ALIKE * np.outer(norm, norm)
        for i, j in combinations(range(len(numeric)), 2):
            if alike[i, j] and norm[i] > 0 and norm[j] > 0:
                yield str(numeric[i].name), str(numeric[j].name)
    coded = [(c, cells[c.name].encoded()[1]) for c in columns if c.is_coded and c.has_values]
    for (a, of_a), (b, of_b) in combinations(coded, 2):
        if len(a.values) == len(b.values):
            seen = (of_a >= 0) & (of_b >= 0)
            pairs = np.unique(np.stack([of_a[seen], of_b[seen]]), axis=1).T
            if len(pairs) <= len(a.values):
                yield str(a.name), str(b.name)


def _leaks(
    cells: CellsOf, columns: Sequence[Column], y: np.ndarray, w: np.ndarray
) -> Iterator[tuple[str, float]]:
    """Columns whose values, or bins of numbers, each have rows of nearly one class alone."""
    share = np.bincount(y, w).max() / w.sum()
    for column in columns:
        if column.kind in ("text", "drop") or column.width > 1:
            continue
        own = cells[column.name]
        if column.is_coded and column.has_values:
            code = own.encoded()[1]
        else:
            number = own.numbers()[:, 0]
            missing = np.isnan(number)
            edges = np.quantile(number[~missing], np.linspace(0, 1, _BINS + 1)[1:-1])
            code = np.where(missing, -1, np.searchsorted(np.unique(edges), number))
        table = np.zeros((code.max() + 2, y.max() + 1))
        np.add.at(table, (code, y), w)  # -1, for missing cells, is the last row
        right = table.max(1).sum() / w.sum()
        if right >= _LEAK and right - share > (1 - share) / 2:
            yield str(column.name), float(right)
