"""Fixed-point iteration of steps that do not decrease an objective, with implicit derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.dtypes import float0
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Float, Int, PyTree

from genclf.arguments.unlikely import needs_no_derivative
from genclf.numerics import loops
from genclf.numerics.namespace import Array
from genclf.sums.merging import pool
from genclf.sums.statistics import Moments, Sums

_RESTART = 30
Linear = Callable[[Array], Array]
A = TypeVar("A")


class FixedPoint(NamedTuple):
    """The end of a fixed-point iteration.

    Attributes:
        state: the last statistics; if converged, a step from them gains no more than the tolerance.
        objective: the objective at each state, the last one included; later entries are NaN.
        converged: False if the iteration stopped at `max_steps` or at NaN.
        steps: number of states whose objective was computed.
    """

    state: Any
    objective: Float[Array, "max_steps"]
    converged: Bool[Array, ""]
    steps: Int[Array, ""]


class _At(NamedTuple):
    state: Any
    value: Array
    objective: Array
    step: Array
    done: Array
    converged: Array


def fixed_point(
    step: Callable[[A, PyTree], tuple[Array, PyTree]],
    given: A,
    start: PyTree,
    total: Float[Array, ""],
    tol: Any,
    max_steps: int,
    *,
    jump: Callable[[A, PyTree, PyTree], PyTree] | None = None,
    gap: Callable[[PyTree, PyTree], Array] | None = None,
) -> FixedPoint:
    """Iterate `state -> (objective at it, next state)`.

    Derivatives of the state are implicit, `ds = (I - J)⁻¹ ∂step` at a fixed point, by GMRES in
    units of the statistics. The derivative of the last objective holds the state fixed, since the
    state maximises the objective. Both derivatives are traced later, if they are taken at all, so
    `step` must not close over arrays.

    Args:
        step: maps (given, state) to (objective, next state); it does not decrease the objective.
        given: the inputs that the fixed point depends on.
        start: initial statistics.
        total: total weight; gains are measured per unit of weight.
        tol: stop at a gain of this or less, per unit of weight.
        max_steps: maximum number of steps.
        jump: maps (given, state, next state) to the state to continue from; its objective is no
            lower than that of the next state, and the fixed points are the same.
        gap: maps (state, next state) to an upper bound on the remaining gain, per unit of weight;
            `tol` then applies to it instead of the gain of one step.
    """

    def solve(given: A, start: PyTree, total: Array, tol: Array) -> FixedPoint:
        def ahead(state: PyTree) -> tuple[Array, PyTree, Array | None]:
            value, following = step(given, state)
            left = None if gap is None else gap(state, following)
            return value, following if jump is None else jump(given, state, following), left

        end = _iterate(ahead, start, total, tol, max_steps)
        return FixedPoint(end.state, end.objective, end.converged, end.step)

    tol = jnp.asarray(tol, total.dtype)
    if needs_no_derivative():
        return solve(given, start, total, tol)
    with_derivative = jax.custom_jvp(solve)

    @with_derivative.defjvp
    def derivative(primals: tuple, tangents: tuple) -> tuple[FixedPoint, FixedPoint]:
        (given, start, _, _), found = primals, with_derivative(*primals)

        def residual(state: PyTree) -> PyTree:
            return jax.tree.map(jnp.subtract, state, step(given, state)[1])

        at_state = lambda given: step(given, found.state)  # noqa: E731
        gain, target = jax.jvp(at_state, (given,), tangents[:1])[1]
        linear = jax.linearize(residual, found.state)[1]
        units = jax.tree.map(_units, start, is_leaf=lambda node: isinstance(node, Sums | Moments))
        moved = FixedPoint(
            state=_solve_in_units(linear, target, units),
            objective=jnp.zeros_like(found.objective).at[found.steps - 1].set(gain),
            converged=cast(Array, np.zeros((), float0)),
            steps=cast(Array, np.zeros((), float0)),
        )
        return found, moved

    return with_derivative(given, start, total, tol)


def _iterate(
    ahead: Callable[[PyTree], tuple[Array, PyTree, Array | None]],
    start: PyTree,
    total: Array,
    tol: Array,
    max_steps: int,
) -> _At:
    def cond(at: _At) -> Array:
        return ~at.done & (at.step < max_steps)

    def body(at: _At) -> _At:
        value, following, left = ahead(at.state)
        failed = jnp.isnan(value)
        converged = ~failed & (value - at.value <= tol * total if left is None else left <= tol)
        done = converged | failed
        last = done | (at.step + 1 == max_steps)
        state = jax.tree.map(lambda a, b: jnp.where(last, a, b), at.state, following)
        state = jax.tree.map(lambda a: jnp.where(failed, jnp.nan, a), state)
        objective = at.objective.at[at.step].set(value)
        return _At(state, value, objective, at.step + 1, done, converged)

    objective = jnp.full(max_steps, jnp.nan, total.dtype)
    lowest = jnp.asarray(-jnp.inf, total.dtype)
    no = jnp.asarray(False)
    return loops.while_loop(cond, body, _At(start, lowest, objective, jnp.int32(0), no, no))


def _units(stats: Sums | Moments) -> Sums | Moments:
    """A typical magnitude for each array of the statistics; 1 where that is 0."""
    if isinstance(stats, Sums):
        found = jax.tree.map(lambda a: jnp.full_like(a, jnp.abs(a).max()), stats)
    else:
        found = _units_of_moments(stats)
    return jax.tree.map(lambda a: jnp.where(a > 0, a, 1), found)


def _units_of_moments(stats: Moments) -> Moments:
    batch = stats.mean.ndim - 2
    of_all = pool
    for _ in range(batch):
        of_all = jax.vmap(of_all)
    overall = of_all(stats)
    count = jnp.abs(stats.count).max()
    variance = overall.diagonal / count
    sd = jnp.sqrt(jnp.where(variance > 0, variance, 1))
    scatter = count * (sd[..., :, None] * sd[..., None, :] if stats.is_full else sd**2)
    spread = lambda a, like: jnp.broadcast_to(jnp.expand_dims(a, batch), like.shape)  # noqa: E731
    return Moments(
        jnp.full_like(stats.count, count), spread(sd, stats.mean), spread(scatter, stats.scatter)
    )


def _solve_in_units(linear: Callable[[PyTree], PyTree], target: PyTree, units: PyTree) -> PyTree:
    """Solve `linear(z) = target` for z, by GMRES in z / units."""
    # Ravel into one vector: JAX can transpose a solve only if its whole right-hand side depends
    # on the tangents. Some statistics may not: the counts of labelled rows do not depend on x.
    target, unravel = ravel_pytree(target)
    units = ravel_pytree(units)[0]

    def flat(z: Array) -> Array:
        return ravel_pytree(linear(unravel(z)))[0]

    def solve(linear: Linear, target: Array) -> Array:
        return units * _gmres(lambda z: linear(units * z) / units, target / units)

    def transposed(linear: Linear, target: Array) -> Array:
        return _gmres(lambda z: units * linear(z / units), units * target) / units

    return unravel(lax.custom_linear_solve(flat, target, solve, transposed))


def _gmres(linear: Linear, target: Array) -> Array:
    return jax.scipy.sparse.linalg.gmres(
        linear, target, tol=float(10 * jnp.finfo(target.dtype).eps), restart=_RESTART, maxiter=20
    )[0]
