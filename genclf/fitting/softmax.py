"""Softmax regression: p(y | x) alone, fitted by conditional likelihood."""

from __future__ import annotations

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Bool, Float, Int, PyTree, Real

from genclf.arguments.domains import (
    FINITE_OR_NAN,
    LOGARITHMS,
    NON_NEGATIVE,
    NON_NEGATIVES,
    NOT_NEGATIVE_OR_NAN,
    one_of,
    whole,
)
from genclf.arguments.module import static
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.forms import linear_form, quadratic_form
from genclf.classifier.model import Fitted, Model, Solution
from genclf.families.base import Scalar
from genclf.families.support import FINITE, Support, nan_outside_support
from genclf.numerics.namespace import Array, matmul
from genclf.numerics.row_blocks import broadcast_rows, over_rows

Features = Literal["linear", "quadratic"]


class SoftmaxParams(Fitted, Solution):
    """A fitted softmax regression, or a generative model written as one (`softmax_form`).

    With `z = x - centre`, `p(y=k | x) = softmax_k(zᵀ matrix_k z + coef_k · z + intercept_k)`.
    `linear_form(params)` and `quadratic_form(params)` are the coefficients of x itself; those
    about the centre are precise in float32 even if the data are far from zero. In a fit each
    coefficient sums to 0 over the classes.

    Attributes:
        coef: shape (K, d).
        intercept: shape (K,); -inf for a class without weight, which is never predicted.
        matrix: symmetric, shape (K, d, d); None if the features are linear.
        centre: shape (d,).
        objective: the log-likelihood minus the penalty at the end, -n times what the fit minimises;
            NaN without a fit. Its derivatives are 0.
        converged: whether the norm of the gradient is within the tolerance.
        separable: whether the likelihood has no maximum: some classes are separated without error,
            so larger coefficients are always better. The params are then the first at which the
            gradient was within the tolerance; l2 > 0 makes the maximum unique. In float32 the flag
            may miss a class that a single row separates, and may be set although a row of weight
            1e-4 overlaps.
        steps: number of evaluations of the likelihood and its gradient; 0 without a fit.
        gradient_norm: norm of the gradient in whitened features at the end; NaN without a fit.
    """

    generative: ClassVar[bool] = False

    domains: ClassVar = {
        "intercept": LOGARITHMS,
        "steps": NON_NEGATIVES,
        "gradient_norm": NOT_NEGATIVE_OR_NAN,
        "objective": FINITE_OR_NAN,
    }

    added_fields: ClassVar = {"objective": np.float32(np.nan)}  # older files lack it

    coef: Float[Array, "K d"]
    intercept: Float[Array, "K"]
    matrix: Float[Array, "K d d"] | None
    centre: Float[Array, "d"]
    converged: Bool[Array, ""]
    separable: Bool[Array, ""]
    steps: Int[Array, ""]
    gradient_norm: Float[Array, ""]
    objective: Float[Array, ""]

    @property
    def params(self) -> SoftmaxParams:
        """This object itself."""
        return self

    def _problems(self) -> list[str]:
        if self.matrix is None:
            return []
        matrix = np.asarray(self.matrix, float)
        asymmetry = np.abs(matrix - np.swapaxes(matrix, -1, -2)).max(initial=0)
        is_symmetric = asymmetry <= 1e-3 * np.abs(matrix).max(initial=0)
        return [] if is_symmetric else ["matrix is not symmetric"]

    @property
    def num_classes(self) -> int:
        return self.coef.shape[-2]

    @property
    def support(self) -> Support:
        return FINITE

    @property
    def num_features(self) -> int:
        return self.coef.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.coef.shape[:-2]

    def discriminant(self, x: Real[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`zᵀ matrix_k z + coef_k · z + intercept_k`."""
        num_classes, d = self.coef.shape

        def rows(x: Array) -> Array:
            z = nan_outside_support(x, FINITE).astype(self.coef.dtype) - self.centre[None]
            score = matmul(z, self.coef.T)
            if self.matrix is not None:
                half = matmul(z, jnp.moveaxis(self.matrix, 0, 1).reshape(d, num_classes * d))
                half = half.reshape(z.shape[0], num_classes, d)
                score = score + (half * z[:, None, :]).sum(-1)
            return score + broadcast_rows(self.intercept, score)

        return over_rows(rows, x, 1, d if self.matrix is None else d * num_classes)

    def terms(self, x: Array, y: Array, other: Array) -> tuple[Array, Array]:
        if self.matrix is not None:
            raise ValueError(
                "explain needs log-odds that are a sum over the features, and those of a softmax "
                "of quadratic features are not: use SoftmaxRegression()"
            )
        z = nan_outside_support(x, FINITE).astype(self.coef.dtype)
        z = z - broadcast_rows(self.centre, z)
        constant = self.intercept[y] - self.intercept[other]
        return (self.coef[y] - self.coef[other]) * z, constant

    def linear(self) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
        """(coef, intercept) of x itself."""
        if self.matrix is not None:
            raise ValueError("a softmax of quadratic features is not linear; use quadratic_form")
        return self.coef, self.intercept - matmul(self.coef, self.centre)

    def quadratic(self) -> tuple[Float[Array, "K d d"], Float[Array, "K d"], Float[Array, "K"]]:
        """(matrix, coef, intercept) of x itself; matrix is 0 if the features are linear."""
        num_classes, d = self.coef.shape
        if self.matrix is None:
            return jnp.zeros((num_classes, d, d), self.coef.dtype), *self.linear()
        half = matmul(self.matrix, self.centre)
        intercept = self.intercept + matmul(half - self.coef, self.centre)
        return self.matrix, self.coef - 2 * half, intercept


class SoftmaxRegression(Model):
    """Softmax (multinomial logistic) regression: p(y | x) without a model of x.

    `p(y=k | x) = softmax_k(coef_k · x + intercept_k)`, or with quadratic features
    `softmax_k(xᵀ matrix_k x + coef_k · x + intercept_k)`. `fit` minimises

    ::

        - 1/n Σ_nk w_nk log p(y=k | x_n)  +  ½ l2 Σ_k (|coef_k|² + |matrix_k|²),    n = Σ_nk w_nk

    by L-BFGS; w_nk is the weight of row n in class k, as everywhere in genclf, and intercepts are
    not penalised. Many coefficients give the same probabilities; `fit` returns those that sum to 0
    over the classes. scikit-learn's `LogisticRegression(C=C)` minimises the same with
    `l2 = 1 / (C n)` for K > 2; for K = 2 it has one vector of coefficients, and `l2 = 2 / (C n)`.

    A fit is differentiable in x, weights and l2, implicitly from the condition `gradient = 0`.
    Quadratic features take p² numbers of memory, p = d(d+3)/2. Their coefficients are per unit
    squared: the fit is NaN if the dtype cannot hold such squares (standard deviations below 1e-15
    or above 1e15 in float32), or if l2 over such a square overflows.

    Args:
        num_classes: K.
        l2: weight of the penalty, >= 0; 0 is maximum likelihood.
        features: "linear" or "quadratic".

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.SoftmaxRegression(11), vowel.x_train, vowel.y_train)
        >>> wrong = gcf.predict(params, vowel.x_train) != vowel.y_train
        >>> print(wrong.sum(), params.converged, params.separable)
        118 True False

    References:
        Hastie, Tibshirani & Friedman (2009), §4.4 and table 4.1.
    """

    generative: ClassVar[bool] = False

    domains: ClassVar = {
        "num_classes": whole(1),
        "l2": NON_NEGATIVE,
        "features": one_of("linear", "quadratic"),
    }

    num_classes: int = static()
    l2: Scalar = 0.0
    features: Features = static(default="linear")

    @property
    def support(self) -> Support:
        return FINITE

    def problems(self, d: PyTree[int] | None = None) -> list[str]:
        return []


@checked_arguments(any_model=True, features=one_of("linear", "quadratic"))
def softmax_form(
    params: ClassifierParams | SoftmaxParams, *, features: Features = "linear"
) -> SoftmaxParams:
    """A fitted model written as a softmax regression with exactly the same posterior.

    The coefficients are those of `linear_form` or `quadratic_form`, about `centre = 0`. The parts
    of a `Product` are concatenated in sorted order of their names. The softmax takes
    `indicators(x)` for categorical columns, and word counts for tokens.

    Args:
        params: a fitted model whose discriminant is linear or quadratic.
        features: "linear" or "quadratic".

    Returns:
        `SoftmaxParams`.

    Raises:
        ValueError: the discriminant has no such form, or a probability is 0, so that a
            coefficient would be infinite (in traced code it is).

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> lda = gcf.fit(gcf.lda(11), vowel.x_train, vowel.y_train)
        >>> softmax = gcf.softmax_form(lda)
        >>> clf = gcf.SoftmaxRegression(11)
        >>> print((gcf.predict(softmax, vowel.x_test) != gcf.predict(lda, vowel.x_test)).sum())
        0
        >>> better = gcf.fit(clf, vowel.x_train, vowel.y_train, init=softmax)
        >>> print((gcf.predict(better, vowel.x_train) != vowel.y_train).sum())
        118

    References:
        Ng & Jordan (2002), §2.
    """
    if isinstance(params, SoftmaxParams) and (params.matrix is None) == (features == "linear"):
        return params
    matrix = None
    if features == "quadratic":
        matrix, coef, intercept = quadratic_form(params)
    else:
        tree, intercept = linear_form(params)
        coef = jnp.concatenate(jax.tree.leaves(tree), axis=-1)
    if not isinstance(coef, Tracer) and np.isinf(coef).any():
        k, j = np.argwhere(np.isinf(coef))[0]
        raise ValueError(
            f"the coefficient of feature {j} in class {k} is infinite, since a probability is 0; "
            "smooth the estimate, with alpha > 0"
        )
    return without_search(coef, intercept, matrix)


def without_search(
    coef: Array, intercept: Array, matrix: Array | None = None, *, converged: bool = False
) -> SoftmaxParams:
    """The params of known coefficients of x itself, which have no objective."""
    dtype = intercept.dtype
    return SoftmaxParams(
        coef,
        intercept,
        matrix,
        centre=jnp.zeros(coef.shape[-1], dtype),
        converged=jnp.asarray(converged),
        separable=jnp.asarray(False),
        steps=jnp.int32(0),
        gradient_norm=jnp.asarray(jnp.nan, dtype),
        objective=jnp.asarray(jnp.nan, dtype),
    )
