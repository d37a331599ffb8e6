"""Numbers to codes: cut a continuous feature into bins, for `Categorical` to count.

`quantile_edges` learns where to cut, on the host; `codes` cuts, in compiled code. B bins have B - 1
edges e, are closed on the left and open on the right, so a value on an edge is in the bin above it:

    code 0: x < e[0]        code b: e[b-1] <= x < e[b]        code B-1: e[B-2] <= x
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int32

from genclf.arguments.arrays import real_array
from genclf.arguments.calls import checked_call
from genclf.arguments.domains import whole_number
from genclf.arguments.sharding import compiled

__all__ = ["codes", "quantile_edges"]


@checked_call
def codes(x: ArrayLike | Sequence, edges: ArrayLike | Sequence) -> Int32[Array, "..."]:
    """The bin of each value: `code = #{b : e[b] <= x}`, so B - 1 edges make codes 0 to B - 1.

    Equal edges leave the bin between them empty; ±inf fall into the outermost bins. NaN belongs to
    no bin: its code is -1, which `Categorical` treats as invalid. Values and edges are compared in
    the wider of their two floating types, as JAX holds them: float32 at most, without x64.

    Args:
        x: `(...)` values, or `(..., d)` when every feature has its own edges.
        edges: `(B-1,)` edges in non-decreasing order, or `(B-1, d)`, a column per feature.

    Returns:
        Codes of the shape of `x`. In traced code, which cannot raise, every code of a feature with
        unsorted or NaN edges is -1.

    Raises:
        ValueError: the edges are unsorted, NaN, or do not match the shape of `x`; or an argument
            is not an array of real numbers.

    Example:
        A house of 890 square feet is in the third of five sizes:

        >>> from genclf.discretize import codes
        >>> edges = [400.0, 800.0, 1200.0, 1600.0]
        >>> codes(890.0, edges) + 1 == 3
        Array(True, dtype=bool)
        >>> codes([399.9, 400.0, 1600.0, float("nan")], edges).tolist()
        [0, 1, 4, -1]
    """
    x, edges = real_array(x, "x"), real_array(edges, "edges")
    if edges.ndim not in (1, 2):
        raise ValueError(f"edges must have shape (B-1,) or (B-1, d), got {edges.shape}")
    if not isinstance(edges, jax.core.Tracer):
        _check_sorted(np.asarray(edges))
    x, edges = floating(x), floating(edges)
    if edges.ndim == 2 and x.shape[-1:] != edges.shape[1:]:
        raise ValueError(
            f"edges have {edges.shape[1]} columns, so x must have shape (..., {edges.shape[1]}), "
            f"got {x.shape}"
        )
    # Strict promotion guards against mistakes; this mix is intended, and the wider type is exact.
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.promote_types(x.dtype, edges.dtype)
    return _codes(x.astype(dtype), edges.astype(dtype))


@partial(compiled, batch_of=0)
def _codes(x: Float[Array, "..."], edges: Float[Array, "..."]) -> Int32[Array, "..."]:
    if edges.ndim == 2:
        return jax.vmap(_codes, in_axes=(-1, 1), out_axes=-1)(x, edges)
    # Unrolled binary search: as fast as comparing with each edge if B is small, else O(log B).
    code = jnp.searchsorted(edges, x, side="right", method="scan_unrolled")
    # NaN compares false with everything, itself included, so this finds NaN edges too.
    usable = jnp.all(edges == edges) & jnp.all(edges[:-1] <= edges[1:])
    return jnp.where(usable & ~jnp.isnan(x), code.astype(jnp.int32), -1)


@checked_call
def quantile_edges(
    x: ArrayLike | Sequence, num_bins: int, weights: ArrayLike | Sequence | None = None
) -> np.ndarray:
    """Edges that cut the data into `num_bins` bins of weights as equal as ties allow.

    Equal values are never separated: a cut lies between two neighbouring distinct values. W is the
    total weight. For b = 1, ..., B - 1, cut b is the cut below which the weight is nearest to
    b W / B; of two equally near cuts it is the lower one. Cuts that coincide are then moved apart
    until no bin is empty. The edge is the smallest observed value above the cut, so that `codes`
    cuts there. A row of weight k counts as k rows, and a row of weight 0 is ignored.

    This runs on the host, in NumPy: it is not for use inside `jit`.

    Args:
        x: `(n,)` values, or `(n, d)` to cut each column separately.
        num_bins: B, at least 2.
        weights: `(n,)`, finite and not negative; None is 1 for each.

    Returns:
        `(B-1,)` or `(B-1, d)` strictly increasing edges; float64, or the type of `x` if floating.

    Raises:
        ValueError: `x` is NaN where the weight is not 0, or has fewer distinct values than bins; a
            weight is invalid; `num_bins` is not a whole number >= 2; or an argument is not an array
            of real numbers, or has a wrong shape.

    Example:
        >>> import numpy as np
        >>> from genclf.discretize import codes, quantile_edges
        >>> x = np.array([0, 0, 0, 0, 0, 1, 1, 1, 2, 3])
        >>> edges = quantile_edges(x, 3)
        >>> edges
        array([1., 2.])
        >>> np.bincount(codes(x, edges)).tolist()
        [5, 3, 2]
    """
    x = _host_floating(_concrete(x, "x"))
    if x.ndim not in (1, 2):
        raise ValueError(f"x must have shape (n,) or (n, d), got {x.shape}")
    num_bins = whole_number(num_bins, "num_bins", 2)
    weights = np.ones(len(x)) if weights is None else _concrete(weights, "weights").astype(float)
    if weights.shape != x.shape[:1]:
        raise ValueError(f"weights must have shape ({len(x)},), got {weights.shape}")
    invalid = ~np.isfinite(weights) | (weights < 0)
    _reject(invalid, "weights must be finite and not negative", weights)
    present = weights > 0
    # Transposed, so that the rows broadcast for a vector and for a matrix.
    _reject((np.isnan(x.T) & present).T, "x must not be NaN", x)

    x, weights = x[present], weights[present]
    if x.ndim == 1:
        return _column_edges(x, num_bins, weights, "x")
    columns = [
        _column_edges(column, num_bins, weights, f"column {i} of x") for i, column in enumerate(x.T)
    ]
    return np.stack(columns, axis=1)


def _column_edges(x: np.ndarray, num_bins: int, weights: np.ndarray, name: str) -> np.ndarray:
    values, inverse = np.unique(x, return_inverse=True)
    if len(values) < num_bins:
        raise ValueError(
            f"{name} has {len(values)} distinct values, which cannot fill {num_bins} bins"
        )
    # Compare B times the weight below each possible cut with b W: integer weights stay exact.
    below = np.cumsum(np.bincount(inverse, weights))
    b = np.arange(1, num_bins)
    half_way = num_bins * (below[:-2] + below[1:-1]) / 2
    cut = 1 + np.searchsorted(half_way, b * below[-1], side="left")
    # `cut` counts the distinct values below each cut, and m is the number of all. An inner bin has
    # a value if cut - b does not decrease. The first and last bins have one if
    # 0 <= cut - b <= m - B.
    cut = b + np.clip(np.maximum.accumulate(cut - b), 0, len(values) - num_bins)
    return values[cut]


def floating(x: Array | np.ndarray) -> Array:
    """`x` as a JAX array of a floating type; integers and booleans in the default one."""
    if not isinstance(x, jax.Array):
        # On the host first: without x64, JAX would wrap a large int64 round into an int32.
        x = _host_floating(x)
        x = x.astype(np.float64) if x.dtype.itemsize > 8 else x
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)


def _host_floating(x: np.ndarray) -> np.ndarray:
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(np.float64)


def _concrete(x: object, name: str) -> np.ndarray:
    """The numbers on the host."""
    if isinstance(x, jax.core.Tracer):
        raise ValueError(f"{name} is traced, but edges are learned on the host, outside of jit")
    return np.asarray(real_array(x, name))


def _check_sorted(edges: np.ndarray) -> None:
    _reject(np.isnan(edges), "edges must not be NaN", edges)
    descends = np.zeros(edges.shape, bool)
    descends[1:] = edges[1:] < edges[:-1]
    _reject(descends, "edges must not decrease", edges)


def _reject(bad: np.ndarray, rule: str, values: np.ndarray) -> None:
    """Raise a ValueError that names the first bad entry, if there is one."""
    if bad.any():
        row, *column = (int(i) for i in np.argwhere(bad)[0])
        where = f"row {row}" + (f", column {column[0]}" if column else "")
        raise ValueError(f"{rule}: {where} is {values[bad][0]}")
