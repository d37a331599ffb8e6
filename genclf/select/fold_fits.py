"""Fits without each fold, and their scores of its rows, by NumPy where it can.

`cross_validate` is one compiled program for dense rows; here rows may be sparse, and a fit may be
any function of rows and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from genclf.classifier.by_numpy import (
    densities_by_numpy,
    estimate_by_numpy,
    log_posterior_by_numpy,
    scores_by_numpy,
    statistics_by_numpy,
    sums_by_numpy,
)
from genclf.classifier.classifier import Classifier
from genclf.classifier.estimation import estimated
from genclf.classifier.pieces import ArrayRows, by_pieces, on_host, padded, rows_of, statistics
from genclf.classifier.scores import log_densities, log_posteriors
from genclf.select.cross_validation import CrossValidation, Members, has_statistics
from genclf.sums.merging import merge_at_once

Fit = Callable[[PyTree, np.ndarray, np.ndarray], PyTree]


class HeldOut(NamedTuple):
    """The cross-validation of the rows of a fit, padded to one of a few sizes by weight 0."""

    found: CrossValidation
    y: Int[np.ndarray, "n"]
    weight: Float[np.ndarray, "n"]

    def check_calibration(self, class_names: Sequence[object]) -> None:
        """Raise for a row that no calibration gives a finite log-loss."""
        own = np.asarray(self.found.log_posterior)[np.arange(len(self.y)), self.y]
        for row in np.flatnonzero(~np.isfinite(own) & (self.weight > 0))[:1]:
            raise ValueError(
                f"a row of class {class_names[self.y[row]]!r}, number {row} of those with a "
                f"weight, has log p(y | x) {own[row]} under the fit without its fold, so it cannot "
                "be calibrated: smooth the model (alpha, ridge, shrinkage), or leave that row out"
            )


def held_out(
    clf: Any,
    fit: Fit,
    x: PyTree,
    y: Int[np.ndarray, "n"],
    w: Float[np.ndarray, "n"],
    folds: Int[np.ndarray, "n"],
    *,
    members: bool,
) -> HeldOut:
    """The rows of each fold, scored by the fit without it; `members` keeps what typicality needs.

    `fit` makes params from rows, labels and weights, if they do not follow from sums.
    """
    if has_statistics(clf, x):
        fits = _estimates_without(clf, (x, y, w), folds)
    else:
        fits = _fits_without(fit, (x, y, w), folds)
    log_p = np.empty((len(w), clf.num_classes))
    density = np.full(len(w), np.nan)
    kept = []
    for fold, params in enumerate(fits):
        rows = np.flatnonzero(folds == fold)
        part = rows_of(x, rows)
        own = scores_by_numpy(params, part)
        if own:
            log_p[rows] = log_posterior_by_numpy(params, part)
        else:
            log_p[rows] = by_pieces(log_posteriors, params, part)
        if members:
            kept.append(params)
            if own:
                every = densities_by_numpy(params, part)
            else:
                every = by_pieces(log_densities, params, part, "log_prob")
            density[rows] = every[np.arange(len(rows)), y[rows]]
    log_p, y, w = padded(log_p, y, w)
    more = len(w) - len(folds)
    folds = np.append(folds, np.full(more, -1, folds.dtype))
    of_rows, without = None, None
    if members:
        density = np.append(density, np.full(more, np.nan))
        of_rows = Members(*map(jnp.asarray, (density, y, w)))
        without = jax.tree.map(lambda *a: np.stack(a), *kept)
    found = CrossValidation(jnp.asarray(log_p), folds, without, members=of_rows)
    return HeldOut(found, y, w)


def _estimates_without(
    clf: Classifier, given: ArrayRows, folds: Int[np.ndarray, "n"]
) -> Iterator[PyTree]:
    """The params without each fold, from sums: those of the folds before it and after it."""
    by_numpy = sums_by_numpy(clf, given[0])
    sum_rows: Callable[..., Any] = statistics_by_numpy if by_numpy else statistics
    parts = [np.flatnonzero(folds == f) for f in range(folds.max() + 1)]
    each = [sum_rows(clf, *rows_of(given, rows)) for rows in parts]
    with np.errstate(all="ignore"):
        before = [None, *accumulate(each[:-1], merge_at_once)]
        after = [None, *accumulate(each[:0:-1], merge_at_once)][::-1]
    for around in zip(before, after, strict=True):
        with np.errstate(all="ignore"):
            stats = reduce(merge_at_once, [part for part in around if part is not None])
        yield estimate_by_numpy(clf, stats)[1] if by_numpy else on_host(estimated(clf, stats))


def _fits_without(fit: Fit, given: ArrayRows, folds: Int[np.ndarray, "n"]) -> Iterator[PyTree]:
    """The params without each fold, by fits with weight 0 for its rows."""
    x, y, w = given
    for fold in range(folds.max() + 1):
        yield on_host(fit(*padded(x, y, np.where(folds == fold, 0, w))))
