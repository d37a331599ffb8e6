"""Matrix products in full precision, also on accelerators whose default is lower."""

import numpy as np

from genclf.numerics.namespace import Array, jnp, on_host

_HIGHEST = "highest"


def matmul(a: Array, b: Array) -> Array:
    """`a @ b`."""
    return np.matmul(a, b) if on_host(a, b) else jnp.matmul(a, b, precision=_HIGHEST)


def einsum(subscripts: str, *arrays: Array) -> Array:
    """`einsum` of these arrays."""
    if on_host(*arrays):
        return np.einsum(subscripts, *arrays, optimize=True)
    return jnp.einsum(subscripts, *arrays, precision=_HIGHEST)
