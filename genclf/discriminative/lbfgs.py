"""L-BFGS for `conditional.Problem`, with the derivative of what it finds."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from genclf.discriminative.likelihood import Problem

_MAX_STEPS = 1000
_MAX_HALVINGS = 12
_FURTHER = 1e-3  # of the tolerance, for steps that still move a row
_STILL_MOVING = 0.02  # log-odds
# Log-odds of a step that rounding forbids. Observed: 88 and more on separable data, 0.3 and less at
# a minimum, in float32.
_STUCK_MOVING = 1.0


class Search(NamedTuple):
    """Where the search is, and how it got there.

    Attributes:
        v: the point, shape (K, p + 1).
        value: the objective.
        grad: its gradient.
        step: what L-BFGS would add to v.
        size: the share of `step` to try next.
        memory: of L-BFGS.
        evaluations: of objective and gradient so far.
        halvings: of `size`, at this point.
    """

    v: Array
    value: Array
    grad: Array
    step: Array
    size: Array
    memory: Any
    evaluations: Array
    halvings: Array


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
        apart = problem.separates(last.v) | problem.sets_apart(last.v)
        falls = problem.recedes(last.v - end.v) | apart | far
        separable = falls & (jnp.asarray(problem.l2) == 0)
        # With no minimum ahead, the first point of the tolerance is as good as any.
        back = separable | (jnp.linalg.norm(last.grad) > jnp.linalg.norm(end.grad))
        end = jax.tree.map(partial(jnp.where, back), end, last)
        # What goes along with a root must be of a dtype that has derivatives.
        others = jnp.linalg.norm(end.grad), separable, end.evaluations
        return end.v, tuple(other.astype(start.dtype) for other in others)

    def conjugate_gradients(hessian: Any, y: Array) -> Array:
        tol = tolerance(y.dtype)
        return jax.scipy.sparse.linalg.cg(hessian, y, tol=tol, maxiter=_MAX_STEPS)[0]

    def tangent_solve(hessian: Any, y: Array) -> Array:
        # Said here too that the Hessian is symmetric: within `cg` it is lost to the transpose.
        return lax.custom_linear_solve(hessian, y, conjugate_gradients, symmetric=True)

    v, others = lax.custom_root(gradient, start, solve, tangent_solve, has_aux=True)
    norm, separable, evaluations = lax.stop_gradient(others)
    return Minimum(v, norm, separable > 0, evaluations.astype(jnp.int32))


def _search(problem: Problem, start: Array) -> tuple[Search, Search]:
    """Where the gradient is small enough, and where the steps are too, if anywhere."""
    import optax  # by nothing else that a fit needs

    lbfgs = optax.scale_by_lbfgs()
    tol, rounding = tolerance(start.dtype), 4 * float(jnp.finfo(start.dtype).eps)

    def direction(grad: Array, memory: Any, v: Array) -> tuple[Array, Any]:
        # optax mixes dtypes where those of its arguments are not JAX's default.
        with jax.numpy_dtype_promotion("standard"):
            step, new = lbfgs.update(grad, memory, v)
        return -step, jax.tree.map(lambda a, like: a.astype(like.dtype), new, memory)

    def cond(at: Search) -> Array:
        far = jnp.linalg.norm(at.grad) > tol
        return far & (at.evaluations < _MAX_STEPS) & (at.halvings < _MAX_HALVINGS)

    # One evaluation a turn, accepted or not: under vmap no search waits for the line of another.
    def body(at: Search) -> Search:
        v = at.v + at.size * at.step
        value, grad = problem.value_and_grad(v)
        enough = 1e-4 * at.size * (at.step * at.grad).sum() + rounding * jnp.abs(at.value)

        def accept() -> Search:
            step, memory = direction(grad, at.memory, v)
            size, halvings = jnp.ones_like(at.size), jnp.zeros_like(at.halvings)
            return Search(v, value, grad, step, size, memory, at.evaluations + 1, halvings)

        def shorten() -> Search:
            return at._replace(
                size=at.size / 2, evaluations=at.evaluations + 1, halvings=at.halvings + 1
            )

        # Where the value no longer tells two points apart, the gradient does.
        level = value <= at.value + 100 * rounding * jnp.abs(at.value)
        flatter = level & (jnp.linalg.norm(grad) < jnp.linalg.norm(at.grad))
        return lax.cond((value <= at.value + enough) | flatter, accept, shorten)

    value, grad = problem.value_and_grad(start)
    memory = lbfgs.init(start)
    memory = jax.tree.map(
        lambda a: a.astype(start.dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a, memory
    )
    step, memory = direction(grad, memory, start)
    size, none = jnp.ones((), start.dtype), jnp.zeros((), jnp.int32)
    first = Search(start, value, grad, step, size, memory, none + 1, none)
    end = lax.while_loop(cond, body, first)

    # A gradient is small long before a steep minimum (a pair of rows out of order among many in
    # order), and for good in a direction of separation: further down the two differ.
    def still_moving(at: Search) -> Array:
        far = jnp.linalg.norm(at.grad) > _FURTHER * tol
        more = far & (at.evaluations < _MAX_STEPS) & (at.halvings < _MAX_HALVINGS)
        return more & (problem.largest_change(at.step) > _STILL_MOVING)

    return end, lax.while_loop(still_moving, body, end)
