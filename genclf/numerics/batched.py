"""Factorizations of many matrices, without a deadlock in XLA's thread pool.

On a CPU, jaxlib spreads a batch of LAPACK calls over XLA's thread pool, from a thread of that pool,
and waits for them. If as many such calls run at once as there are threads (two, on a machine of two
cores), they wait for each other for ever. So LAPACK gets batches that are small enough to be
computed in the calling thread. Accelerators get the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, reduce
from operator import add

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Float, PyTree

from genclf.numerics import loops, on_host
from genclf.numerics.namespace import Array, matmul, namespace, on_host as is_on_host
from genclf.numerics.row_blocks import even

_INLINE = 200_000  # flops of a batch, above which jaxlib uses the pool
_THREADED_SOLVE = 1023  # rows times columns, above which OpenBLAS solves in its own threads
_LARGE = 64  # features from which a triangular matrix is inverted by blocks;
_THREADED = 128  # features from which a float32 matrix is factorised by panels
_BLOCK = 32  # the smallest blocks have at most this size
_PANEL = 64  # columns of a panel
_TOGETHER = 512  # columns of one loop over panels

Of = Callable[[Array], PyTree]


def _in_small_batches(flops: int, by_cpu: Of | None = None) -> Callable[[Of], Of]:
    """Decorate a function of (batch, m, n): it takes any leading axes, in small batches on a CPU.

    Args:
        flops: flops for one matrix, divided by `m n min(m, n)`; at least jaxlib's estimate.
        by_cpu: the function for a CPU, if it differs.
    """

    def of(function: Of) -> Of:
        own = function if by_cpu is None else by_cpu

        def on_cpu(a: Array) -> PyTree:
            m, n = a.shape[-2:]
            part = max(1, int(_INLINE / (flops * max(m * n * min(m, n), 1))))
            if len(a) <= part:
                return own(a)
            part = even(len(a), part)
            eye = jnp.broadcast_to(jnp.eye(m, n, dtype=a.dtype), (-len(a) % part, m, n))
            found = lax.map(own, jnp.concatenate([a, eye]).reshape(-1, part, m, n))
            return jax.tree.map(lambda r: r.reshape(-1, *r.shape[2:])[: len(a)], found)

        @custom_vmap
        def whole(a: Array) -> PyTree:
            flat = a.reshape(-1, *a.shape[-2:])
            if any(axis is not None for axis in jax.typeof(flat).sharding.spec):
                found = function(flat)  # each device has its part of the batch
            else:
                found = loops.by_platform(on_cpu, function, flat)
            return jax.tree.map(lambda r: r.reshape(*a.shape[:-2], *r.shape[1:]), found)

        @whole.def_vmap
        def _(size: int, batched: list[bool], a: Array) -> tuple[PyTree, PyTree]:
            # JAX may trace this after a function computed `in_double` has ended.
            with jax.enable_x64(True) if a.dtype == jnp.float64 else nullcontext():
                found = whole(a)
            return found, jax.tree.map(lambda _: True, found)

        return whole

    return of


def _cholesky_by_cpu(a: Array) -> Array:
    # A matrix of this size is a batch of its own.
    is_threaded = a.shape[-1] >= _THREADED and a.dtype == jnp.float32
    return _cholesky_by_panels(a[0])[None] if is_threaded else _direct_cholesky(a)


def _direct_cholesky(a: Array) -> Array:
    return lax.linalg.cholesky(a, symmetrize_input=False)


_cholesky = _in_small_batches(1, _cholesky_by_cpu)(_direct_cholesky)


def _padded(a: Float[Array, "*batch d d"], size: int) -> Float[Array, "*batch size size"]:
    """The matrix with an identity as a second block on its diagonal."""
    d = a.shape[-1]
    padded = jnp.pad(a, [(0, 0)] * (a.ndim - 2) + [(0, size - d)] * 2)
    ones = jnp.diag((jnp.arange(size) >= d).astype(a.dtype))
    return padded + jnp.broadcast_to(ones, padded.shape)


def _cholesky_by_panels(a: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The Cholesky factor, computed `_PANEL` columns at a time.

    OpenBLAS factorises larger matrices in its own threads, which then spin; see
    `_inverse_by_blocks`.
    """
    d = len(a)
    size = -(-d // _PANEL) * _PANEL
    a = _padded(a, size)
    factor = jnp.zeros_like(a)
    for first in range(0, size, _TOGETHER):
        last = min(first + _TOGETHER, size)
        panel = partial(_add_panel, a[first:, first:last], first)
        part = loops.fori_loop(0, (last - first) // _PANEL, panel, factor[first:, :last])
        factor = factor.at[first:, :last].set(part)
    return factor[:d, :d]


def _add_panel(a: Array, first: int, j: Array, factor: Array) -> Array:
    """Rows `first` and later of the factor, after panel j of the columns in `a` is added."""
    start = j * _PANEL
    rows = lax.dynamic_slice_in_dim(factor, start, _PANEL)
    columns = lax.dynamic_slice_in_dim(a, start, _PANEL, 1) - matmul(factor, rows.T)
    own = _direct_cholesky(lax.dynamic_slice_in_dim(columns, start, _PANEL))
    inverse = inverse_lower(own).T
    below = matmul(columns, inverse)
    below = below + matmul(columns - matmul(below, own.T), inverse)  # as accurate as a solve
    below = jnp.where(jnp.arange(len(a))[:, None] < start + _PANEL, 0, below)
    below = lax.dynamic_update_slice_in_dim(below, own, start, 0)
    return lax.dynamic_update_slice_in_dim(factor, below, first + start, 1)


@_in_small_batches(1)
def _inverse_lower(factor: Array) -> Array:
    d = factor.shape[-1]
    width, parts = even(d, _THREADED_SOLVE // d), []
    for first in range(0, d, width):
        rest = factor[:, first:, first:]
        eye = jnp.eye(d - first, min(width, d - first), dtype=rest.dtype)
        own = jnp.zeros_like(rest[..., :width]) + eye[None]
        part = lax.linalg.triangular_solve(rest, own, left_side=True, lower=True)
        parts.append(jnp.pad(part, ((0, 0), (first, 0), (0, 0))))
    return jnp.concatenate(parts, -1)


def _inverse_by_blocks(factor: Float[Array, "*batch d d"]) -> Float[Array, "*batch d d"]:
    """`[[A, 0], [B, C]]⁻¹ = [[A⁻¹, 0], [-C⁻¹ B A⁻¹, C⁻¹]]`, from small blocks up.

    OpenBLAS solves larger triangular systems in its own threads, which then spin for about 30 ms
    on cores that the products of rows need.
    """
    d = factor.shape[-1]
    levels = (-(-d // _BLOCK) - 1).bit_length()
    size = -(-d // 2**levels)
    padded = _padded(factor, size * 2**levels)
    inverse = _inverse_of_small(_on_diagonal(padded, size))
    for level in range(levels):
        half = size * 2**level
        lower = _on_diagonal(padded, 2 * half)[..., half:, :half]
        first, second = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        below = -matmul(matmul(second, lower), first)
        # A sum of padded blocks is one loop; concatenations take longer to compile.
        places = (first, 0, 0), (below, half, 0), (second, half, half)
        inverse = reduce(add, (_placed(a, 2 * half, row, column) for a, row, column in places))
    return inverse[..., 0, :d, :d]


def _inverse_of_small(factor: Float[Array, "*batch d d"]) -> Float[Array, "*batch d d"]:
    """The inverse in blocks of 1, 2, 4, ... rows, as one loop of products of whole matrices."""
    d = factor.shape[-1]
    place = jnp.arange(d)

    def double(level: Array, inverse: Array) -> Array:
        block = place >> level
        is_below = (block[:, None] == block[None] + 1) & (block[:, None] % 2 == 1)
        lower = jnp.where(jnp.broadcast_to(is_below, factor.shape), factor, 0)
        return inverse - matmul(matmul(inverse, lower), inverse)

    one = jnp.broadcast_to(jnp.eye(d, dtype=bool), factor.shape)
    start = jnp.where(one, 1 / jnp.where(one, factor, 1), 0)
    return loops.fori_loop(0, (d - 1).bit_length(), double, start)


def _placed(a: Array, size: int, row: int, column: int) -> Array:
    """A matrix as a block of one of zeros, (..., size, size), from this row and column on."""
    rows, columns = a.shape[-2:]
    ends = [(row, size - rows - row), (column, size - columns - column)]
    return jnp.pad(a, [(0, 0)] * (a.ndim - 2) + ends)


def _on_diagonal(a: Array, size: int) -> Array:
    """The blocks of a matrix on its diagonal, (..., number of blocks, size, size)."""
    batch, d = a.shape[:-2], a.shape[-1]
    if d == size:
        return a[..., None, :, :]
    # A block starts d · size + size numbers after the one before.
    flat = jnp.pad(a.reshape(*batch, d * d), [(0, 0)] * len(batch) + [(0, d)])
    rows = flat.reshape(*batch, d // size, (d + 1) * size)[..., : d * size]
    return rows.reshape(*batch, d // size, size, d)[..., :size]


def cholesky(a: Float[Array, "*batch d d"]) -> Float[Array, "*batch d d"]:
    """The lower triangular L with `L Lᵀ = a`, NaN if there is none; reads a's lower triangle."""
    return on_host.cholesky(a) if is_on_host(a) else _factor(a)


@jax.custom_jvp
def _factor(a: Array) -> Array:
    return _cholesky(a)


@_factor.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    factor = _factor(*primals)
    return factor, tangent_of_cholesky(factor, tangents[0])


def tangent_of_cholesky(factor: Array, change: Array) -> Array:
    """`dL = L Φ(L⁻¹ da L⁻ᵀ)`, Φ the lower triangle with half the diagonal."""
    inverse = inverse_lower(factor)
    middle = matmul(matmul(inverse, change), inverse.mT)
    return matmul(factor, jnp.tril(middle, -1) + jnp.tril(0.5 * jnp.triu(middle)))


def inverse_lower(factor: Float[Array, "*batch d d"]) -> Float[Array, "*batch d d"]:
    """L⁻¹ of lower triangular L, with derivatives that are matrix products."""
    return on_host.inverse_lower(factor) if is_on_host(factor) else _inverse(factor)


@jax.custom_jvp
def _inverse(factor: Array) -> Array:
    return (_inverse_by_blocks if factor.shape[-1] >= _LARGE else _inverse_lower)(factor)


@_inverse.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    inverse = _inverse(*primals)
    return inverse, -matmul(matmul(inverse, jnp.tril(tangents[0])), inverse)


def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices; without derivatives."""
    return on_host.eigh(a) if is_on_host(a) else _eigh(a)


def _usual_eigh(a: Array) -> tuple[Array, Array]:
    return tuple(jnp.linalg.eigh(a))


@_in_small_batches(10, _usual_eigh)
def _eigh(a: Array) -> tuple[Array, Array]:
    if a.dtype != jnp.float64:
        return _usual_eigh(a)

    def jacobi(a: Array) -> tuple[Array, Array]:
        method = lax.linalg.EighImplementation.JACOBI
        vectors, values = lax.linalg.eigh(a, implementation=method)
        return values, vectors

    # From 257 features on, JAX traces the usual function for TPUs after `in_double` has ended.
    return lax.platform_dependent(a, tpu=jacobi, default=_usual_eigh)


def upper_of_qr(a: Array) -> Array:
    """The upper triangular factor of square matrices; without derivatives."""
    return namespace(a).linalg.qr(a, mode="r") if is_on_host(a) else _upper_of_qr(a)


_upper_of_qr = _in_small_batches(2)(partial(jnp.linalg.qr, mode="r"))


# Of matrices (..., m, n): the orthonormal columns of their QR factors, without derivatives.
orthonormal = _in_small_batches(2)(lambda a: jnp.linalg.qr(a)[0])
singular_values = _in_small_batches(4)(partial(jnp.linalg.svd, compute_uv=False))
pseudo_inverse = _in_small_batches(4)(jnp.linalg.pinv)
