"""Estimators of scikit-learn for models that are fitted iteratively, and for any other model."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree, Shaped

from genclf.arguments.domains import NON_NEGATIVE, Domain, whole
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.model import Model
from genclf.classifier.presets import lda
from genclf.families.combined.mixture import Mixture, MixtureParams
from genclf.families.conjugate.normal_inverse_wishart import NormalInverseWishart
from genclf.families.gaussian.gaussian import Gaussian
from genclf.fitting.em import em
from genclf.fitting.fit import fit
from genclf.fitting.softmax import SoftmaxRegression as SoftmaxModel
from genclf.sklearn.estimator import Estimator
from genclf.sklearn.family_estimator import FamilyEstimator
from genclf.sklearn.labels import Labels
from genclf.sklearn.parameters import warn_unless
from genclf.sklearn.rows import checked_rows
from genclf.sklearn.types import (
    Calibrate,
    Covariance,
    Features,
    Flag,
    ModelLike,
    Number,
    PriorLike,
    RowsLike,
    Whole,
)


class MixtureDiscriminant(FamilyEstimator):
    """Mixture discriminant analysis: each class is a mixture of Gaussians, fitted by EM.

    The covariances have the prior `NormalInverseWishart()`, relative to the spread of the data.
    Without it, a component could shrink onto a single row.

    Args:
        num_components: number of components in each class.
        covariance: "full", "diag" or "spherical".
        shared: whether all components of all classes have one covariance.
        alpha: smoothing of the weights of the components, >= 0.
        num_restarts: number of starts of EM, of which the best maximum is kept. The first start
            cuts each class into parts along its longest axis; the others are at random rows.
        max_steps: maximum number of steps of EM from each start.
        tol: EM stops when a step gains less than this in the mean log-likelihood per row.
        class_prior: probabilities of the classes, (K,), in the order of `classes_`; a dict or a
            Series is read by label; None to learn them.
        class_alpha: smoothing of the class prior, >= 0.
        semi_supervised: whether None, NaN and -1 in y stand for no label.
        calibrate: "temperature", or "bias" for a bias per class too: posteriors are calibrated on
            rows that a fit without them scored, in ten folds; see `genclf.recalibrate`.
        conformal: whether `typicality` compares rows with the training rows, in the same folds: for
            any model, where its F distribution without them is for Gaussian classes alone.
        random_state: a seed for the random starts.

    Attributes:
        classes_: the classes, sorted, (K,).
        n_iter_: number of steps of EM from the best start.
        params_: the fitted `genclf.ClassifierParams`, of NumPy arrays; with `calibrate`, they are
            the `params` of `genclf.CalibratedParams`.
        recalibration_: the `genclf.Recalibration`, with `calibrate`: what it gained, and its error.

    Example:
        >>> import numpy as np
        >>> from genclf.sklearn import MixtureDiscriminant
        >>> x = np.array([[0.0], [0.2], [0.1], [8.0], [8.2], [8.1], [4.0], [4.2], [4.1]])
        >>> y = np.repeat(["outside", "inside"], [6, 3])
        >>> print(MixtureDiscriminant(2, covariance="diag").fit(x, y).predict([[0.3], [3.9]]))
        ['outside' 'inside']

    References:
        Hastie & Tibshirani (1996), "Discriminant analysis by Gaussian mixtures".
    """

    _has_partial_fit: ClassVar[bool] = False
    _kind: ClassVar = Mixture
    _domains: ClassVar = {
        "covariance": Gaussian.domains["covariance"],
        "shared": Gaussian.domains["shared"],
        "num_restarts": whole(1),
        "max_steps": whole(1),
        "tol": NON_NEGATIVE,
        "random_state": whole(0),
    }

    def __init__(
        self,
        num_components: Whole = 3,
        *,
        covariance: Covariance = "full",
        shared: Flag = False,
        alpha: Number = 1.0,
        num_restarts: Whole = 1,
        max_steps: Whole = 1000,
        tol: Number = 1e-6,
        class_prior: PriorLike = None,
        class_alpha: Number = 0.0,
        semi_supervised: Flag = False,
        calibrate: Calibrate = None,
        conformal: Flag = False,
        random_state: Whole = 0,
    ):
        self.num_components = num_components
        self.covariance = covariance
        self.shared = shared
        self.alpha = alpha
        self.num_restarts = num_restarts
        self.max_steps = max_steps
        self.tol = tol
        super().__init__(class_prior, class_alpha, semi_supervised, calibrate, conformal)
        self.random_state = random_state

    def _family(self) -> Mixture:
        each = Gaussian(self.covariance, shared=self.shared, prior=NormalInverseWishart())
        return Mixture(each, self.num_components, alpha=self.alpha)

    def _fit_rows(self, clf: Classifier, x: PyTree, y: np.ndarray, w: np.ndarray) -> Any:
        given = partial(em, clf, x, y, weights=w, max_steps=self.max_steps, tol=self.tol)
        key = jax.random.key(self.random_state)
        found = given(key=key, init=self._start(clf, x, y, w))
        if self.num_restarts > 1:
            other = given(key=key, restarts=self.num_restarts - 1)
            found = other if other.value > found.value else found
        warn_unless(found.converged, f"EM stopped after {found.steps} steps")
        self.n_iter_ = int(found.steps)
        return found.params

    def _start(
        self, clf: Classifier, x: np.ndarray, y: np.ndarray, w: np.ndarray
    ) -> ClassifierParams:
        """The fit to classes that are cut into equal parts along their longest axis."""
        k, j = clf.num_classes, self.num_components
        part = np.zeros(len(y), np.int32)
        for label in range(k):
            rows = np.flatnonzero((y == label) & (w > 0))
            part[rows] = _parts(x[rows], w[rows], j)
        pieces = Classifier(clf.family.family, k * j)
        params = fit(pieces, x, np.where(y < 0, -1, y * j + part), w)
        share = np.bincount(y[y >= 0] * j + part[y >= 0], w[y >= 0], k * j).reshape(k, j)
        log_weight = jnp.log((share + 1) / (share + 1).sum(1, keepdims=True))
        log_prior = jnp.log((share.sum(1) + 1) / (share.sum() + k))
        return ClassifierParams(log_prior, MixtureParams(log_weight, params.conditional))


def _parts(x: np.ndarray, w: np.ndarray, num_parts: int) -> np.ndarray:
    """The part of each row, when rows are cut into parts of equal weight along their longest axis.

    Equal rows are in one part, so that a weight has the effect of repeating its row.
    """
    if not len(x):
        return np.zeros(0, np.int32)
    axis = np.linalg.svd(np.sqrt(w)[:, None] * (x - np.average(x, 0, w)), full_matrices=False)[2][0]
    value, index = np.unique(np.round(x @ axis, 9), return_inverse=True)
    weight = np.bincount(index, w, len(value))
    middle = np.cumsum(weight) - weight / 2
    return (num_parts * middle / weight.sum()).astype(np.int32)[index]


class SoftmaxRegression(Estimator):
    """Softmax (multinomial logistic) regression, without a density of the rows.

    Minimises `-1/n Σ_i w_i log p(y_i | x_i) + ½ l2 Σ_k |coef_k|²`, n = Σ_i w_i; see
    `genclf.SoftmaxRegression`.

    Args:
        l2: weight of the penalty, >= 0; 0 is maximum likelihood.
        features: "linear" or "quadratic".
        calibrate: "temperature", or "bias" for a bias per class too: posteriors are calibrated on
            rows that a fit without them scored, in ten folds; see `genclf.recalibrate`.

    Attributes:
        classes_: the classes, sorted, (K,).
        params_: the fitted `genclf.SoftmaxParams`, of NumPy arrays; with `calibrate`, they are the
            `params` of `genclf.CalibratedParams`.
        recalibration_: the `genclf.Recalibration`, with `calibrate`: what it gained, and its error.
        coef_, intercept_: those of the scores; for two classes, their difference.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from genclf.sklearn import SoftmaxRegression
        >>> x, y = load_iris(return_X_y=True)
        >>> print(f"{SoftmaxRegression(l2=0.01).fit(x, y).score(x, y):.2f}")
        0.97
    """

    _has_partial_fit: ClassVar[bool] = False
    _generative: ClassVar[bool] = False
    _kind: ClassVar = SoftmaxModel

    def __init__(
        self, l2: Number = 0.01, *, features: Features = "linear", calibrate: Calibrate = None
    ):
        self.l2 = l2
        self.features = features
        self.calibrate = calibrate

    def _model(self, classes: Shaped[np.ndarray, "K"]) -> SoftmaxModel:
        return SoftmaxModel(len(classes), self.l2, self.features)

    def _fit_rows(self, clf: Model, x: PyTree, y: np.ndarray, w: np.ndarray) -> Any:
        params = super()._fit_rows(clf, x, y, w)
        warn_unless(params.converged, "L-BFGS stopped")
        return params


class GenerativeClassifier(Estimator):
    """Any model of this library as an estimator.

    Args:
        model: a `genclf.Classifier` with the number of classes in y, or a function from the number
            of classes to one, such as `genclf.lda`. With `missing="marginalize"`, NaN in X is a
            missing cell.
        semi_supervised: whether None, NaN and -1 in y stand for no label.
        calibrate: "temperature", or "bias" for a bias per class too: posteriors are calibrated on
            rows that a fit without them scored, in ten folds; see `genclf.recalibrate`.
        conformal: whether `typicality` compares rows with the training rows, in the same folds: for
            any model, where its F distribution without them is for Gaussian classes alone.

    Attributes:
        classes_: the classes, sorted, (K,).
        params_: the fitted params, of NumPy arrays; with `calibrate`, they are the `params` of
            `genclf.CalibratedParams`.
        recalibration_: the `genclf.Recalibration`, with `calibrate`: what it gained, and its error.

    Example:
        >>> import genclf as gcf
        >>> from sklearn.datasets import load_iris
        >>> from genclf.sklearn import GenerativeClassifier
        >>> x, y = load_iris(return_X_y=True)
        >>> student = gcf.Classifier(gcf.Gaussian(prior=gcf.NormalInverseWishart()), 3,
        ...                          inference="predictive")
        >>> print(f"{GenerativeClassifier(student).fit(x, y).score(x, y):.2f}")
        0.98
    """

    _domains: ClassVar = {
        "model": Domain(
            "a Classifier, or a function from the number of classes to one",
            lambda model: isinstance(model, Classifier) or callable(model),
        )
    }

    def __init__(
        self,
        model: ModelLike = lda,
        *,
        semi_supervised: Flag = False,
        calibrate: Calibrate = None,
        conformal: Flag = False,
    ):
        self.model = model
        self.semi_supervised = semi_supervised
        self.calibrate = calibrate
        self.conformal = conformal

    @property
    def _accepts_missing(self) -> bool:
        model = getattr(self, "_fitted_model", self.model)
        return isinstance(model, Classifier) and _has_missing(model)

    def _rows(self, X: RowsLike, *, reset: bool = False) -> PyTree:
        x = checked_rows(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        if not reset:
            self._check_missing(self._fitted_model, x)
        return x

    def _estimate(self, x: PyTree, labels: Labels, *more: Any, **how: Any) -> None:
        self._check_missing(self._model(labels.classes), x)
        super()._estimate(x, labels, *more, **how)

    def _check_missing(self, clf: Classifier, x: np.ndarray) -> None:
        if not _has_missing(clf) and (missing := np.argwhere(np.isnan(x))).size:
            raise ValueError(
                f"Input X contains NaN: X[{missing[0][0]}, {missing[0][1]}] is missing, but the "
                "model accepts none: give a model with missing='marginalize', or use MixedNB"
            )

    def _model(self, classes: Shaped[np.ndarray, "K"]) -> Classifier:
        num_classes = len(classes)
        clf = self.model if isinstance(self.model, Classifier) else self.model(num_classes)
        if clf.num_classes != num_classes:
            raise ValueError(
                f"y has {num_classes} classes, but model.num_classes is {clf.num_classes}"
            )
        return clf


def _has_missing(clf: Classifier) -> bool:
    return getattr(clf.support, "missing", None) is not None
