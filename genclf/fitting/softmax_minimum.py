"""The minimum of a `softmax_likelihood.Problem`, with its derivative."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float, Int

from genclf.fitting.softmax_likelihood import Problem
from genclf.numerics.lbfgs import MAX_EVALUATIONS, Minimiser, Search
from genclf.numerics.namespace import Array

_FURTHER = 1e-3  # factor on the tolerance while steps still change the log-odds of a row
_STILL_MOVING = 0.02  # change of log-odds
# If the search ends and its next step would change log-odds by more, there is no minimum.
# Observed in float32: 88 and more on separable data, 0.3 and less at a minimum.
_STUCK_MOVING = 1.0


class Minimum(NamedTuple):
    """The result of `minimise`.

    Attributes:
        v: the point, shape (K, p + 1).
        value: the objective at v.
        gradient_norm: norm of the gradient at v.
        separable: whether the objective has no minimum, but keeps falling as v grows.
        evaluations: number of evaluations of the objective and its gradient.
    """

    v: Float[Array, "K p1"]
    value: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    separable: Bool[Array, ""]
    evaluations: Int[Array, ""]


def tolerance(dtype: jnp.dtype) -> float:
    """The norm of the gradient, in white features, at which the search stops."""
    return 1e-9 if dtype == jnp.float64 else 3e-6


def minimise(problem: Problem, start: Float[Array, "K p1"]) -> Minimum:
    """The minimum, by L-BFGS from `start`, with implicit derivatives."""

    def gradient(v: Array) -> Array:
        return problem.value_and_grad(v)[1]

    def solve(_: Callable[[Array], Array], start: Array) -> tuple[Array, tuple[Array, ...]]:
        end, last = _search(lax.stop_gradient(problem), start)
        # At a minimum the steps vanish with the gradient. Without one they do not, even if the
        # gradient is small, and no row loses log-odds along them. The start may already separate
        # the classes.
        far = problem.largest_change(last.step) > _STUCK_MOVING
        separates = problem.separates(last.at) | problem.separates_one(last.at)
        falls = problem.recedes(last.at - end.at) | separates | far
        separable = falls & (jnp.asarray(problem.l2) == 0)
        # Without a minimum, the first point whose gradient is within the tolerance is returned.
        back = separable | (jnp.linalg.norm(last.grad) > jnp.linalg.norm(end.grad))
        end = jax.tree.map(partial(jnp.where, back), end, last)
        # `custom_root` takes auxiliary outputs only of a dtype that has derivatives.
        others = end.value, jnp.linalg.norm(end.grad), separable, end.evaluations
        return end.at, tuple(other.astype(start.dtype) for other in others)

    def conjugate_gradients(hessian: Callable[[Array], Array], y: Array) -> Array:
        tol = tolerance(y.dtype)
        return jax.scipy.sparse.linalg.cg(hessian, y, tol=tol, maxiter=MAX_EVALUATIONS)[0]

    def tangent_solve(hessian: Callable[[Array], Array], y: Array) -> Array:
        # Declare the Hessian symmetric here too: transposition does not see what `cg` declares.
        return lax.custom_linear_solve(hessian, y, conjugate_gradients, symmetric=True)

    v, others = lax.custom_root(gradient, start, solve, tangent_solve, has_aux=True)
    value, norm, separable, evaluations = lax.stop_gradient(others)
    return Minimum(v, value, norm, separable > 0, evaluations.astype(jnp.int32))


def _search(problem: Problem, start: Array) -> tuple[Search, Search]:
    """The first point with a small gradient, and one where steps are small too, if any."""
    minimiser, tol = Minimiser(problem.value_and_grad), tolerance(start.dtype)
    far = lambda at: jnp.linalg.norm(at.grad) > tol  # noqa: E731
    end = minimiser.run(minimiser.start(start), far)

    # The gradient gets small long before a steep minimum (one pair of rows out of order among many
    # in order), and stays small in a direction of separation. Further steps distinguish the two.
    def still_moving(at: Search) -> Array:
        further = jnp.linalg.norm(at.grad) > _FURTHER * tol
        return further & (problem.largest_change(at.step) > _STILL_MOVING)

    return end, minimiser.run(end, still_moving)
