"""Parts of the scores of counts."""

from __future__ import annotations

from genclf.numerics.logarithms import log_gamma_remainder
from genclf.numerics.namespace import Array, namespace


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
