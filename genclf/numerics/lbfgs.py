"""The library's L-BFGS minimiser: one evaluation per iteration, and no inner line search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from genclf.numerics import loops
from genclf.numerics.namespace import Array

MAX_EVALUATIONS = 1000
_MAX_HALVINGS = 12


class Search(NamedTuple):
    """The state of the search.

    Attributes:
        at: the current point.
        value: the value of the function there.
        grad: the gradient there.
        step: the step that L-BFGS proposes.
        size: the step size: the fraction of `step` to try next.
        memory: the state of L-BFGS.
        evaluations: number of evaluations of function and gradient so far.
        halvings: number of times that `size` was halved at this point.
        fresh: whether `step` is along the gradient, as after a start or restart at this point.
    """

    at: Array
    value: Array
    grad: Array
    step: Array
    size: Array
    memory: Any
    evaluations: Array
    halvings: Array
    fresh: Array

    @property
    def may_go_on(self) -> Array:
        """Whether evaluations are left, and the step size was not halved too often."""
        return (self.evaluations < MAX_EVALUATIONS) & (self.halvings < _MAX_HALVINGS)


class Minimiser:
    """The search for a minimum of one function."""

    def __init__(
        self, value_and_grad: Callable[[Array], tuple[Array, Array]], longest: float | None = None
    ):
        """Take the function, and the largest change of a coordinate in a step; None: no limit."""
        import optax  # here, since most fits do not need it

        self.value_and_grad, self.longest = value_and_grad, longest
        self.lbfgs = optax.scale_by_lbfgs()

    def start(self, at: Array) -> Search:
        """The search before its first step."""
        value, grad = self.value_and_grad(at)
        one, none = jnp.ones((), at.dtype), jnp.zeros((), jnp.int32)
        step, memory = self._begin(grad, at)
        return Search(at, value, grad, step, one, memory, none + 1, none, jnp.asarray(True))

    def run(self, search: Search, cond: Callable[[Search], Array]) -> Search:
        """Continue the search while the condition holds."""
        return loops.while_loop(lambda at: at.may_go_on & cond(at), self._body, search)

    def _begin(self, grad: Array, at: Array) -> tuple[Array, PyTree]:
        """A step along the gradient, and a memory that holds this gradient alone."""
        to_dtype = lambda a: a.astype(at.dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a  # noqa: E731
        return self._direction(grad, jax.tree.map(to_dtype, self.lbfgs.init(at)), at)

    def _direction(self, grad: Array, memory: PyTree, at: Array) -> tuple[Array, PyTree]:
        with any_promotion():
            step, new = self.lbfgs.update(grad, memory, at)
        step = -step
        if self.longest is not None:
            # If the function is not convex, the step of L-BFGS may be an ascent direction.
            step = jnp.where((step * grad).sum() < 0, step, -grad)
            step = jnp.clip(step, -self.longest, self.longest)
        return step, jax.tree.map(lambda a, like: a.astype(like.dtype), new, memory)

    # One evaluation per iteration, accepted or not: under vmap, searches do not wait for each
    # other's line search.
    def _body(self, last: Search) -> Search:
        at = last.at + last.size * last.step
        value, grad = self.value_and_grad(at)
        rounding = 4 * float(jnp.finfo(at.dtype).eps) * jnp.abs(last.value)
        enough = 1e-4 * last.size * (last.step * last.grad).sum() + rounding

        def accept() -> Search:
            step, memory = self._direction(grad, last.memory, at)
            size, halvings = jnp.ones_like(last.size), jnp.zeros_like(last.halvings)
            evaluations, fresh = last.evaluations + 1, jnp.zeros_like(last.fresh)
            return Search(at, value, grad, step, size, memory, evaluations, halvings, fresh)

        def shorten() -> Search:
            shorter = last._replace(
                size=last.size / 2, evaluations=last.evaluations + 1, halvings=last.halvings + 1
            )
            # Near a flat minimum rounding spoils the memory; the search then restarts.
            step, memory = self._begin(last.grad, last.at)
            size, none = jnp.ones_like(last.size), jnp.zeros_like(last.halvings)
            restarted = shorter._replace(step=step, memory=memory, size=size, halvings=none)
            spent = (shorter.halvings >= _MAX_HALVINGS) & ~last.fresh
            chosen = jax.tree.map(lambda a, b: jnp.where(spent, a, b), restarted, shorter)
            return chosen._replace(fresh=last.fresh | spent)

        # Where rounding hides the difference of two values, the norm of the gradient decides.
        level = value <= last.value + 100 * rounding
        flatter = level & (jnp.linalg.norm(grad) < jnp.linalg.norm(last.grad))
        return loops.cond((value <= last.value + enough) | flatter, accept, shorten)


@contextmanager
def any_promotion() -> Iterator[None]:
    """Allow mixed dtypes and ranks, which optax uses and the user may have forbidden."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
