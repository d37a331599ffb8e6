"""The estimate by gradient ascent on the log-joint of the rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Int, PyTree

from genclf.arguments.domains import OPTIONAL_NON_NEGATIVE, Domain, whole
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments, optional_key
from genclf.classifier.classifier import Classifier
from genclf.numerics import loops
from genclf.roads.ascent import Ascent, GradientSolution, Settings, State
from genclf.roads.problem import problem, require_roads

_CALLS = 100  # maximum number of calls of a callback

Given = tuple[Classifier, tuple[PyTree, Array, Array | None], Array | float | None, Array | None]
"""The model; x, y and weights; the tolerance and the key."""


@checked_arguments(
    labels="supervised",
    optimizer=Domain(
        "an optax transformation, such as optax.adam(0.1), or None",
        lambda given: hasattr(given, "init") and hasattr(given, "update"),
        optional=True,
    ),
    max_steps=whole(0),
    tol=OPTIONAL_NON_NEGATIVE,
    key=optional_key,
    callback=Domain("a function of (step, log_lik), or None", callable, optional=True),
)
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
    callback: Callable[[int, float], None] | None = None,
) -> GradientSolution:
    """The estimate by gradient ascent, without use of the closed form.

    Starts from params that are the same for all classes, and maximises

    ::

        1/n ( Σ_nk w_nk log p(x_n, y=k) + log p(parameters) )

    over unconstrained coordinates, where n is the total weight. Without smoothing and ridge the
    second term is 0 and the result is the maximum likelihood estimate. The coordinates follow
    from the constraint that each parameter declares (stick-breaking for a simplex, Cholesky factor
    with log-diagonal for a covariance), in the units of the covariance of all examples.

    Args:
        clf: the model.
        x: rows, as for `fit`.
        y: labels (n,) or responsibilities (n, K).
        weights: weight of each row, (n,).
        optimizer: any optax transformation; by default `optax.lbfgs` or, for mini-batches, Adam
            with a cosine schedule.
        max_steps: maximum number of steps; with mini-batches, the exact number.
        tol: tolerance on the gradient norm; by default 1e-9 in float64 and 1e-4 in float32. The
            ascent continues to a tenth of it if rounding permits.
        key: a `jax.random` key; only with `batch_size`.
        batch_size: rows drawn (with replacement) for each step; None for all rows.
        callback: called on the host with the number of steps and the log-likelihood, after each
            hundredth of `max_steps`, to show progress.

    Returns:
        `GradientSolution`.

    Raises:
        ValueError: a shape, dtype, argument or hyper-parameter is invalid, or only one of `key`
            and `batch_size` is given.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> found = gcf.fit_gradient(gcf.lda(2), x, y)
        >>> print(found.params.conditional.mean.ravel().round(3), found.converged)
        [1. 5.] True

    References:
        Nocedal & Wright (2006), Numerical Optimization, §7.2 (L-BFGS).
    """
    require_roads(clf, "fit_gradient")
    if (key is None) != (batch_size is None):
        raise ValueError("key and batch_size belong together: give both, or neither")
    given = clf, (x, y, weights), tol, key
    settings = Settings(
        optimizer or _default_optimizer(max_steps if batch_size else None),
        max_steps,
        batch_size,
        stop_if_stuck=optimizer is None and batch_size is None,
    )
    if callback is None:
        return _ascend(settings, given)
    if any(isinstance(a, Tracer) for a in jax.tree.leaves((clf, x, y, weights, key))):
        raise ValueError("callback is called on the host: leave it out in traced code")
    state = _begin(settings, given)
    for share in range(1, _CALLS + 1):
        until = jnp.int32(share * max_steps // _CALLS)
        state = _continue(settings, given, state, until)
        callback(int(state.step), float(state.objective[jnp.maximum(state.step - 1, 0)]))
        if state.step < until:
            break
    return _end(settings, given, state)


@lru_cache
def _default_optimizer(batched_steps: int | None) -> Any:
    import optax

    # One object for all calls: the cache of compiled functions looks it up by identity.
    if batched_steps is None:
        return optax.lbfgs(memory_size=20)
    return optax.adam(optax.cosine_decay_schedule(0.1, max(batched_steps, 1)))


def _ascent(settings: Settings, given: Given) -> Ascent:
    clf, rows, tol, key = given
    return Ascent(settings, problem(clf, *rows), tol, key)


@partial(compiled, static_argnums=0)
def _ascend(settings: Settings, given: Given) -> GradientSolution:
    ascent = _ascent(settings, given)
    return ascent.end(loops.while_loop(ascent.cond, ascent.step, ascent.begin()))


@partial(compiled, static_argnums=0)
def _begin(settings: Settings, given: Given) -> State:
    return _ascent(settings, given).begin()


@partial(compiled, static_argnums=0)
def _continue(settings: Settings, given: Given, state: State, until: Int[Array, ""]) -> State:
    """The steps up to `until`."""
    ascent = _ascent(settings, given)
    return loops.while_loop(lambda at: ascent.cond(at) & (at.step < until), ascent.step, state)


@partial(compiled, static_argnums=0)
def _end(settings: Settings, given: Given, state: State) -> GradientSolution:
    return _ascent(settings, given).end(state)
