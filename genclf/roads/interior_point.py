"""Newton's method on the Karush-Kuhn-Tucker equations: `solve_constrained`'s machinery.

An interior-point method finds which bounds hold; Newton's method polishes the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

from genclf.sums.blocks import matmul
from genclf.sums.statistics import divide

_SHRINK = 0.1  # of the complementarity, each step
_TO_BOUND = 0.99  # of the way to a bound, at most
# Of the parameters, at a maximum; where it is at infinity, a step is as long as the way so far.
LARGEST_LAST_STEP = 0.01
_SHORTEST = 1e-10  # share of a Newton step worth trying


class Point(NamedTuple):
    """A place on the way: parameters, multipliers of constraints and bounds, gradient of f."""

    theta: Array
    multipliers: Array
    below: Array
    above: Array
    gradient: Array
    steps: Array


class System:
    """The KKT equations of one problem, of the objective over its gradient at the start."""

    def __init__(
        self,
        f: Callable,
        c: Callable,
        lower: Array,
        upper: Array,
        init: Array,
        block_size: int | None,
    ):
        """Maximise f subject to c = 0 and the bounds, from `init`."""
        self.c, self.lower, self.upper, self.init = c, lower, upper, init
        self.block_size = block_size
        self.bounded = jnp.isfinite(lower), jnp.isfinite(upper)
        self.eps = jnp.finfo(init.dtype).eps
        self.tiny = jnp.asarray(1e-30, init.dtype)
        self.raw = f
        # Of blocks c is linear: one Jacobian serves all steps.
        blocks = block_size is not None and block_size > 1
        self.jacobian = jax.jacrev(c)(init) if blocks else None
        self.slope_at_init = jax.grad(f)(init)
        # A start at the solution has a slope that is rounding: then the curvature tells the size.
        slope = jnp.abs(self.slope_at_init).max(initial=0)
        bend = jax.jvp(jax.grad(f), (init,), (jnp.ones_like(init),))[1]
        bend = jnp.abs(bend).max(initial=0)
        size = jnp.where(slope > jnp.sqrt(self.eps) * bend, slope, bend)
        self.scale = jnp.where(size > 0, size, 1)

    def f(self, theta: Array) -> Array:
        """The objective, off the bounds by less than counts: there it has one-sided derivatives."""
        above = jnp.where(theta <= self.lower, self.lower + self.tiny, theta)
        step = self.eps * jnp.maximum(1, jnp.abs(self.upper))
        moved = jnp.where(theta >= self.upper, self.upper - step, above)
        return self.raw(theta + lax.stop_gradient(moved - theta)) / self.scale

    def slope(self, theta: Array) -> Array:
        """The gradient; NaN where the objective is NaN, which has a gradient now and then."""
        value, gradient = jax.value_and_grad(self.f)(theta)
        return jnp.where(jnp.isnan(value), jnp.nan, gradient)

    def pull_back(self, point: Point) -> Array:
        """`λᵀ ∇c`."""
        return jax.vjp(self.c, point.theta)[1](point.multipliers)[0]

    def stationarity(self, point: Point) -> Array:
        """`∇f - λᵀ ∇c + z_lower - z_upper`."""
        return point.gradient - self.pull_back(point) + point.below - point.above

    def room(self, theta: Array) -> tuple[Array, Array]:
        """Distance to the lower and to the upper bounds."""
        return (
            jnp.maximum(theta - self.lower, self.tiny),
            jnp.maximum(self.upper - theta, self.tiny),
        )

    def per_bound(self, function: Callable[..., Array], *pairs: Any) -> list[Array]:
        """`function` of each kind of bound, 0 where there is none."""
        found = [(b, function(*values)) for b, *values in zip(self.bounded, *pairs, strict=True)]
        return [jnp.where(bounded, value, jnp.zeros_like(value)) for bounded, value in found]

    def begin(self) -> Point:
        ones = jnp.ones_like(self.init)
        below, above = self.per_bound(lambda one: one, (ones, ones))
        multipliers = jnp.zeros(self.c(self.init).shape, ones.dtype)
        gradient = self.slope_at_init / self.scale
        if self.block_size is None and len(multipliers):
            # By least squares: the curvature of c counts only with a multiplier.
            jacobian = jax.jacrev(self.c)(self.init)
            multipliers = jnp.linalg.lstsq(jacobian.T, gradient)[0]
        return Point(self.init, multipliers, below, above, gradient, jnp.int32(0))

    def direction(self, point: Point, target: Array, fixed: Array) -> Point:
        """Newton's direction towards complementarity `target`; entries `fixed` stay."""
        room, z = self.room(point.theta), (point.below, point.above)
        pulls = self.per_bound(jnp.divide, z, room)
        push = self.per_bound(lambda r: target / r, room)
        rhs = point.gradient - self.pull_back(point) + push[0] - push[1]
        solve = {None: self._solve_dense, 1: self._solve_diagonal}.get(
            self.block_size, self._solve_blocks
        )
        d_theta, d_multipliers = solve(point, pulls[0] + pulls[1], fixed, jnp.where(fixed, 0, rhs))
        rates = self.per_bound(
            lambda r, z, d: (target - z * d) / r - z, room, z, (d_theta, -d_theta)
        )
        return point._replace(
            theta=d_theta, multipliers=d_multipliers, below=rates[0], above=rates[1]
        )

    def _solve_diagonal(self, point: Point, pull: Array, fixed: Array, rhs: Array) -> tuple:
        ones = jnp.ones_like(rhs)
        curvature = jax.jvp(jax.grad(self.f), (point.theta,), (ones,))[1]
        left = pull - curvature
        still = fixed | (left <= 0)  # an entry that f does not depend on stays where it is
        inverse = jnp.where(still, 0, 1 / jnp.where(still, 1, left))
        value, push_forward = jax.linearize(self.c, point.theta)
        pull_back = jax.linear_transpose(push_forward, point.theta)
        # A diag⁻¹ Aᵀ is diagonal: no entry is in two constraints.
        schur = push_forward(inverse * pull_back(jnp.ones_like(value))[0])
        d_multipliers = divide(push_forward(inverse * rhs) + value, schur)
        return inverse * (rhs - pull_back(d_multipliers)[0]), d_multipliers

    def _solve_blocks(self, point: Point, pull: Array, fixed: Array, rhs: Array) -> tuple:
        size, n = self.block_size or 1, len(rhs)
        number = n // size

        def column(i: Array) -> Array:
            # The i-th entry of every block at once: blocks do not see each other.
            at_i = jnp.tile(jax.nn.one_hot(i, size, dtype=rhs.dtype), number)
            return jax.jvp(jax.grad(self.f), (point.theta,), (at_i,))[1]

        hessian = jnp.moveaxis(jax.vmap(column)(jnp.arange(size)).reshape(size, number, size), 0, 2)
        free = ~fixed.reshape(number, size)
        hessian = jnp.where(free[:, :, None] & free[:, None, :], hessian, 0)
        diagonal = jnp.where(fixed, 1, pull).reshape(number, size)
        left = diagonal[:, :, None] * jnp.eye(size, dtype=rhs.dtype)[None] - hessian
        assert self.jacobian is not None
        jacobian = jnp.where(~fixed[None, :], self.jacobian, 0)
        both = jnp.concatenate([rhs[:, None], jacobian.T], 1).reshape(number, size, -1)
        solved = jnp.linalg.solve(left, both).reshape(n, -1)
        step, spread = solved[:, 0], solved[:, 1:]
        short = matmul(jacobian, step) + self.c(point.theta)
        d_multipliers = jnp.linalg.solve(matmul(jacobian, spread), short)
        return step - matmul(spread, d_multipliers), d_multipliers

    def _dense(self, point: Point, pull: Array, fixed: Array) -> tuple[Array, Array]:
        """Minus the Hessian of the Lagrangian, bounds included, and the Jacobian of c."""

        def lagrangian(theta: Array) -> Array:
            return self.f(theta) - matmul(point.multipliers, self.c(theta))

        free = ~fixed
        hessian = jnp.where(free[:, None] & free[None, :], jax.hessian(lagrangian)(point.theta), 0)
        jacobian = jnp.where(free[None, :], jax.jacrev(self.c)(point.theta), 0)
        return jnp.diag(jnp.where(fixed, 1, pull)) - hessian, jacobian

    def _solve_dense(self, point: Point, pull: Array, fixed: Array, rhs: Array) -> tuple:
        n = len(rhs)
        left, jacobian = self._dense(point, pull, fixed)
        corner = jnp.zeros((len(jacobian), len(jacobian)), rhs.dtype)
        matrix = jnp.block([[left, jacobian.T], [jacobian, corner]])
        solution = jnp.linalg.solve(matrix, jnp.concatenate([rhs, -self.c(point.theta)]))
        return solution[:n], solution[n:]

    def violation(self, point: Point, target: Array, fixed: Array) -> Array:
        """Norm of the KKT equations, with complementarity `target`."""
        z = point.below, point.above
        off = self.per_bound(
            lambda z, r: jnp.where(fixed, 0, z * r - target), z, self.room(point.theta)
        )
        slope = self.stationarity(point)
        parts = jnp.concatenate([jnp.where(fixed, 0, slope), self.c(point.theta), *off])
        return jnp.sqrt((parts * parts).sum())

    def advance(
        self, point: Point, target: Array, fixed: Array
    ) -> tuple[Point, Array, Bool[Array, ""], Array]:
        """A Newton step, shortened until it stays inside and lowers the violation.

        Returns:
            The point, its violation, whether it is another, and the size of the whole step as a
            share of the parameters: it vanishes towards a maximum, and towards infinity does not.
        """
        step = self.direction(point, target, fixed)

        def reach(left: Array, rate: Array) -> Array:
            # The share of the step at which what is left would be used up.
            shrinking = (rate < 0) & ~fixed
            return jnp.where(shrinking, _TO_BOUND * left / jnp.where(shrinking, -rate, 1), 1)

        ahead = [
            *zip(self.room(point.theta), (step.theta, -step.theta), strict=True),
            (point.below, step.below),
            (point.above, step.above),
        ]
        bounded = [*self.bounded, *self.bounded]
        longest = jnp.stack(
            [jnp.where(b, reach(*a), 1).min(initial=1) for b, a in zip(bounded, ahead, strict=True)]
        ).min()
        before = self.violation(point, target, fixed)

        def at(length: Array) -> Point:
            theta, *z = [a + length * d for a, d in zip(point[:4], step[:4], strict=True)]
            return Point(theta, z[0], z[1], z[2], self.slope(theta), point.steps + 1)

        def too_long(state: tuple[Array, Point, Array]) -> Array:
            length, _, after = state
            return ~(after <= (1 - 1e-4 * length) * before) & (length > shortest)

        def shorten(state: tuple[Array, Point, Array]) -> tuple[Array, Point, Array]:
            length = state[0] / 2
            new = at(length)
            return length, new, self.violation(new, target, fixed)

        shortest = max(_SHORTEST, float(self.eps))
        begin = 2 * longest, point, jnp.full_like(before, jnp.inf)
        length, new, after = lax.while_loop(too_long, shorten, begin)
        improved = length > shortest
        kept = jax.tree.map(partial(jnp.where, improved), new, point)
        kept = kept._replace(steps=point.steps + 1)
        share = (jnp.abs(step.theta) / (1 + jnp.abs(point.theta))).max(initial=0)
        return kept, jnp.where(improved, after, before), improved, share

    def interior(self, point: Point, max_steps: int) -> tuple[Point, Array, Array]:
        """From the start to where complementarity tells which bounds hold."""
        none = jnp.zeros(point.theta.shape, bool)
        number = jnp.stack(self.bounded).sum().astype(point.theta.dtype)

        def gap(point: Point) -> Array:
            """Largest complementarity of an entry, free of units."""
            size = jnp.abs(point.gradient)
            shares = self.per_bound(
                lambda z, r: r * z / jnp.maximum(size + z, self.tiny),
                (point.below, point.above),
                self.room(point.theta),
            )
            return jnp.stack(shares).max(initial=0)

        def go_on(state: tuple) -> Array:
            point, _, _, improved = state
            return (gap(point) > self.eps**0.75) & (point.steps < max_steps) & improved

        def step(state: tuple) -> tuple:
            point, *held, _ = state
            room, z = self.room(point.theta), (point.below, point.above)
            products = self.per_bound(jnp.multiply, room, z)
            target = _SHRINK * (products[0] + products[1]).sum() / number
            new, _, improved, _ = self.advance(point, target, none)
            # Tapia's indicator: at a bound that holds, the room shrinks faster than the multiplier.
            faster = self.per_bound(
                lambda r_new, r, z_new, z: r_new / r < z_new / z,
                self.room(new.theta),
                room,
                (new.below, new.above),
                z,
            )
            # Beside a bound other than 0 the room is lost in rounding, and its rate says nothing.
            pinned = self.per_bound(
                lambda r, bound: r <= 4 * self.eps * jnp.abs(bound),
                self.room(new.theta),
                (self.lower, self.upper),
            )
            faster = [f | p for f, p in zip(faster, pinned, strict=True)]
            held = [jnp.where(improved, f, h) for f, h in zip(faster, held, strict=True)]
            return new, *held, improved

        first = point, none, none, jnp.asarray(True)
        point, at_lower, at_upper, _ = lax.while_loop(go_on, step, first)
        if self.block_size == 1:
            # Entries do not see each other, so the slope that each has on its bound decides.
            pull = self.pull_back(point)
            on_lower = jax.grad(self.f)(jnp.where(self.bounded[0], self.lower, point.theta)) - pull
            on_upper = jax.grad(self.f)(jnp.where(self.bounded[1], self.upper, point.theta)) - pull
            # Of which f does not depend has slope 0 everywhere, and has not come nearer.
            begun, ended = self.room(self.init), self.room(point.theta)
            near = [end < 0.5 * begin for end, begin in zip(ended, begun, strict=True)]
            at_lower = self.bounded[0] & near[0] & (on_lower < 0)
            at_upper = self.bounded[1] & near[1] & (on_upper > 0)
        return point, at_lower, at_upper

    def polish(
        self, point: Point, at_lower: Array, at_upper: Array, max_steps: int
    ) -> tuple[Point, Array]:
        """Newton's method on the entries that no bound holds, then the bounds' multipliers.

        Returns:
            The point, and the size of the last step.
        """
        fixed = at_lower | at_upper
        theta = jnp.where(at_lower, self.lower, jnp.where(at_upper, self.upper, point.theta))
        zero = jnp.zeros_like(theta)
        point = point._replace(theta=theta, below=zero, above=zero, gradient=self.slope(theta))
        newton = self._newton_entries if self.block_size == 1 else self._newton
        point, share = newton(point, fixed, point.steps + max_steps)
        slope = point.gradient - self.pull_back(point)
        point = point._replace(
            below=jnp.where(at_lower, -slope, 0), above=jnp.where(at_upper, slope, 0)
        )
        return point, share

    def _newton(self, point: Point, fixed: Array, last: Array) -> tuple[Point, Array]:
        unbounded = copy(self)
        unbounded.bounded = (jnp.zeros(fixed.shape, bool),) * 2
        nothing = jnp.zeros((), point.theta.dtype)

        def go_on(state: tuple[Point, Array, Array, Array, Array]) -> Array:
            point, violation, improved, share, at_rounding = state
            # A long step that ends on a root is followed by a short one, or there is no maximum.
            going = ((violation > 4 * self.eps) & ~at_rounding) | (share > LARGEST_LAST_STEP)
            return improved & going & (point.steps < last)

        def step(state: tuple[Point, Array, Array, Array, Array]) -> tuple:
            point, before, *_ = state
            new, after, improved, share = unbounded.advance(point, nothing, fixed)
            # So near, a step squares the violation: one that does not halve it is rounding.
            at_rounding = (before <= jnp.sqrt(self.eps)) & (after > before / 2)
            return new, after, improved, share, at_rounding

        violation = unbounded.violation(point, nothing, fixed)
        first = point, violation, jnp.asarray(True), nothing, jnp.asarray(False)
        point, _, _, share, _ = lax.while_loop(go_on, step, first)
        return point, share

    def _newton_entries(self, point: Point, fixed: Array, last: Array) -> tuple[Point, Array]:
        # Each entry keeps a tenth of its distance to the bounds, by itself: one that is far off,
        # of many thousands, does not hold back the others.
        none = jnp.zeros_like(point.theta)

        def go_on(state: tuple[Point, Array]) -> Array:
            point, share = state
            return (share > 4 * self.eps) & (point.steps < last)

        def step(state: tuple[Point, Array]) -> tuple[Point, Array]:
            point = state[0]
            slope = point.gradient - self.pull_back(point)
            d_theta, d_multipliers = self._solve_diagonal(
                point, none, fixed, jnp.where(fixed, 0, slope)
            )
            below, above = self.room(point.theta)
            d_theta = jnp.where(fixed, 0, jnp.clip(d_theta, -0.9 * below, 0.9 * above))
            share = jnp.abs(d_theta) / jnp.maximum(jnp.minimum(below, above), self.tiny)
            share = jnp.where(jnp.isinf(below) & jnp.isinf(above), jnp.abs(d_theta), share)
            theta = point.theta + d_theta
            new = point._replace(
                theta=theta,
                multipliers=point.multipliers + d_multipliers,
                gradient=self.slope(theta),
                steps=point.steps + 1,
            )
            return new, share.max(initial=0)

        point, share = lax.while_loop(go_on, step, (point, jnp.full((), jnp.inf, none.dtype)))
        return point, jnp.minimum(share, 1)

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
        # W is positive on the null space of A if W + ρ AᵀA is positive for large ρ.
        size = jnp.maximum(jnp.abs(left).max(initial=0), 1)
        steep = matmul(jacobian.T, jacobian)
        steep = 1e3 * size * steep / jnp.maximum(jnp.abs(steep).max(initial=0), self.tiny)
        slack = 10 * self.eps * 1e3 * size * jnp.eye(len(left), dtype=left.dtype)
        return jnp.isfinite(jnp.linalg.cholesky(left + steep + slack)).all()
