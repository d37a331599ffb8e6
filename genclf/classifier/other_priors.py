"""Fitted params under another class prior."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genclf.arguments.arrays import numbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.model import Fitted, require_prior
from genclf.families.conjugate.class_prior import PROBABILITIES, log_fixed, prior_problem
from genclf.numerics.namespace import is_traced

P = TypeVar("P", bound=Fitted)


@checked_arguments(any_model=True)
def with_prior(params: P, class_prior: Float[ArrayLike, "K"]) -> P:
    """The same class densities under another class prior, e.g. of another population.

    Calibrated posteriors change by the same factors, `q'(k | x) ∝ q(k | x) π'_k / π_k`.

    Args:
        params: a fitted classifier, or one with calibrated posteriors.
        class_prior: class probabilities, shape (K,), >= 0 with sum 1.

    Returns:
        Params of the same type; in traced code an invalid prior becomes NaN. A class of prior 0
        keeps it, since the params may have no valid density for it.

    Raises:
        ValueError: `class_prior` is not K numbers; or, outside traced code, some are negative,
            their sum is not 1, or a class of prior 0 would get a higher one; or the params are
            those of a softmax regression, which has no class prior.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 0, 0, 1])
        >>> params = gcf.fit(gcf.lda(2), x, y)
        >>> print(jnp.exp(gcf.with_prior(params, jnp.array([0.5, 0.5])).log_prior))
        [0.5 0.5]
    """
    require_prior(params, "with_prior")
    class_prior = numbers(class_prior)
    num_classes = len(params.log_prior)
    problem = PROBABILITIES.problem(class_prior, "class_prior")
    problem = problem or prior_problem(class_prior, num_classes, "class_prior")
    if problem:
        raise ValueError(problem)
    if not is_traced(params.log_prior, class_prior):
        impossible = np.isneginf(np.asarray(params.log_prior))
        for k in np.flatnonzero(impossible & (np.asarray(class_prior) > 0)):
            raise ValueError(
                f"class_prior[{k}] is {class_prior[k]:.6g}, but params.log_prior[{k}] is -inf: the "
                "fit had no row of the class, or a prior of 0 for it; expected 0, or "
                "params of a fit with the class"
            )
    return _under(params, class_prior)


@partial(compiled, fast_compile=2**14)
def _under(params: P, class_prior: Float[Array, "K"]) -> P:
    log_prior = log_fixed(jnp.asarray(class_prior, params.log_prior.dtype))
    return params.under(jnp.where(jnp.isneginf(params.log_prior), -jnp.inf, log_prior))
