"""The base of all estimators: rows and labels in, NumPy arrays of float64 out."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import jax
import numpy as np
from jaxtyping import Bool, PyTree, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin

# This class has no public name, and `check_param_validation` of scikit-learn accepts no other.
from genclf.classifier.by_numpy import fit_by_numpy, sums_by_numpy
from genclf.classifier.estimation import estimated
from genclf.classifier.model import check_hyperparameters
from genclf.classifier.pieces import on_host, padded, rows_of, statistics
from genclf.families.capabilities import is_additive
from genclf.families.structure import widths
from genclf.fitting.em import em
from genclf.fitting.fit import fit
from genclf.numerics.row_blocks import num_rows
from genclf.select.cross_validation import has_statistics
from genclf.sklearn.attributes import only_if
from genclf.sklearn.held_out_fits import HeldOutFits
from genclf.sklearn.labels import Labels, check_lengths, classes_of, encoded, indices_in, plain
from genclf.sklearn.parameters import Parameters, warn_unless
from genclf.sklearn.predictions import Predictions
from genclf.sklearn.rows import checked_rows, weights_in
from genclf.sklearn.types import LabelsLike, RowsLike, WeightsLike
from genclf.sums.merging import merge_at_once, remove_at_once
from genclf.sums.relabelling import relabelled

E = TypeVar("E", bound="Estimator")


class Estimator(Predictions, HeldOutFits, Parameters, ClassifierMixin, BaseEstimator):
    """A classifier of scikit-learn that wraps a model of this library.

    All numbers are computed in float64 whatever JAX's setting, and all attributes are NumPy arrays.
    """

    _input_tags: ClassVar[Mapping[str, bool]] = {}  # of X, for scikit-learn
    _scores_poorly: ClassVar[bool] = False  # on the rows of scikit-learn's checks
    _has_partial_fit: ClassVar[bool] = True

    @property
    def _accepts_missing(self) -> bool:
        """Whether NaN in X is a missing cell, not an error."""
        return False

    @abc.abstractmethod
    def _model(self, classes: Shaped[np.ndarray, "K"]) -> Any:
        """The model for these classes."""

    def _rows(self, X: RowsLike, *, reset: bool = False) -> PyTree:
        """The rows as the model takes them; raise for invalid ones."""
        finite = "allow-nan" if self._accepts_missing else True
        return checked_rows(self, X, reset=reset, dtype=np.float64, ensure_all_finite=finite)

    def _training_rows(
        self, X: RowsLike, y: LabelsLike, used: Bool[np.ndarray, "n"], *, reset: bool
    ) -> PyTree:
        """`_rows` of the rows to learn from, whose labels are y."""
        x = self._rows(X, reset=reset)
        check_lengths(num_rows(x), len(used))
        return x if used.all() else rows_of(x, np.flatnonzero(used))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = {"allow_nan": self._accepts_missing, **self._input_tags}
        tags.input_tags = replace(tags.input_tags, **given)
        tags.classifier_tags.poor_score = self._scores_poorly
        return tags

    def fit(self: E, X: RowsLike, y: LabelsLike, sample_weight: WeightsLike = None) -> E:
        """Fit the model.

        Args:
            X: rows, (n, d).
            y: labels of any one type, (n,).
            sample_weight: weight of each row, >= 0, (n,); None for ones.

        Raises:
            ValueError: a shape does not fit, or a cell, label, weight or parameter is invalid.
        """
        self._validate_params()
        return self._learn(X, y, sample_weight, None)

    @only_if("_has_partial_fit", "has no partial_fit: its fit is not a sum over batches")
    def partial_fit(
        self: E,
        X: RowsLike,
        y: LabelsLike,
        classes: LabelsLike | None = None,
        sample_weight: WeightsLike = None,
    ) -> E:
        """Fit the model to these rows together with all rows of earlier calls.

        The result is that of `fit` to all rows, however they are split into calls, and whenever a
        class is added.

        Args:
            X: rows, (n, d).
            y: labels, (n,).
            classes: all classes, needed in the first call; in a later call those of earlier calls
                and, to add classes, new ones.
            sample_weight: weight of each row, >= 0, (n,); None for ones.

        Raises:
            ValueError: as for `fit`; the first call lacks `classes`, a later call lacks an earlier
                class, or y has a label that is not among the classes; a row has no label.
        """
        self._validate_params()
        self._refuse_folds("partial_fit")
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes is None in the first call of partial_fit: give all classes")
        given = None if classes is None else classes_of(classes)
        if first:
            return self._learn(X, y, sample_weight, given)
        before = self._kept("added to")
        if given is None:
            return self._learn(X, y, sample_weight, self.classes_, before)
        place = indices_in(given, self.classes_)
        if (place < 0).any():
            lost = plain(self.classes_[place.argmin()])
            raise ValueError(
                f"classes is {given} and lacks {lost!r}, a class of an earlier call: give all "
                "classes, the earlier ones too"
            )
        return self._learn(X, y, sample_weight, given, relabelled(before, place, len(given)))

    @only_if("_has_partial_fit", "has no forget: its fit is not a sum over rows")
    def forget(self: E, X: RowsLike, y: LabelsLike, sample_weight: WeightsLike = None) -> E:
        """Take rows out again, as if they had never been learned.

        With whole weights counts are those of a fit to the other rows exactly; means and scatters,
        and sums of other weights, up to 1e-12 of the sums before, so they lose digits where nearly
        all rows are forgotten. The classes, and what a table's columns may hold, stay. That a row
        was never learned can be told only if a count or a variance falls below 0; the result is
        meaningless otherwise.

        Args:
            X: rows that were learned, (n, d).
            y: their labels, (n,).
            sample_weight: the weights that they were learned with, (n,); None for ones.

        Raises:
            ValueError: as for `fit`; the fit kept no statistics, some row was never learned, as far
                as that can be told, or no row would be left.
        """
        self._check_fitted()
        self._refuse_folds("forget")
        before = self._kept("taken out of")
        return self._learn(
            X, y, sample_weight, self.classes_, before, self._cache.get("peak", before)
        )

    def _kept(self, change: str) -> Any:
        """The statistics of the fit; raise if there are none."""
        if self._stats is None:
            raise ValueError(
                f"the earlier fit kept no statistics, so rows cannot be {change} it: fit all rows "
                "again; partial_fit keeps them, and fit where every row has a label and EM is not "
                "needed"
            )
        return self._stats

    def _learn(
        self: E,
        X: RowsLike,
        y: LabelsLike,
        sample_weight: WeightsLike,
        classes: np.ndarray | None,
        before: Any = None,
        peak: Any = None,
    ) -> E:
        """Fit to these rows and those of earlier statistics; with a peak, without these rows."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} requires y to be passed, but the target y is None: "
                "labels of the classes"
            )
        labels = encoded(y, getattr(self, "semi_supervised", False), classes)
        w = np.ones(len(labels.number))
        if sample_weight is not None:
            w = weights_in(sample_weight, len(w))
        used = (w != 0) | ~w.any()
        x = self._training_rows(X, y, used, reset=before is None)
        if not used.all():
            labels, w = labels._replace(number=labels.number[used]), w[used]
        for name in {"n_iter_", "recalibration_", "_membership"} & vars(self).keys():
            delattr(self, name)  # of an earlier fit
        with jax.enable_x64(True):
            self._estimate(x, labels, w, before, peak, parts=classes is not None)
        return self

    def _check_divisor(self, params: Any, classes: np.ndarray) -> None:
        """Raise if `ddof` leaves a covariance without a divisor."""
        scale = getattr(getattr(params, "conditional", None), "scale", None)
        if getattr(self, "ddof", 0) and scale is not None and np.isnan(scale).any():
            k = int(np.isnan(scale).reshape(len(scale), -1).any(1).argmax())
            of = "all classes" if len(scale) == 1 else f"class {classes[k : k + 1].tolist()[0]!r}"
            raise ValueError(
                f"ddof is {self.ddof}, expected a number below the weight of the rows of {of}"
            )

    def _estimate(
        self, x: PyTree, labels: Labels, w: np.ndarray, before: Any, peak: Any, *, parts: bool
    ) -> None:
        """Set the fitted attributes, from the statistics before and these rows."""
        clf = check_hyperparameters(self._model(labels.classes), widths(x))
        whole = (labels.number >= 0).all()
        if parts and not (whole and is_additive(clf.family)):
            raise ValueError(
                "partial_fit needs a label of each row, and a model with statistics: use fit"
            )
        if before is not None:
            clf.family.check_stats(before.conditional)  # a parameter may have changed
        held = self._held_out(clf, x, labels, w)
        stats = None
        if parts or (whole and has_statistics(clf, x)):
            if sums_by_numpy(clf, x):
                stats, params = fit_by_numpy(clf, x, labels.number, w, before, peak)
            else:
                found = statistics(clf, x, labels.number, w)
                if before is not None:
                    both = before, found
                    found = remove_at_once(*both, peak) if peak else merge_at_once(*both)
                stats = on_host(found)
                params = on_host(estimated(clf, stats))
            if peak is not None:
                _check_rest(stats)
        else:
            params = on_host(self._fit_rows(clf, *padded(x, labels.number, w)))
        self._check_divisor(params, labels.classes)
        if held is not None:
            params = self._with_folds(clf, params, held)
        self._fitted_model, self._stats, self.params_ = clf, stats, params
        self._cache: dict[str, Any] = {} if peak is None else {"peak": peak}
        self.classes_ = labels.classes

    def __getstate__(self) -> dict[str, Any]:
        """The state without cached values, some of which are on a device."""
        state = super().__getstate__()
        return state | {"_cache": {}} if "_cache" in state else state

    def _fit_rows(self, clf: Any, x: PyTree, y: np.ndarray, w: np.ndarray) -> Any:
        """The params of a fit without additive statistics; EM uses rows without a label."""
        if (y >= 0).all():
            return fit(clf, x, y, w)
        found = em(clf, x, y, key=jax.random.key(0), weights=w)
        warn_unless(found.converged, f"EM stopped after {found.steps} steps")
        self.n_iter_ = int(found.steps)
        return found.params


def _check_rest(stats: Any) -> None:
    """Raise if rows were taken out that were not in, or no row is left."""
    if any(np.isnan(leaf).any() for leaf in jax.tree.leaves(stats)):
        raise ValueError(
            "X has rows that were never learned with these labels and weights: without them a "
            "count, a total or a variance would be below 0"
        )
    if not stats.count.any():
        raise ValueError("no row would be left: fit other rows, or leave out one of these")
