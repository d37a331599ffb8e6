"""Estimators of scikit-learn for naive Bayes of counts and categories."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int, PyTree
from scipy.sparse import issparse
from sklearn.preprocessing import binarize

from genclf.arguments.domains import Domain, whole
from genclf.families.counts.bernoulli import Bernoulli
from genclf.families.counts.categorical import Categorical
from genclf.families.counts.multinomial import Multinomial
from genclf.sklearn.family_estimator import FamilyEstimator
from genclf.sklearn.rows import checked_rows
from genclf.sklearn.types import Calibrate, Flag, Number, NumValues, PriorLike, RowsLike


class _Positive(FamilyEstimator):
    """Naive Bayes of rows that are not negative.

    `decision_function` is hidden before a fit, since scikit-learn's check of it has negative rows.
    """

    @property
    def _has_log_odds(self) -> bool:  # type: ignore[override]
        return hasattr(self, "classes_")


class BernoulliNB(FamilyEstimator):
    """Bernoulli naive Bayes: each feature is 0 or 1, and zeros affect the posterior too.

    `p_kj = (n_kj + alpha) / (n_k + 2 alpha)`.

    Args:
        alpha: smoothing, >= 0.
        binarize: features above it are 1, others 0; None for features that are 0 and 1 already.
        class_prior: probabilities of the classes, (K,), in the order of `classes_`; a dict or a
            Series is read by label; None to learn them.
        class_alpha: smoothing of the class prior, >= 0.
        semi_supervised: whether None, NaN and -1 in y stand for no label.
        calibrate: "temperature", or "bias" for a bias per class too: posteriors are calibrated on
            rows that a fit without them scored, in ten folds; see `genclf.recalibrate`.
        conformal: whether `typicality` compares rows with the training rows, in the same folds: for
            any model, where its F distribution without them is for Gaussian classes alone.

    Attributes:
        classes_: the classes, sorted, (K,).
        params_: the fitted `genclf.ClassifierParams`, of NumPy arrays; with `calibrate`, they are
            the `params` of `genclf.CalibratedParams`.
        recalibration_: the `genclf.Recalibration`, with `calibrate`: what it gained, and its error.
        coef_, intercept_: those of the scores, as `genclf.linear_form`; for two classes, their
            difference.

    Example:
        >>> import genclf as gcf
        >>> from genclf.sklearn import BernoulliNB
        >>> x, y = [[1, 0], [1, 1], [0, 1], [0, 0]], ["spam", "spam", "ham", "ham"]
        >>> print(BernoulliNB().fit(x, y).predict_proba([[1, 0]]))
        [[0.25 0.75]]
    """

    _kind: ClassVar = Bernoulli
    _domains: ClassVar = {"binarize": Bernoulli.domains["threshold"]}
    _input_tags: ClassVar = {"sparse": True}
    # Because the rows of scikit-learn's checks are neither 0 nor 1.
    _scores_poorly: ClassVar[bool] = True

    def __init__(
        self,
        alpha: Number = 1.0,
        *,
        binarize: Number | None = 0.0,
        class_prior: PriorLike = None,
        class_alpha: Number = 0.0,
        semi_supervised: Flag = False,
        calibrate: Calibrate = None,
        conformal: Flag = False,
    ):
        self.alpha = alpha
        self.binarize = binarize
        super().__init__(class_prior, class_alpha, semi_supervised, calibrate, conformal)

    def _rows(self, X: RowsLike, *, reset: bool = False) -> PyTree:
        x = checked_rows(self, X, reset=reset, dtype="numeric", accept_sparse="csr")
        if self.binarize is None:
            _check_bits(x)
        elif issparse(x):  # a threshold below 0 is an error, as it would leave no zeros
            x = binarize(x, threshold=self.binarize)
        else:
            x = x > self.binarize
        return x.astype(np.float64 if issparse(x) else np.int8)


def _check_bits(x: Any) -> None:
    """Raise for a cell that is neither 0 nor 1."""
    cells = x.tocoo() if issparse(x) else None
    values = x if cells is None else cells.data
    for at in np.argwhere((values != 0) & (values != 1)):
        row, column = at if cells is None else (cells.row[at[0]], cells.col[at[0]])
        raise ValueError(
            f"X[{row}, {column}] is {values[tuple(at)]}, expected 0 or 1: give binarize, a "
            "threshold above which a feature is 1"
        )


class MultinomialNB(_Positive):
    """Multinomial naive Bayes: counts of the words of a document.

    `θ_kj = (n_kj + alpha) / (n_k + V alpha)`, n_kj the occurrences of word j in class k.

    Args:
        alpha: smoothing, >= 0.
        presence: count every word at most once per document.
        class_prior: probabilities of the classes, (K,), in the order of `classes_`; a dict or a
            Series is read by label; None to learn them.
        class_alpha: smoothing of the class prior, >= 0.
        semi_supervised: whether None, NaN and -1 in y stand for no label.
        calibrate: "temperature", or "bias" for a bias per class too: posteriors are calibrated on
            rows that a fit without them scored, in ten folds; see `genclf.recalibrate`.
        conformal: whether `typicality` compares rows with the training rows, in the same folds: for
            any model, where its F distribution without them is for Gaussian classes alone.

    Attributes:
        classes_: the classes, sorted, (K,).
        params_: the fitted `genclf.ClassifierParams`, of NumPy arrays; with `calibrate`, they are
            the `params` of `genclf.CalibratedParams`.
        recalibration_: the `genclf.Recalibration`, with `calibrate`: what it gained, and its error.
        coef_, intercept_: those of the scores, as `genclf.linear_form`; for two classes, their
            difference.

    Example:
        >>> from genclf.sklearn import MultinomialNB
        >>> x, y = [[2, 0, 1], [1, 0, 2], [0, 3, 0]], ["spam", "spam", "ham"]
        >>> print(MultinomialNB().fit(x, y).predict([[1, 0, 0], [0, 1, 0]]))
        ['spam' 'ham']
    """

    _kind: ClassVar = Multinomial
    _input_tags: ClassVar = {"sparse": True, "positive_only": True}
    # Because the rows of scikit-learn's checks are not counts.
    _scores_poorly: ClassVar[bool] = True

    def __init__(
        self,
        alpha: Number = 1.0,
        *,
        presence: Flag = False,
        class_prior: PriorLike = None,
        class_alpha: Number = 0.0,
        semi_supervised: Flag = False,
        calibrate: Calibrate = None,
        conformal: Flag = False,
    ):
        self.alpha = alpha
        self.presence = presence
        super().__init__(class_prior, class_alpha, semi_supervised, calibrate, conformal)

    def _rows(self, X: RowsLike, *, reset: bool = False) -> PyTree:
        how = dict(dtype=np.float64, accept_sparse="csr", ensure_non_negative=True)
        return checked_rows(self, X, reset=reset, **how)


class CategoricalNB(_Positive):
    """Categorical naive Bayes: each feature is one of the values 0, 1, 2, ...

    `θ_kjv = (n_kjv + alpha) / (n_k + V_j alpha)`, V_j the number of values of feature j.

    Args:
        alpha: smoothing, >= 0.
        num_values: V, one number for all features or one for each, (d,); None for the largest
            value of the training rows plus 1.
        class_prior: probabilities of the classes, (K,), in the order of `classes_`; a dict or a
            Series is read by label; None to learn them.
        class_alpha: smoothing of the class prior, >= 0.
        semi_supervised: whether None, NaN and -1 in y stand for no label.
        calibrate: "temperature", or "bias" for a bias per class too: posteriors are calibrated on
            rows that a fit without them scored, in ten folds; see `genclf.recalibrate`.
        conformal: whether `typicality` compares rows with the training rows, in the same folds: for
            any model, where its F distribution without them is for Gaussian classes alone.

    Attributes:
        classes_: the classes, sorted, (K,).
        num_values_: V of each feature, (d,).
        params_: the fitted `genclf.ClassifierParams`, of NumPy arrays; with `calibrate`, they are
            the `params` of `genclf.CalibratedParams`.
        recalibration_: the `genclf.Recalibration`, with `calibrate`: what it gained, and its error.

    Example:
        >>> from genclf.sklearn import CategoricalNB
        >>> x, y = [[0, 2], [0, 1], [1, 0]], ["a", "a", "b"]
        >>> found = CategoricalNB(num_values=3).fit(x, y)
        >>> print(found.predict([[0, 2], [1, 0]]))
        ['a' 'b']
    """

    _kind: ClassVar = Categorical
    _domains: ClassVar = {
        "num_values": Domain(
            f"{whole(1).expected}, or one for each column, or None",
            lambda given: np.ndim(given) > 0 or whole(1).contains(given),
            optional=True,
        )
    }
    _input_tags: ClassVar = {"categorical": True, "positive_only": True}
    num_values_: Int[np.ndarray, "columns"]

    def __init__(
        self,
        alpha: Number = 1.0,
        *,
        num_values: NumValues = None,
        class_prior: PriorLike = None,
        class_alpha: Number = 0.0,
        semi_supervised: Flag = False,
        calibrate: Calibrate = None,
        conformal: Flag = False,
    ):
        self.alpha = alpha
        self.num_values = num_values
        super().__init__(class_prior, class_alpha, semi_supervised, calibrate, conformal)

    def _family(self) -> Categorical:
        values = tuple(self.num_values_.tolist())
        return Categorical(values[0] if len(set(values)) == 1 else values, alpha=self.alpha)

    def _rows(self, X: RowsLike, *, reset: bool = False) -> np.ndarray:
        given = checked_rows(self, X, reset=reset, dtype="numeric", ensure_non_negative=True)
        row, column = np.nonzero(given != np.floor(given))
        if len(row):
            warnings.warn(
                f"X[{row[0]}, {column[0]}] is {given[row[0], column[0]]}, not a whole number: it "
                f"and {len(row) - 1} others are rounded down",
                stacklevel=4,
            )
        x = given.astype(np.int32)
        if reset:
            d = x.shape[1]
            most = x.max(0) + 1 if self.num_values is None else np.asarray(self.num_values)
            if most.shape not in ((), (d,)) or most.dtype.kind not in "iu" or (most < 1).any():
                raise ValueError(
                    f"num_values is {self.num_values}, expected one whole number above 0, or one "
                    f"for each of the {d} columns"
                )
            self.num_values_ = np.broadcast_to(most, (d,)).astype(np.int32)
        row, column = np.nonzero(x >= self.num_values_[None])
        if len(row):
            value, most = x[row[0], column[0]], self.num_values_[column[0]]
            raise ValueError(
                f"X[{row[0]}, {column[0]}] is {value}, expected a value in 0..{most - 1}: give "
                "num_values, if there are values that the training rows do not hold"
            )
        return x
