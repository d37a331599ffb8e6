"""Moments from two readings of the rows: the class means, then the scatter about them.

The cost does not depend on the number of classes: one Gram matrix for a pooled scatter, one more
reading for diagonals.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Shaped

from genclf.sums.blocks import (
    Hard,
    block_rows,
    ignore_absent,
    row_weights,
    scan_rows,
)
from genclf.sums.class_sums import add_class_sums, class_counts, class_sums
from genclf.sums.compensated import add_to
from genclf.sums.products import matmul
from genclf.sums.statistics import Moments, divide

_MOST_ROWS = 2**15  # of a block


def some_row(x: Shaped[Array, "n d"], weight: Float[Array, "n"]) -> Float[Array, "d"]:
    """A row with weight, its non-finite cells 0; subtracting it removes a large common offset."""
    if not len(x):
        return jnp.zeros(x.shape[1], weight.dtype)
    return _finite_rows(x, weight.argmax()[None], weight.dtype)[0]


def _rows_of_classes(x: Shaped[Array, "n d"], w: Hard) -> Float[Array, "K d"]:
    """One row of each class, as in `some_row`; an arbitrary row for a class that has none."""
    n = len(x)
    if not n:
        return jnp.zeros((w.num_classes, x.shape[1]), w.weight.dtype)
    row = jnp.where(w.weight > 0, jnp.arange(n, dtype=jnp.int32), n - 1)
    first = jnp.full(w.num_classes, n - 1, jnp.int32).at[jnp.maximum(w.label, 0)].min(row)
    return _finite_rows(x, first, w.weight.dtype)


def _finite_rows(x: Array, rows: Int[Array, "m"], dtype: Any) -> Float[Array, "m d"]:
    found = lax.stop_gradient(x.at[rows].get(mode="promise_in_bounds"))
    return jnp.where(jnp.isfinite(found), found, 0).astype(dtype)


def hard_moments(x: Shaped[Array, "n d"], w: Hard, *, full: bool, pooled: bool) -> Moments:
    """Moments of rows with hard labels: diagonals, or a pooled scatter.

    Args:
        x: rows; a non-finite cell makes the moments of its class NaN.
        w: class weights.
        full: True for the scatter matrix, which has to be pooled; False for its diagonal alone.
        pooled: one scatter for all classes, with a class axis of length 1.
    """
    d, count = x.shape[1], class_counts(w)
    # A block is larger than the scatter that it is added to.
    rows = max(block_rows(d), d // 2 if pooled else min(4 * len(count), _MOST_ROWS))
    origin = _rows_of_classes(x, w)

    def centred(x: Array, w: Hard, centre: Array) -> Array:
        own = centre.at[jnp.maximum(w.label, 0)].get(mode="promise_in_bounds")
        return ignore_absent(x.astype(count.dtype), w.weight != 0) - own

    def add_cells(total: Array, x: Array, w: Hard) -> Array:
        return add_class_sums(total, centred(x, w, origin), w)

    def add_squares(
        totals: tuple[Array, Array, Array], x: Array, w: Hard
    ) -> tuple[Array, Array, Array]:
        remainder, scatter, low = totals
        z = centred(x, w, centre)
        if full:
            more = matmul((w.weight[:, None] * z).T, z)[None]
        elif pooled:
            more = matmul(w.weight, z * z)[None]
        else:
            more = class_sums(z * z, w)
        return add_class_sums(remainder, z, w), *add_to(scatter, low, more)

    nothing = jnp.zeros_like(origin)
    centre = origin + divide(scan_rows(add_cells, nothing, x, w, rows), count[:, None])
    zero = jnp.zeros((1, d, d) if full else (1, d), count.dtype) if pooled else nothing
    remainder, scatter, low = scan_rows(add_squares, (nothing, zero, zero), x, w, rows)
    return _about_mean(count, centre, remainder, scatter + low)


def soft_pooled_moments(x: Shaped[Array, "n d"], w: Float[Array, "n K"], *, full: bool) -> Moments:
    """Moments with a pooled scatter of rows with weights in several classes.

    A row is centred on its expected mean `m̄_n = Σ_k w_nk m_k / w_n`, since

        Σ_nk w_nk (x_n - m_k)(x_n - m_k)ᵀ = Σ_n w_n (x_n - m̄_n)(x_n - m̄_n)ᵀ
                                            + Σ_{k<l} G_kl (m_k - m_l)(m_k - m_l)ᵀ,

    `G_kl = Σ_n w_nk w_nl / w_n`. That is about 2 n (d + K)² flops instead of 2 n d² K, and no term
    is negative. In each class in which its row has weight, a non-finite cell makes the mean NaN.
    """
    d, count = x.shape[1], class_counts(w)
    rows = max(block_rows(d), d // 2)
    origin = some_row(x, row_weights(w))[None]

    def cells(x: Array) -> Array:
        return jnp.where(jnp.isfinite(x), x, 0).astype(count.dtype)

    def add_cells(total: Array, x: Array, w: Array) -> Array:
        return total + matmul(w.T, cells(x) - origin)

    def add_bad(total: Array, x: Array, w: Array) -> Array:
        return total + matmul((w != 0).astype(w.dtype).T, (~jnp.isfinite(x)).astype(w.dtype))

    def add_squares(
        totals: tuple[Array, Array, Array, Array], x: Array, w: Array
    ) -> tuple[Array, Array, Array, Array]:
        remainder, overlap, scatter, low = totals
        weight = row_weights(w)[:, None]
        share = divide(w, jnp.broadcast_to(weight, w.shape))
        # Relative to the mean of the likeliest class, m̄_n has no rounding if no other has a share.
        nearest = lambda a: a.at[w.argmax(1)].get(mode="promise_in_bounds")  # noqa: E731
        z = (cells(x) - nearest(centre)) - (matmul(share, apart) - nearest(apart))
        more = matmul((weight * z).T, z) if full else matmul(weight[:, 0], z * z)
        remainder, overlap = remainder + matmul(w.T, z), overlap + matmul(w.T, share)
        return remainder, overlap, *add_to(scatter, low, more[None])

    nothing = jnp.zeros((len(count), d), count.dtype)
    apart = divide(scan_rows(add_cells, nothing, x, w, rows), count[:, None])
    centre = origin + apart
    zero = jnp.zeros((1, d, d) if full else (1, d), count.dtype)
    start = nothing, jnp.zeros((len(count), len(count)), count.dtype), zero, zero
    remainder, overlap, scatter, low = scan_rows(add_squares, start, x, w, rows)
    bad = lax.cond(
        jnp.isfinite(x).all(), lambda: nothing, lambda: scan_rows(add_bad, nothing, x, w, rows)
    )
    # Σ_{k<l} G_kl (m_k - m_l)(m_k - m_l)ᵀ = Mᵀ L M, L the Laplacian of the graph with weights G.
    others = jnp.where(jnp.eye(len(count), dtype=bool), 0, overlap)
    pull = others.sum(1)[:, None] * apart - matmul(others, apart)
    between = matmul(pull.T, apart) if full else (pull * apart).sum(0)
    centre = jnp.where(bad > 0, jnp.nan, centre)
    scatter = jnp.where((bad > 0).any(), jnp.nan, scatter + low + between[None])
    return _about_mean(count, centre, remainder - pull, scatter)


def _about_mean(count: Array, centre: Array, remainder: Array, scatter: Array) -> Moments:
    """Moments, from the scatter about rounded means and the sums of rows minus these means."""
    drift = divide(remainder, count[:, None])
    mean = jnp.where(count[:, None] == 0, 0, centre + drift)
    raw = Moments(count, mean, scatter)
    return Moments(count, mean, scatter - raw.outer(count, drift))
