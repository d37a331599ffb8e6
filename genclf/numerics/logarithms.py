"""Accurate logarithms: of 0, of ratios of gamma functions, of proportions, of counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from genclf.numerics.namespace import Array, jax, jnp, lax, namespace, on_host

LOG_2PI = math.log(2 * math.pi)


def gammaln(a: Any) -> Any:
    """`log Γ(a)`."""
    if not on_host(a):
        return lax.lgamma(a)
    from scipy import special  # slow to import

    return special.gammaln(a)


def power_of_two(size: Any) -> tuple[Any, Any]:
    """A power of two near to positive numbers, and its inverse, both ordinary float32 numbers."""
    xp = namespace(size)
    exponent, one = xp.clip(xp.frexp(size)[1], -126, 126), xp.ones_like(size)
    return xp.ldexp(one, exponent), xp.ldexp(one, -exponent)


def safe_log(p: Array) -> Array:
    """`log p`, with -inf and gradient 0 at p = 0."""
    xp = namespace(p)
    return xp.where(p == 0, -xp.inf, xp.log(xp.where(p == 0, 1, p)))


def times_log(count: Array, log_p: Array) -> Array:
    """`count · log p`, with 0 log 0 = 0."""
    xp = namespace(log_p)
    return count * xp.where(count == 0, 0, log_p)


def log_sigmoid(x: Array) -> Array:
    """`-log (1 + exp(-x))`."""
    return -namespace(x).logaddexp(-x, 0.0)


def logsumexp(a: Any) -> Any:
    """`log Σ exp(a)` over the last axis."""
    if not on_host(a):
        return jax.nn.logsumexp(a, -1)
    top = np.max(a, -1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    host: Any = np.log(np.exp(a - top).sum(-1)) + top[..., 0]
    return host


def drop_underflowing(share: Array) -> Array:
    """Set shares whose square underflows to 0, since derivatives of means divide by the square."""
    return jnp.where(share**2 < jnp.finfo(share.dtype).tiny, 0, share)


def log_pochhammer(a: Array, x: Array) -> Array:
    """`log Γ(a + x) / Γ(a)`, a > 0 and x >= 0, without the difference of large logarithms."""
    small = a < _STIRLING
    direct, large = jnp.where(small, a, 1), jnp.where(small, _STIRLING, a)
    # Stirling's series for both: (a - ½) log (1 + x/a) + x log (a + x) - x + σ(a+x) - σ(a).
    series = (large - 0.5) * jnp.log1p(x / large) + x * (jnp.log(large + x) - 1)
    series = series + _stirling(large + x) - _stirling(large)
    return jnp.where(small, gammaln(direct + x) - gammaln(direct), series)


def log_pochhammer_remainder(a: Array, x: Array) -> Array:
    """`log Γ(a + x) / Γ(a) - (x log x - x)`: `log_pochhammer` without its large part.

    In a table with `n = Σ_v x_v` the large parts are `Σ_v x_v log x_v - n log n`, which is
    `Σ_v x_v log (x_v / n)` and has no large terms: see `weighted_log_shares`.
    """
    some = x > 0
    x = jnp.where(some, x, 1)
    ratio = x * jnp.log1p(a / x)
    # Stirling's series for both terms if a is large, and for a + x if only a + x is.
    large = jnp.maximum(a, _STIRLING)
    both = (large - 0.5) * jnp.log1p(x / large) + x * jnp.log1p(large / x)
    both = both + _stirling(large + x) - _stirling(large)
    small = jnp.minimum(a, _STIRLING)
    upper = jnp.maximum(small + x, _STIRLING)
    one = ratio + (small - 0.5) * jnp.log(upper) - small + _HALF_LOG_2PI + _stirling(upper)
    neither = gammaln(jnp.minimum(small + x, _STIRLING)) - x * jnp.log(x) + x
    found = jnp.where(small + x >= _STIRLING, one, neither) - gammaln(small)
    return jnp.where(some, jnp.where(a >= _STIRLING, both, found), 0)


def log_gamma_remainder(a: Array) -> Array:
    """`log Γ(a) - (a log a - a)`, without the difference of large logarithms."""
    xp = namespace(a)
    small, large = xp.minimum(a, _STIRLING), xp.maximum(a, _STIRLING)
    series = _HALF_LOG_2PI - 0.5 * xp.log(large) + _stirling(large)
    return xp.where(a < _STIRLING, gammaln(small) - small * (xp.log(small) - 1), series)


_HALF_LOG_2PI = 0.5 * LOG_2PI

_STIRLING = 16.0


def _stirling(z: Array) -> Array:
    """`log Γ(z) - ((z - ½) log z - z + ½ log 2π)`, accurate to 1e-14 for z >= 16."""
    w = 1 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w / 1680))) / z


def weighted_log_shares(counts: Array, whole: Array) -> Float[Array, ""]:
    """`Σ_v c_v log (c_v / Σ c)`, with 0 log 0 = 0."""
    some = counts > 0
    share = jnp.where(some, counts, 1) / jnp.where(some, whole, 1)
    return jnp.where(some, counts * jnp.log(share), 0).sum()


def log_factorial_remainder(x: Array) -> Array:
    """`log x! - (x log x - x)`; 0 at 0."""
    xp = namespace(x)
    some = x > 0
    safe = xp.where(some, x, 1)
    return xp.where(some, log_gamma_remainder(safe) + xp.log(safe), 0)


def log_poisson(x: Array, rate: Array) -> Array:
    """`x log λ - λ - log x!` in terms that are small where x is near λ; 0 where λ is 0."""
    xp = namespace(x, rate)
    some, known = x > 0, rate > 0
    safe = xp.where(known, rate, 1)
    t = xp.where(some, (x - safe) / safe, 0)
    # λ ((1 + t) log (1 + t) - t), with t = (x - λ) / λ.
    deviance = safe * ((1 + t) * xp.log1p(t) - t)
    found = -deviance - log_factorial_remainder(x)
    return xp.where(known, xp.where(some, found, -rate), 0)
