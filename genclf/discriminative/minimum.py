"""The minimum of a `likelihood.Problem`, with its derivative."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from genclf.discriminative.likelihood import Problem
from genclf.lbfgs import MAX_EVALUATIONS, Minimiser, Search

_FURTHER = 1e-3  # of the tolerance, for steps that still move a row
_STILL_MOVING = 0.02  # log-odds
# Log-odds of a step that rounding forbids. Observed: 88 and more on separable data, 0.3 and less at
# a minimum, in float32.
_STUCK_MOVING = 1.0


class Minimum(NamedTuple):
    """What `minimise` found.

    Attributes:
        v: the point, shape (K, p + 1).
        gradient_norm: there.
        separable: whether the objective has no minimum, but falls on with the size of v.
        evaluations: of objective and gradient.
    """

    v: Float[Array, "K p1"]
    gradient_norm: Float[Array, ""]
    separable: Bool[Array, ""]
    evaluations: Int[Array, ""]


def tolerance(dtype: Any) -> float:
    """The norm of the gradient, in white features, at which the search stops."""
    return 1e-9 if dtype == jnp.float64 else 3e-6


def minimise(problem: Problem, start: Float[Array, "K p1"]) -> Minimum:
    """The minimum, by L-BFGS from `start`; derivatives are those of the implicit function."""

    def gradient(v: Array) -> Array:
        return problem.value_and_grad(v)[1]

    def solve(_: Any, start: Array) -> tuple[Array, tuple[Array, ...]]:
        end, last = _search(lax.stop_gradient(problem), start)
        # At a minimum the steps vanish with the gradient. Where the objective falls forever they
        # do not, however small the gradient, and the way they go loses no row. A start may be
        # there already.
        far = problem.largest_change(last.step) > _STUCK_MOVING
        apart = problem.separates(last.at) | problem.sets_apart(last.at)
        falls = problem.recedes(last.at - end.at) | apart | far
        separable = falls & (jnp.asarray(problem.l2) == 0)
        # With no minimum ahead, the first point of the tolerance is as good as any.
        back = separable | (jnp.linalg.norm(last.grad) > jnp.linalg.norm(end.grad))
        end = jax.tree.map(partial(jnp.where, back), end, last)
        # What goes along with a root must be of a dtype that has derivatives.
        others = jnp.linalg.norm(end.grad), separable, end.evaluations
        return end.at, tuple(other.astype(start.dtype) for other in others)

    def conjugate_gradients(hessian: Any, y: Array) -> Array:
        tol = tolerance(y.dtype)
        return jax.scipy.sparse.linalg.cg(hessian, y, tol=tol, maxiter=MAX_EVALUATIONS)[0]

    def tangent_solve(hessian: Any, y: Array) -> Array:
        # Said here too that the Hessian is symmetric: within `cg` it is lost to the transpose.
        return lax.custom_linear_solve(hessian, y, conjugate_gradients, symmetric=True)

    v, others = lax.custom_root(gradient, start, solve, tangent_solve, has_aux=True)
    norm, separable, evaluations = lax.stop_gradient(others)
    return Minimum(v, norm, separable > 0, evaluations.astype(jnp.int32))


def _search(problem: Problem, start: Array) -> tuple[Search, Search]:
    """Where the gradient is small enough, and where the steps are too, if anywhere."""
    minimiser, tol = Minimiser(problem.value_and_grad), tolerance(start.dtype)
    far = lambda at: jnp.linalg.norm(at.grad) > tol  # noqa: E731
    end = minimiser.run(minimiser.start(start), far)

    # A gradient is small long before a steep minimum (a pair of rows out of order among many in
    # order), and for good in a direction of separation: further down the two differ.
    def still_moving(at: Search) -> Array:
        further = jnp.linalg.norm(at.grad) > _FURTHER * tol
        return further & (problem.largest_change(at.step) > _STILL_MOVING)

    return end, minimiser.run(end, still_moving)
