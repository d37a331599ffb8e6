"""The base of all estimators: rows and labels in, NumPy arrays of float64 out."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import jax
import numpy as np
from jaxtyping import Bool, Float, PyTree, Shaped
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight

from genclf.arguments.arrays import refuse_mask
from genclf.classifier.classifier import Classifier
from genclf.classifier.estimation import estimated
from genclf.classifier.explanation import Explanation, explain, place_of
from genclf.classifier.model import Model, check_hyperparameters
from genclf.classifier.scores import log_marginal, log_posterior, sample
from genclf.families.base import Family
from genclf.families.capabilities import is_additive
from genclf.families.combined.combinator import any_prefers_rows
from genclf.families.structure import widths
from genclf.fitting.em import em
from genclf.fitting.fit import fit
from genclf.sklearn.attributes import Attributes
from genclf.sklearn.labels import Labels, classes_of, encoded, numbers_in, prior_by_label
from genclf.sklearn.rows import checked_rows
from genclf.sklearn.types import LabelsLike, RowsLike, Seed, WeightsLike
from genclf.stream.pieces import by_pieces, merged, on_host, padded, statistics
from genclf.sums.sparse import is_sparse

_log_posterior, _log_marginal = jax.jit(log_posterior), jax.jit(log_marginal)


E = TypeVar("E", bound="Estimator")
F = TypeVar("F", bound=Callable)

if TYPE_CHECKING:  # scikit-learn's has no types, and would hide those of what it decorates

    def _fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[F], F]: ...
else:
    from sklearn.base import _fit_context


def _if(flag: str, problem: str) -> Callable[[F], F]:
    """A decorator for a method that exists only if the flag of the estimator is set."""

    def check(self: Any) -> bool:
        if not getattr(self, flag):
            raise AttributeError(f"{type(self).__name__} {problem}")
        return True

    return available_if(check)


class Estimator(Attributes, ClassifierMixin, BaseEstimator, abc.ABC):
    """A classifier of scikit-learn that wraps a model of this library.

    All numbers are computed in float64 whatever JAX's setting, and all attributes are NumPy arrays.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _adds_up: ClassVar[bool] = True
    _generative: ClassVar[bool] = True
    _has_log_odds: bool = True

    @property
    def _takes_holes(self) -> bool:
        """Whether NaN in X is a missing cell, and no error."""
        return False

    @abc.abstractmethod
    def _model(self, classes: Shaped[np.ndarray, "K"]) -> Any:
        """The model for these classes."""

    def _rows(self, X: RowsLike, *, reset: bool = False) -> PyTree:
        """The rows as the model takes them; raise for invalid ones."""
        finite = "allow-nan" if self._takes_holes else True
        return checked_rows(self, X, reset=reset, dtype=np.float64, ensure_all_finite=finite)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_holes
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self: E, X: RowsLike, y: LabelsLike, sample_weight: WeightsLike = None) -> E:
        """Fit the model.

        Args:
            X: rows, (n, d).
            y: labels of any one type, (n,).
            sample_weight: weight of each row, >= 0, (n,); None for ones.

        Raises:
            ValueError: a shape does not fit, or a cell, label, weight or parameter is invalid.
        """
        return self._learn(X, y, sample_weight, None, reset=True, parts=False)

    @_if("_adds_up", "is not fitted by parts")
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self: E,
        X: RowsLike,
        y: LabelsLike,
        classes: LabelsLike | None = None,
        sample_weight: WeightsLike = None,
    ) -> E:
        """Fit the model to these rows together with all rows of earlier calls.

        The result is that of `fit` to all rows, however they are split into calls.

        Args:
            X: rows, (n, d).
            y: labels, (n,).
            classes: all classes, needed in the first call.
            sample_weight: weight of each row, >= 0, (n,); None for ones.

        Raises:
            ValueError: as for `fit`; the first call lacks `classes`, or a later call has other
                classes; a row has no label.
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes is None in the first call of partial_fit: give all classes")
        given = None if classes is None else classes_of(classes)
        if not first and given is not None and not np.array_equal(given, self.classes_):
            raise ValueError(f"classes is {given}, and was {self.classes_} in the first call")
        if not first and self._stats is None:
            raise ValueError(
                "the fit before was not made of statistics that add up: call partial_fit from the "
                "first rows on"
            )
        known = given if first else self.classes_
        return self._learn(X, y, sample_weight, known, reset=first, parts=True)

    def _learn(
        self: E,
        X: RowsLike,
        y: LabelsLike,
        sample_weight: WeightsLike,
        classes: np.ndarray | None,
        *,
        reset: bool,
        parts: bool,
    ) -> E:
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} requires y to be passed, but the target y is None: "
                "labels of the classes"
            )
        x = self._rows(X, reset=reset)
        labels = encoded(y, getattr(self, "semi_supervised", False), classes)
        count = jax.tree.leaves(x)[0].shape[0]
        if len(labels.number) != count:
            raise ValueError(f"X has {count} rows and y {len(labels.number)} labels")
        refuse_mask(sample_weight, "sample_weight")
        w = _check_sample_weight(
            sample_weight, np.empty((count, 0)), dtype=np.float64, ensure_non_negative=True
        )
        if hasattr(self, "n_iter_"):
            del self.n_iter_
        with jax.enable_x64(True):
            self._estimate(x, labels, w, None if reset else self._stats, parts)
        self.classes_ = labels.classes
        return self

    def _estimate(self, x: PyTree, labels: Labels, w: np.ndarray, before: Any, parts: bool) -> None:
        """Set the fitted attributes, from the statistics before and these rows."""
        clf = check_hyperparameters(self._model(labels.classes), widths(x))
        whole = (labels.number >= 0).all()
        if parts and not (whole and is_additive(clf.family)):
            raise ValueError(
                "partial_fit takes rows with a label, of models with statistics: use fit"
            )
        stats = None
        if parts or (whole and _is_sum(clf, x)):
            found = statistics(clf, x, labels.number, w)
            stats = on_host(found if before is None else merged(before, found))
            params = estimated(clf, stats)
        else:
            params = self._fit_rows(clf, *padded(x, labels.number, w))
        self._fitted_model, self._stats, self.params_ = clf, stats, on_host(params)
        self._cache: dict[str, Any] = {}

    def _fit_rows(self, clf: Any, x: PyTree, y: np.ndarray, w: np.ndarray) -> Any:
        """The params of a fit without additive statistics; EM uses rows without a label."""
        if (y >= 0).all():
            return fit(clf, x, y, w)
        found = em(clf, x, y, key=jax.random.key(0), weights=w)
        warn_unless(found.converged, f"EM stopped after {found.steps} steps")
        self.n_iter_ = int(found.steps)
        return found.params

    def _scores(self, X: RowsLike) -> Float[np.ndarray, "n K"]:
        """Log-posteriors of the rows, or linear scores, which differ by a constant for each row.

        Raises:
            ValueError: a row is impossible in every class, or no number of float64 has its score.
        """
        self._check_fitted()
        x = self._rows(X)
        coef, intercept = self._form or (None, None)
        if coef is not None and np.isfinite(coef).all():
            with np.errstate(over="ignore", invalid="ignore"):
                scores = x @ coef.T + intercept
            if _is_decided(scores).all():  # a missing cell makes NaN
                return scores
        scores = self._computed(_log_posterior, x)
        if len(rows := np.flatnonzero(~_is_decided(scores))):
            raise ValueError(f"row {rows[0]} of X {self._why_undecided(x, int(rows[0]))}")
        return scores

    def _why_undecided(self, x: PyTree, row: int) -> str:
        """Why a row has no posterior, and what to do."""
        family = getattr(self._fitted_model, "family", None)
        if getattr(self, "alpha", getattr(family, "alpha", None)) == 0:
            one = jax.tree.map(lambda a: a[row : row + 1], x)
            if self._computed(_log_marginal, one)[0] == -np.inf:
                return (
                    "is impossible in every class, as alpha is 0: give alpha > 0, or leave out the "
                    "rows whose score_samples is -inf"
                )
        return (
            "has no posterior: its cells, or the parameters of the fit, are outside the range of "
            "float64; give X in other units, or leave out far rows"
        )

    def _computed(self, function: Any, x: PyTree) -> np.ndarray:
        """The values of a compiled function of params and rows."""
        with jax.enable_x64(True):
            if "params" not in self._cache:
                self._cache["params"] = jax.device_put(self.params_)
            return by_pieces(function, self._cache["params"], x)

    def __getstate__(self) -> dict[str, Any]:
        """The state without cached values, some of which are on a device."""
        state = super().__getstate__()
        return state | {"_cache": {}} if "_cache" in state else state

    def predict(self, X: RowsLike) -> Shaped[np.ndarray, "n"]:
        """The most probable class of each row.

        Args:
            X: rows, (n, d).

        Raises:
            ValueError: a row is impossible in every class, as may be if alpha is 0, or has no
                posterior in float64. So do the methods for probabilities, log-odds and the score.
        """
        scores = self._scores(X)
        return self.classes_[scores.argmax(1)]

    def score(self, X: RowsLike, y: LabelsLike, sample_weight: WeightsLike = None) -> float:
        """The share of rows whose most probable class is their label.

        Args:
            X: rows, (n, d).
            y: labels, (n,).
            sample_weight: weight of each row, (n,); None for ones.

        Raises:
            ValueError: as for `predict`; or y has labels of another kind than the classes.
        """
        found = self._scores(X).argmax(1)
        number = numbers_in(self.classes_, y)
        if len(number) != len(found):
            raise ValueError(f"X has {len(found)} rows and y {len(number)} labels")
        given = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(found == number, weights=given))

    def predict_log_proba(self, X: RowsLike) -> Float[np.ndarray, "n K"]:
        """`log p(y | x)`, natural logarithms.

        Args:
            X: rows, (n, d).
        """
        return log_softmax(self._scores(X), axis=1)

    def predict_proba(self, X: RowsLike) -> Float[np.ndarray, "n K"]:
        """`p(y | x)`, by Bayes' rule.

        Args:
            X: rows, (n, d).
        """
        return softmax(self._scores(X), axis=1)

    @_if("_has_log_odds", "has no decision_function: take predict_log_proba")
    def decision_function(self, X: RowsLike) -> Float[np.ndarray, "..."]:
        """Log-odds `log p(y=k | x) - log (1 - p(y=k | x))`.

        Args:
            X: rows, (n, d).

        Returns:
            The log-odds of each class, (n, K); with two classes, those of the second one, (n,).
        """
        scores = self._scores(X)
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        others = np.repeat(scores[:, None], scores.shape[1], 1)
        others[:, np.arange(scores.shape[1]), np.arange(scores.shape[1])] = -np.inf
        return scores - np.logaddexp.reduce(others, -1)

    def explain(self, X: RowsLike, *, of: Hashable = None, against: Hashable = None) -> Explanation:
        """How much each column contributes to the class of each row; see `genclf.explain`.

        Args:
            X: a few rows, (n, d).
            of: a class of `classes_`; None for the most probable one other than `against`.
            against: a class of `classes_`; None for the most probable one other than `of`.

        Returns:
            `Explanation` with arrays of NumPy; `features` is (n, d), and `of` and `against` are
            indices in `classes_`. It has the names of the classes, and of the columns if X had any.

        Raises:
            ValueError: the log-odds are not a sum over the columns, as with QDA; or there is no
                such class.
        """
        self._check_fitted()
        dense = lambda a: np.asarray(a.toarray() if is_sparse(a) else a)  # noqa: E731
        x = jax.tree.map(dense, self._rows(X), is_leaf=is_sparse)
        places = {"of": of, "against": against}
        given = {name: place_of(a, self.classes_, name) for name, a in places.items()}
        with jax.enable_x64(True):
            found = on_host(explain(self.params_, x, **given))
        columns = getattr(self, "feature_names_in_", None)
        return replace(
            found,
            features=self._terms_of_columns(found.features),
            class_names=[str(label) for label in self.classes_],
            feature_names=None if columns is None else [str(name) for name in columns],
        )

    def _terms_of_columns(self, features: Any) -> Float[np.ndarray, "n d"]:
        """The terms of the columns of X, from the terms of the parts of the model."""
        return features

    @_if("_generative", "has no density of rows")
    def score_samples(self, X: RowsLike) -> Float[np.ndarray, "n"]:
        """`log p(x)`, natural logarithms: a low value means that a row is unusual.

        Args:
            X: rows, (n, d).
        """
        self._check_fitted()
        return self._computed(_log_marginal, self._rows(X))

    @_if("_generative", "has no density of rows")
    def sample(
        self, n_samples: int = 1, random_state: Seed = None
    ) -> tuple[PyTree, Shaped[np.ndarray, "n"]]:
        """Draw rows and their labels from the fitted model.

        Args:
            n_samples: number of rows.
            random_state: a seed, a `RandomState` or None.

        Returns:
            (X, y).
        """
        self._check_fitted()
        seed = check_random_state(random_state).randint(2**31)
        with jax.enable_x64(True):
            x, y = on_host(sample(jax.random.key(seed), self.params_, (n_samples,)))
        return x, self.classes_[y]


class FamilyEstimator(Estimator):
    """An estimator of one family, with a given or a smoothed class prior."""

    @abc.abstractmethod
    def _family(self) -> Family:
        """The family of the rows."""

    def _model(self: Any, classes: Shaped[np.ndarray, "K"]) -> Classifier:
        prior = prior_by_label(self.class_prior, classes)
        return Classifier(self._family(), len(classes), self.class_alpha, prior)


def _is_decided(scores: Float[np.ndarray, "n K"]) -> Bool[np.ndarray, "n"]:
    """Whether each row has a class of finite score: else it has no posterior."""
    return np.isfinite(scores.max(1))


def _is_sum(clf: Model, x: PyTree) -> bool:
    """Whether the fit is an estimate from statistics that add up."""
    family = getattr(clf, "family", None)
    return family is not None and is_additive(family) and not any_prefers_rows(family, x)


def warn_unless(converged: Any, message: str) -> None:
    """Issue scikit-learn's `ConvergenceWarning`, unless the iterations converged."""
    if not converged:
        warnings.warn(f"{message}, before it converged", ConvergenceWarning, stacklevel=5)
