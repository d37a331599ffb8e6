"""The shares of classes with known densities, by maximum likelihood."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float

from genclf.families.base import Scalar
from genclf.fitting.em_convergence import FixedPoint, fixed_point
from genclf.numerics.namespace import Array, matmul
from genclf.sums.statistics import Sums, divide


class Rows(NamedTuple):
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

    @classmethod
    def of(cls, log_density: Float[Array, "n K"], weight: Float[Array, "n"]) -> Rows:
        """From the logarithms of the densities, -inf in a class of prior 0."""
        log_top = lax.stop_gradient(log_density.max(1))
        return cls(jnp.exp(log_density - log_top[:, None]), log_top, weight)

    def log_lik(self, prior: Float[Array, "K"]) -> Float[Array, ""]:
        return (self.weight * (jnp.log(matmul(self.ratio, prior)) + self.log_top)).sum()


def likeliest(rows: Rows, start: Float[Array, "K"], tol: Scalar, max_steps: int) -> FixedPoint:
    """The shares of the classes with the highest likelihood, as expected counts, from a start."""
    # Rounding in the sums hides smaller gains.
    eps = 100 * jnp.finfo(rows.ratio.dtype).eps
    tol, total = jnp.maximum(jnp.asarray(tol, rows.ratio.dtype), eps), rows.weight.sum()
    counts = Sums(start * total, start * total)
    return fixed_point(_step, rows, counts, total, tol, max_steps, jump=_jump, gap=_gap)


def _step(rows: Rows, counts: Sums) -> tuple[Array, Sums]:
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


def _jump(rows: Rows, counts: Sums, following: Sums) -> Sums:
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
