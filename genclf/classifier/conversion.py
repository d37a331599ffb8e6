"""Convert x, y and weights to arrays on the host or the device."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from genclf.arguments.arrays import host_numbers, real_array
from genclf.families.tokens import Tokens
from genclf.numerics.namespace import Array
from genclf.sums.sparse import THREADS, HostRows, is_sparse, sparse_rows

_ALIGNMENT = 64  # bytes
_LARGE = 2**24  # bytes, from which starting threads pays


def as_arrays(x: PyTree, name: str) -> PyTree:
    """Convert x to JAX arrays; NumPy arrays are copied, since the caller may change them later."""
    return _converted(x, name, _array)


def one_array(value: object, name: str) -> Array:
    """`as_arrays` for a single array; raise for a dict or tokens."""
    if isinstance(value, dict | Tokens):
        raise ValueError(f"{name} is a {type(value).__name__}, expected an array of numbers")
    return _converted(value, name, _array)


def host_arrays(x: PyTree, name: str) -> PyTree:
    """Convert x to NumPy arrays of dtypes that JAX has; arrays that have one are not copied."""
    return _converted(x, name, lambda given, name: in_range(host_numbers(given, name), name))


def maybe_sparse(x: PyTree, name: str) -> PyTree:
    """`as_arrays`, with sparse matrices of SciPy and JAX as `SparseRows`."""
    return _converted(x, name, _array, sparse=True)


def host_or_device(x: PyTree, name: str) -> PyTree:
    """`maybe_sparse`, with a sparse matrix of SciPy as `HostRows`."""
    return sparse_rows(x, name) if is_sparse(x) else maybe_sparse(x, name)


def _converted(
    x: PyTree, name: str, array: Callable[[object, str], Array | np.ndarray], sparse: bool = False
) -> PyTree:
    if isinstance(x, dict):
        if not all(isinstance(key, str) for key in x):
            raise ValueError(f"{name} has keys {list(x)}, expected names of parts, which are str")
        return {key: _converted(a, f"{name}[{key!r}]", array, sparse) for key, a in x.items()}
    if sparse and is_sparse(x):
        found = sparse_rows(x, name)
        return found.on_device() if isinstance(found, HostRows) else found
    if isinstance(x, Tokens):
        ids, mask = array(x.ids, f"{name}.ids"), array(x.mask, f"{name}.mask")
        if not jnp.issubdtype(ids.dtype, jnp.integer) or mask.dtype != bool:
            raise ValueError(
                f"{name} has ids of dtype {ids.dtype} and a mask of {mask.dtype}, expected integer "
                "ids and a boolean mask"
            )
        if mask.shape != ids.shape:
            raise ValueError(
                f"{name}.mask has shape {mask.shape}, expected {ids.shape}, as the ids"
            )
        return jax.tree.unflatten(jax.tree.structure(x), [widen(ids), mask])
    numbers = array(x, name)
    return numbers.astype(np.int8) if numbers.dtype == bool else numbers


def _array(given: object, name: str) -> Array:
    """A JAX array; a NumPy array is copied, as JAX may read it after the caller has changed it."""
    found = real_array(given, name)
    if isinstance(found, jax.Array):
        return found
    found = in_range(found, name)
    dtype = jax.dtypes.canonicalize_dtype(found.dtype)
    # JAX uses an aligned buffer without a copy, and makes a slow copy of an unaligned one.
    memory = np.empty(found.size * dtype.itemsize + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    own = memory[first : first + found.size * dtype.itemsize].view(dtype).reshape(found.shape)
    _fill(own, found)
    with jax.ensure_compile_time_eval():
        return jax.device_put(own, may_alias=True)


def _fill(own: np.ndarray, given: np.ndarray) -> None:
    """Copy numbers, many by all cores; numbers too large for float32 become infinite."""

    def copy(own: np.ndarray, given: np.ndarray) -> None:
        with np.errstate(over="ignore"):
            np.copyto(own, given, casting="unsafe")

    if own.nbytes < _LARGE or len(own) < THREADS:
        return copy(own, given)
    parts = (np.array_split(a, THREADS) for a in (own, given))
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(copy, *parts))
    except RuntimeError:  # no thread can start after the main one has ended
        copy(own, given)


def in_range(found: np.ndarray, name: str) -> np.ndarray:
    """NumPy numbers that JAX can hold: unsigned integers become signed, too large ones floats."""
    if found.dtype.kind in "iu" and found.size and found.dtype.itemsize >= 4:
        narrow = jnp.iinfo(jnp.result_type(int))
        if narrow.min <= found.min() and found.max() <= narrow.max:
            found = found.astype(narrow.dtype) if found.dtype.kind == "u" else found
        elif name == "y":
            value = found.max() if found.max() > narrow.max else found.min()
            raise ValueError(f"y holds {value}, expected labels from 0 on, or -1")
        else:
            found = found.astype(float)  # as integers, JAX would wrap them around
    return found


def widen(labels: Array | np.ndarray) -> Any:
    """Integer labels in at least 32 bits, so that they can be compared to -1."""
    return labels.astype(jnp.int32) if labels.dtype.itemsize < 4 else labels


def float_dtype(x: PyTree) -> np.dtype:
    """The dtype of sums of x: its widest floating dtype, at least float32; else the default."""
    found = [a.dtype for a in jax.tree.leaves(x) if jnp.issubdtype(a.dtype, jnp.floating)]
    wide = [dtype for dtype in found if dtype.itemsize >= 4]
    if not found:
        return jnp.result_type(float)
    return max(wide, key=lambda dtype: dtype.itemsize, default=jnp.dtype(jnp.float32))
