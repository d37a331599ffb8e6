"""Statistics as plain sums about a stated centre, as a query or another program adds them up."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from genclf.numerics.namespace import Array, is_traced, namespace, on_host
from genclf.sums.host import outer_products
from genclf.sums.statistics import Moments, Sums, divide

Node = Sums | Moments


class PlainSums(NamedTuple):
    """What `genclf.to_sums` returns and `genclf.from_sums` takes, in this order.

    For a `Product`, `total`, `products`, `centre` and `cells` are dicts by the names of the parts.

    Attributes:
        count: weight of each class, `n_k = Σ w`, (K,).
        total: `A_k = Σ w (x - c)` of each class, (K, d); or counts of values, words or events.
        products: `B_k = Σ w (x - c)(x - c)ᵀ`, (K, d, d), or its diagonal, (K, d); (1, d, d) or
            (1, d) of all classes together, if they share a covariance; None for counts.
        centre: c, (d,); None for 0.
        cells: weight of the observed cells, (K, d), if cells may be missing; else None.
    """

    count: Any
    total: Any
    products: Any = None
    centre: Any = None
    cells: Any = None


def to_plain(s: Node, centre: Any) -> tuple[Array, Array | None]:
    """Totals and products about a centre; of plain sums the totals alone."""
    if isinstance(s, Sums):
        return whole(s, "total", 1), None
    count, mean = whole(s, "count", 0), whole(s, "mean", 1)
    deviation = mean if centre is None else mean - _at(centre, mean)
    weight = count if s.of_cells else count[..., None]
    # A = n (m - c),  B = S + n (m - c)(m - c)ᵀ
    more = outer_products(weight * deviation, deviation, s.is_full, s.is_pooled)
    products = whole(s, "scatter", 2) + more
    if s.is_full:  # products of rows in float32 are symmetric only up to rounding
        products = 0.5 * (products + namespace(products).swapaxes(products, -1, -2))
    return weight * deviation, products


def from_plain(count: Array, total: Array, products: Array | None, centre: Any, eps: float) -> Node:
    """The statistics of totals and products about a centre; NaN variances if no rows have them.

    Args:
        count: weight of each class, or of each of its cells.
        total: sums of deviations from the centre.
        products: sums of their products; None for counts.
        centre: the centre; None for 0.
        eps: relative rounding of the sums.
    """
    if products is None:
        return Sums.quick(count, total)
    xp = namespace(count, total, products)
    weight = count if count.ndim == total.ndim else count[..., None]
    # m = c + A / n,  S = B - A Aᵀ / n
    deviation = divide(total, xp.broadcast_to(weight, total.shape))
    at = deviation if centre is None else deviation + _at(centre, deviation)
    mean = xp.where(weight == 0, xp.where(total == 0, 0, xp.nan), at)
    raw = Moments.quick(count, deviation, products)
    rounding = 64 * eps * raw.diagonal
    scatter = products - outer_products(total, deviation, raw.is_full, raw.is_pooled)
    left = Moments.quick(count, deviation, scatter).diagonal
    variance = xp.where(left < -rounding, xp.nan, xp.maximum(left, 0))
    if not raw.is_full:
        return Moments.quick(count, mean, variance)
    scatter = 0.5 * (scatter + xp.swapaxes(scatter, -1, -2))
    product = lambda a: a[..., :, None] * a[..., None, :]  # noqa: E731
    # |S_ij| <= √(S_ii S_jj); rounding moves S_ii by up to 64 ε B_ii.
    above = scatter**2 > product(variance + rounding) * (1 + 64 * eps)
    scatter = xp.where(above.any((-2, -1), keepdims=True), xp.nan, scatter)
    eye = xp.broadcast_to(xp.eye(variance.shape[-1], dtype=bool), scatter.shape)
    return Moments.quick(count, mean, xp.where(eye, variance[..., None], scatter))


def _at(centre: Any, like: Array) -> Array:
    """The centre, once for each row of an array."""
    xp = namespace(like)
    return xp.broadcast_to(xp.asarray(centre, like.dtype), like.shape)


def whole(s: Any, name: str, place: int) -> Array:
    """A sum with its low part, in float64 where the numbers are known."""
    both = getattr(s, name), *(() if s.rounding is None else (s.rounding[place],))
    if is_traced(both):
        return sum(both[1:], both[0])
    found: Any = sum(np.asarray(a, np.float64) for a in both)
    return found


def in_dtype(s: Any, dtype: Any) -> Any:
    """The statistics as arrays of JAX of this dtype; what float32 rounds off is kept beside it."""
    names = ("count", "total") if isinstance(s, Sums) else ("count", "mean", "scatter")
    values = [whole(s, name, i) for i, name in enumerate(names)]
    if dtype != np.float32 or not on_host(*values):
        return type(s).quick(*(jnp.asarray(a, dtype) for a in values))
    with np.errstate(over="ignore"):
        high = [a.astype(np.float32) for a in values]
        low = tuple(jnp.asarray(a - b, dtype) for a, b in zip(values, high, strict=True))
    return type(s).quick(*map(jnp.asarray, high), low)
