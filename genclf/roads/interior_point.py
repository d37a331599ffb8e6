"""An interior-point method that finds the active bounds, then Newton's method off the bounds."""

from __future__ import annotations

from copy import copy
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from genclf.numerics import loops
from genclf.roads.kkt import Point, System

_SHRINK = 0.1  # factor on the complementarity in each step
_TO_BOUND = 0.99  # largest share of the distance to a bound in one step
# Largest last step at a maximum, relative to the parameters. If they diverge, a step is as long as
# all steps before it together.
LARGEST_LAST_STEP = 0.01
_SHORTEST = 1e-10  # smallest share of a Newton step that is tried


class InteriorPoint(System):
    """The phases of the solution of one problem: `interior`, then `polish`."""

    def advance(
        self, point: Point, target: Array, fixed: Array
    ) -> tuple[Point, Array, Bool[Array, ""], Array]:
        """A Newton step, shortened until it stays inside the bounds and lowers the violation.

        Returns:
            The point, its violation, whether the point is new, and the size of the full step
            relative to the parameters. That size goes to 0 at a maximum, but not if they diverge.
        """
        step = self.direction(point, target, fixed)

        def share_to_bound(left: Array, rate: Array) -> Array:
            # The share of the step that uses up `_TO_BOUND` of the distance `left`.
            shrinking = (rate < 0) & ~fixed
            return jnp.where(shrinking, _TO_BOUND * left / jnp.where(shrinking, -rate, 1), 1)

        ahead = [
            *zip(self.slack(point.theta), (step.theta, -step.theta), strict=True),
            (point.below, step.below),
            (point.above, step.above),
        ]
        shares = [
            jnp.where(bounded, share_to_bound(*own), 1).min(initial=1)
            for bounded, own in zip(2 * self.bounded, ahead, strict=True)
        ]
        longest = jnp.stack(shares).min()
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
        length, new, after = loops.while_loop(too_long, shorten, begin)
        improved = length > shortest
        kept = jax.tree.map(partial(jnp.where, improved), new, point)
        kept = kept._replace(steps=point.steps + 1)
        share = (jnp.abs(step.theta) / (1 + jnp.abs(point.theta))).max(initial=0)
        return kept, jnp.where(improved, after, before), improved, share

    def interior(self, point: Point, max_steps: int) -> tuple[Point, Array, Array]:
        """Interior-point steps until the complementarity shows which bounds are active."""
        none = jnp.zeros(point.theta.shape, bool)
        number = jnp.stack(self.bounded).sum().astype(point.theta.dtype)

        def gap(point: Point) -> Array:
            """Largest complementarity of an entry, relative to its gradient and multiplier."""
            size = jnp.abs(point.gradient)
            shares = self.per_bound(
                lambda z, r: r * z / jnp.maximum(size + z, self.tiny),
                (point.below, point.above),
                self.slack(point.theta),
            )
            return jnp.stack(shares).max(initial=0)

        def cond(state: tuple) -> Array:
            point, _, _, improved = state
            return (gap(point) > self.eps**0.75) & (point.steps < max_steps) & improved

        def step(state: tuple) -> tuple:
            point, *held, _ = state
            slack, z = self.slack(point.theta), (point.below, point.above)
            products = self.per_bound(jnp.multiply, slack, z)
            target = _SHRINK * (products[0] + products[1]).sum() / number
            new, _, improved, _ = self.advance(point, target, none)
            # Tapia's indicator: at an active bound, the slack shrinks faster than the multiplier.
            faster = self.per_bound(
                lambda r_new, r, z_new, z: r_new / r < z_new / z,
                self.slack(new.theta),
                slack,
                (new.below, new.above),
                z,
            )
            # Near a bound other than 0 the slack is lost in rounding, so its rate is meaningless.
            pinned = self.per_bound(
                lambda r, bound: r <= 4 * self.eps * jnp.abs(bound),
                self.slack(new.theta),
                (self.lower, self.upper),
            )
            faster = [f | p for f, p in zip(faster, pinned, strict=True)]
            held = [jnp.where(improved, f, h) for f, h in zip(faster, held, strict=True)]
            return new, *held, improved

        first = point, none, none, jnp.asarray(True)
        point, at_lower, at_upper, _ = loops.while_loop(cond, step, first)
        if self.block_size == 1:
            # The entries are independent, so the slope of each one at its bound decides.
            normal = self.constraint_gradient(point)
            on_lower, on_upper = (
                jax.grad(self.f)(jnp.where(bounded, bound, point.theta)) - normal
                for bounded, bound in zip(self.bounded, (self.lower, self.upper), strict=True)
            )
            # An entry that f does not depend on has slope 0, and has not come nearer to a bound.
            begun, ended = self.slack(self.init), self.slack(point.theta)
            near = [end < 0.5 * begin for end, begin in zip(ended, begun, strict=True)]
            at_lower = self.bounded[0] & near[0] & (on_lower < 0)
            at_upper = self.bounded[1] & near[1] & (on_upper > 0)
        theta = jnp.where(at_lower, self.lower, jnp.where(at_upper, self.upper, point.theta))
        zero = jnp.zeros_like(theta)
        point = point._replace(theta=theta, below=zero, above=zero, gradient=self.slope(theta))
        return point, at_lower, at_upper

    def polish(
        self, point: Point, at_lower: Array, at_upper: Array, max_steps: int
    ) -> tuple[Point, Array]:
        """Newton's method on the entries that are not at a bound, then the bounds' multipliers.

        Returns:
            The point, and the size of the last step.
        """
        fixed = at_lower | at_upper
        newton = self._newton_entries if self.block_size == 1 else self._newton
        point, share = newton(point, fixed, point.steps + max_steps)
        slope = point.gradient - self.constraint_gradient(point)
        point = point._replace(
            below=jnp.where(at_lower, -slope, 0), above=jnp.where(at_upper, slope, 0)
        )
        return point, share

    def _newton(self, point: Point, fixed: Array, last: Array) -> tuple[Point, Array]:
        unbounded = copy(self)
        unbounded.bounded = (jnp.zeros(fixed.shape, bool),) * 2
        nothing = jnp.zeros((), point.theta.dtype)

        def cond(state: tuple[Point, Array, Array, Array, Array]) -> Array:
            point, violation, improved, share, at_rounding = state
            # If there is a maximum, a long step that ends on a root is followed by a short one.
            going = ((violation > 4 * self.eps) & ~at_rounding) | (share > LARGEST_LAST_STEP)
            return improved & going & (point.steps < last)

        def step(state: tuple[Point, Array, Array, Array, Array]) -> tuple:
            point, before, *_ = state
            new, after, improved, share = unbounded.advance(point, nothing, fixed)
            # Near a root a step squares the violation; if not even halved, it is rounding error.
            at_rounding = (before <= jnp.sqrt(self.eps)) & (after > before / 2)
            return new, after, improved, share, at_rounding

        violation = unbounded.violation(point, nothing, fixed)
        first = point, violation, jnp.asarray(True), nothing, jnp.asarray(False)
        point, _, _, share, _ = loops.while_loop(cond, step, first)
        return point, share

    def _newton_entries(self, point: Point, fixed: Array, last: Array) -> tuple[Point, Array]:
        # The step of each entry is limited separately, to 0.9 of its distance to the bounds. So one
        # bad entry does not hold back thousands of others.
        none = jnp.zeros_like(point.theta)

        def cond(state: tuple[Point, Array]) -> Array:
            point, share = state
            return (share > 4 * self.eps) & (point.steps < last)

        def step(state: tuple[Point, Array]) -> tuple[Point, Array]:
            point = state[0]
            slope = jnp.where(fixed, 0, point.gradient - self.constraint_gradient(point))
            d_theta, d_multipliers = self._solve_diagonal(point, none, fixed, slope)
            below, above = self.slack(point.theta)
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

        point, share = loops.while_loop(cond, step, (point, jnp.full((), jnp.inf, none.dtype)))
        return point, jnp.minimum(share, 1)
