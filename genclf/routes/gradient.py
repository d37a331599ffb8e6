"""The estimate by gradient ascent on the log-joint of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree

from genclf.classifier import Classifier, ClassifierParams
from genclf.model import check_hyperparameters, require_generative
from genclf.parameters import Parameter
from genclf.routes.problem import (
    PRIOR,
    Problem,
    declared,
    in_units_of,
    problem,
    start,
    weighted_log_joint,
    with_arrays,
)
from genclf.shapes import own
from genclf.statistics import divide

_CHUNKS = 100  # of a run with mini-batches, between which the progress bar moves


class GradientSolution(eqx.Module):
    """Where gradient ascent stopped, as `fit_gradient` returns it.

    Attributes:
        params: as `fit` returns them.
        log_lik: penalised log-likelihood before each step and after the last, (max_steps + 1,);
            NaN where no step was taken. An estimate from the batch where there are mini-batches.
        gradient_norm: largest component of the gradient of the mean penalised log-joint, in the
            unconstrained coordinates, at `params`; that of a parameter of one class as the mean
            over that class.
        steps: number of steps taken.
        on_boundary: whether some probability goes to 0 or 1, or some variance to 0: the maximum
            is then not inside the set of parameters, and no finite coordinates reach it.
        converged: whether `gradient_norm <= tol`, inside the set.
    """

    params: ClassifierParams
    log_lik: Float[Array, "steps_and_one"]
    gradient_norm: Float[Array, ""]
    steps: Int[Array, ""]
    on_boundary: Bool[Array, ""]
    converged: Bool[Array, ""]


def fit_gradient(
    clf: Classifier,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    optimizer: Any = None,
    max_steps: int = 1000,
    tol: float | None = None,
    key: Array | None = None,
    batch_size: int | None = None,
) -> GradientSolution:
    """The estimate by gradient ascent, knowing nothing of the closed form.

    Maximises, from a start at which all classes are alike,

    ::

        1/n ( Σ_nk w_nk log p(x_n, y=k) + log p(parameters) )

    over unconstrained coordinates, n the total weight. Where there is no smoothing and no ridge,
    the second term is 0 and the result is the maximum likelihood estimate. The coordinates follow
    from the constraint that each parameter declares (stick-breaking for a simplex, Cholesky factor
    with log-diagonal for a covariance), in the units of the covariance of all examples.

    Args:
        clf: the model.
        x: rows, as for `fit`.
        y: labels (n,) or responsibilities (n, K).
        weights: weight of each row, (n,).
        optimizer: any optax transformation; by default `optax.lbfgs`, with mini-batches Adam with
            a cosine schedule.
        max_steps: number of steps at most; with mini-batches, exactly.
        tol: on the gradient norm; by default 1e-9 in float64 and 1e-4 in float32. The ascent goes
            on to a tenth of it where rounding lets it.
        key: a `jax.random` key; only with `batch_size`.
        batch_size: rows drawn (with replacement) for each step; None for all rows.

    Returns:
        `GradientSolution`.

    Raises:
        ValueError: a shape, dtype or hyper-parameter is invalid, or of `key` and `batch_size`
            only one is given.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> found = gcf.fit_gradient(gcf.lda(2), x, y)
        >>> print(found.params.conditional.mean.ravel().round(3), found.converged)
        [1. 5.] True

    References:
        Nocedal & Wright (2006), Numerical Optimization, §7.2 (L-BFGS).
    """
    require_generative(clf, "fit_gradient")
    check_hyperparameters(clf)
    if (key is None) != (batch_size is None):
        raise ValueError("key and batch_size belong together: give both, or neither")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, expected >= 1")
    if max_steps < 0:
        raise ValueError(f"max_steps is {max_steps}, expected >= 0")
    rows = own(x, "x"), own(y, "y"), None if weights is None else own(weights, "weights")
    how = _How(
        optimizer or _default_optimizer(max_steps if batch_size else None),
        max_steps,
        batch_size,
        stop_if_stuck=optimizer is None and batch_size is None,
    )
    if key is None:
        return _ascend(how, clf, *rows, tol)
    return _ascend_in_batches(how, clf, rows, tol, key)


@lru_cache
def _default_optimizer(batched_steps: int | None) -> Any:
    import optax

    # One object for all calls, since a compiled function is found by its identity.
    if batched_steps is None:
        return optax.lbfgs(memory_size=20)
    return optax.adam(optax.cosine_decay_schedule(0.1, max(batched_steps, 1)))


class _How(NamedTuple):
    """What is static about a run."""

    optimizer: Any
    max_steps: int
    batch_size: int | None
    stop_if_stuck: bool


class _State(eqx.Module):
    free: PyTree
    optimizer: PyTree
    gradient_norm: Float[Array, ""]
    log_lik: Float[Array, "steps_and_one"]
    step: Int[Array, ""]
    stuck: Bool[Array, ""]


class _Ascent:
    """The objective in unconstrained coordinates, and the steps of the optimizer on it."""

    def __init__(self, how: _How, problem: Problem, tol: Array | float | None):
        import optax

        self.how, self.problem = how, problem
        self.units = start(problem.clf, problem.stats)
        self.declared: dict[str, Parameter] = declared(problem.clf, self.units)
        self.origin = in_units_of(self.units)
        self.optimizer = optax.with_extra_args_support(how.optimizer)
        self.dtype = problem.w.dtype
        self.tol = (1e-9 if self.dtype == jnp.float64 else 1e-4) if tol is None else tol

    def stored(self, free: PyTree) -> dict[str, Array]:
        """The arrays of the params, in the units of the start."""
        return {
            name: p.constrained(free[name], self.origin[name].shape[-1])
            for name, p in self.declared.items()
        }

    def loss(self, free: PyTree) -> Float[Array, ""]:
        """The mean penalised log-joint, negative."""
        params = with_arrays(self.units, self.stored(free))
        return -self.problem.objective(params) / self.problem.total

    def batch_loss(self, rows: Int[Array, "batch"]) -> Callable[[PyTree], Float[Array, ""]]:
        """The loss with the log-likelihood estimated from some of the rows."""
        whole = self.problem
        x, w = jax.tree.map(lambda a: a[rows], (whole.x, whole.w))

        def loss(free: PyTree) -> Float[Array, ""]:
            params = with_arrays(self.units, self.stored(free))
            log_lik = weighted_log_joint(params, x, w) * (len(whole.w) / len(rows))
            return -(log_lik + whole.log_prior(params)) / whole.total

        return loss

    def norm(self, gradient: PyTree) -> Float[Array, ""]:
        """Largest component; of a parameter of one class per example of that class."""
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

    def begin(self) -> _State:
        free = {name: p.free(self.origin[name]) for name, p in self.declared.items()}
        unknown = jnp.full(self.how.max_steps + 1, jnp.nan, self.dtype)
        far = jnp.asarray(jnp.inf, self.dtype)
        with _any_promotion():
            optimizer = self.optimizer.init(free)
        return _State(free, optimizer, far, unknown, jnp.int32(0), jnp.asarray(False))

    def go_on(self, state: _State) -> Bool[Array, ""]:
        # A tenth of the tolerance, so that rounding does not decide whether it was reached.
        far = ~(state.gradient_norm <= 0.1 * self.tol)
        return (state.step < self.how.max_steps) & far & ~state.stuck

    def step(self, state: _State, loss: Callable[[PyTree], Array]) -> _State:
        value, gradient = _value_and_gradient(loss, state, reuse=self.how.batch_size is None)
        with _any_promotion():
            updates, optimizer = self.optimizer.update(
                gradient, state.optimizer, state.free, value=value, grad=gradient, value_fn=loss
            )
        free = jax.tree.map(jnp.add, state.free, updates)
        stuck = jnp.asarray(False)
        if self.how.stop_if_stuck:
            moved = jax.tree.map(lambda a, b: (a != b).any(), free, state.free)
            stuck = ~jnp.stack(jax.tree.leaves(moved)).any()
        norm = self.norm(gradient)
        log_lik = state.log_lik.at[state.step].set(-value * self.problem.total)
        return _State(free, optimizer, norm, log_lik, state.step + 1, stuck)

    def end(self, state: _State) -> GradientSolution:
        value, gradient = jax.value_and_grad(self.loss)(state.free)
        norm = self.norm(gradient)
        stored = self.stored(state.free)
        on_boundary = self._on_boundary(stored)
        return GradientSolution(
            params=with_arrays(self.units, stored),
            log_lik=state.log_lik.at[state.step].set(-value * self.problem.total),
            gradient_norm=norm,
            steps=state.step,
            on_boundary=on_boundary,
            converged=(norm <= self.tol) & ~on_boundary & (self.problem.total > 0),
        )

    def _on_boundary(self, stored: dict[str, Array]) -> Bool[Array, ""]:
        """Whether an entry is close to its bound, and uphill is further still."""

        def objective(stored: dict[str, Array]) -> Array:
            return self.problem.objective(with_arrays(self.units, stored))

        slopes = jax.grad(objective)(stored)
        near = 1e-6 if self.dtype == jnp.float64 else 3e-4
        found = [
            p.pressed_to_bound(
                stored[name], slopes[name], self.problem.stats.count, jnp.asarray(near, self.dtype)
            )
            for name, p in self.declared.items()
        ]
        return jnp.stack([pressed.any() for pressed in found]).any()


@contextmanager
def _any_promotion() -> Iterator[None]:
    """Optax mixes dtypes and ranks, which a user may have forbidden."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def _value_and_gradient(loss: Callable, state: _State, reuse: bool) -> tuple[Array, PyTree]:
    """Of the loss, from the line search that ended here where there was one."""
    import optax

    if reuse and optax.tree.get(state.optimizer, "grad") is not None:
        with _any_promotion():
            return optax.value_and_grad_from_state(loss)(state.free, state=state.optimizer)
    return jax.value_and_grad(loss)(state.free)


