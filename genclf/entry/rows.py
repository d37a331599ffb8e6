"""Checks of x, y and weights: structure, rank, number of rows and columns, dtype, labels.

Most checks need only shapes and dtypes, so they also raise while a function is traced.
`check_labels` and `check_supervised` read values where these are concrete.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree

from genclf.arguments.arrays import real_array
from genclf.families.product import check_names
from genclf.families.support import Support
from genclf.families.tokens import Tokens
from genclf.model import widen
from genclf.sums.sparse import THREADS, HostRows, Sparse, is_sparse, sparse_rows

_ALIGNMENT = 64  # bytes
_LARGE = 2**24  # bytes that take longer to copy than to start threads


def as_arrays(x: PyTree, name: str) -> PyTree:
    """Convert x to JAX arrays; NumPy arrays are copied, since the caller may change them later."""
    return _as_arrays(x, name, sparse=False)


def maybe_sparse(x: PyTree, name: str) -> PyTree:
    """`as_arrays`, with sparse matrices of SciPy and JAX as `SparseRows`."""
    return _as_arrays(x, name, sparse=True)


def host_or_device(x: PyTree, name: str) -> PyTree:
    """`maybe_sparse`, with a sparse matrix of SciPy as `HostRows`."""
    return sparse_rows(x, name) if is_sparse(x) else maybe_sparse(x, name)


def _as_arrays(x: PyTree, name: str, sparse: bool) -> PyTree:
    if isinstance(x, dict):
        if not all(isinstance(key, str) for key in x):
            raise ValueError(f"{name} has keys {list(x)}, expected names of parts, which are str")
        return {key: _as_arrays(a, f"{name}[{key!r}]", sparse) for key, a in x.items()}
    if sparse and is_sparse(x):
        found = sparse_rows(x, name)
        return found.on_device() if isinstance(found, HostRows) else found
    if isinstance(x, Tokens):
        ids, mask = _array(x.ids, f"{name}.ids"), _array(x.mask, f"{name}.mask")
        if not jnp.issubdtype(ids.dtype, jnp.integer) or mask.dtype != bool:
            raise ValueError(
                f"{name} has ids of dtype {ids.dtype} and a mask of {mask.dtype}, expected integer "
                "ids and a boolean mask"
            )
        if mask.shape != ids.shape:
            raise ValueError(
                f"{name}.mask has shape {mask.shape}, expected {ids.shape}, as the ids"
            )
        return Tokens(widen(ids), mask, x.vocab_size)
    numbers = _array(x, name)
    return numbers.astype(jnp.int8) if numbers.dtype == bool else numbers


def _array(given: Any, name: str) -> Array:
    found = real_array(given, name)
    if isinstance(found, jax.Array):
        return found
    return _copied(in_range(found, name))


def _copied(found: np.ndarray) -> Array:
    """Copy to a JAX array, since JAX may read a NumPy buffer after the caller has changed it."""
    dtype = jax.dtypes.canonicalize_dtype(found.dtype)
    # JAX uses an aligned buffer without a copy, and makes a slow copy of an unaligned one.
    memory = np.empty(found.size * dtype.itemsize + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    own = memory[first : first + found.size * dtype.itemsize].view(dtype).reshape(found.shape)
    _fill(own, found)
    with jax.ensure_compile_time_eval():
        return jax.device_put(own, may_alias=True)


def _fill(own: np.ndarray, given: np.ndarray) -> None:
    """Copy numbers, many of them by all cores; too large for float32, they become infinite."""

    def copy(own: np.ndarray, given: np.ndarray) -> None:
        with np.errstate(over="ignore"):
            np.copyto(own, given, casting="unsafe")

    if own.nbytes < _LARGE or len(own) < THREADS:
        return copy(own, given)
    parts = (np.array_split(a, THREADS) for a in (own, given))
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(copy, *parts))
    except RuntimeError:  # no threads start once the main one has ended
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


def blocks(
    support: PyTree[Support], x: PyTree, name: str = "x", path: tuple = ()
) -> Iterator[tuple[str, tuple, Support, Any]]:
    """The arrays of x: for each, its name in messages, its path of keys, its support and itself."""
    if isinstance(support, Support):
        if isinstance(x, dict):
            raise ValueError(f"{name} is a dict, but the model is not a Product: expected an array")
        if isinstance(x, Tokens) and not support.tokens:
            raise ValueError(f"{name} is Tokens, which only Multinomial takes; use x.counts()")
        if isinstance(x, Sparse) and not support.sparse:
            raise ValueError(
                f"{name} is sparse, which only Multinomial and Bernoulli without missing cells "
                f"take: use {name}.toarray()"
            )
        yield name, path, support, x
        return
    check_names(x, support, name)
    for part in sorted(support):
        yield from blocks(support[part], x[part], f"{name}[{part!r}]", (*path, part))


def cells(x: Any) -> Any:
    """The array with the shape of the data: x itself, or the word ids of tokens."""
    return x.ids if isinstance(x, Tokens) else x


def widths(x: PyTree) -> PyTree[int | None]:
    """Length of the last axis of each array of x; None for a scalar."""
    is_block = lambda a: isinstance(a, Tokens | Sparse)  # noqa: E731
    return jax.tree.map(lambda a: (cells(a).shape or (None,))[-1], x, is_leaf=is_block)


def check_rows(
    support: PyTree[Support],
    x: PyTree,
    y: Array | np.ndarray,
    weights: Array | np.ndarray | None,
    num_classes: int,
):
    """Raise unless x holds rows, and y and weights fit them."""
    n = None
    for name, _, _, block in blocks(support, x):
        shape = cells(block).shape
        if len(shape) != 2:
            hint = f"; a single feature is {name}[:, None]" if len(shape) == 1 else ""
            raise ValueError(
                f"{name} has shape {shape}, expected (n, d): one row per example{hint}"
            )
        if not shape[1] and not isinstance(block, Tokens):
            raise ValueError(f"{name} has shape {shape}, expected at least one feature")
        if n is not None and shape[0] != n:
            raise ValueError(f"{name} has {shape[0]} rows, but the blocks before it have {n}")
        n = shape[0]
    if y.ndim not in (1, 2) or y.shape[0] != n:
        raise ValueError(
            f"y has shape {y.shape}, expected ({n},) labels or ({n}, {num_classes}) "
            f"responsibilities for the {n} rows of x"
        )
    integral = jnp.issubdtype(y.dtype, jnp.integer)
    if y.ndim == 2 and (y.shape[1] != num_classes or (integral and num_classes == 1)):
        column = "; labels in a column are y[:, 0]" if y.shape[1] == 1 else ""
        raise ValueError(
            f"y has shape {y.shape} and dtype {y.dtype}, expected ({n}, {num_classes}) "
            f"responsibilities, one column per class (num_classes = {num_classes}), or ({n},) "
            f"integer labels{column}"
        )
    unsigned = jnp.issubdtype(y.dtype, jnp.unsignedinteger) and y.dtype.itemsize >= 4
    if y.ndim == 1 and (unsigned or not integral):
        raise ValueError(
            f"y has dtype {y.dtype}, expected signed integer labels 0..{num_classes - 1}, -1 for "
            f"an unknown one (or a float array of responsibilities of shape ({n}, {num_classes})); "
            "labels with a missing cell are read as floats"
        )
    if weights is not None and weights.shape != (n,):
        raise ValueError(f"weights has shape {weights.shape}, expected ({n},): one per row of x")


def check_labels(y: Array, num_classes: int) -> None:
    """Raise for a concrete label that is neither a class nor -1; a traced one makes results NaN."""
    if y.ndim != 1 or not jnp.issubdtype(y.dtype, jnp.integer) or not readable(y):
        return
    labels = np.asarray(y)
    wrong = np.flatnonzero((labels < -1) | (labels >= num_classes))
    if not len(wrong):
        return
    row, last = wrong[0], num_classes - 1
    hint = ""
    if labels.min() == 1 and labels.max() == num_classes:
        hint = "; labels begin at 0: subtract 1"
    elif labels.min() >= -1 and labels.max() < 1000:
        hint = f"; or num_classes={int(labels.max()) + 1}, if it is a class"
    elif labels.min() >= -1:
        hint = "; np.unique(labels, return_inverse=True)[1] are labels from 0 on"
    raise ValueError(
        f"y[{row}] is {labels[row]} (row {row}), expected a label in 0..{last} (num_classes = "
        f"{num_classes}), or -1 for an unlabelled row{hint}"
    )


def check_supervised(y: Array, weights: Array | None, num_classes: int) -> None:
    """`check_labels`, for what learns from labels alone: raise also where none is sure to be one.

    That is if no row has both a label and a weight, or if -1 may stand for a class.
    """
    check_labels(y, num_classes)
    _check_some_labels(y, weights)
    check_meaning_of_unlabelled(y, weights, num_classes)


def check_meaning_of_unlabelled(y: Array, weights: Array | None, num_classes: int) -> None:
    """Raise if rows are labelled -1 while a class has no row: labels -1 and 1 may be meant."""
    if y.ndim != 1 or not jnp.issubdtype(y.dtype, jnp.integer) or not readable(y):
        return
    known = None if weights is None or not readable(weights) else np.asarray(weights)
    if (found := unlabelled_beside_no_row(np.asarray(y), known, num_classes)) is not None:
        raise ValueError(
            f"y[{found[0]}] is -1, which stands for an unlabelled row, and no row has the label "
            f"{found[1]} (num_classes = {num_classes}): if -1 is a class, number the classes from "
            "0, as np.unique(y, return_inverse=True)[1] does; if it means unlabelled, leave these "
            "rows out, x[y >= 0] and y[y >= 0], or learn from them by genclf.em"
        )


def unlabelled_beside_no_row(
    labels: np.ndarray, weights: np.ndarray | None, num_classes: int
) -> tuple[int, int] | None:
    """The first row that is labelled -1, unless its weight is 0, and the first class without rows.

    None if there is no such row, or no such class.
    """
    unlabelled = labels == -1
    if weights is not None and weights.shape == labels.shape:
        unlabelled = unlabelled & (weights != 0)
    if not unlabelled.any():
        return None
    present = np.unique(labels[(labels >= 0) & (labels < num_classes)])
    if len(present) == num_classes:
        return None
    missing = np.append(present, -1) != np.arange(len(present) + 1)
    return int(unlabelled.argmax()), int(missing.argmax())


def _check_some_labels(y: Array, weights: Array | None) -> None:
    """Raise if no row has both a label and a weight, as far as these are concrete."""
    if y.ndim not in (1, 2) or not readable(y) or not (weights is None or readable(weights)):
        return
    labelled: np.ndarray = np.asarray(y) >= 0 if y.ndim == 1 else (np.asarray(y) != 0).any(-1)
    if weights is not None and weights.shape == labelled.shape:
        # Compiled code treats subnormal numbers as 0.
        least = jnp.finfo(float_dtype(weights)).tiny
        labelled = labelled & ~(np.abs(np.asarray(weights)) < least)
    if not labelled.any():
        raise ValueError(
            f"none of the {len(labelled)} rows has both a label and a weight above 0 (which a "
            "weight below the smallest normal number of its dtype is not): there is nothing to "
            "learn from (genclf.em takes rows without labels)"
        )


def readable(a: Array) -> bool:
    """Whether the values can be read: not traced, and addressable by this process."""
    return not isinstance(a, Tracer) and a.is_fully_addressable


def check_examples(params: Any, x: PyTree) -> None:
    """Raise unless x holds examples with the number of features that the params were fitted to."""
    batch = None
    for name, path, _, block in blocks(params.support, x):
        shape, fitted = cells(block).shape, params.num_features
        for part in path:
            fitted = fitted[part]
        given = block.vocab_size if isinstance(block, Tokens) else shape[-1] if shape else None
        if given != fitted:
            raise ValueError(
                f"{name} has shape {shape}, expected (..., {fitted}): the model was fitted to "
                f"{fitted} features"
            )
        if batch is not None and shape[:-1] != batch:
            raise ValueError(f"{name} has batch axes {shape[:-1]}, the blocks before it {batch}")
        batch = shape[:-1]


def float_dtype(x: PyTree) -> Any:
    """The dtype of sums of x: its widest floating dtype, at least float32; or else the default."""
    found = [a.dtype for a in jax.tree.leaves(x) if jnp.issubdtype(a.dtype, jnp.floating)]
    wide = [dtype for dtype in found if dtype.itemsize >= 4]
    if not found:
        return jnp.result_type(float)
    return max(wide, key=lambda dtype: dtype.itemsize, default=jnp.dtype(jnp.float32))
