"""The Karush-Kuhn-Tucker equations of a problem, and the Newton direction for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from genclf.numerics.namespace import matmul
from genclf.sums.statistics import divide


class Point(NamedTuple):
    """An iterate: parameters, multipliers of constraints and bounds, gradient of f."""

    theta: Array
    multipliers: Array
    below: Array
    above: Array
    gradient: Array
    steps: Array


class System:
    """The KKT equations of one problem, with f scaled by the size of its gradient at the start."""

    def __init__(
        self, f: Callable, c: Callable, bounds: list[Array], init: Array, block_size: int | None
    ):
        """Maximise f subject to c = 0 and the lower and upper bounds, from `init`."""
        self.c, self.init, self.block_size = c, init, block_size
        self.lower, self.upper = bounds
        self.bounded = jnp.isfinite(self.lower), jnp.isfinite(self.upper)
        self.eps = jnp.finfo(init.dtype).eps
        self.tiny = jnp.asarray(1e-30, init.dtype)
        self.raw = f
        # With blocks c is linear, so one Jacobian serves all steps.
        blocks = block_size is not None and block_size > 1
        self.jacobian = jax.jacrev(c)(init) if blocks else None
        # If the start is the solution, its gradient is rounding error: use the curvature instead.
        found = jax.jvp(jax.grad(f), (init,), (jnp.ones_like(init),))
        self.slope_at_init = found[0]
        slope, curvature = (jnp.abs(a).max(initial=0) for a in found)
        size = jnp.where(slope > jnp.sqrt(self.eps) * curvature, slope, curvature)
        self.scale = jnp.where(size > 0, size, 1)

    def f(self, theta: Array) -> Array:
        """The objective; an entry on a bound is moved just inside, where derivatives exist."""
        above = jnp.where(theta <= self.lower, self.lower + self.tiny, theta)
        step = self.eps * jnp.maximum(1, jnp.abs(self.upper))
        moved = jnp.where(theta >= self.upper, self.upper - step, above)
        return self.raw(theta + lax.stop_gradient(moved - theta)) / self.scale

    def slope(self, theta: Array) -> Array:
        """The gradient; NaN where the objective is NaN, even if autodiff gives a number there."""
        value, gradient = jax.value_and_grad(self.f)(theta)
        return jnp.where(jnp.isnan(value), jnp.nan, gradient)

    def constraint_gradient(self, point: Point) -> Array:
        """`λᵀ ∇c`."""
        return jax.vjp(self.c, point.theta)[1](point.multipliers)[0]

    def stationarity(self, point: Point) -> Array:
        """`∇f - λᵀ ∇c + z_lower - z_upper`."""
        return point.gradient - self.constraint_gradient(point) + point.below - point.above

    def slack(self, theta: Array) -> tuple[Array, Array]:
        """Distance to the lower and to the upper bounds."""
        below, above = theta - self.lower, self.upper - theta
        return jnp.maximum(below, self.tiny), jnp.maximum(above, self.tiny)

    def per_bound(self, function: Callable[..., Array], *pairs: Sequence[Array]) -> list[Array]:
        """`function` for the lower and for the upper bounds; 0 for entries without that bound."""
        found = [(b, function(*values)) for b, *values in zip(self.bounded, *pairs, strict=True)]
        return [jnp.where(bounded, value, jnp.zeros_like(value)) for bounded, value in found]

    def begin(self) -> Point:
        ones = jnp.ones_like(self.init)
        below, above = self.per_bound(lambda one: one, (ones, ones))
        multipliers = jnp.zeros(self.c(self.init).shape, ones.dtype)
        gradient = self.slope_at_init / self.scale
        if self.block_size is None and len(multipliers):
            # By least squares: with multipliers 0 the Hessian would lack the curvature of c.
            jacobian = jax.jacrev(self.c)(self.init)
            multipliers = jnp.linalg.lstsq(jacobian.T, gradient)[0]
        return Point(self.init, multipliers, below, above, gradient, jnp.int32(0))

    def direction(self, point: Point, target: Array, fixed: Array) -> Point:
        """Newton's direction towards complementarity `target`; entries `fixed` stay."""
        slack, z = self.slack(point.theta), (point.below, point.above)
        barrier = self.per_bound(jnp.divide, z, slack)
        centring = self.per_bound(lambda r: target / r, slack)
        rhs = point.gradient - self.constraint_gradient(point) + centring[0] - centring[1]
        solvers = {None: self._solve_dense, 1: self._solve_diagonal}
        solve, rhs = solvers.get(self.block_size, self._solve_blocks), jnp.where(fixed, 0, rhs)
        d_theta, d_multipliers = solve(point, barrier[0] + barrier[1], fixed, rhs)
        below, above = self.per_bound(
            lambda r, z, d: (target - z * d) / r - z, slack, z, (d_theta, -d_theta)
        )
        return point._replace(theta=d_theta, multipliers=d_multipliers, below=below, above=above)

    def _solve_diagonal(self, point: Point, barrier: Array, fixed: Array, rhs: Array) -> tuple:
        ones = jnp.ones_like(rhs)
        curvature = jax.jvp(jax.grad(self.f), (point.theta,), (ones,))[1]
        left = barrier - curvature
        still = fixed | (left <= 0)  # an entry that f does not depend on stays where it is
        inverse = jnp.where(still, 0, 1 / jnp.where(still, 1, left))
        value, push_forward = jax.linearize(self.c, point.theta)
        pull_back = jax.linear_transpose(push_forward, point.theta)
        # A diag⁻¹ Aᵀ is diagonal, since no entry is in two constraints.
        schur = push_forward(inverse * pull_back(jnp.ones_like(value))[0])
        d_multipliers = divide(push_forward(inverse * rhs) + value, schur)
        return inverse * (rhs - pull_back(d_multipliers)[0]), d_multipliers

    def _solve_blocks(self, point: Point, barrier: Array, fixed: Array, rhs: Array) -> tuple:
        size, n = self.block_size or 1, len(rhs)
        number = n // size

        def column(i: Array) -> Array:
            # The i-th entry of every block at once: second derivatives across blocks are 0.
            at_i = jnp.tile(jax.nn.one_hot(i, size, dtype=rhs.dtype), number)
            return jax.jvp(jax.grad(self.f), (point.theta,), (at_i,))[1]

        hessian = jnp.moveaxis(jax.vmap(column)(jnp.arange(size)).reshape(size, number, size), 0, 2)
        free = ~fixed.reshape(number, size)
        hessian = jnp.where(free[:, :, None] & free[:, None, :], hessian, 0)
        diagonal = jnp.where(fixed, 1, barrier).reshape(number, size)
        left = diagonal[:, :, None] * jnp.eye(size, dtype=rhs.dtype)[None] - hessian
        assert self.jacobian is not None
        jacobian = jnp.where(~fixed[None, :], self.jacobian, 0)
        both = jnp.concatenate([rhs[:, None], jacobian.T], 1).reshape(number, size, -1)
        solved = jnp.linalg.solve(left, both).reshape(n, -1)
        step, spread = solved[:, 0], solved[:, 1:]
        short = matmul(jacobian, step) + self.c(point.theta)
        d_multipliers = jnp.linalg.solve(matmul(jacobian, spread), short)
        return step - matmul(spread, d_multipliers), d_multipliers

    def _dense(self, point: Point, barrier: Array, fixed: Array) -> tuple[Array, Array]:
        """Minus the Hessian of the Lagrangian, bounds included, and the Jacobian of c."""

        def lagrangian(theta: Array) -> Array:
            return self.f(theta) - matmul(point.multipliers, self.c(theta))

        free = ~fixed
        hessian = jnp.where(free[:, None] & free[None, :], jax.hessian(lagrangian)(point.theta), 0)
        jacobian = jnp.where(free[None, :], jax.jacrev(self.c)(point.theta), 0)
        return jnp.diag(jnp.where(fixed, 1, barrier)) - hessian, jacobian

    def _solve_dense(self, point: Point, barrier: Array, fixed: Array, rhs: Array) -> tuple:
        n = len(rhs)
        left, jacobian = self._dense(point, barrier, fixed)
        corner = jnp.zeros((len(jacobian), len(jacobian)), rhs.dtype)
        matrix = jnp.block([[left, jacobian.T], [jacobian, corner]])
        solution = jnp.linalg.solve(matrix, jnp.concatenate([rhs, -self.c(point.theta)]))
        return solution[:n], solution[n:]

    def violation(self, point: Point, target: Array, fixed: Array) -> Array:
        """Norm of the KKT equations, with complementarity `target`."""
        z = point.below, point.above
        off = self.per_bound(
            lambda z, r: jnp.where(fixed, 0, z * r - target), z, self.slack(point.theta)
        )
        slope = self.stationarity(point)
        parts = jnp.concatenate([jnp.where(fixed, 0, slope), self.c(point.theta), *off])
        return jnp.sqrt((parts * parts).sum())

    def check(self, point: Point) -> tuple[Array, Array]:
        """The residual, and whether bounds, signs and the curvature are those of a maximum."""
        finite = jnp.isfinite(self.f(point.theta))
        off = jnp.concatenate([self.stationarity(point), self.c(point.theta)])
        signs = (point.below >= 0) & (point.above >= 0)
        inside = (point.theta >= self.lower) & (point.theta <= self.upper)
        good = finite & (signs & inside).all() & self._curves_down(point)
        return jnp.abs(off).max(initial=0), good

    def _curves_down(self, point: Point) -> Array:
        if self.block_size is not None:
            return jnp.asarray(True)  # f is concave and c linear
        fixed = (point.theta <= self.lower) | (point.theta >= self.upper)
        left, jacobian = self._dense(point, jnp.zeros_like(point.theta), fixed)
        # W is positive definite on the null space of A if W + ρ AᵀA is, for large ρ.
        size = jnp.maximum(jnp.abs(left).max(initial=0), 1)
        steep = matmul(jacobian.T, jacobian)
        steep = 1e3 * size * steep / jnp.maximum(jnp.abs(steep).max(initial=0), self.tiny)
        rounding = 10 * self.eps * 1e3 * size * jnp.eye(len(left), dtype=left.dtype)
        return jnp.isfinite(jnp.linalg.cholesky(left + steep + rounding)).all()
