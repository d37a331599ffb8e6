"""Counts of events: whole numbers without an upper bound."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Bool, Float

from genclf.families.missing import MayMiss
from genclf.families.support import Support, nan_outside_support
from genclf.numerics.logarithms import log_gamma_remainder
from genclf.numerics.namespace import Array

EVENTS = Support(
    lambda x: (x >= 0) & (x == jnp.floor(x)) & jnp.isfinite(x), "a whole number 0, 1, 2, ..."
)


def counted(x: Array, of: MayMiss) -> tuple[Float[Array, "*batch d"], Bool[Array, "*batch d"]]:
    """Counts, 0 where missing and NaN where invalid, and a mask of the observed cells."""
    if not of.may_miss:
        return nan_outside_support(x, EVENTS), jnp.ones(x.shape, bool)
    seen = of.seen(x)
    return nan_outside_support(jnp.where(seen, x, 0), EVENTS), seen


def log_factorial_remainder(x: Array) -> Array:
    """`log x! - (x log x - x)`; 0 at 0."""
    some = x > 0
    safe = jnp.where(some, x, 1)
    return jnp.where(some, log_gamma_remainder(safe) + jnp.log(safe), 0)


def log_poisson(x: Array, rate: Array) -> Array:
    """`x log λ - λ - log x!` in terms that are small where x is near λ; 0 where λ is 0."""
    some, known = x > 0, rate > 0
    safe = jnp.where(known, rate, 1)
    t = jnp.where(some, (x - safe) / safe, 0)
    # λ ((1 + t) log (1 + t) - t), with t = (x - λ) / λ.
    deviance = safe * ((1 + t) * jnp.log1p(t) - t)
    found = -deviance - log_factorial_remainder(x)
    return jnp.where(known, jnp.where(some, found, -rate), 0)
