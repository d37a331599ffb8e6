"""Points near the class means, so that sums of rows about them do not cancel."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, Int, Shaped

from genclf.numerics.namespace import Array
from genclf.numerics.sizes import is_at_most, is_symbolic
from genclf.sums.blocks import (
    ClassWeights,
    Hard,
    ignore_absent,
    row_weights,
    rows_at,
    sample_indices,
)
from genclf.sums.class_sums import class_sums, of_rows
from genclf.sums.statistics import divide

# All rows locate the classes, if at most ALL_ROWS; else one row in _STEP. The sample is thinned
# further as long as _SAMPLE rows remain, and _SAMPLE_OF_CLASS per class on average.
ALL_ROWS = 2**11
_STEP = 16
_SAMPLE = 2**13
_SAMPLE_OF_CLASS = 32


def points_near_means(x: Shaped[Array, "n d"], w: ClassWeights) -> Float[Array, "K d"]:
    """A point near the rows of each class: the mean of some rows, or one row if it is rare.

    The mean is computed relative to a row of the class, so it is exact if all rows are equal.
    """
    n, weight = x.shape[0], row_weights(w)
    if is_at_most(n, 0):
        return jnp.zeros((w.shape[1], x.shape[1]), weight.dtype)
    origin = _some_rows(x, w) if isinstance(w, Hard) else some_row(x, weight)[None]
    if not is_symbolic(n) and n > ALL_ROWS:
        step = max(_STEP, n // max(_SAMPLE, _SAMPLE_OF_CLASS * w.shape[1]))
        step = 1 << (step.bit_length() - 1)
        rows = sample_indices(n, step)
        at = lambda a: a.at[rows].get(mode="promise_in_bounds")  # noqa: E731
        x, w = rows_at(x, rows), jax.tree.map(at, w)
    x, w = lax.stop_gradient((x, w))
    z = ignore_absent(x.astype(weight.dtype), row_weights(w) != 0)
    z = z - (of_rows(origin, w) if isinstance(w, Hard) else origin)
    near = origin + divide(class_sums(z, w), class_sums(jnp.ones_like(z[:, :1]), w))
    return jnp.where(jnp.isfinite(near), near, origin)


def _some_rows(x: Shaped[Array, "n d"], w: Hard) -> Float[Array, "K d"]:
    """One row of each class, as in `some_row`; an arbitrary one for a class without rows."""
    n = x.shape[0]
    row = jnp.where(w.weight > 0, jnp.arange(n, dtype=jnp.int32), n - 1)
    first = jnp.full(w.num_classes, n - 1, jnp.int32).at[jnp.maximum(w.label, 0)].min(row)
    return _finite_rows(x, first, w.weight.dtype)


def some_row(x: Shaped[Array, "n d"], weight: Float[Array, "n"]) -> Float[Array, "d"]:
    """A row that has weight, non-finite cells set to 0; subtracting it removes a common offset."""
    if is_at_most(x.shape[0], 0):
        return jnp.zeros(x.shape[1], weight.dtype)
    return _finite_rows(x, weight.argmax()[None], weight.dtype)[0]


def _finite_rows(x: Array, rows: Int[Array, "m"], dtype: jnp.dtype) -> Float[Array, "m d"]:
    found = lax.stop_gradient(x.at[rows].get(mode="promise_in_bounds"))
    return jnp.where(jnp.isfinite(found), found, 0).astype(dtype)
