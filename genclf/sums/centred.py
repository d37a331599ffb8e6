"""Moments from sums about points near the class means, at a cost independent of K.

The points are means of a sample of the rows. One pass over all rows gives sums and squares about
them, from which the scatter about the true means follows exactly.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Shaped

from genclf.numerics import loops
from genclf.numerics.compensated import Pair, add_to, pairwise_sum, rounded, single
from genclf.numerics.double import one_matrix, product
from genclf.numerics.namespace import Array, matmul
from genclf.numerics.row_blocks import block_rows, map_in_blocks
from genclf.numerics.sizes import at_most
from genclf.sums.blocks import (
    Hard,
    Sum,
    class_rows,
    ignore_absent,
    of_some_classes,
    row_weights,
    rows_at,
    scan_rows,
    sum_rows,
)
from genclf.sums.class_sums import (
    add_rows,
    class_counts,
    class_totals,
    of_rows,
    partial_sums_of,
    rows_in_parts,
    zero_partial_sums,
)
from genclf.sums.largest import argmax
from genclf.sums.reading import Products, moments_by
from genclf.sums.statistics import Moments, about_mean, divide
from genclf.sums.tiles import class_tiles

_MOST_ROWS = 2**15  # maximum rows of a block
_TILE = 4096  # maximum rows of a tile
_TOGETHER = 8  # blocks whose sums are added up before rounding errors are kept
_AT_ONCE = 2**24  # cells of matrices up to which those of all classes are computed together;
_FEW_CELLS = 2**21  # otherwise so many, or one class, at a time
_FEW_CLASSES = 16  # up to which class sums cost less as columns of a product than one by one


def hard_moments(x: Shaped[Array, "n d"], w: Hard, *, full: bool, pooled: bool) -> Moments:
    """Moments of rows with hard labels: diagonals, or one pooled scatter matrix.

    Args:
        x: rows; a non-finite cell makes the moments of its class NaN; if pooled, of all.
        w: class weights.
        full: True for the scatter matrix, which has to be pooled; False for its diagonal.
        pooled: one scatter for all classes, with a class axis of length 1.
    """
    d, count = x.shape[1], class_counts(w)
    # A block has more numbers than the scatter that it is added to.
    rows = max(block_rows(d), d if pooled else min(4 * len(count), _MOST_ROWS))
    # An inner loop over one block takes longer than one over two.
    together = max(2, min(_TOGETHER, rows_in_parts(len(count)) // rows))
    by_product = full and len(count) <= _FEW_CLASSES
    at_once = at_most(x.shape[0], together * rows)
    parts = partial_sums_of(w, at_once)

    def read(centre: Array, products: Products) -> Moments:
        # The rounding errors of sums of inexact products are not kept.
        add_pair = lambda a, b: add_to(a, b) if products.exact else (a[0] + b[0], a[1])  # noqa: E731

        def add(total: Sum, x: Array, w: Hard) -> Sum:
            sums, scatter = total
            x = ignore_absent(x.astype(count.dtype), w.weight != 0)
            own = of_rows(centre, w)
            z = x - own
            if not full:
                return add_rows(sums, z, w, parts), add_rows(scatter, z * z, w, parts)
            rows = (x, -own) if products.exact else z
            # Without class sums, an unused column makes the product faster: see `gram_and_sums`.
            columns = class_rows(w).T if by_product else w.weight[:, None]
            more, found = products.with_sums(rows, w.weight, columns)
            sums = add_pair(sums, found) if by_product else add_rows(sums, z, w, parts)
            return sums, add_pair(scatter, one_matrix(more))

        zeros = jnp.zeros_like(centre)
        scatter = zeros_in_parts = zero_partial_sums(zeros, at_once)
        if full:
            zero = jnp.broadcast_to(zeros[:1, None], (1, d, d))
            scatter = zero, zero
        start = (zeros, zeros) if by_product else zeros_in_parts, scatter
        sums, scatter = sum_rows(add, start, x, w, rows, together)
        if full:
            sums = sums if by_product else class_totals([sums], parts)[0]
            scatter = products.scatter(scatter)
        else:
            sums, scatter = class_totals([sums, scatter], parts)
            scatter = one_matrix(pairwise_sum(*scatter)) if pooled else scatter
        return about_mean(count, centre, rounded(sums), scatter)

    return moments_by(read, x, w, full)


def tiled_moments(x: Shaped[Array, "n d"], w: Hard) -> Moments:
    """Moments with a scatter matrix per class, of rows with hard labels, in tiles of one class.

    The labels are sorted once, so that the cost, 2 n d² flops, does not depend on K. If the
    matrices are large, the moments of a few classes are computed at a time: up to seven copies of
    each matrix exist meanwhile.
    """
    num_classes, d = w.num_classes, x.shape[1]
    # Unused rows fill half a tile per class on average, so a tile is at most a quarter of the mean
    # number of rows per class (but at least 128 rows).
    share = max(1, at_most(x.shape[0], 4 * num_classes * _TILE) // (4 * num_classes))
    tile = max(1 << (share.bit_length() - 1), 128)
    if num_classes * d**2 <= _AT_ONCE:
        return _tiled_moments(x, w, tile)

    def of_classes(k: Array) -> Moments:
        return _tiled_moments(x, of_some_classes(w, k), tile)

    few = max(1, _FEW_CELLS // d**2)
    return map_in_blocks(
        jax.checkpoint(of_classes), jnp.arange(num_classes, dtype=w.label.dtype), few
    )


def _tiled_moments(x: Shaped[Array, "n d"], w: Hard, tile: int) -> Moments:
    count = class_counts(w)
    num_tiles, tile_of = class_tiles(w, tile)

    def read(centre: Array, products: Products) -> Moments:
        def add(carried: tuple[Array, ...], t: Array) -> tuple[tuple[Array, ...], None]:
            tile = tile_of(t)
            is_used = loops.any_member((tile[2] != 0).any())
            return loops.cond(is_used, lambda: add_tile(carried, *tile), lambda: carried), None

        def add_tile(
            carried: tuple[Array, ...], k: Array, rows: Array, weight: Array
        ) -> tuple[Array, ...]:
            sums, scatter, low = carried
            cells = rows_at(x, rows).astype(count.dtype)
            cells, point = ignore_absent(cells, weight != 0), centre[k][None]
            centred = (cells, -point) if products.exact else cells - point
            more, total = products.with_sums(centred, weight, weight[:, None], k)
            own, rest = add_to((scatter[k], low[k]), more)
            sums = sums.at[k].add(rounded(total)[0])
            return sums, scatter.at[k].set(own), low.at[k].set(rest)

        zeros = jnp.zeros_like(centre)
        zero = jnp.broadcast_to(zeros[:, :, None], (*centre.shape, x.shape[1]))
        start: tuple[Array, ...] = zeros, zero, zero
        sums, *scatter = loops.scan(add, start, jnp.arange(num_tiles))[0]
        return about_mean(count, centre, sums, products.scatter((scatter[0], scatter[1])))

    return moments_by(read, x, w, full=True)


def soft_pooled_moments(
    x: Shaped[Array, "n d"],
    w: Float[Array, "n K"],
    *,
    full: bool,
    near: Float[Array, "K d"] | None = None,
) -> Moments:
    """Moments with a pooled scatter of rows with weights in several classes.

    With any points c_k, a row is centred on its expected point `c̄_n = Σ_k w_nk c_k / w_n`, since

        Σ_nk w_nk (x_n - c_k)(x_n - c_k)ᵀ = Σ_n w_n (x_n - c̄_n)(x_n - c̄_n)ᵀ
                                            + Σ_{k<l} G_kl (c_k - c_l)(c_k - c_l)ᵀ,

    `G_kl = Σ_n w_nk w_nl / w_n`. That is about 2 n (d + K)² flops instead of 2 n d² K, and no term
    is negative. A non-finite cell makes the mean NaN in each class in which its row has weight.

    Args:
        x: rows.
        w: class weights.
        full: True for the scatter matrix, False for its diagonal.
        near: points near the class means, if some are known.
    """
    d, count = x.shape[1], class_counts(w)
    rows = max(block_rows(d), d // 2)

    def add_bad(total: Array, x: Array, w: Array) -> Array:
        return total + matmul((w != 0).astype(w.dtype).T, (~jnp.isfinite(x)).astype(w.dtype))

    def read(centre: Array, products: Products) -> Moments:
        offset = centre - centre[:1]

        def add(
            total: tuple[Pair, Array, Pair, Array], x: Array, w: Array
        ) -> tuple[Pair, Array, Pair, Array]:
            sums, overlap, scatter, clean = total
            usable = jnp.isfinite(x)
            weight = row_weights(w)[:, None]
            share = divide(w, jnp.broadcast_to(weight, w.shape))
            # Relative to the likeliest class, c̄_n has no rounding if no other class has a share.
            likeliest = argmax(w)
            nearest = lambda a: a.at[likeliest].get(mode="promise_in_bounds")  # noqa: E731
            z = jnp.where(usable, x, 0).astype(count.dtype) - nearest(centre)
            centred = z - (matmul(share, offset) - nearest(offset))
            if full:
                more, own = products.with_sums(centred, weight[:, 0], w)
                more = one_matrix(more)
            else:
                more = single(matmul(weight[:, 0], centred * centred)[None])
                own = product(w, centred, products.exact)
            sums = add_to(sums, own)
            overlap = overlap + matmul(w.T, share)
            return sums, overlap, add_to(scatter, more), clean & usable.all()

        zeros = jnp.zeros_like(centre)
        zero = jnp.broadcast_to(zeros[:1, None], (1, d, d)) if full else zeros[:1]
        overlaps = jnp.broadcast_to(zeros[:, :1], (len(count), len(count)))
        start = (zeros, zeros), overlaps, (zero, zero), zeros[0, 0] == 0
        sums, overlap, scatter, clean = scan_rows(add, start, x, w, rows)
        bad = loops.unlikely(~clean, lambda: scan_rows(add_bad, zeros, x, w, rows), lambda: zeros)
        # Σ_{k<l} G_kl (c_k - c_l)(c_k - c_l)ᵀ = Cᵀ L C, L the Laplacian of the graph of weights G.
        others = jnp.where(jnp.eye(len(count), dtype=bool), 0, overlap)
        l_c = others.sum(1)[:, None] * offset - matmul(others, offset)
        if full:
            left, right = (products.whitened(a) for a in (l_c, offset))
            between = one_matrix(product(left, right, products.exact))
        else:
            between = single((l_c * offset).sum(0)[None])
        high, low = add_to(scatter, between)
        high = jnp.where((bad > 0).any(), jnp.nan, high)
        centre = jnp.where(bad > 0, jnp.nan, centre)
        spread = products.scatter((high, low)) if full else (high, low)
        return about_mean(count, centre, rounded(sums) - l_c, spread)

    return moments_by(read, x, w, full, near)
