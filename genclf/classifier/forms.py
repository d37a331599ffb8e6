"""The linear or quadratic decision function of a fitted model, and numbers of parameters."""

from __future__ import annotations

import math
from operator import methodcaller
from typing import Any

import jax
from jaxtyping import Float, PyTree

from genclf.arguments.calls import checked_call
from genclf.arguments.domains import FLAG, whole
from genclf.arguments.module import python_value
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier
from genclf.classifier.conversion import as_arrays
from genclf.classifier.model import Fitted
from genclf.families.base import Parametric
from genclf.families.capabilities import require
from genclf.families.counts.categorical import NUM_VALUES, Categorical
from genclf.families.counts.categorical_params import indicator_columns
from genclf.numerics.either import by_either
from genclf.numerics.namespace import Array


@checked_arguments(any_model=True)
def linear_form(params: Fitted) -> tuple[PyTree, Float[Array, "K"]]:
    """(coef, intercept) of a model whose discriminant is linear in x.

    `p(y=k | x) = softmax_k(coef_k · x + intercept_k)`. It exists for

    ::

        density                         coef_k             intercept_k - log π_k
        Gaussian, shared Σ              Σ⁻¹ (μ_k - m)      -½ (μ_k - m)ᵀ Σ⁻¹ (μ_k + m)
        Bernoulli                       log p_k/(1-p_k)    Σ_j log (1-p_kj)
        multinomial                     log θ_k            0
        categorical, x as indicators    log θ_k            0
        Poisson                         log λ_k            -Σ_j λ_kj
        von Mises-Fisher                κ_k μ_k            log C_d(κ_k)

    Here m is the mean of the class means. The Gaussian terms are the textbook's `Σ⁻¹ μ_k` and
    `-½ μ_kᵀ Σ⁻¹ μ_k` minus what all classes share, which is precise for data far from 0. The form
    also exists for `Independent` columns of these, with the coefficients side by side, and for a
    `Product` of them, where coef is a dict like x. Probabilities of 0 or 1 make infinite
    coefficients; smoothing avoids them.

    Args:
        params: a fitted classifier.

    Returns:
        coef of shape (K, d), and intercept of shape (K,).

    Raises:
        ValueError: the decision is not linear in x.

    Example:
        >>> import jax, jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> coef, intercept = gcf.linear_form(gcf.fit(gcf.lda(2), x, y))
        >>> print(jax.nn.softmax(jnp.array([3.0]) @ coef.T + intercept))
        [0.5 0.5]

    References:
        Hastie, Tibshirani & Friedman (2009), eq. 4.10.
    """
    return _linear(params)


_linear = by_either(methodcaller("linear"))


@checked_arguments(any_model=True)
def logistic_form(params: Fitted) -> tuple[PyTree, Float[Array, ""]]:
    """(θ, θ_0) of `p(y=1 | x) = 1 / (1 + exp(-(θ · x + θ_0)))`, for a model of two classes.

    `θ = coef_1 - coef_0` and `θ_0 = intercept_1 - intercept_0`.

    Args:
        params: a fitted classifier of two classes with a linear decision.

    Returns:
        (θ, θ_0): shape (d,), and a scalar.

    Raises:
        ValueError: the decision is not linear, or there are not two classes.

    Example:
        >>> import jax, jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> theta, theta_0 = gcf.logistic_form(gcf.fit(gcf.lda(2), x, y))
        >>> print(theta, theta_0)
        [4.] -12.0
    """
    return _logistic(params)


@by_either
def _logistic(params: Fitted) -> tuple[PyTree, Array]:
    coef, intercept = params.linear()
    if len(intercept) != 2:
        raise ValueError(f"the model has {len(intercept)} classes, expected 2; use linear_form")
    return jax.tree.map(lambda c: c[1] - c[0], coef), intercept[1] - intercept[0]


