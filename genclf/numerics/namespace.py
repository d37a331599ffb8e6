"""One formula for arrays of NumPy and of JAX: NumPy computes it at once, JAX compiles it.

A function of arrays takes the namespace of the arrays that it is given, by the standard of array
libraries, and calls nothing else: `xp = namespace(x)`, then `xp.where(...)`. A module of such
functions takes `jax`, `jnp` and `lax` from here, which import JAX when they are first used: workers
that score rows by NumPy need none.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import jax as jax
    import jax.numpy as jnp
    from jax import Array, lax as lax  # the operations of both kinds of arrays are the same
    from jaxtyping import PyTree as PyTree  # it imports JAX
else:
    PyTree = Any

    class _Later:
        """A module that is imported when an attribute of it is first used."""

        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(sys.modules.get(self._name) or import_module(self._name), name)

    jax, jnp, lax = map(_Later, ("jax", "jax.numpy", "jax.lax"))

    class _OfEither(type):
        def __instancecheck__(cls, given: object) -> bool:
            if isinstance(given, np.ndarray | np.generic):
                return True
            return bool(sys.modules.get("jax")) and isinstance(given, jax.Array)

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
    leaves = [a] if on_host(a) else jax.tree.leaves(a)
    return a if on_host(*leaves) else lax.stop_gradient(a)


def is_traced(*given: PyTree) -> bool:
    """Whether any array is traced."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(given))


def matmul(a: Array, b: Array) -> Array:
    """`a @ b`, in full precision also on accelerators whose default is lower."""
    return np.matmul(a, b) if on_host(a, b) else jnp.matmul(a, b, precision="highest")


def einsum(subscripts: str, *arrays: Array) -> Array:
    """`einsum` of these arrays, in full precision."""
    if on_host(*arrays):
        return np.einsum(subscripts, *arrays, optimize=True)
    return jnp.einsum(subscripts, *arrays, precision="highest")
