"""Fields that are part of a module's structure, by which JAX compares modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer


def python_value(value: object) -> object:
    """Convert a number of NumPy or JAX to a Python number, and several of them to a tuple.

    JAX compares structures by `==`, and `==` of two arrays is an array, not a truth value.
    """
    if isinstance(value, list | tuple):
        return tuple(map(python_value, value))
    if not isinstance(value, np.generic | np.ndarray | jax.Array) or isinstance(value, Tracer):
        return value
    return python_value(value.tolist()) if value.ndim < 2 else value


def static(convert: Callable[[Any], Any] = python_value, **options: object) -> Any:
    """A static field; it converts numbers of NumPy and JAX to Python numbers."""
    return eqx.field(static=True, converter=convert, **options)