@checked_arguments(any_model=True)
def quadratic_form(
    params: Fitted,
) -> tuple[Float[Array, "K d d"], Float[Array, "K d"], Float[Array, "K"]]:
    """(matrix, coef, intercept) of a Gaussian model, whose log-joint is quadratic in x.

    `log p(x, y=k) = xᵀ matrix_k x + coef_k · x + intercept_k`, with `matrix_k = -½ Σ_k⁻¹`,
    `coef_k = Σ_k⁻¹ μ_k` and `intercept_k = -½ μ_kᵀ Σ_k⁻¹ μ_k - ½ log |2π Σ_k| + log π_k`.

    Args:
        params: a fitted classifier with Gaussian densities, of any covariance structure.

    Returns:
        Arrays of shape (K, d, d), (K, d) and (K,).

    Raises:
        ValueError: the densities are not Gaussian.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[-1.0], [1.0], [3.0], [7.0]]), jnp.array([0, 0, 1, 1])
        >>> matrix, coef, intercept = gcf.quadratic_form(gcf.fit(gcf.qda(2), x, y))
        >>> print(matrix.ravel(), coef.ravel())
        [-0.5   -0.125] [0.   1.25]

    References:
        Hastie, Tibshirani & Friedman (2009), eq. 4.12.
    """
    return _quadratic(params)


_quadratic = by_either(methodcaller("quadratic"))


def _checked_features(d: Any, name: str) -> Any:
    """Check a number of features, or the dict of numbers for a `Product`."""
    if isinstance(d, dict):
        return {key: _checked_features(part, f"{name}[{key!r}]") for key, part in d.items()}
    return whole(1).checked(d, name)


@checked_arguments(d=_checked_features)
def num_parameters(clf: Classifier, d: Any) -> int:
    """Number of free parameters of the model p(x, y): of the prior and of all densities.

    The smaller numbers in textbooks count the parameters of the decision *boundaries*; see
    `num_boundary_parameters`.

    Args:
        clf: the model.
        d: number of features; for `Product` a dict of them.

    Returns:
        The number for the family, plus K - 1 for the class prior unless it is fixed.

    Example:
        >>> import genclf as gcf
        >>> gcf.num_parameters(gcf.lda(3), 5), gcf.num_parameters(gcf.qda(3), 5)
        (32, 62)
    """
    require(clf.family, Parametric, "num_parameters")
    return clf.label_prior.num_parameters + clf.family.num_parameters(clf.num_classes, d)


@checked_arguments(num_classes=whole(1), d=whole(1), quadratic=FLAG)
def num_boundary_parameters(num_classes: int, d: int, *, quadratic: bool = False) -> int:
    """Number of parameters of the decision boundaries between K classes of d features.

    `(K-1)(d+1)` if they are linear and `(K-1)(d(d+3)/2+1)` if they are quadratic: one difference of
    discriminants between each class and the last.

    Args:
        num_classes: K.
        d: number of features.
        quadratic: whether the boundaries are quadratic.

    Returns:
        The count.

    Example:
        >>> import genclf as gcf
        >>> gcf.num_boundary_parameters(3, 5), gcf.num_boundary_parameters(3, 5, quadratic=True)
        (12, 42)

    References:
        Hastie, Tibshirani & Friedman (2009), §4.3, p. 110.
    """
    one = math.comb(d + 2, 2) if quadratic else d + 1
    return (num_classes - 1) * one


@checked_call
def indicators(x: Any, num_values: int | tuple[int, ...]) -> Float[Array, "*batch sum_V"]:
    """0/1 indicators of categorical columns: the features in which `linear_form` is linear.

    Args:
        x: codes 0..V_j - 1, shape (..., d); any other number gives zeros.
        num_values: V_j of each column, or one number for all columns.

    Returns:
        1 where column j holds value v, at index `Σ_{i<j} V_i + v`; shape (..., Σ_j V_j).

    Raises:
        ValueError: x is not an array of numbers, or num_values does not fit its columns.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> print(gcf.indicators(jnp.array([[1, 0], [0, 2]]), (2, 3)))
        [[0. 1. 1. 0. 0.]
         [1. 0. 0. 0. 1.]]
    """
    x = as_arrays(x, "x")
    if not isinstance(x, jax.Array) or x.ndim == 0:
        raise ValueError(f"x is {x!r}, expected codes 0..num_values-1, an array of shape (..., d)")
    sizes = NUM_VALUES.checked(python_value(num_values), "num_values")
    return indicator_columns(x, Categorical(sizes).columns(x.shape[-1]).num_values)
