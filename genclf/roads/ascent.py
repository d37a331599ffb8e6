"""The objective in unconstrained coordinates, and an optimizer's steps on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from genclf.arguments.module import Module
from genclf.arguments.parameters import Parameter
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.model import Solution
from genclf.numerics.lbfgs import any_promotion
from genclf.roads.problem import (
    PRIOR,
    Problem,
    declared,
    of_determined,
    standard_arrays,
    start,
    weighted_log_joint,
    with_arrays,
)
from genclf.sums.statistics import divide


class GradientSolution(Solution):
    """Where gradient ascent stopped, as `fit_gradient` returns it.

    Attributes:
        params: as `fit` returns them.
        objective: penalised log-likelihood before each step and after the last, (max_steps + 1,);
            NaN where no step was taken. With mini-batches, all entries but the last are estimates
            from the batch.
        gradient_norm: largest absolute component of the gradient of the mean penalised log-joint,
            in the unconstrained coordinates, at `params`. For a parameter of one class, the mean
            is over the examples of that class.
        steps: number of steps taken.
        on_boundary: whether some probability goes to 0 or 1, or some variance to 0: the maximum
            is then not inside the set of parameters, and no finite coordinates reach it.
        converged: whether `gradient_norm <= tol` and `on_boundary` is false.
    """

    params: ClassifierParams
    objective: Float[Array, "steps_and_one"]
    gradient_norm: Float[Array, ""]
    steps: Int[Array, ""]
    on_boundary: Bool[Array, ""]
    converged: Bool[Array, ""]

    @property
    def value(self) -> Float[Array, "*batch"]:
        last = jnp.expand_dims(self.steps, -1)
        return jnp.take_along_axis(self.objective, last, axis=-1)[..., 0]


class Settings(NamedTuple):
    """Static arguments of a run."""

    optimizer: Any
    max_steps: int
    batch_size: int | None
    stop_if_stuck: bool


class State(Module):
    """Where the ascent is: coordinates, the optimizer's state, and the trace so far."""

    free: PyTree
    optimizer: PyTree
    gradient_norm: Float[Array, ""]
    objective: Float[Array, "steps_and_one"]
    step: Int[Array, ""]
    stuck: Bool[Array, ""]


