"""Modified Bessel functions `I_ν(κ)` and ratios of neighbouring orders, up to large ν and κ."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from genclf.numerics.namespace import Array

_LEAST_ORDER = 32.0  # the least order at which the expansion is accurate in float64
_TERMS = 11


@cache
def _polynomials() -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of Olver's `U_k(t)`, and of `½ U_k(t) + t U_k'(t)`, by powers of t."""
    u = [[Fraction(1)]]
    for k in range(_TERMS):
        last = u[-1]
        following = [Fraction(0)] * (3 * (k + 1) + 1)
        for power, c in enumerate(last):
            # ½ t² (1 - t²) U' + ⅛ ∫ (1 - 5 t²) U
            following[power + 1] += c * power / 2 + c / (8 * (power + 1))
            following[power + 3] -= c * power / 2 + 5 * c / (8 * (power + 3))
        u.append(following)
    width = len(u[-1])
    table = np.array([[float(c) for c in row] + [0.0] * (width - len(row)) for row in u])
    slope = table * (0.5 + np.arange(width))
    return table, slope


def _expansion(order: float, t: Array) -> tuple[Array, Array]:
    """`Σ_k U_k(t) / ν^k`, and `Σ_k (½ U_{k-1} + t U'_{k-1}) / ν^k` divided by it."""
    u, slope = _polynomials()
    scale = order ** -np.arange(len(u))
    of_u = jnp.polyval(jnp.asarray((scale @ u)[::-1], t.dtype), t)
    of_slope = jnp.polyval(jnp.asarray((scale @ slope)[::-1] / order, t.dtype), t)
    return of_u, of_slope / of_u


def log_bessel_and_ratios(
    dim: int, kappa: Float[Array, "*K"]
) -> tuple[Float[Array, "*K"], Float[Array, "*K"], Float[Array, "*K"]]:
    """`log(e^-κ I_ν(κ) κ^-ν)`, `I_{ν+1}(κ) / (κ I_ν(κ))`, `1 - I_{ν+1}(κ) / I_ν(κ)`; ν = d/2 - 1.

    Olver's uniform expansion is used at an order of 32 or more. The recurrence
    `I_{ν-1}(κ) - I_{ν+1}(κ) = 2 ν I_ν(κ) / κ`, stable downwards, leads from there to ν. κ >= 0.
    """
    lowest = 0.5 * dim - 1
    steps = max(math.ceil(_LEAST_ORDER - lowest), 0)
    order = lowest + steps
    z = kappa / order
    root = jnp.hypot(1, z)
    t = 1 / root
    series, correction = _expansion(order, t)
    log_bessel = (
        order / (root + z)
        - order * jnp.log1p(root)
        - order * math.log(order)
        - 0.5 * math.log(2 * math.pi * order)
        - 0.5 * jnp.log(root)
        + jnp.log(series)
    )
    share = (1 / (1 + root) - t**2 * correction) / order
    rest = (1 + 1 / (root + z)) / (1 + root) + z * t**2 * correction
    for step in range(steps):
        higher = order - step  # from the ratio at this order to that at the next lower one
        below = 2 * higher + kappa**2 * share
        rest = (2 * higher - kappa * rest) / below
        share = 1 / below
        log_bessel = log_bessel - jnp.log(share)
    return log_bessel, share, rest
