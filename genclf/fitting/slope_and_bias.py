"""The slope and the biases of calibrated posteriors, by Newton's method."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float, Int

from genclf.numerics import loops
from genclf.numerics.namespace import Array, matmul

_MAX_STEPS = 80  # evaluations; if there is no maximum, each raises the log-odds by about 1


class Problem(NamedTuple):
    """The rows of `-Σ_n w_n log q(y_n | x_n)`, q(k | x) ∝ exp(β log p(k | x) + b_k).

    Attributes:
        odds: `log p(k | x_n) / p(y_n | x_n)`, (n, K); 0 where `possible` is False.
        possible: whether q(k | x_n) can be above 0: the class has rows, and p(k | x_n) > 0.
        y: labels, (n,).
        w: weights with sum 1, (n,).
        is_biased: whether each class has a bias, as 1 or 0 for each class, (K,).
    """

    odds: Float[Array, "n K"]
    possible: Bool[Array, "n K"]
    y: Int[Array, "n"]
    w: Float[Array, "n"]
    is_biased: Float[Array, "K"]

    def shares(self, at: Float[Array, "K1"]) -> tuple[Float[Array, "n K"], Float[Array, "n"]]:
        """q(k | x_n), and `-log q(y_n | x_n)`, at (β, b)."""
        bias = self.is_biased * at[1:]
        score = at[0] * self.odds + bias[None] - bias[self.y][:, None]
        score = jnp.where(self.possible, score, -jnp.inf)
        loss = jax.nn.logsumexp(score, 1)
        return jnp.exp(score - loss[:, None]), loss

    def gradient(self, at: Float[Array, "K1"]) -> Float[Array, "K1"]:
        """The gradient; that of a number without effect is the number itself, so 0 at 0.

        Equal biases have no effect, nor has the bias of a class that cannot have one.
        """
        return self._gradient(at, self.shares(at)[0])

    def _gradient(self, at: Array, share: Array) -> Array:
        own = jax.nn.one_hot(self.y, len(self.is_biased), dtype=share.dtype)
        of_slope = (self.w * (share * self.odds).sum(1)).sum()
        of_bias = self.is_biased * matmul(self.w, share - own)
        gauge = self.is_biased * (self.is_biased * at[1:]).mean() + (1 - self.is_biased) * at[1:]
        return jnp.concatenate([of_slope[None], of_bias + gauge])

    def evaluate(self, at: Float[Array, "K1"]) -> tuple[Array, Array, Array, Array]:
        """The value, the gradient, Newton's step, and whether all rows are on the right side.

        If they are, a multiple of (β, b) is better, so there is no minimum.
        """
        share, loss = self.shares(at)
        gradient = self._gradient(at, share)
        weighted = self.w[:, None] * share
        deviation = self.odds - (share * self.odds).sum(1, keepdims=True)
        curvature = (weighted * deviation**2).sum()
        mixed = self.is_biased * (weighted * deviation).sum(0)
        both = jnp.diag(weighted.sum(0)) - matmul(weighted.T, share)
        both = self.is_biased[:, None] * both * self.is_biased[None]
        both = both + jnp.diag(1 - self.is_biased)
        both = both + self.is_biased[:, None] * self.is_biased[None] / len(self.is_biased)
        # Where a number has no effect, its row of the Hessian and its gradient are 0.
        least = jnp.finfo(share.dtype).tiny ** 0.5
        jitter = 4 * float(jnp.finfo(share.dtype).eps)
        first = jnp.concatenate([(curvature * (1 + jitter) + least)[None], mixed])
        rest = jnp.concatenate([mixed[:, None], both + jitter * jnp.diag(jnp.diagonal(both))], 1)
        step = -jnp.linalg.solve(jnp.concatenate([first[None], rest]), gradient)
        counts = self.w > 0
        has_rival = (self.possible.sum(1) > 1) & counts
        separates = jnp.where(counts, loss < math.log(2), True).all() & has_rival.any()
        return (self.w * loss).sum(), gradient, step, separates


class _Search(NamedTuple):
    """A point of the search.

    Attributes:
        at: (β, b).
        value: the objective there.
        gain: what Newton's step promises to gain, twice.
        step: Newton's step there.
        separates: whether it shows that there is no minimum.
        size: the part of the step to try next.
        evaluations: number of evaluations so far.
    """

    at: Float[Array, "K1"]
    value: Float[Array, ""]
    gain: Float[Array, ""]
    step: Float[Array, "K1"]
    separates: Bool[Array, ""]
    size: Float[Array, ""]
    evaluations: Int[Array, ""]


def minimum(
    problem: Problem, start: Float[Array, "K1"]
) -> tuple[Float[Array, "K1"], Bool[Array, ""]]:
    """(β, b) at the minimum, with implicit derivatives; and whether there is one.

    The objective has no minimum if larger β and b are always better: the posteriors and some bias
    then separate a class without error.
    """

    def solve(_: object, start: Array) -> tuple[Array, Array]:
        found = _search(lax.stop_gradient(problem), start)
        # `custom_root` takes auxiliary outputs only of a dtype that has derivatives.
        return found.at + found.step, _is_minimum(found).astype(start.dtype)

    def tangent_solve(hessian: Callable[[Array], Array], y: Array) -> Array:
        matrix = jax.vmap(hessian)(jnp.eye(len(y), dtype=y.dtype))
        size = jnp.abs(jnp.diagonal(matrix))
        matrix = matrix + jnp.diag(jnp.where(size > 0, 0, 1).astype(y.dtype))
        return jnp.linalg.solve(matrix, y)

    at, converged = lax.custom_root(problem.gradient, start, solve, tangent_solve, has_aux=True)
    return at, lax.stop_gradient(converged) > 0


def _is_minimum(found: _Search) -> Array:
    # Without a minimum, value and promised gain fall at the same rate.
    eps = float(jnp.finfo(found.value.dtype).eps)
    return (found.gain <= eps * found.value) & ~found.separates


def _search(problem: Problem, start: Array) -> _Search:
    def evaluated(at: Array, count: Array) -> _Search:
        value, gradient, step, separates = problem.evaluate(at)
        gain = -(gradient * step).sum()
        # Where the shares are 0 and 1 to the last digit, the Hessian is 0: this is no minimum.
        solved = jnp.isfinite(step).all() & jnp.isfinite(gain)
        gain, step = jnp.where(solved, gain, jnp.inf), jnp.where(solved, step, 0)
        return _Search(at, value, gain, step, separates, jnp.ones_like(value), count)

    # One evaluation per iteration, accepted or not: under vmap, searches do not wait for each
    # other's line search.
    def body(last: _Search) -> _Search:
        new = evaluated(last.at + last.size * last.step, last.evaluations + 1)
        rounding = 4 * float(jnp.finfo(new.value.dtype).eps) * jnp.abs(last.value)
        lower = new.value <= last.value - 1e-4 * last.size * last.gain + rounding
        shorter = last._replace(size=last.size / 2, evaluations=last.evaluations + 1)
        return jax.tree.map(partial(jnp.where, lower), new, shorter)

    def cond(at: _Search) -> Array:
        goes_on = jnp.isfinite(at.value) & jnp.isfinite(at.gain) & (at.gain > 0)
        return ~_is_minimum(at) & (at.evaluations < _MAX_STEPS) & goes_on

    return loops.while_loop(cond, body, evaluated(start, jnp.ones((), jnp.int32)))
