"""What can be known before any value is: structure, rank, number of rows and columns, dtype.

These checks run on shapes alone, so they also work, and raise, while a function is traced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from genclf.compose import check_names
from genclf.families.base import Support
from genclf.families.multinomial import Tokens


def own(x: PyTree, name: str) -> PyTree:
    """X as JAX arrays; NumPy arrays are copied, since the caller may refill them later."""

    def convert(a: Any) -> Array:
        if isinstance(a, jax.Array):
            return a
        if np.asarray(a).dtype.kind not in "biufV":  # V: the extended floats, such as bfloat16
            raise ValueError(
                f"{name} has dtype {np.asarray(a).dtype}, expected numbers; genclf.text turns text "
                "into counts, and np.unique(column, return_inverse=True) values into codes"
            )
        # JAX may read a NumPy buffer after this returns; a fresh copy is nobody's to change.
        return jnp.asarray(np.array(a))

    nested = isinstance(x, dict | Tokens)
    return jax.tree.map(convert, x, is_leaf=lambda a: isinstance(a, list)) if nested else convert(x)


def blocks(
    support: PyTree[Support], x: PyTree, name: str = "x"
) -> Iterator[tuple[str, Support, Any]]:
    """The arrays of x, each with the name it has in a message and with its support."""
    if isinstance(support, Support):
        if isinstance(x, dict):
            raise ValueError(f"{name} is a dict, but the model is no Product: expected an array")
        yield name, support, x
        return
    check_names(x, support, name)
    for part in sorted(support):
        yield from blocks(support[part], x[part], f"{name}[{part!r}]")


def cells(x: Array | Tokens) -> Array:
    """The array whose shape is that of the data: x itself, or the word ids of tokens."""
    return x.ids if isinstance(x, Tokens) else x


def check_rows(
    support: PyTree[Support], x: PyTree, y: Array, weights: Array | None, num_classes: int
):
    """Raise unless x holds rows, and y and weights fit them."""
    n = None
    for name, _, block in blocks(support, x):
        shape = cells(block).shape
        if len(shape) != 2:
            hint = f"; a single feature is {name}[:, None]" if len(shape) == 1 else ""
            raise ValueError(
                f"{name} has shape {shape}, expected (n, d): one row per example{hint}"
            )
        if isinstance(block, Tokens) and block.mask.shape != shape:
            raise ValueError(
                f"{name}.mask has shape {block.mask.shape}, expected {shape}, as the ids"
            )
        if n is not None and shape[0] != n:
            raise ValueError(f"{name} has {shape[0]} rows, but the blocks before it have {n}")
        n = shape[0]
    if y.ndim not in (1, 2) or y.shape[0] != n:
        raise ValueError(
            f"y has shape {y.shape}, expected ({n},) labels or ({n}, {num_classes}) "
            f"responsibilities for the {n} rows of x"
        )
    if y.ndim == 2 and y.shape[1] != num_classes:
        raise ValueError(
            f"y has shape {y.shape}, expected ({n}, {num_classes}): one column of "
            f"responsibilities per class, num_classes = {num_classes}"
        )
    unsigned = jnp.issubdtype(y.dtype, jnp.unsignedinteger) and y.dtype.itemsize >= 4
    integral = y.dtype == bool or jnp.issubdtype(y.dtype, jnp.integer)
    if y.ndim == 1 and (unsigned or not integral):
        raise ValueError(
            f"y has dtype {y.dtype}, expected signed integer labels 0..{num_classes - 1} (or a "
            f"float array of responsibilities of shape ({n}, {num_classes}))"
        )
    if weights is not None and weights.shape != (n,):
        raise ValueError(f"weights has shape {weights.shape}, expected ({n},): one per row of x")


def check_examples(params: Any, x: PyTree) -> None:
    """Raise unless params are fitted, and x holds examples of as many features as were fitted."""
    if not hasattr(params, "conditional"):
        raise ValueError(f"params is {params!r}, expected a fitted classifier, as fit returns it")
    expected = params.conditional.num_features
    for name, _, block in blocks(params.conditional.support, x):
        shape = cells(block).shape
        fitted = expected
        for part in name.split("'")[1::2]:
            fitted = fitted[part]
        given = block.vocab_size if isinstance(block, Tokens) else shape[-1] if shape else None
        if given != fitted:
            raise ValueError(
                f"{name} has shape {shape}, expected (..., {fitted}): the model was fitted to "
                f"{fitted} features"
            )


def float_dtype(x: PyTree) -> Any:
    """The dtype in which x is summed: its widest floating one, float32 or wider; or the default."""
    found = [a.dtype for a in jax.tree.leaves(x) if jnp.issubdtype(a.dtype, jnp.floating)]
    wide = [dtype for dtype in found if dtype.itemsize >= 4]
    if not found:
        return jnp.result_type(float)
    return max(wide, key=lambda dtype: dtype.itemsize, default=jnp.dtype(jnp.float32))


def widen(labels: Array) -> Array:
    """Integer labels in at least 32 bits, so that they can be compared to -1."""
    return labels.astype(jnp.int32) if labels.dtype.itemsize < 4 else labels
