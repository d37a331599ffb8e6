"""Label shift: the class prior of another population, from its unlabelled examples."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, PyTree

from genclf.arguments.domains import NON_NEGATIVE, whole
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.labels import valid_weights
from genclf.classifier.rows import filled
from genclf.classifier.scores import log_joints
from genclf.families.base import Scalar
from genclf.families.conjugate.class_prior import ClassPrior
from genclf.families.structure import named_arrays
from genclf.fitting.em import EMSolution, solution
from genclf.fitting.em_convergence import fixed_point
from genclf.numerics.namespace import Array
from genclf.numerics.products import matmul
from genclf.sums.statistics import Sums, divide


@checked_arguments(max_steps=whole(1), tol=NON_NEGATIVE)
def adapt_prior(
    params: ClassifierParams,
    x: PyTree,
    *,
    weights: ArrayLike | None = None,
    max_steps: int = 1000,
    tol: Scalar = 1e-6,
) -> EMSolution:
    """Re-estimate the class prior on unlabelled examples of another population.

    The class densities p(x | y) are assumed the same in both populations; p(y) may differ. An EM
    step sets `π_k = Σ_n w_n p(y=k | x_n; π) / Σ_n w_n`; a Newton step replaces it if its
    log-likelihood is higher. The log-likelihood, `Σ_n w_n log Σ_k π_k p(x_n | k)`, is concave in π,
    so its maximum does not depend on the start. A class of prior 0 keeps prior 0.

    If the prior has not shifted, twice the gain, `2 (value - objective[0])`, has approximately a χ²
    distribution with K - 1 degrees of freedom.

    Args:
        params: a fitted classifier, with any class densities.
        x: rows of the other population.
        weights: weight of each row, (n,).
        max_steps: maximum number of steps.
        tol: stop when no prior can raise the mean log-likelihood of a row by more than this, >= 0.
            A value below 100 machine epsilons (1e-5 in float32) is raised to that.

    Returns:
        An `EMSolution`, whose `params` are the given ones with a new `log_prior`; `converged` says
        whether the gain that `tol` bounds is small enough. Derivatives are as in `em`.

    Raises:
        ValueError: a shape or dtype does not fit, or `max_steps` or `tol` is invalid.

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
    if any(block.shape[:1] == (0,) for _, _, _, block in named_arrays(params.support, x)):
        raise ValueError("x has no rows, expected examples of the other population")
    return _adapt_prior(params, x, weights, tol, max_steps)


class _Rows(NamedTuple):
    """Class densities of the rows, divided by the largest one of the row.

    Attributes:
        ratio: p(x_n | k) divided by its largest value over classes of prior > 0; 0 in a class of
            prior 0.
        log_top: logarithm of that largest value.
        weight: weight of each row.
    """

    ratio: Float[Array, "n K"]
    log_top: Float[Array, "n"]
    weight: Float[Array, "n"]

    def log_lik(self, prior: Float[Array, "K"]) -> Float[Array, ""]:
        return (self.weight * (jnp.log(matmul(self.ratio, prior)) + self.log_top)).sum()


@partial(compiled, static_argnums=4)
def _adapt_prior(
    params: ClassifierParams, x: PyTree, weights: Array | None, tol: Scalar, max_steps: int
) -> EMSolution:
    scores = jax.eval_shape(params.conditional.log_prob, x)
    shape, dtype = scores.shape, scores.dtype
    if len(shape) != 2:
        raise ValueError(f"x holds examples of batch shape {shape[:-1]}, expected rows (n,)")
    n = shape[0]
    if weights is not None and weights.shape != (n,):
        raise ValueError(f"weights has shape {weights.shape}, expected ({n},): one per row of x")
    weight = jnp.ones(n, dtype) if weights is None else weights.astype(dtype)
    weight = jnp.where(valid_weights(weight) & (weight != 0).any(), weight, jnp.nan)
    score = log_joints(params, filled(x, weight != 0))
    # A class of prior 0 has score -inf and keeps it: subtracting log 0 would give NaN.
    own_prior = jnp.where(jnp.isneginf(params.log_prior), 0, params.log_prior)
    density = score - own_prior[None]
    log_top = lax.stop_gradient(density.max(1))
    rows = _Rows(jnp.exp(density - log_top[:, None]), log_top, weight)

    start = jnp.exp(params.log_prior) * weight.sum()
    # Rounding in the sums hides smaller gains.
    tol = jnp.maximum(jnp.asarray(tol, dtype), 100 * jnp.finfo(dtype).eps)
    found = fixed_point(
        _step, rows, Sums(start, start), weight.sum(), tol, max_steps, jump=_jump, gap=_gap
    )
    count = found.state.count
    log_prior = ClassPrior(len(count)).log_probs(count)
    return solution(ClassifierParams(log_prior, params.conditional), found)


def _step(rows: _Rows, counts: Sums) -> tuple[Array, Sums]:
    """The log-likelihood, and the expected counts of the classes."""
    prior = counts.count / counts.count.sum()
    slope = matmul(rows.weight / matmul(rows.ratio, prior), rows.ratio)
    return rows.log_lik(prior), Sums(prior * slope, prior * slope)


def _gap(counts: Sums, following: Sums) -> Float[Array, ""]:
    """An upper bound on the gain in mean log-likelihood of any other prior.

    With `g_k = Σ_n w_n p(x_n | k) / p(x_n) / Σ w` the bound is `max_k g_k - 1`: the log-likelihood
    is concave with gradient g, so a prior π' gains at most `Σ_k (π'_k - π_k) g_k`.
    """
    share, next_share = (c.count / c.count.sum() for c in (counts, following))
    return divide(next_share, share).max() - 1


def _jump(rows: _Rows, counts: Sums, following: Sums) -> Sums:
    """The expected counts, or those of an interior-point Newton step if they are better.

    Newton's equations for `Σ π = 1, π >= 0`, with `1 - g_k` for the multiplier of `π_k >= 0`, are
    solved for the relative change of each π_k.
    """
    total = counts.count.sum()
    prior, expected = counts.count / total, following.count / total
    slope = divide(expected, prior)
    share = rows.ratio * prior[None] / matmul(rows.ratio, prior)[:, None]
    curvature = matmul((rows.weight / total)[None] * share.T, share)
    # A class of prior 0 keeps it; with the ridge, classes of equal densities can be solved.
    ridge = jnp.finfo(prior.dtype).eps + prior * jnp.maximum(1 - slope, 0)
    ridge = jnp.where(prior == 0, 1, ridge)
    both = jnp.stack([expected, prior], 1)
    to_slope, to_sum = jnp.linalg.solve(curvature + jnp.diag(ridge), both).T
    change = to_slope - to_sum * matmul(prior, to_slope) / matmul(prior, to_sum)
    longest = jnp.minimum(1, 0.99 / jnp.maximum(-change.min(), 1e-30))
    newton = prior * (1 + longest * change)
    newton = newton / newton.sum()
    # Near the maximum rounding hides which is higher; there the Newton step is the better one.
    least = rows.log_lik(expected / expected.sum())
    better = rows.log_lik(newton) >= least - 4 * jnp.finfo(least.dtype).eps * jnp.abs(least)
    return jax.tree.map(lambda a: jnp.where(better, total * newton, a), following)
