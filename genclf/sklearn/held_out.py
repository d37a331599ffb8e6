"""Fits of an estimator without each fold of its rows, for calibration and typicality."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from genclf.classifier.by_numpy import (
    densities_by_numpy,
    discriminant_by_numpy,
    estimate_by_numpy,
    scores_by_numpy,
    statistics_by_numpy,
    sums_by_numpy,
)
from genclf.classifier.classifier import Classifier
from genclf.classifier.estimation import estimated
from genclf.classifier.model import Model
from genclf.classifier.scores import log_densities, log_posteriors
from genclf.families.capabilities import is_additive
from genclf.families.combined.combinator import any_prefers_rows
from genclf.numerics.scores.posterior import normalised
from genclf.select.cross_validation import CrossValidation, Members
from genclf.select.folds import kfold
from genclf.select.membership.folds_test import FoldsTest
from genclf.select.membership.typicality import typicality_test
from genclf.select.recalibration import Recalibration, recalibrate, with_calibration
from genclf.sklearn.labels import Labels, plain
from genclf.sklearn.parameters import warn_unless
from genclf.sklearn.types import Calibrate
from genclf.stream.pieces import by_pieces, merged, on_host, padded, statistics
from genclf.sums import merging
from genclf.tables.features import rows_of

NUM_FOLDS = 10


class HeldOutFits:
    """An estimator that fits its model without each fold, if a parameter asks for it."""

    calibrate: Calibrate
    recalibration_: Recalibration
    _membership: FoldsTest
    _fit_rows: Any

    def _refuse_folds(self, method: str) -> None:
        """Raise if a fit needs all rows at once."""
        for name in ("calibrate", "conformal"):
            if value := getattr(self, name, None):
                raise ValueError(
                    f"{name} is {value!r} and needs folds of all rows, so {method} cannot have it: "
                    "use fit"
                )

    def _held_out(self, clf: Any, x: PyTree, labels: Labels, w: np.ndarray) -> HeldOut | None:
        """The rows of each fold scored by the fit without it; None if no parameter asks for it."""
        conformal = getattr(self, "conformal", False)
        if self.calibrate is None and not conformal:
            return None
        folds = stratified_folds(labels)
        given = x, labels.number, w, folds
        if is_sum(clf, x):
            fits = estimates_without(clf, *given)
        else:
            fits = fits_without(partial(self._fit_rows, clf), *given)
        return held_out(fits, x, labels, w, folds, members=conformal)

    def _with_folds(self, clf: Any, params: Any, held: HeldOut) -> Any:
        """The params, calibrated if a parameter asks for it; what typicality needs is kept."""
        if getattr(self, "conformal", False):
            self._membership = held.test(clf)
        if self.calibrate is None:
            return params
        self.recalibration_ = held.recalibration(self.calibrate)
        warn_unless(self.recalibration_.converged, "the calibration stopped")
        found = with_calibration(params, self.recalibration_)
        if getattr(clf, "class_prior", None) is not None:
            found = found.under(params.log_prior)
        return on_host(found)


class HeldOut(NamedTuple):
    """The cross-validation of the rows of a fit, padded to one of a few sizes by weight 0."""

    found: CrossValidation
    y: Int[np.ndarray, "n"]
    weight: Float[np.ndarray, "n"]

    def recalibration(self, method: str) -> Recalibration:
        """`genclf.recalibrate`, with a bias or a temperature alone."""
        return on_host(recalibrate(self.found, self.y, bias=method == "bias", weights=self.weight))

    def test(self, clf: Classifier) -> FoldsTest:
        """`genclf.typicality_test` by folds."""
        return on_host(typicality_test(clf, self.found))


def stratified_folds(labels: Labels) -> Int[np.ndarray, "n"]:
    """Ten random folds, fewer of fewer rows; raise unless two rows or more are of each class."""
    if (labels.number < 0).any():
        raise ValueError(
            f"row {(labels.number < 0).argmax()} has no label, but calibrate and conformal need "
            "one of each row: leave such rows out, or take calibrate=None and conformal=False"
        )
    count = np.bincount(labels.number, minlength=len(labels.classes))
    for k in np.flatnonzero(count < 2)[:1]:
        raise ValueError(
            f"class {plain(labels.classes[k])!r} has {count[k]} rows, but calibrate and conformal "
            "need two or more of each class, since each is scored by a fit without it"
        )
    return kfold(jax.random.key(0), labels.number, min(NUM_FOLDS, len(labels.number)))


def held_out(
    fits: Iterable[PyTree],
    x: PyTree,
    labels: Labels,
    w: Float[np.ndarray, "n"],
    folds: Int[np.ndarray, "n"],
    *,
    members: bool,
) -> HeldOut:
    """The rows of each fold, scored by the fit without it.

    Args:
        fits: the params without each fold, in the order of folds.
        x: the rows.
        labels: their labels.
        w: their weights.
        folds: the fold of each row.
        members: whether to keep what typicality needs.

    Raises:
        ValueError: a row has no posterior, or its class has probability 0.
    """
    log_p = np.empty((len(w), len(labels.classes)))
    density = np.full(len(w), np.nan)
    kept = []
    for fold, params in enumerate(fits):
        rows = np.flatnonzero(folds == fold)
        part = rows_of(x, rows)
        if scores_by_numpy(params, part):
            log_p[rows] = normalised(discriminant_by_numpy(params, part))
        else:
            log_p[rows] = by_pieces(log_posteriors, params, part)
        if members:
            kept.append(params)
            own = scores_by_numpy(params, part)
            every = densities_by_numpy(params, part) if own else _densities(params, part)
            density[rows] = every[np.arange(len(rows)), labels.number[rows]]
    _check_possible(log_p, labels)
    log_p, y, w = padded(log_p, labels.number, w)
    more = len(w) - len(folds)
    folds = np.append(folds, np.full(more, -1, folds.dtype))
    of_rows, without = None, None
    if members:
        density = np.append(density, np.full(more, np.nan))
        of_rows = Members(*map(jnp.asarray, (density, y, w)))
        without = jax.tree.map(lambda *a: np.stack(a), *kept)
    found = CrossValidation(jnp.asarray(log_p), folds, without, members=of_rows)
    return HeldOut(found, y, w)


def _densities(params: PyTree, x: PyTree) -> Float[np.ndarray, "n K"]:
    return by_pieces(log_densities, params, x, "log_prob")


def _check_possible(log_p: Float[np.ndarray, "n K"], labels: Labels) -> None:
    """Raise for a row that no calibration gives a finite log-loss."""
    own = log_p[np.arange(len(log_p)), labels.number]
    for row in np.flatnonzero(~np.isfinite(own))[:1]:
        label = plain(labels.classes[labels.number[row]])
        raise ValueError(
            f"a row of class {label!r}, number {row} of those with a weight, has log p(y | x) "
            f"{own[row]} under the fit without its fold, so it cannot be calibrated: smooth the "
            "model (alpha, ridge, shrinkage), or leave that row out"
        )


def estimates_without(
    clf: Classifier,
    x: PyTree,
    y: Int[np.ndarray, "n"],
    w: Float[np.ndarray, "n"],
    folds: Int[np.ndarray, "n"],
) -> Iterator[PyTree]:
    """The params without each fold, from sums: those of the folds before it and after it."""
    sum_rows: Callable[..., Any] = statistics
    merge: Callable[..., Any] = merged
    if by_numpy := sums_by_numpy(clf, x):
        sum_rows, merge = statistics_by_numpy, merging.merged
    parts = [np.flatnonzero(folds == f) for f in range(folds.max() + 1)]
    each = [sum_rows(clf, rows_of(x, rows), y[rows], w[rows]) for rows in parts]
    with np.errstate(all="ignore"):
        before = [None, *accumulate(each[:-1], merge)]
        after = [None, *accumulate(each[:0:-1], merge)][::-1]
    for one, other in zip(before, after, strict=True):
        if by_numpy:
            last = one if other is None else other
            yield estimate_by_numpy(clf, last, None if last is one else one)[1]
        else:
            both = [part for part in (one, other) if part is not None]
            yield on_host(estimated(clf, reduce(merge, both)))


def fits_without(
    fit: Callable[[PyTree, np.ndarray, np.ndarray], PyTree],
    x: PyTree,
    y: Int[np.ndarray, "n"],
    w: Float[np.ndarray, "n"],
    folds: Int[np.ndarray, "n"],
) -> Iterator[PyTree]:
    """The params without each fold, by fits with weight 0 for its rows."""
    for fold in range(folds.max() + 1):
        yield on_host(fit(*padded(x, y, np.where(folds == fold, 0, w))))


def is_sum(clf: Model, x: PyTree) -> bool:
    """Whether the fit is an estimate from statistics that add up."""
    family = getattr(clf, "family", None)
    return family is not None and is_additive(family) and not any_prefers_rows(family, x)
