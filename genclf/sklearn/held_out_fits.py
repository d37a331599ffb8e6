"""Fits of an estimator without each fold of its rows, for calibration and typicality."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Int, PyTree
from sklearn.exceptions import ConvergenceWarning

from genclf.classifier.pieces import on_host
from genclf.select.fold_fits import HeldOut, held_out
from genclf.select.folds import kfold
from genclf.select.membership.folds_test import FoldsTest
from genclf.select.membership.typicality import typicality_test
from genclf.select.recalibration import Recalibration, recalibrate, with_calibration
from genclf.sklearn.labels import Labels, plain
from genclf.sklearn.types import Calibrate, Flag

NUM_FOLDS = 10


class HeldOutFits:
    """An estimator that fits its model without each fold, if a parameter asks for it."""

    calibrate: Calibrate = None
    conformal: Flag = False  # not of all estimators
    recalibration_: Recalibration
    _membership: FoldsTest
    _fit_rows: Any

    def _refuse_folds(self, method: str) -> None:
        """Raise if a fit needs all rows at once."""
        for name in ("calibrate", "conformal"):
            if value := getattr(self, name):
                raise ValueError(
                    f"{name} is {value!r} and needs folds of all rows, so {method} cannot have it: "
                    "use fit"
                )

    def _held_out(self, clf: Any, x: PyTree, labels: Labels, w: np.ndarray) -> HeldOut | None:
        """The rows of each fold scored by the fit without it; None if no parameter asks for it."""
        if self.calibrate is None and not self.conformal:
            return None
        folds = stratified_folds(labels)
        fit = partial(self._fit_rows, clf)
        found = held_out(clf, fit, x, labels.number, w, folds, members=self.conformal)
        if self.calibrate is not None:
            found.check_calibration([plain(label) for label in labels.classes])
        return found

    def _with_folds(self, clf: Any, params: Any, held: HeldOut) -> Any:
        """The params, calibrated if a parameter asks for it; what typicality needs is kept."""
        if self.conformal:
            self._membership = on_host(typicality_test(clf, held.found))
        if self.calibrate is None:
            return params
        bias = self.calibrate == "bias"
        found = recalibrate(held.found, held.y, bias=bias, weights=held.weight)
        self.recalibration_ = on_host(found)
        if not self.recalibration_.converged:
            warnings.warn(
                "no calibration is the most likely one, as where each held-out row is on the right "
                "side: the posteriors stay those of the fit",
                ConvergenceWarning,
                stacklevel=5,
            )
            return params
        calibrated = with_calibration(params, self.recalibration_)
        if getattr(clf, "class_prior", None) is not None:
            calibrated = calibrated.under(params.log_prior)
        return on_host(calibrated)


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
            f"class {plain(labels.classes[k])!r} has one row, but calibrate and conformal need two "
            "or more of each class, since each is scored by a fit without it"
        )
    return kfold(jax.random.key(0), labels.number, min(NUM_FOLDS, len(labels.number)))
