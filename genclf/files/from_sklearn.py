"""`from_sklearn`: fitted estimators of scikit-learn as params of this library."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from genclf.arguments.domains import shown
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.model import Fitted
from genclf.families.counts.bernoulli_params import BernoulliParams
from genclf.families.counts.categorical_params import CategoricalParams, Columns
from genclf.families.counts.multinomial_params import MultinomialParams
from genclf.families.gaussian.params import GaussianParams
from genclf.fitting.softmax import without_search

if TYPE_CHECKING:  # the module is used without scikit-learn too
    from sklearn.base import BaseEstimator
    from sklearn.discriminant_analysis import (
        LinearDiscriminantAnalysis,
        QuadraticDiscriminantAnalysis,
    )
    from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
else:
    BaseEstimator = LinearDiscriminantAnalysis = QuadraticDiscriminantAnalysis = object
    BernoulliNB = CategoricalNB = GaussianNB = MultinomialNB = object


@checked_arguments(estimator=None)
def from_sklearn(estimator: BaseEstimator) -> Fitted:
    """Params with the same posteriors as a fitted estimator of scikit-learn.

    Takes `LinearDiscriminantAnalysis`, `QuadraticDiscriminantAnalysis`, `GaussianNB`,
    `BernoulliNB`, `MultinomialNB` and `CategoricalNB`. The classes are in the order of
    `estimator.classes_`.

    Args:
        estimator: a fitted estimator.

    Returns:
        `ClassifierParams`, in float64 if `jax_enable_x64` is set: then their posteriors are those
        of the estimator to 1e-12. The result is `SoftmaxParams`, which have posteriors but no
        density, for a `LinearDiscriminantAnalysis` with a singular `covariance_` or without one
        (the solver "svd" stores one with `store_covariance=True`).

    Raises:
        ValueError: it is another estimator, or is not fitted; or a covariance is singular.

    Example:
        >>> import numpy as np, genclf as gcf
        >>> from sklearn.naive_bayes import GaussianNB
        >>> x, y = np.array([[0.0], [1.0], [8.0], [9.5]]), np.array([0, 0, 1, 1])
        >>> params = gcf.from_sklearn(GaussianNB().fit(x, y))
        >>> print(gcf.predict(params, x), params.conditional.mean.ravel())
        [0 0 1 1] [0.5  8.75]
    """
    names = [c.__name__ for c in type(estimator).__mro__ if c.__module__.startswith("sklearn.")]
    convert = next((_CONVERSIONS[name] for name in names if name in _CONVERSIONS), None)
    if convert is None:
        raise ValueError(
            f"estimator is {shown(estimator)}, expected one of {', '.join(_CONVERSIONS)}"
        )
    if not hasattr(estimator, "classes_"):
        raise ValueError(f"estimator is not fitted: {shown(estimator)}")
    return convert(estimator)


def _linear(fitted: LinearDiscriminantAnalysis) -> Fitted:
    covariance = getattr(fitted, "covariance_", None)
    if covariance is not None and _decides_by(fitted, covariance):
        scale = _array(np.linalg.cholesky(covariance)[None])
        density = GaussianParams(_array(fitted.means_), scale, "full", shared=True)
        return ClassifierParams(_array(np.log(fitted.priors_)), density)
    coef, intercept = np.asarray(fitted.coef_, float), np.asarray(fitted.intercept_, float)
    if len(fitted.classes_) == 2:  # the first class has the score 0
        coef, intercept = np.vstack([0 * coef, coef]), np.append(0 * intercept, intercept)
    return without_search(_array(coef), _array(intercept), converged=True)


def _decides_by(fitted: LinearDiscriminantAnalysis, covariance: np.ndarray) -> bool:
    """Whether the coefficients follow from this covariance.

    Before scikit-learn 1.9.1 the solver "svd" used another divisor for it.
    """
    if np.linalg.matrix_rank(covariance, hermitian=True) < len(covariance):
        return False
    coef, difference = np.asarray(fitted.coef_, float), fitted.means_[1:] - fitted.means_[:1]
    coef = coef[1:] - coef[:1] if len(coef) > 1 else coef
    return np.allclose(coef, np.linalg.solve(covariance, difference.T).T, rtol=1e-6)


def _quadratic(fitted: QuadraticDiscriminantAnalysis) -> ClassifierParams:
    mean = np.asarray(fitted.means_, float)
    scale = []
    pairs = zip(fitted.rotations_, fitted.scalings_, strict=True)
    for k, (rotation, variances) in enumerate(pairs):
        if rotation.shape[1] < mean.shape[1] or not (variances > 0).all():
            raise ValueError(f"estimator has a singular covariance of class {fitted.classes_[k]}")
        # The Cholesky factor by QR: forming the covariance would square the condition number.
        upper = np.asarray(np.linalg.qr(np.sqrt(variances)[:, None] * rotation.T, mode="r"))
        scale.append(upper.T * np.sign(np.diag(upper)))
    density = GaussianParams(_array(mean), _array(np.stack(scale)), "full", shared=False)
    return ClassifierParams(_array(np.log(fitted.priors_)), density)


def _gaussian(fitted: GaussianNB) -> ClassifierParams:
    mean, scale = _array(fitted.theta_), _array(np.sqrt(fitted.var_))
    density = GaussianParams(mean, scale, "diag", shared=False)
    return ClassifierParams(_array(np.log(fitted.class_prior_)), density)


def _bernoulli(fitted: BernoulliNB) -> ClassifierParams:
    log_p = np.asarray(fitted.feature_log_prob_, float)
    threshold = None if fitted.binarize is None else _array(fitted.binarize)
    density = BernoulliParams(_array(log_p - np.log1p(-np.exp(log_p))), threshold)
    return ClassifierParams(_array(fitted.class_log_prior_), density)


def _multinomial(fitted: MultinomialNB) -> ClassifierParams:
    length = _array(fitted.feature_count_.sum() / fitted.class_count_.sum())
    density = MultinomialParams(_array(fitted.feature_log_prob_), length, presence=False)
    return ClassifierParams(_array(fitted.class_log_prior_), density)


def _categorical(fitted: CategoricalNB) -> ClassifierParams:
    columns = Columns(tuple(map(int, fitted.n_categories_)), "error")
    density = CategoricalParams(_array(np.concatenate(fitted.feature_log_prob_, 1)), columns)
    return ClassifierParams(_array(fitted.class_log_prior_), density)


def _array(values: object) -> Array:
    return jnp.asarray(np.asarray(values, float))


_CONVERSIONS: dict[str, Callable[[Any], Fitted]] = {
    "LinearDiscriminantAnalysis": _linear,
    "QuadraticDiscriminantAnalysis": _quadratic,
    "GaussianNB": _gaussian,
    "BernoulliNB": _bernoulli,
    "MultinomialNB": _multinomial,
    "CategoricalNB": _categorical,
}