class Ascent:
    """The objective in unconstrained coordinates, and the steps of the optimizer on it."""

    def __init__(
        self, settings: Settings, problem: Problem, tol: Array | float | None, key: Array | None
    ):
        """The ascent starts from params that are the same for all classes."""
        import optax

        self.settings, self.problem, self.key = settings, problem, key
        self.reference = start(problem.clf, problem.stats)
        self.declared: dict[str, Parameter] = declared(problem.clf, self.reference)
        self.origin = standard_arrays(self.reference)
        self.optimizer = optax.with_extra_args_support(settings.optimizer)
        self.dtype = problem.w.dtype
        self.tol = (1e-9 if self.dtype == jnp.float64 else 1e-4) if tol is None else tol

    def stored(self, free: PyTree) -> dict[str, Array]:
        """The arrays of the params, relative to those of the start."""
        return {
            name: p.constrained(free[name], self.origin[name].shape[-1])
            for name, p in self.declared.items()
        }

    def loss(self, free: PyTree) -> Float[Array, ""]:
        """Minus the mean penalised log-joint."""
        params = with_arrays(self.reference, self.stored(free))
        return -self.problem.objective(params) / self.problem.total

    def batch_loss(self, rows: Int[Array, "batch"]) -> Callable[[PyTree], Float[Array, ""]]:
        """The loss with the log-likelihood estimated from some of the rows."""
        whole = self.problem
        x, w = jax.tree.map(lambda a: a[rows], (whole.x, whole.w))

        def loss(free: PyTree) -> Float[Array, ""]:
            params = with_arrays(self.reference, self.stored(free))
            log_lik = weighted_log_joint(params, x, w) * (len(whole.w) / len(rows))
            return -(log_lik + whole.log_prior_density(params)) / whole.total

        return loss

    def norm(self, gradient: PyTree) -> Float[Array, ""]:
        """Largest absolute component; for a parameter of one class, per example of that class."""
        count = self.problem.stats.count
        share = divide(jnp.full_like(count, self.problem.total), count)
        found = []
        for name, p in self.declared.items():
            axis = self.origin[name].ndim - 1 - p.event_ndim
            for leaf in jax.tree.leaves(gradient[name]):
                scale = jnp.ones((), leaf.dtype)
                if name != PRIOR and leaf.shape[axis] == len(count):
                    scale = jnp.expand_dims(share, [i for i in range(leaf.ndim) if i != axis])
                    scale = jnp.broadcast_to(scale, leaf.shape)
                found.append(jnp.abs(leaf * scale).max(initial=0))
        return jnp.stack(found).max()

    def begin(self) -> State:
        free = {name: p.free(self.origin[name]) for name, p in self.declared.items()}
        trace = jnp.full(self.settings.max_steps + 1, jnp.nan, self.dtype)
        infinity = jnp.asarray(jnp.inf, self.dtype)
        with any_promotion():
            optimizer = self.optimizer.init(free)
        return State(free, optimizer, infinity, trace, jnp.int32(0), jnp.asarray(False))

    def cond(self, state: State) -> Bool[Array, ""]:
        more = state.step < self.settings.max_steps
        if self.settings.batch_size is not None:
            return more
        # A tenth of the tolerance, so that rounding does not decide whether it was reached.
        return more & (state.gradient_norm > 0.1 * self.tol) & ~state.stuck

    def step(self, state: State) -> State:
        """One step of the optimizer; with mini-batches, on rows drawn for this step."""
        loss: Callable[[PyTree], Array] = self.loss
        if self.settings.batch_size is not None and self.key is not None:
            key, n = jax.random.fold_in(self.key, state.step), len(self.problem.w)
            loss = self.batch_loss(jax.random.randint(key, (self.settings.batch_size,), 0, n))
        value, gradient = _value_and_gradient(loss, state, reuse=self.settings.batch_size is None)
        with any_promotion():
            updates, optimizer = self.optimizer.update(
                gradient, state.optimizer, state.free, value=value, grad=gradient, value_fn=loss
            )
        free = jax.tree.map(jnp.add, state.free, updates)
        stuck = jnp.asarray(False)
        if self.settings.stop_if_stuck:
            moved = jax.tree.map(lambda a, b: (a != b).any(), free, state.free)
            stuck = ~jnp.stack(jax.tree.leaves(moved)).any()
        norm = self.norm(gradient)
        objective = state.objective.at[state.step].set(-value * self.problem.total)
        return State(free, optimizer, norm, objective, state.step + 1, stuck)

    def end(self, state: State) -> GradientSolution:
        value, gradient = jax.value_and_grad(self.loss)(state.free)
        norm = self.norm(gradient)
        stored = self.stored(state.free)
        params = with_arrays(self.reference, stored)
        on_boundary = self._on_boundary(stored)
        return GradientSolution(
            params=of_determined(self.problem.clf, params, self.problem.stats),
            objective=state.objective.at[state.step].set(-value * self.problem.total),
            gradient_norm=norm,
            steps=state.step,
            on_boundary=on_boundary,
            converged=(norm <= self.tol) & ~on_boundary & (self.problem.total > 0),
        )

    def _on_boundary(self, stored: dict[str, Array]) -> Bool[Array, ""]:
        """Whether an entry is close to its bound, and the objective grows towards that bound."""

        def objective(stored: dict[str, Array]) -> Array:
            return self.problem.objective(with_arrays(self.reference, stored))

        slopes = jax.grad(objective)(stored)
        near = jnp.asarray(1e-6 if self.dtype == jnp.float64 else 3e-4, self.dtype)
        count = self.problem.stats.count
        found = [
            p.pressed_to_bound(stored[name], slopes[name], count, near).any()
            for name, p in self.declared.items()
        ]
        return jnp.stack(found).any()


def _value_and_gradient(loss: Callable, state: State, reuse: bool) -> tuple[Array, PyTree]:
    """Value and gradient of the loss; reused from the last line search, if there was one."""
    import optax

    if reuse and optax.tree.get(state.optimizer, "grad") is not None:
        with any_promotion():
            return optax.value_and_grad_from_state(loss)(state.free, state=state.optimizer)
    return jax.value_and_grad(loss)(state.free)
