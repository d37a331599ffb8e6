"""Least squares over the simplex."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float, Int

from genclf.numerics import loops
from genclf.numerics.namespace import Array, matmul

_STEPS = 60
_CENTRING = 0.1  # share of the complementarity that a step aims at
_TO_BOUND = 0.99  # largest share of the distance to a bound in one step


class _Point(NamedTuple):
    """A point inside the simplex, the multipliers of `π >= 0`, and the steps so far."""

    pi: Float[Array, "K"]
    z: Float[Array, "K"]
    steps: Int[Array, ""]


def least_squares(
    matrix: Float[Array, "J K"], v: Float[Array, "J"], allowed: Bool[Array, "K"]
) -> Float[Array, "K"]:
    """`argmin |matrix π - v|²` over `Σ π = 1, π >= 0`, with derivatives; 0 where not allowed.

    An interior-point method finds which π are 0; the equations of the others are then solved, with
    the share `eps` of the largest square of a column as a ridge, so that equal columns share.
    Derivatives are those of the solution of these equations.
    """
    matrix = jnp.where(allowed[None], matrix, 0)
    h, g = matmul(matrix.T, matrix), matmul(matrix.T, v)
    size = jnp.diagonal(h).max()
    h, g = h / size, g / size
    # Without a column the slope is above that of all others, whatever π.
    g = jnp.where(allowed, g, -4 - jnp.abs(g).max())
    eps = float(jnp.finfo(h.dtype).eps)
    h = h + eps * jnp.eye(len(h), dtype=h.dtype)
    end = _interior(lax.stop_gradient(h), lax.stop_gradient(g))
    free = (end.pi >= end.z) & allowed
    both = free[:, None] & free[None]
    inside = jnp.where(both, h, jnp.eye(len(h), dtype=h.dtype))
    u, w = jnp.linalg.solve(inside, jnp.stack([jnp.where(free, g, 0), free.astype(h.dtype)], 1)).T
    pi = jnp.where(free, jnp.maximum(u + w * ((1 - u.sum()) / w.sum()), 0), 0)
    pi = pi / pi.sum()
    # Where rounding hides which numbers are 0, the interior point is better, by more than rounding.
    value = lambda pi: (pi * (0.5 * matmul(h, pi) - g)).sum()  # noqa: E731
    better = allowed & (value(end.pi) < value(pi) - len(g) * eps)
    return pi + lax.stop_gradient(jnp.where(better, end.pi - pi, 0))


def _interior(h: Float[Array, "K K"], g: Float[Array, "K"]) -> _Point:
    """A point near the minimum of `½ πᵀ h π - g π` over the simplex."""
    count, dtype = len(g), g.dtype
    eps = float(jnp.finfo(dtype).eps)

    def slope(pi: Array) -> Array:
        return matmul(h, pi) - g

    def gap(at: _Point) -> Array:
        return (at.pi * at.z).sum()

    def step(at: _Point) -> _Point:
        target = _CENTRING * gap(at) / count
        # With `dz = (target - z dπ) / π - z`, Newton's equations of the slope of the Lagrangian.
        curved = h + jnp.diag(at.z / at.pi)
        rest = target / at.pi - slope(at.pi)
        u, w = jnp.linalg.solve(curved, jnp.stack([rest, jnp.ones_like(rest)], 1)).T
        change = u - w * (u.sum() / w.sum())
        dz = (target - at.z * change) / at.pi - at.z
        shrinks = [(at.pi, change), (at.z, dz)]
        each = [jnp.where(d < 0, a / jnp.where(d < 0, -d, 1), jnp.inf).min() for a, d in shrinks]
        primal, dual = (jnp.minimum(1, _TO_BOUND * longest) for longest in each)
        return _Point(at.pi + primal * change, at.z + dual * dz, at.steps + 1)

    def cond(at: _Point) -> Array:
        return (gap(at) > eps) & (at.steps < _STEPS)

    start = jnp.full(count, 1 / count, dtype)
    first = slope(start)
    z = first - first.min() + jnp.maximum(jnp.abs(first).max(), eps)
    return loops.while_loop(cond, step, _Point(start, z, jnp.int32(0)))
