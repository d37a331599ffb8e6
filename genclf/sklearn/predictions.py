"""Predictions of a fitted estimator: classes, probabilities, densities, p-values, explanations."""

from __future__ import annotations

import abc
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Bool, Float, PyTree, Shaped
from sklearn.utils import check_random_state

from genclf.arguments.domains import SHARE
from genclf.classifier.by_numpy import (
    discriminant_by_numpy,
    linear_by_numpy,
    log_marginal_by_numpy,
    scores_by_numpy,
)
from genclf.classifier.classifier import Classifier
from genclf.classifier.explanation import Explanation, explained
from genclf.classifier.pieces import by_pieces, on_host
from genclf.classifier.scores import log_marginals, log_posteriors, sample
from genclf.numerics.scores.posterior import normalised
from genclf.select.membership.f_test import FTest, f_test
from genclf.select.membership.folds_test import FoldsTest
from genclf.sklearn.attributes import Attributes, only_if
from genclf.sklearn.labels import check_lengths, numbers_in
from genclf.sklearn.types import LabelsLike, Number, RowsLike, Seed, WeightsLike
from genclf.tables.features import dense


class Predictions(Attributes, abc.ABC):
    """The methods of a fitted estimator that take or draw rows."""

    _generative: ClassVar[bool] = True
    _has_log_odds: bool = True
    _membership: FoldsTest

    @abc.abstractmethod
    def _rows(self, X: RowsLike, *, reset: bool = False) -> PyTree:
        """The rows as the model takes them; raise for invalid ones."""

    def _scores(self, X: RowsLike) -> Float[np.ndarray, "n K"]:
        """Log-posteriors of the rows, or linear scores, which differ by a constant for each row.

        Raises:
            ValueError: a row is impossible in every class, or its scores exceed float64.
        """
        self._check_fitted()
        x = self._rows(X)
        coef, intercept = self._form or (None, None)
        if coef is not None and np.isfinite(coef).all():
            with np.errstate(over="ignore", invalid="ignore"):
                scores = linear_by_numpy(x, coef) + intercept
            if _is_decided(scores).all():  # a missing cell makes NaN
                return scores
        if scores_by_numpy(self.params_, x):
            scores = discriminant_by_numpy(self.params_, x)
        else:
            scores = self._computed(log_posteriors, self.params_, x)
        if len(rows := np.flatnonzero(~_is_decided(scores))):
            raise ValueError(f"row {rows[0]} of X {self._why_undecided(x, int(rows[0]))}")
        return scores

    def _why_undecided(self, x: PyTree, row: int) -> str:
        """Why a row has no posterior, and what to do."""
        family = getattr(self._fitted_model, "family", None)
        if getattr(self, "alpha", getattr(family, "alpha", None)) == 0:
            one = jax.tree.map(lambda a: a[row : row + 1], x)
            if self._log_marginal(one)[0] == -np.inf:
                return (
                    "is impossible in every class, as alpha is 0: give alpha > 0, or leave out the "
                    "rows whose score_samples is -inf"
                )
        return (
            "has no posterior: its cells, or the parameters of the fit, are outside the range of "
            "float64; give X in other units, or leave out far rows"
        )

    def _computed(
        self, function: Any, params: PyTree, x: PyTree, form: str = "discriminant"
    ) -> np.ndarray:
        """The values of a compiled function of params and rows; see `by_rows` for `form`."""
        with jax.enable_x64(True):
            if form not in self._cache:
                self._cache[form] = jax.device_put(params)
            return by_pieces(function, self._cache[form], x, form)

    def predict(self, X: RowsLike) -> Shaped[np.ndarray, "n"]:
        """The most probable class of each row.

        Args:
            X: rows, (n, d).

        Raises:
            ValueError: a row is impossible in every class, as can be if alpha is 0, or has no
                posterior in float64. The methods for probabilities, log-odds and the score raise
                it too.
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
        check_lengths(len(found), len(number))
        given = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(found == number, weights=given))

    def predict_log_proba(self, X: RowsLike) -> Float[np.ndarray, "n K"]:
        """`log p(y | x)`, natural logarithms.

        Args:
            X: rows, (n, d).
        """
        return normalised(self._scores(X))

    def predict_proba(self, X: RowsLike) -> Float[np.ndarray, "n K"]:
        """`p(y | x)`, by Bayes' rule.

        Args:
            X: rows, (n, d).
        """
        scores = self._scores(X)
        share = np.exp(scores - scores.max(1, keepdims=True))
        return share / share.sum(1, keepdims=True)

    @only_if("_has_log_odds", "has no decision_function: use predict_log_proba")
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
        found = explained(self.params_, dense(self._rows(X)), self.classes_, of, against)
        terms = self._terms_of_columns(found.features)
        return replace(found, features=terms, feature_names=self._names_of_terms())

    def _terms_of_columns(self, features: Any) -> Float[np.ndarray, "n d"]:
        """The terms of the columns of X, from the terms of the parts of the model."""
        return features

    def _names_of_terms(self) -> tuple[str, ...] | None:
        """The names of these columns; None if X had none."""
        columns = getattr(self, "feature_names_in_", None)
        return None if columns is None else tuple(str(name) for name in columns)

    @only_if("_generative", "has no density of rows")
    def score_samples(self, X: RowsLike) -> Float[np.ndarray, "n"]:
        """`log p(x)`, natural logarithms: a low value means that a row is unusual.

        Args:
            X: rows, (n, d).
        """
        self._check_fitted()
        return self._log_marginal(self._rows(X))

    def _log_marginal(self, x: PyTree) -> Float[np.ndarray, "n"]:
        params = self._generative_params
        if scores_by_numpy(params, x):
            return log_marginal_by_numpy(params, x)
        return self._computed(log_marginals, params, x, "log_prob")

    @only_if("_generative", "has no density of rows")
    def typicality(self, X: RowsLike) -> Float[np.ndarray, "n K"]:
        """p-values that each row is of each class; see `genclf.typicality`.

        With `conformal=True` they are those by folds, of any model. Else they are those of the F
        distribution, exact for Gaussian classes by maximum likelihood.

        Args:
            X: rows, (n, d).

        Returns:
            p-values from 0 to 1, (n, K): where a row is of class k, that of k is below α with
            probability α. A row whose p-values are all small is of none of the classes.

        Raises:
            ValueError: without `conformal`, the model has no F distribution, or its rows do not
                determine a covariance.
        """
        self._check_fitted()
        x = self._rows(X)
        with jax.enable_x64(True):
            if "membership" not in self._cache:
                self._cache["membership"] = jax.device_put(self._test())
            return np.asarray(self._cache["membership"](x))

    def _test(self) -> FTest | FoldsTest:
        if "_membership" in vars(self):
            return self._membership
        instead = "give conformal=True and fit again, which takes any model"
        if self._stats is None or not isinstance(self._fitted_model, Classifier):
            raise ValueError(f"this fit kept no statistics for p-values: {instead}")
        return f_test(self._fitted_model, jax.device_put(self._stats), instead)

    @only_if("_generative", "has no density of rows")
    def predict_set(self, X: RowsLike, alpha: Number = 0.05) -> Bool[np.ndarray, "n K"]:
        """Which classes each row may be of: those with `typicality(X) > alpha`.

        A set lacks the class of the row with probability alpha. It may hold several classes, or
        none: such a row is of none of them.

        Args:
            X: rows, (n, d).
            alpha: the level, 0 to 1.

        Returns:
            (n, K), in the order of `classes_`: the classes of row i are `classes_[sets[i]]`.

        Raises:
            ValueError: as for `typicality`; or alpha is not from 0 to 1.
        """
        least = SHARE.checked(alpha, "alpha")
        return self.typicality(X) > least

    @only_if("_generative", "has no density of rows")
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
            x, y = on_host(sample(jax.random.key(seed), self._generative_params, (n_samples,)))
        return x, self.classes_[y]


def _is_decided(scores: Float[np.ndarray, "n K"]) -> Bool[np.ndarray, "n"]:
    """Whether each row has a class of finite score: else it has no posterior."""
    return np.isfinite(scores.max(1))
