"""The few steps of a float32 program that need float64: products of rows, and factors of matrices.

A scatter in float32 loses as many digits as its condition number has, and its factor half as many.
So a scatter is a sum of two floats, high and low, and these functions compute in float64 between
pairs. The process-wide setting of JAX is neither read nor changed. Each derivative is that of the
same formula in the dtype of the arguments, so no float64 leaves this module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Float, PyTree

from genclf.arguments.unlikely import is_open
from genclf.numerics.batched import inverse_lower
from genclf.numerics.compensated import Pair, single
from genclf.numerics.namespace import Array, matmul, namespace, on_host
from genclf.numerics.sizes import is_at_most

P = ParamSpec("P")
R = TypeVar("R")
_FEW_FEATURES = 8  # up to which most of the time is spent reading rows
_FEW_PRODUCTS = 2**24


def in_double(function: Callable[..., R]) -> Callable[..., R]:
    """Compute a function in float64; it has to accept further leading axes, and narrow its results.

    A batch axis becomes a leading axis: JAX's own batching would trace the code again, with float64
    off.
    """

    @custom_vmap
    def computed(*args: PyTree) -> R:
        with jax.enable_x64(True):
            return function(*args)

    @wraps(function)
    def called(*args: PyTree) -> R:
        if not is_open():
            return computed(*args)
        with jax.enable_x64(True):
            return function(*args)

    @computed.def_vmap
    def _(size: int, batched: list[PyTree], *args: PyTree) -> tuple[R, PyTree]:
        pairs = zip(jax.tree.leaves(args), jax.tree.leaves(batched), strict=True)
        of_batched = [jax.typeof(a).sharding for a, has in pairs if has]
        over = next((s for s in of_batched if s.spec and s.spec[0] is not None), None)

        def with_axis(a: Array, has: bool) -> Array:
            if has:
                return a
            every = jnp.broadcast_to(a, (size, *a.shape))
            if over is None:
                return every
            spec = PartitionSpec(over.spec[0], *jax.typeof(a).sharding.spec)
            return jax.reshard(every, NamedSharding(over.mesh, spec))

        found = computed(*jax.tree.map(with_axis, args, tuple(batched)))
        return found, jax.tree.map(lambda _: True, found)

    return called


def widen(a: Array) -> Array:
    """The array in float64; for functions that are computed `in_double`."""
    return a.astype(np.float64) if on_host(a) else lax.convert_element_type(a, jnp.float64)


def narrow(a: Array, dtype: jnp.dtype) -> Pair:
    """A float64 array as high and low."""
    if dtype == a.dtype:
        return single(a)
    if on_host(a):
        high = a.astype(dtype)
        return high, (a - high).astype(dtype)
    # On a GPU, XLA removes a conversion to float32 and back, and the low part would be 0.
    high = lax.reduce_precision(a, exponent_bits=8, mantissa_bits=23)
    return lax.convert_element_type(high, dtype), lax.convert_element_type(a - high, dtype)


def as_pairs(formula: Callable[P, Any]) -> Callable[P, Any]:
    """A formula of arrays, computed in float64; each result as high and low.

    It has to accept further leading axes. The dtype is that of the first argument. Derivatives are
    those of the formula in the dtype of the arguments.
    """
    of_arrays = cast(Callable[..., Any], formula)

    def in_pairs(*args: Array) -> Any:
        found = of_arrays(*map(widen, args))
        return jax.tree.map(lambda a: narrow(a, args[0].dtype), found)

    computed = jax.custom_jvp(in_double(in_pairs))

    @computed.defjvp
    def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Any, Any]:
        changes = jax.jvp(of_arrays, primals, tangents)[1]
        return computed(*primals), jax.tree.map(single, changes)

    @wraps(formula)
    def called(*args: Array) -> Any:
        return (in_pairs if on_host(*args) else computed)(*args)

    return cast(Callable[P, Any], called)


def is_cheap(n: object, d: int) -> bool:
    """Whether n rows of d numbers have so few products that float64 costs little."""
    return d <= _FEW_FEATURES or is_at_most(n, _FEW_PRODUCTS // (d * d))


def product(a: Float[Array, "*batch n d"], b: Float[Array, "*batch n e"], exact: bool) -> Pair:
    """`Σ_n a_n b_nᵀ`, with a low part of 0 unless `exact`."""
    return _exact_product(a, b) if exact else single(matmul(a.mT, b))


def one_matrix(pair: Pair) -> Pair:
    """A matrix with a class axis of length 1."""
    return pair[0][None], pair[1][None]


@as_pairs
def _exact_product(a: Array, b: Array) -> Array:
    return matmul(a.mT, b)


def gram(weight: Array, z: Float[Array, "*batch n d"] | Pair, exact: bool) -> Pair:
    """`Σ_n weight_n z_n z_nᵀ`, with a low part of 0 unless `exact`."""
    high, low = z if isinstance(z, tuple) else single(z)
    if exact and not on_host(weight, high):
        return _exact_gram(weight, high, low)
    return single(matmul((weight[..., None] * high).mT, high))


def gram_and_sums(
    weight: Array,
    z: Float[Array, "n d"] | Pair,
    columns: Float[Array, "n m"],
    exact: bool,
    pieces: int,
) -> tuple[Pair, Pair]:
    """`gram`, to be completed by `symmetric`, and `Σ_n columns_n z_nᵀ`.

    Both are one product unless `exact`. Where d is a power of two, that takes a third less time
    than `gram` alone: rows whose length is a power of two compete for the same cache lines.
    The features are split into pieces, and blocks below the diagonal are left out.

    With `exact`, rows may be given as any two terms.
    """
    high, low = z if isinstance(z, tuple) else single(z)
    if exact:
        return _exact_gram_and_sums(weight, high, low, columns)
    weighted, rows = weight[:, None] * high, []
    for first, last in _pieces(high.shape[1], pieces):
        left = jnp.concatenate([weighted[:, first:last], columns], 1)
        found = matmul(left.T, high[:, first:])
        rows.append(jnp.pad(found[: last - first], ((0, 0), (first, 0))))
        if first == 0:
            sums, columns = found[last:], columns[:, :1]
    return single(jnp.concatenate(rows)), single(sums)


def symmetric(upper: Float[Array, "*batch d d"], pieces: int) -> Float[Array, "*batch d d"]:
    """The matrices of `gram_and_sums`, with the blocks that were left out."""
    for first, last in _pieces(upper.shape[-1], pieces)[1:]:
        # XLA takes minutes to compile a transposition that it fuses with other operations.
        above = lax.optimization_barrier(upper[..., :first, first:last].mT)
        upper = upper.at[..., first:last, :first].set(above)
    return upper


def _pieces(d: int, pieces: int) -> list[tuple[int, int]]:
    return list(pairwise(d * i // pieces for i in range(pieces + 1)))


@as_pairs
def _exact_gram(weight: Array, high: Array, low: Array) -> Array:
    z = high + low
    left = (weight[..., None] * z).mT
    # XLA calls a function for each small product, but computes a product of numbers in a loop.
    return left * z if z.shape[-2] == 1 else matmul(left, z)


@as_pairs
def _exact_gram_and_sums(
    weight: Array, high: Array, low: Array, columns: Array
) -> tuple[Array, Array]:
    z = high + low
    left = jnp.concatenate([weight[..., None] * z, columns], -1)
    found = matmul(left.mT, z)
    return found[..., : z.shape[-1], :], found[..., z.shape[-1] :, :]


@as_pairs
def centred_sums(w: Array, x: Array, centre: Array) -> Array:
    """`Σ_n w_nk (x_n - centre)`, (K, d)."""
    return matmul(w.mT, x - centre)


@as_pairs
def whitened_trace(scale: Array, high: Array, low: Array) -> Array:
    """`tr Σ⁻¹ S` for Σ = L Lᵀ, L lower triangular: in float64, since Σ may be nearly singular."""
    inverse = inverse_lower(scale)
    return (matmul(inverse, high + low) * inverse).sum((-2, -1))


@as_pairs
def scaled(high: Array, low: Array, weight: Array) -> Array:
    """`weight · (high + low)`, the weight having the leading axes of the others."""
    of_each = namespace(weight).expand_dims(weight, tuple(range(weight.ndim, high.ndim)))
    return of_each * (high + low)


@as_pairs
def unwhiten(inverse: Float[Array, "K d d"], core: Float[Array, "K d d"]) -> Array:
    """`A C Aᵀ` for symmetric C, and lower triangular A given by its inverse.

    Derivatives are with respect to C alone.
    """
    whole = inverse_lower(lax.stop_gradient(inverse))
    return matmul(matmul(whole, core), whole.mT)
