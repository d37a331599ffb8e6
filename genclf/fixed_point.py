"""Steps that do not decrease an objective, to their fixed point; with the derivative of that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.dtypes import float0
from jaxtyping import Array, Bool, Float, Int, PyTree

from genclf.statistics import Moments, Sums, pool

_RESTART = 30
Linear = Callable[[PyTree], PyTree]
A = TypeVar("A")


class Climb(NamedTuple):
    """Where the steps ended.

    Attributes:
        state: statistics; a step from them gains less than the tolerance.
        objective: at the params of each state, the last included; NaN after it.
        converged: whether it did not stop for the number of steps, or at NaN.
        steps: how many objectives there are.
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


def climb(
    step: Callable[[A, PyTree], tuple[Array, PyTree]],
    given: A,
    start: PyTree,
    total: Float[Array, ""],
    tol: Any,
    max_steps: int,
) -> Climb:
    """Iterate `state -> (objective at it, next state)`.

    Derivatives of the state are those of the implicit function at a fixed point, `ds = (I - J)⁻¹
    ∂step`, by GMRES in units of the statistics; that of the last objective is the one at a fixed
    state, which maximises it. They are traced only where they are taken, so
    `step` closes over no arrays.

    Args:
        step: of what is given and a state; it does not decrease the objective.
        given: what the state is a function of.
        start: statistics.
        total: weight; the gain of a step is measured per unit of it.
        tol: gain at which to stop.
        max_steps: after which to stop.
    """

    @jax.custom_jvp
    def solve(given: A, start: PyTree, total: Array, tol: Array) -> Climb:
        end = _iterate(partial(step, given), start, total, tol, max_steps)
        return Climb(end.state, end.objective, end.done & ~jnp.isnan(end.value), end.step)

    @solve.defjvp
    def derivative(primals: tuple, tangents: tuple) -> tuple[Climb, Climb]:
        (given, start, _, _), found = primals, solve(*primals)

        def residual(state: PyTree) -> PyTree:
            return jax.tree.map(jnp.subtract, state, step(given, state)[1])

        at_state = lambda given: step(given, found.state)  # noqa: E731
        gain, target = jax.jvp(at_state, (given,), tangents[:1])[1]
        linear = jax.linearize(residual, found.state)[1]
        units = jax.tree.map(_units, start, is_leaf=lambda node: isinstance(node, Sums | Moments))
        moved = Climb(
            state=_solve_in_units(linear, target, units),
            objective=jnp.zeros_like(found.objective).at[found.steps - 1].set(gain),
            converged=cast(Array, np.zeros((), float0)),
            steps=cast(Array, np.zeros((), float0)),
        )
        return found, moved

    return solve(given, start, total, jnp.asarray(tol, total.dtype))


def _iterate(
    step: Callable[[PyTree], tuple[Array, PyTree]],
    start: PyTree,
    total: Array,
    tol: Array,
    max_steps: int,
) -> _At:
    def go_on(at: _At) -> Array:
        return ~at.done & (at.step < max_steps)

    def turn(at: _At) -> _At:
        value, following = step(at.state)
        spoiled = jnp.isnan(value)
        done = (value - at.value <= tol * total) | spoiled
        last = done | (at.step + 1 == max_steps)
        state = jax.tree.map(lambda a, b: jnp.where(last, a, b), at.state, following)
        state = jax.tree.map(lambda a: jnp.where(spoiled, jnp.nan, a), state)
        objective = at.objective.at[at.step].set(value)
        return _At(state, value, objective, at.step + 1, done)

    nothing = jnp.full(max_steps, jnp.nan, total.dtype)
    lowest = jnp.asarray(-jnp.inf, total.dtype)
    begin = _At(start, lowest, nothing, jnp.int32(0), jnp.asarray(False))
    return lax.while_loop(go_on, turn, begin)


def _units(stats: Sums | Moments) -> Sums | Moments:
    """What a typical number of each array of the statistics is."""
    if isinstance(stats, Sums):
        return jax.tree.map(lambda a: jnp.full_like(a, jnp.abs(a).max() + 1e-30), stats)
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


def _solve_in_units(linear: Linear, target: PyTree, units: PyTree) -> PyTree:
    """The z with `linear(z) = target`, by GMRES in z / units."""
    times = lambda a: jax.tree.map(jnp.multiply, a, units)  # noqa: E731
    over = lambda a: jax.tree.map(jnp.divide, a, units)  # noqa: E731

    def solve(linear: Linear, target: PyTree) -> PyTree:
        return times(_gmres(lambda z: over(linear(times(z))), over(target)))

    def transposed(linear: Linear, target: PyTree) -> PyTree:
        return over(_gmres(lambda z: times(linear(over(z))), times(target)))

    return lax.custom_linear_solve(linear, target, solve, transposed)


def _gmres(linear: Linear, target: PyTree) -> PyTree:
    eps = jnp.finfo(jax.tree.leaves(target)[0].dtype).eps
    return jax.scipy.sparse.linalg.gmres(
        linear, target, tol=float(10 * eps), restart=_RESTART, maxiter=20
    )[0]
