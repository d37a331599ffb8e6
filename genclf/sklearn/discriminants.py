"""Gaussian discriminants as estimators of scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Float, PyTree
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from genclf.arguments.domains import SHARE, whole
from genclf.families.gaussian.gaussian import Gaussian
from genclf.multivariate.axes import discriminant_axes, transform
from genclf.sklearn.family_estimator import FamilyEstimator
from genclf.sklearn.labels import Labels
from genclf.sklearn.types import (
    Calibrate,
    Flag,
    Missing,
    Number,
    PriorLike,
    RowsLike,
    Shrinkage,
    StructureLike,
    Target,
    Whole,
)


class _Covariances(FamilyEstimator):
    """Full covariances, from rows that may have missing cells."""

    _kind: ClassVar = Gaussian

    def __init__(
        self,
        shrinkage: Shrinkage = None,
        *,
        target: Target = "identity",
        ridge: Number = 0.0,
        ddof: Number = 0.0,
        structure: StructureLike = None,
        missing: Missing = "error",
        class_prior: PriorLike = None,
        class_alpha: Number = 0.0,
        semi_supervised: Flag = False,
        calibrate: Calibrate = None,
        conformal: Flag = False,
    ):
        self.shrinkage = shrinkage
        self.target = target
        self.ridge = ridge
        self.ddof = ddof
        self.structure = structure
        self.missing = missing
        super().__init__(class_prior, class_alpha, semi_supervised, calibrate, conformal)

    @property
    def _accepts_missing(self) -> bool:
        return self.missing == "marginalize"


class LinearDiscriminant(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Covariances):
    """Linear discriminant analysis: Gaussian classes with one shared covariance.

    The covariance is that of maximum likelihood, with divisor n, as in scikit-learn 1.9; `ddof=K`
    makes it n - K, as in R's MASS.

    Args:
        shrinkage: share of the target in the covariance, from 0 to 1; "ledoit-wolf", "oas" or
            "james-stein" to estimate it from the data; None for no shrinkage.
        target: "identity" (the mean variance in all directions) or "diagonal" (the variances).
        ridge: fraction of the pooled within-class variance of a feature that is added to its
            variance, >= 0; it cannot be combined with shrinkage.
        ddof: subtracted from the number of rows in the divisor.
        structure: `genclf.BlockToeplitz(times, channels)`, `genclf.LowRank(r)`,
            `genclf.Blocks(sizes)`, or a function of a covariance matrix; see `genclf.Gaussian`.
        missing: "error", or "marginalize": NaN in X is a missing cell and is integrated out; see
            `genclf.Gaussian`.
        class_prior: probabilities of the classes, (K,), in the order of `classes_`; a dict or a
            Series is read by label; None to learn them.
        class_alpha: smoothing of the class prior, >= 0.
        n_components: number of axes of `transform`, at most min(K - 1, d); None for all.
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
        >>> from sklearn.datasets import load_iris
        >>> from genclf.sklearn import LinearDiscriminant
        >>> x, y = load_iris(return_X_y=True)
        >>> found = LinearDiscriminant().fit(x, y)
        >>> print(found.score(x, y), found.transform(x).shape)
        0.98 (150, 2)

    References:
        Hastie, Tibshirani & Friedman (2009), §4.3.
    """

    _fixed: ClassVar = {"shared": True}
    _domains: ClassVar = {"n_components": whole(1, optional=True)}

    def __init__(
        self,
        shrinkage: Shrinkage = None,
        *,
        target: Target = "identity",
        ridge: Number = 0.0,
        ddof: Number = 0.0,
        structure: StructureLike = None,
        missing: Missing = "error",
        class_prior: PriorLike = None,
        class_alpha: Number = 0.0,
        n_components: Whole | None = None,
        semi_supervised: Flag = False,
        calibrate: Calibrate = None,
        conformal: Flag = False,
    ):
        super().__init__(
            shrinkage,
            target=target,
            ridge=ridge,
            ddof=ddof,
            structure=structure,
            missing=missing,
            class_prior=class_prior,
            class_alpha=class_alpha,
            semi_supervised=semi_supervised,
            calibrate=calibrate,
            conformal=conformal,
        )
        self.n_components = n_components

    def transform(self, X: RowsLike) -> Float[np.ndarray, "n m"]:
        """Scores on the discriminant axes.

        Args:
            X: rows, (n, d).

        Returns:
            (n, m), m = `n_components` or min(K - 1, d). Within classes, the scores are
            uncorrelated with variance 1.

        Raises:
            ValueError: a cell is missing; an axis needs all cells of a row.
        """
        self._check_fitted()
        x = self._rows(X)
        for row, column in np.argwhere(np.isnan(x)):
            raise ValueError(f"X[{row}, {column}] is missing, but an axis needs all cells of a row")
        with jax.enable_x64(True):
            axes = discriminant_axes(self._generative_params)
            return np.asarray(transform(axes, x, self._n_features_out))

    def _estimate(self, x: PyTree, labels: Labels, *more: Any, **how: Any) -> None:
        classes, d = len(labels.classes), x.shape[1]
        if self.n_components is not None and self.n_components > min(classes - 1, d):
            raise ValueError(
                f"n_components cannot be larger than min(n_features, n_classes - 1), but is "
                f"{self.n_components} for {d} columns and {classes} classes"
            )
        super()._estimate(x, labels, *more, **how)

    @property
    def _n_features_out(self) -> int:
        most = min(len(self.classes_) - 1, self.n_features_in_)
        return most if self.n_components is None else self.n_components


class QuadraticDiscriminant(_Covariances):
    """Quadratic discriminant analysis: Gaussian classes, each with its covariance.

    The covariances are those of maximum likelihood, with divisor n_k, as in scikit-learn 1.9;
    `ddof=1` makes it n_k - 1, as in R's MASS.

    Args:
        shrinkage: share of the target in each covariance, from 0 to 1; "ledoit-wolf", "oas" or
            "james-stein" to estimate it from the data; None for no shrinkage.
        target: "identity" (the mean variance in all directions) or "diagonal" (the variances).
        ridge: fraction of the pooled within-class variance of a feature that is added to its
            variance in each class, >= 0; it cannot be combined with shrinkage.
        ddof: subtracted from the number of rows in the divisors.
        structure: `genclf.BlockToeplitz(times, channels)`, `genclf.LowRank(r)`,
            `genclf.Blocks(sizes)`, or a function of a covariance matrix; see `genclf.Gaussian`.
        missing: "error", or "marginalize": NaN in X is a missing cell and is integrated out; see
            `genclf.Gaussian`.
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

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from genclf.sklearn import QuadraticDiscriminant
        >>> x, y = load_iris(return_X_y=True)
        >>> print(QuadraticDiscriminant().fit(x, y).score(x, y))
        0.98

    References:
        Hastie, Tibshirani & Friedman (2009), §4.3.
    """


class RegularizedDiscriminant(FamilyEstimator):
    """Friedman's regularised discriminant analysis: between quadratic and linear.

    The covariance of a class is `(1 - shrinkage) M + shrinkage T`, where M is the weighted mean of
    its own covariance and the pooled one, with weights `1 - pooling` and `pooling`. By default the
    target T is the diagonal of M, a choice that does not depend on units. Friedman's target,
    `tr(M) / d I`, assumes that all features have the same unit.

    Args:
        pooling: share of the pooled covariance, from 0 to 1.
        shrinkage: share of the target, from 0 to 1.
        target: "diagonal" (the variances of M) or "identity" (their mean, in all directions).
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

    Example:
        >>> import genclf as gcf
        >>> from genclf.sklearn import RegularizedDiscriminant
        >>> vowel = gcf.datasets.load_vowel()
        >>> found = RegularizedDiscriminant(0.09, shrinkage=0.0).fit(vowel.x_train, vowel.y_train)
        >>> print((found.predict(vowel.x_test) != vowel.y_test).sum())
        207

    References:
        Friedman (1989), "Regularized discriminant analysis".
    """

    _kind: ClassVar = Gaussian
    _domains: ClassVar = {"pooling": SHARE, "shrinkage": SHARE}

    def __init__(
        self,
        pooling: Number = 0.5,
        shrinkage: Shrinkage = 0.1,
        *,
        target: Target = "diagonal",
        class_prior: PriorLike = None,
        class_alpha: Number = 0.0,
        semi_supervised: Flag = False,
        calibrate: Calibrate = None,
        conformal: Flag = False,
    ):
        self.pooling = pooling
        self.shrinkage = shrinkage
        self.target = target
        super().__init__(class_prior, class_alpha, semi_supervised, calibrate, conformal)


class GaussianNB(FamilyEstimator):
    """Gaussian naive Bayes: independent features, each with its own variance in each class.

    Args:
        ridge: fraction of the pooled within-class variance of a feature that is added to its
            variance in each class, >= 0.
        ddof: subtracted from the number of rows in the divisors.
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

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from genclf.sklearn import GaussianNB
        >>> x, y = load_iris(return_X_y=True)
        >>> print(GaussianNB().fit(x, y).score(x, y))
        0.96
    """

    _kind: ClassVar = Gaussian
    _fixed: ClassVar = {"covariance": "diag"}

    def __init__(
        self,
        ridge: Number = 0.0,
        *,
        ddof: Number = 0.0,
        class_prior: PriorLike = None,
        class_alpha: Number = 0.0,
        semi_supervised: Flag = False,
        calibrate: Calibrate = None,
        conformal: Flag = False,
    ):
        self.ridge = ridge
        self.ddof = ddof
        super().__init__(class_prior, class_alpha, semi_supervised, calibrate, conformal)
