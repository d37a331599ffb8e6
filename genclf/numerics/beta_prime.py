"""The upper tail of beta prime (so of F) distributions, by a table for each pair of parameters.

`jax.scipy.special.betainc` takes .6 to 4 microseconds per number, and is off by 3e-3 in float32 at
a = 4,700, b = 256, since it subtracts logarithms of gamma functions. Here the density is integrated
instead, relative to its maximum: docs/design/select.md has the measurements.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float

from genclf.numerics import loops
from genclf.numerics.namespace import Array

_CELLS = 256  # of a table, on either side of the mode
_POINTS = 10  # of the quadrature in each cell
_BISECTIONS = 30
# From the logarithm of the density, relative to its maximum, at the ends of the table; beyond its
# lower end the tail is 1 up to rounding, beyond its upper end it falls by the hazard there.
_LOWER, _UPPER = -38.0, -75.0
_FAR = 20.0  # eᵛ overflows in float32 from 88 on


class UpperTail(NamedTuple):
    """`P(R > r)` as a function of r: the fields are a table of its logarithm for each class.

    R is beta prime with parameters b and a: density `∝ r^(b-1) (1 + r)^-(a+b)`. `a R / b` has the F
    distribution with 2 b and 2 a degrees of freedom.

    Attributes:
        rate: a / b, (K,); a node is a number `v = log (rate r)`.
        below: the distance of two nodes below v = 0, (K,).
        above: that above it, (K,).
        cells: coefficients of a polynomial of degree 5 in each of M cells, from the lowest power;
            half of them are below v = 0, (6, K, M).
    """

    rate: Float[Array, "K"]
    below: Float[Array, "K"]
    above: Float[Array, "K"]
    cells: Float[Array, "6 K M"]

    def __call__(self, r: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        """The tails of r >= 0; NaN where r is."""
        some = r > 0
        rate, below, above = (jnp.broadcast_to(a, r.shape) for a in self[:3])
        v = jnp.log(jnp.where(some, r, 1) * rate)
        size = self.cells.shape[2]
        at = jnp.maximum(v / jnp.where(v < 0, below, above) + size // 2, 0)
        cell = jnp.clip(jnp.nan_to_num(lax.stop_gradient(at)), 0, size - 1).astype(jnp.int32)
        first = jnp.arange(len(self.rate), dtype=jnp.int32) * size
        index = cell + jnp.broadcast_to(first, cell.shape)
        # One coefficient at a time is read within the loop over numbers; six together are an array.
        c = [each.reshape(-1).at[index].get(mode="promise_in_bounds") for each in self.cells]
        s = at - cell.astype(at.dtype)
        inside = jnp.minimum(s, 1)
        log_p = c[5]
        for power in range(4, -1, -1):
            log_p = log_p * inside + c[power]
        slope = c[1] + 2 * c[2] + 3 * c[3] + 4 * c[4] + 5 * c[5]
        beyond = jnp.where(s > 1, s - 1, 0)
        log_p = jnp.where(s > 1, log_p + beyond * slope, log_p)
        return jnp.where(some, jnp.exp(jnp.minimum(log_p, 0)), jnp.where(r == 0, 1.0, jnp.nan))


def upper_tail(a: Float[Array, "K"], b: Float[Array, "K"]) -> UpperTail:
    """The tables of these parameters; NaN unless both are above 0."""
    valid = (a > 0) & (b > 0) & jnp.isfinite(a + b)
    a, b = jnp.where(valid, a, 1), jnp.where(valid, b, 1)
    density = _Density(a, b)
    below, above = (end / _CELLS for end in lax.stop_gradient(density.range()))
    cell = jnp.arange(-_CELLS, _CELLS + 1, dtype=a.dtype)[:, None]
    node = cell * jnp.where(cell < 0, below[None], above[None])  # (M + 1, K)
    width = jnp.where(cell[:-1] < 0, below[None], above[None])
    points, weights = (jnp.asarray(t, a.dtype) for t in np.polynomial.legendre.leggauss(_POINTS))
    inside = node[:-1][None] + width[None] * ((points + 1) / 2)[:, None, None]
    in_cell = 0.5 * width * (weights[:, None, None] * jnp.exp(density.log(inside))).sum(0)
    height, slope = jnp.exp(density.log(node)), density.slope(node)
    # Beyond the ends the density is nearly exponential.
    after, before = height[-1] / -slope[-1], height[0] / slope[0]
    tail = after[None] + jnp.concatenate(
        [jnp.cumsum(in_cell[::-1], 0)[::-1], jnp.zeros_like(in_cell[:1])]
    )
    hazard = height / tail
    log_tail = jnp.log(tail) - jnp.log(tail[0] + before)[None]
    cells = _hermite(log_tail, -hazard, -hazard * (slope + hazard), width)
    return UpperTail(jnp.where(valid, a / b, jnp.nan), below, above, jnp.swapaxes(cells, 1, 2))


class _Density(NamedTuple):
    """The density of `v = log R - log (b / a)`, relative to its maximum at v = 0."""

    a: Float[Array, "K"]
    b: Float[Array, "K"]

    def log(self, v: Float[Array, "*nodes K"]) -> Float[Array, "*nodes K"]:
        """Its logarithm, `b v - (a + b) log (1 + s (eᵛ - 1))` with s = b / (a + b)."""
        a, b = (jnp.broadcast_to(t, v.shape) for t in self)
        # The form without large terms, unless eᵛ is too large for it.
        by_b = jnp.where(b <= a, v < _FAR, v < -_FAR)
        up, down = jnp.where(by_b, v, 0), jnp.where(by_b, 0, -v)
        form_b = b * v - (a + b) * _log_mean(b / (a + b), a / (a + b), up)
        form_a = -a * v - (a + b) * _log_mean(a / (a + b), b / (a + b), down)
        return jnp.where(by_b, form_b, form_a)

    def slope(self, v: Float[Array, "*nodes K"]) -> Float[Array, "*nodes K"]:
        """The derivative of the logarithm."""
        a, b = (jnp.broadcast_to(t, v.shape) for t in self)
        change = jnp.expm1(-jnp.abs(v))
        of_smaller = jnp.where(v > 0, a, b) / (a + b) * change
        return jnp.sign(v) * (a * b / (a + b)) * change / (1 + of_smaller)

    def range(self) -> tuple[Float[Array, "K"], Float[Array, "K"]]:
        """How far below and above v = 0 the logarithm is that of the ends, by bisection."""
        deviation = jnp.sqrt(1 / self.a + 1 / self.b)

        def at(target: float, rate: Array, sign: int) -> Array:
            def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
                near, far = ends
                middle = (near + far) / 2
                is_near = self.log(sign * middle) > target
                return jnp.where(is_near, middle, near), jnp.where(is_near, far, middle)

            furthest = 40 * deviation - 1.1 * target / rate
            ends = jnp.zeros_like(furthest), furthest
            return loops.fori_loop(0, _BISECTIONS, halve, ends)[1]

        return at(_LOWER, self.b, -1), at(_UPPER, self.a, 1)


def _log_mean(share: Array, rest: Array, v: Array) -> Array:
    """`log (share eᵛ + rest)`, the shares with sum 1."""
    far = v < -_FAR
    near = jnp.log1p(share * jnp.expm1(jnp.where(far, 0, v)))
    return jnp.where(far, jnp.log(rest + share * jnp.exp(jnp.where(far, v, 0))), near)


def _hermite(
    value: Float[Array, "M1 K"],
    first: Float[Array, "M1 K"],
    second: Float[Array, "M1 K"],
    width: Float[Array, "M K"],
) -> Float[Array, "6 M K"]:
    """Polynomials on 0..1 with these values and derivatives at the two nodes of each cell."""
    rise = jnp.diff(value, axis=0)
    d0, d1 = first[:-1] * width, first[1:] * width
    e0, e1 = second[:-1] * width**2, second[1:] * width**2
    return jnp.stack(
        [
            value[:-1],
            d0,
            e0 / 2,
            10 * rise - 6 * d0 - 4 * d1 - 1.5 * e0 + 0.5 * e1,
            -15 * rise + 8 * d0 + 7 * d1 + 1.5 * e0 - e1,
            6 * rise - 3 * (d0 + d1) - 0.5 * e0 + 0.5 * e1,
        ]
    )
