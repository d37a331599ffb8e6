"""Functions of fitted params: scores, posteriors, predictions, likelihoods and draws.

All of them are compiled.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.conversion import one_array
from genclf.classifier.model import Fitted, require_prior
from genclf.classifier.padding import by_rows
from genclf.classifier.plain_checks import refuse
from genclf.families.base import Params
from genclf.families.capabilities import require
from genclf.numerics.logarithms import times_log
from genclf.numerics.namespace import Array, is_traced
from genclf.sums.largest import argmax
from genclf.sums.statistics import ClassifierStats


@checked_arguments(x=None)
def log_joint(params: ClassifierParams, x: PyTree) -> Float[Array, "*batch K"]:
    """`log p(x, y=k) = log π_k + log p(x | y=k)`.

    Args:
        params: a fitted classifier.
        x: one example, or any leading batch axes.

    Returns:
        Natural logarithms, shape (..., K).

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> params = gcf.fit(gcf.bernoulli_nb(2), jnp.array([[1], [0]]), jnp.array([0, 1]))
        >>> print(jnp.exp(gcf.log_joint(params, jnp.array([1]))).round(3))
        [0.333 0.167]
    """
    return by_rows(log_joints, params, x, "log_prob")


@checked_arguments(any_model=True, x=None)
def discriminant(params: Fitted, x: PyTree) -> Float[Array, "*batch K"]:
    """Discriminant functions δ_k(x): the log-joint up to a term that all classes share.

    They are linear in x for all discrete families and for Gaussians with a shared covariance, and
    quadratic for Gaussians with a covariance per class. `predict` and `log_posterior` use them,
    because without the common term they are cheaper than `log_joint` and have less rounding.

    Args:
        params: a fitted classifier.
        x: one example, or any leading batch axes.

    Returns:
        shape (..., K).

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> params = gcf.fit(gcf.lda(2), x, y)
        >>> delta = gcf.discriminant(params, jnp.array([[3.0], [4.0]]))
        >>> print((delta[:, 1] - delta[:, 0]).round(3))
        [0. 4.]

    References:
        Hastie, Tibshirani & Friedman (2009), eqs. 4.10 and 4.12.
    """
    return by_rows(discriminants, params, x)


@checked_arguments(any_model=True, x=None)
def log_posterior(
    params: Fitted, x: PyTree, log_prior: ArrayLike | None = None
) -> Float[Array, "*batch K"]:
    """`log p(y=k | x)`, by Bayes' rule.

    Args:
        params: a fitted classifier.
        x: one example, or any leading batch axes.
        log_prior: a class prior for each row in place of `params.log_prior`, natural logarithms,
            (..., K): `p(y=k | x) ∝ exp(log_prior_nk) p(x | y=k)`. It need not be normalised, as the
            logits of another model are not; -inf excludes a class from a row. A class with
            `params.log_prior` -inf stays impossible, as its density may be unknown. `with_prior`
            takes one prior for all rows.

    Returns:
        Natural logarithms, shape (..., K). NaN for an example outside the support of the
        density, and for one that has probability zero in every class.

    Raises:
        ValueError: x or log_prior has another shape, log_prior is NaN or +inf, or the params are
            those of a softmax regression, which has no prior.

    Example:
        Bayes' worked example: a school with 60% boys, all in trousers, and half the girls.

        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.bernoulli_nb(2, alpha=0.0)
        >>> trousers = jnp.array([[1]] * 6 + [[1]] * 2 + [[0]] * 2)
        >>> girl = jnp.array([0] * 6 + [1] * 4)
        >>> params = gcf.fit(clf, trousers, girl)
        >>> print(jnp.exp(gcf.log_posterior(params, jnp.array([1]))).round(4))
        [0.75 0.25]
    """
    if log_prior is None:
        return by_rows(log_posteriors, params, x)
    require_prior(params, "log_posterior with a log_prior")
    never = jnp.isneginf(params.log_prior)
    uniform = jnp.where(never, -jnp.inf, jnp.zeros_like(params.log_prior))
    score = by_rows(discriminants, params.under(uniform), x)
    return _with_priors(score, _row_priors(log_prior, score.shape))


@checked_arguments(x=None)
def log_marginal(params: ClassifierParams, x: PyTree) -> Float[Array, "*batch"]:
    """`log p(x) = log Σ_k p(x, y=k)`: a low value means that x is unusual (a novelty).

    For the posterior as well, at no further cost, take `log_joint`: its logsumexp over the classes
    is this, and what remains is `log_posterior`, with rounding errors of the size of `log p(x)`'s.

    Args:
        params: a fitted classifier.
        x: one example, or any leading batch axes.

    Returns:
        Natural logarithms, shape (...).

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> params = gcf.fit(gcf.bernoulli_nb(2), jnp.array([[1], [0]]), jnp.array([0, 1]))
        >>> print(jnp.exp(gcf.log_marginal(params, jnp.array([[0], [1]]))))
        [0.5 0.5]
    """
    return by_rows(log_marginals, params, x, "log_prob")


@checked_arguments(any_model=True, x=None)
def predict(params: Fitted, x: PyTree) -> Int[Array, "*batch"]:
    """The most probable class; among equally probable classes, the lowest number.

    Args:
        params: a fitted classifier.
        x: one example, or any leading batch axes.

    Returns:
        int32 of shape (...), in 0..K-1; -1 if the posterior is NaN, since the model cannot score
        the example.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [1.0], [5.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> print(gcf.predict(gcf.fit(gcf.qda(2), x, y), jnp.array([[0.2], [jnp.nan]])))
        [ 0 -1]
    """
    return by_rows(predictions, params, x)


@checked_arguments
def log_lik(params: ClassifierParams, stats: ClassifierStats) -> Float[Array, ""]:
    """Log-likelihood `Σ_nk w_nk log p(x_n, y=k)`, from the statistics alone.

    Args:
        params: a fitted classifier.
        stats: statistics of any examples, made by the same model.

    Returns:
        A scalar, natural logarithm.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf, x, y = gcf.lda(2), jnp.array([[0.0], [2.0], [4.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> params = gcf.fit(clf, x, y)
        >>> print(gcf.log_lik(params, gcf.stats(clf, x, y)).round(3))
        -8.448
    """
    if stats.count.shape != params.log_prior.shape:
        raise ValueError(
            f"stats.count has shape {stats.count.shape}, expected {params.log_prior.shape}: one "
            "number per class of params"
        )
    require(params.conditional, Params, "log_lik")
    taken = params.conditional.statistic
    if stats.statistic not in (None, taken):
        raise ValueError(f"stats are of another model: {stats.statistic}; params take {taken}")
    return log_likelihood(params, stats)


@checked_arguments
def sample(
    key: Array, params: ClassifierParams, shape: tuple[int, ...] = ()
) -> tuple[PyTree, Int[Array, "..."]]:
    """Draws from the generative story: `y ~ Categorical(π)`, then `x ~ p(x | y)`.

    Args:
        key: a `jax.random` key.
        params: a fitted classifier.
        shape: shape of the draws; () for one.

    Returns:
        (x, y): y is int32 of shape `shape`, and x has `shape` as its leading axes.

    Example:
        >>> import jax, jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [1.0], [5.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> xs, ys = gcf.sample(jax.random.key(0), gcf.fit(gcf.lda(2), x, y), shape=(1000,))
        >>> print(xs.shape, ys.shape)
        (1000, 1) (1000,)
    """
    return _sample(key, params, shape)


def _row_priors(log_prior: ArrayLike, shape: tuple[int, ...]) -> Array:
    if isinstance(log_prior, np.ndarray) and log_prior.dtype == np.float64 and log_prior.size:
        top = log_prior.max(-1, keepdims=True)  # a common term would cost digits in float32
        log_prior = log_prior - np.where(np.isfinite(top), top, 0)
    given = one_array(log_prior, "log_prior")
    if given.shape != shape:
        hint = "; genclf.with_prior takes one prior for all rows" if given.ndim == 1 else ""
        raise ValueError(
            f"log_prior has shape {given.shape}, expected {shape}: one number per row and class"
            f"{hint}"
        )
    if not is_traced(given):
        known = np.asarray(given)
        wrong = np.isnan(known) | (known == np.inf)
        refuse(wrong, known, "log_prior", "a natural logarithm or -inf")
    return given


@compiled
def _with_priors(score: Array, log_prior: Array) -> Array:
    """The log-posterior, from scores under equal priors and the log-prior of each row."""
    log_prior = log_prior.astype(score.dtype)
    never = jnp.isneginf(score) | jnp.isneginf(log_prior)
    return jax.nn.log_softmax(jnp.where(never, -jnp.inf, score + log_prior), -1)


_by_row = partial(compiled, batch_of=1, fast_compile=2**11)


@_by_row
def log_joints(params: ClassifierParams, x: PyTree) -> Array:
    """`log_joint` of checked arguments."""
    return params.with_log_prior(params.conditional.log_prob(x))


@_by_row
def log_densities(params: ClassifierParams, x: PyTree) -> Array:
    """`log p(x | y=k)`."""
    return params.conditional.log_prob(x)


@_by_row
def discriminants(params: Fitted, x: PyTree) -> Array:
    """`discriminant` of checked arguments."""
    return params.discriminant(x)


@_by_row
def log_posteriors(params: Fitted, x: PyTree) -> Array:
    """`log_posterior` of checked arguments."""
    return params.reduced(x, lambda score: jax.nn.log_softmax(score, -1))


@_by_row
def log_marginals(params: ClassifierParams, x: PyTree) -> Array:
    """`log_marginal` of checked arguments."""
    return params.reduced(x, lambda score: jax.nn.logsumexp(score, -1), normalised=True)


@_by_row
def predictions(params: Fitted, x: PyTree) -> Array:
    """`predict` of checked arguments."""

    def best(score: Array) -> Array:
        # The posterior is NaN if a score is NaN or +inf, or if all scores are -inf.
        return jnp.where(jnp.isfinite(score.max(-1)), argmax(score), -1)

    return params.reduced(x, best)


@partial(compiled, fast_compile=2**14)
def log_likelihood(params: ClassifierParams, stats: ClassifierStats) -> Array:
    """`log_lik` of checked arguments."""
    prior = times_log(stats.count, params.log_prior).sum()
    return prior + params.conditional.log_lik(stats.conditional)


@partial(compiled, static_argnums=2)
def _sample(key: Array, params: ClassifierParams, shape: tuple[int, ...]) -> tuple[PyTree, Array]:
    key_y, key_x = jax.random.split(key)
    y = jax.random.categorical(key_y, params.log_prior, shape=shape).astype(jnp.int32)
    y = jnp.where(jnp.isnan(params.log_prior).any(), -1, y)
    return params.conditional.sample(key_x, y), y
