"""The class prior of another population, from its examples without labels."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree

from genclf.classifier import ClassifierParams
from genclf.expectation import EMSolution, solution
from genclf.families.base import Scalar, safe_log
from genclf.fixed_point import climb
from genclf.inference import log_joint
from genclf.model import require_generative, valid_weights
from genclf.shapes import own
from genclf.sharding import compiled
from genclf.statistics import Sums


def adapt_prior(
    params: ClassifierParams,
    x: PyTree,
    *,
    weights: ArrayLike | None = None,
    max_steps: int = 1000,
    tol: Scalar = 1e-6,
) -> EMSolution:
    """Re-estimate the class prior on unlabelled examples of another population, by EM.

    The densities stay: p(x | y) is the same in both populations and p(y) is not. Each step sets
    `π_k = Σ_n w_n p(y=k | x_n; π) / Σ_n w_n`; the log-likelihood `Σ_n w_n log Σ_k π_k p(x_n | k)`
    has one maximum over π, which does not depend on the start. A class of prior 0 stays so.

    Twice the gain, `2 (value - objective[0])`, is about χ² with K - 1 degrees of freedom if the
    prior has not shifted.

    Args:
        params: a fitted classifier, of any density.
        x: rows of the other population.
        weights: weight of each row, (n,).
        max_steps: the most steps.
        tol: stop when a step gains no more than this in the mean log-likelihood of a row.

    Returns:
        An `EMSolution` whose `params` differ in `log_prior`. Derivatives as in `em`.

    Raises:
        ValueError: a shape or dtype does not fit.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [1.0], [8.0], [9.0]]), jnp.array([0, 0, 1, 1])
        >>> params = gcf.fit(gcf.lda(2), x, y)
        >>> found = gcf.adapt_prior(params, jnp.array([[0.5], [8.1], [8.5], [9.3]]))
        >>> print(jnp.exp(found.params.log_prior))
        [0.25 0.75]

    References:
        Saerens, Latinne & Decaestecker (2002), "Adjusting the outputs of a classifier to new a
        priori probabilities", eq. 2.9.
    """
    require_generative(params, "adapt_prior")
    weights = None if weights is None else own(weights, "weights")
    if max_steps < 1:
        raise ValueError(f"max_steps is {max_steps}, expected >= 1")
    return _adapt_prior(params, own(x, "x"), weights, tol, max_steps)


@partial(compiled, static_argnums=4)
def _adapt_prior(
    params: ClassifierParams, x: PyTree, weights: Array | None, tol: Scalar, max_steps: int
) -> EMSolution:
    score = log_joint(params, x)
    if score.ndim != 2:
        raise ValueError(f"x holds examples of batch shape {score.shape[:-1]}, expected rows (n,)")
    n = len(score)
    if weights is not None and weights.shape != (n,):
        raise ValueError(f"weights has shape {weights.shape}, expected ({n},): one per row of x")
    weight = jnp.ones(n, score.dtype) if weights is None else weights.astype(score.dtype)
    weight = jnp.where(valid_weights(weight), weight, jnp.nan)
    used = weight != 0
    # A class of prior 0 has the score -inf, and keeps it.
    own_prior = jnp.where(jnp.isneginf(params.log_prior), 0, params.log_prior)
    density = jnp.where(used[:, None], score - own_prior[None], 0)

    start = jnp.exp(params.log_prior) * weight.sum()
    found = climb(_step, (density, weight), Sums(start, start), weight.sum(), tol, max_steps)
    adapted = ClassifierParams(_log_prior(found.state), params.conditional)
    return solution(adapted, found)


def _log_prior(prior: Sums) -> Float[Array, "K"]:
    return safe_log(prior.count) - jnp.log(prior.count.sum())


def _step(given: tuple[Array, Array], prior: Sums) -> tuple[Array, Sums]:
    density, weight = given
    used = weight != 0
    joint = density + _log_prior(prior)[None]
    marginal = jax.nn.logsumexp(joint, axis=1)
    share = jnp.exp(joint - marginal[:, None]) * weight[:, None]
    count = jnp.where(used[:, None], share, 0).sum(0)
    value = jnp.where(used, weight * marginal, 0).sum()
    return jnp.where(used.any(), value, jnp.nan), Sums(count, count)
