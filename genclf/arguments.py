"""Arguments that are one value: a whole number, a number, a key. What is wrong is said by name."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array


def whole_number(value: Any, name: str, least: int) -> int:
    """The value as an int; an error unless it is a whole number of at least `least`."""
    expected = f"expected a whole number >= {least}"
    if isinstance(value, Tracer):
        raise ValueError(f"{name} is traced, {expected} that is known when the call is compiled")
    try:
        found = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}, {expected}") from None
    if isinstance(value, bool) or found < least:
        raise ValueError(f"{name} is {value!r}, {expected}")
    return found


def number(value: Any, name: str, *, least: float = -np.inf) -> Any:
    """The value; an error unless it is one real number of at least `least`, or a traced one."""
    expected = "expected one number" if least == -np.inf else f"expected one number >= {least:g}"
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in (jnp.floating, jnp.integer)):
        raise ValueError(f"{name} is {value!r}, {expected}")
    if array.shape:
        raise ValueError(f"{name} has shape {array.shape}, {expected}")
    if not isinstance(value, Tracer) and not array >= least:  # also NaN
        raise ValueError(f"{name} is {value}, {expected}")
    return value


def random_key(value: Any, name: str) -> Array:
    """The value; an error unless it is one key of `jax.random`, of the old kind or the new."""
    expected = "expected a key, as jax.random.key(0) makes it"
    if not isinstance(value, jax.Array | np.ndarray):
        raise ValueError(f"{name} is {value!r}, {expected}")
    typed = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    if value.ndim != (0 if typed else 1) or not (typed or value.dtype == np.uint32):
        raise ValueError(f"{name} is an array of {value.dtype} {value.shape}, {expected}")
    return jnp.asarray(value)