@partial(jax.jit, static_argnums=0)
def _ascend(
    how: _How, clf: Classifier, x: PyTree, y: Array, weights: Array | None, tol: Any
) -> GradientSolution:
    ascent = _Ascent(how, problem(clf, x, y, weights), tol)
    step = partial(ascent.step, loss=ascent.loss)
    return ascent.end(lax.while_loop(ascent.go_on, step, ascent.begin()))


@partial(jax.jit, static_argnums=0)
def _begin(how: _How, clf: Classifier, x: PyTree, y: Array, weights: Array | None) -> _State:
    return _Ascent(how, problem(clf, x, y, weights), None).begin()


@partial(jax.jit, static_argnums=0)
def _batches(
    how: _How,
    clf: Classifier,
    x: PyTree,
    y: Array,
    weights: Array | None,
    key: Array,
    state: _State,
    until: Int[Array, ""],
) -> _State:
    """The steps up to `until`, each on rows drawn for it."""
    ascent = _Ascent(how, problem(clf, x, y, weights), None)
    n = len(ascent.problem.w)

    def step(state: _State) -> _State:
        rows = jax.random.randint(jax.random.fold_in(key, state.step), (how.batch_size or 0,), 0, n)
        return ascent.step(state, ascent.batch_loss(rows))

    return lax.while_loop(lambda state: state.step < until, step, state)


@partial(jax.jit, static_argnums=0)
def _end(
    how: _How, clf: Classifier, x: PyTree, y: Array, weights: Array | None, tol: Any, state: _State
) -> GradientSolution:
    return _Ascent(how, problem(clf, x, y, weights), tol).end(state)


def _ascend_in_batches(how: _How, clf: Classifier, rows: tuple, tol: Any, key: Array) -> Any:
    from tqdm.auto import tqdm

    state = _begin(how, clf, *rows)
    traced = any(isinstance(a, Tracer) for a in jax.tree.leaves((clf, rows, key)))
    chunk = how.max_steps if traced else -(-how.max_steps // _CHUNKS)
    # disable=None: no bar where nobody watches.
    with tqdm(total=how.max_steps, unit="step", disable=traced or None) as bar:
        for first in range(0, how.max_steps, max(chunk, 1)):
            until = min(first + chunk, how.max_steps)
            state = _batches(how, clf, *rows, key, state, jnp.int32(until))
            if not traced:
                bar.set_postfix(log_lik=f"{state.log_lik[until - 1]:.6g}", refresh=False)
            bar.update(until - first)
    return _end(how, clf, *rows, tol, state)
