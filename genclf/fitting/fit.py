"""`fit`, for every kind of model."""

from __future__ import annotations

from typing import overload

from jaxtyping import PyTree

from genclf.arguments.domains import Domain
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.conversion import host_or_device
from genclf.classifier.estimation import fit_closed
from genclf.classifier.model import Fitted, Model
from genclf.families.capabilities import is_hidden
from genclf.fitting.em import fit_hidden
from genclf.fitting.softmax import SoftmaxParams, SoftmaxRegression
from genclf.fitting.softmax_fit import fit_softmax
from genclf.numerics.namespace import Array

_INIT = Domain(
    "fitted params, as fit returns them, or None",
    lambda init: isinstance(init, Fitted),
    optional=True,
)


@overload
def fit(
    clf: Classifier,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    init: Fitted | None = None,
) -> ClassifierParams: ...
@overload
def fit(
    clf: SoftmaxRegression,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    init: Fitted | None = None,
) -> SoftmaxParams: ...
@overload
def fit(
    clf: Model,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    init: Fitted | None = None,
) -> Fitted: ...


@checked_arguments(any_model=True, labels="supervised", x=host_or_device, init=_INIT)
def fit(
    clf: Model,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    init: Fitted | None = None,
) -> Fitted:
    """Fit a model by maximum likelihood or, with smoothing or a prior, maximum a posteriori.

    For a `Classifier` the estimate is in closed form, `fit(clf, x, y, w) = estimate(clf,
    stats(clf, x, y, w))`. If parts of the examples are unobserved (the components of a `Mixture`,
    missing cells under a full covariance), `fit` runs `em` on the labelled rows, from
    `jax.random.key(0)` and with `tol=1e-8`. For `SoftmaxRegression` it maximises the conditional
    likelihood. If no maximum exists, as with a singular covariance, the rules of the family apply;
    `diagnose` and `validate` report this, `fit` does not. A NumPy array is copied once, a JAX array
    is not.

    Args:
        clf: the model, a `Classifier` or `SoftmaxRegression`.
        x: rows, (n, d) for most families; a dict of arrays for `Product`; also `Tokens`, and for
            `Multinomial` and `Bernoulli` a sparse matrix of SciPy or a `BCOO` of JAX.
        y: labels, integers of shape (n,), or responsibilities >= 0 of shape (n, K). Rows labelled
            -1 are unlabelled, and a supervised fit leaves them out; every class must then have a
            label, since labels -1 and 1 may be meant as two classes.
        weights: weight of each row, >= 0, shape (n,); None for ones.
        init: params from which an iterative fit starts: for `SoftmaxRegression`, `SoftmaxParams`
            or the params of a generative model. An estimate in closed form does not take it.

    Returns:
        `ClassifierParams` or `SoftmaxParams`; NaN if weights or cells are invalid, and in traced
        code if labels are (`validate` names them).

    Raises:
        ValueError: a shape or dtype does not fit, a label is neither a class nor -1, no row has a
            label and a weight above 0, rows are labelled -1 while a class has no row, or a
            hyper-parameter is invalid.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [1.0], [5.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> params = gcf.fit(gcf.lda(num_classes=2), x, y)
        >>> print(gcf.predict(params, jnp.array([[0.4], [5.1]])))
        [0 1]
    """
    return fitted(clf, x, y, weights, init)


def fitted(clf: Model, x: PyTree, y: Array, weights: Array | None, init: PyTree = None) -> Fitted:
    """`fit` of checked arguments."""
    if isinstance(clf, SoftmaxRegression):
        return fit_softmax(clf, x, y, weights, init)
    if not isinstance(clf, Classifier):
        raise ValueError(f"{type(clf).__name__} has no fit")
    if is_hidden(clf.family):
        return fit_hidden(clf, x, y, weights, init)
    if init is not None:
        raise ValueError(
            "init was given, but the estimate of this model is in closed form: leave init out"
        )
    return fit_closed(clf, x, y, weights)
