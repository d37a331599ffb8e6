"""One formula for arrays of NumPy and of JAX: NumPy computes it at once, JAX compiles it.

A function of arrays takes the namespace of the arrays that it is given, by the standard of array
libraries, and calls nothing else: `xp = namespace(x)`, then `xp.where(...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import lax

if TYPE_CHECKING:  # their operations are the same
    from jax import Array
else:

    class _OfEither(type):
        def __instancecheck__(cls, given: object) -> bool:
            return isinstance(given, jax.Array | np.ndarray | np.generic)

    class Array(metaclass=_OfEither):
        """An array of JAX or of NumPy, in annotations."""


_ON_HOST = np.ndarray, np.generic, float, int, type(None)
_USUAL = frozenset((np.ndarray, np.float64, np.bool_, float, int, type(None)))


def on_host(*arrays: Any) -> bool:
    """Whether these are arrays and numbers of NumPy or Python, of which none is traced."""
    for a in arrays:
        if type(a) not in _USUAL and not isinstance(a, _ON_HOST):
            return False
    return True


def namespace(*arrays: Any) -> Any:
    """NumPy if all of these are on the host, else `jax.numpy`."""
    return np if on_host(*arrays) else jax.numpy


def constant(a: Any) -> Any:
    """The array, or tree of arrays, without derivatives."""
    return a if on_host(*jax.tree.leaves(a)) else lax.stop_gradient(a)
