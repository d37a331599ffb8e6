"""Triangular factors of correlation matrices and their inverses, with finite derivatives."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from genclf.sums.products import matmul


@jax.custom_jvp
def cholesky(correlation: Array) -> Array:
    """Cholesky factor of correlation matrices; the diagonal of a singular one gains 10 d ε."""
    d = correlation.shape[-1]
    eps = jnp.finfo(correlation.dtype).eps
    factorize = partial(lax.linalg.cholesky, symmetrize_input=False)
    factor = factorize(correlation)
    pivots = jnp.diagonal(factor, axis1=-2, axis2=-1)
    regular = (pivots**2 > d * eps).all(-1)  # False on NaN
    jitter = jnp.where(regular, 0, 10 * d * eps).astype(correlation.dtype)
    repaired = correlation + jitter[:, None, None] * jnp.eye(d, dtype=jitter.dtype)[None]
    # A second factorization is rarely needed. One decision for a whole vmapped batch keeps `cond`
    # from becoming a select, which would always compute both branches.
    return lax.cond(any_member(~regular.all()), factorize, lambda _: factor, repaired)


@cholesky.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # dL = L Φ(L⁻¹ dC L⁻ᵀ), Φ the lower triangle with half the diagonal: finite wherever L is,
    # while differentiating through the factorization that failed would give NaN.
    factor = cholesky(*primals)
    solve = partial(lax.linalg.triangular_solve, factor, lower=True)
    middle = solve(solve(tangents[0], left_side=True), left_side=False, transpose_a=True)
    half = jnp.tril(middle) - 0.5 * middle * jnp.eye(middle.shape[-1], dtype=middle.dtype)[None]
    return factor, matmul(factor, half)


@jax.custom_jvp
def inverse_lower(factor: Float[Array, "*batch d d"]) -> Float[Array, "*batch d d"]:
    """L⁻¹ of lower triangular L, with derivatives that are matrix products."""
    eye = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return lax.linalg.triangular_solve(factor, eye, left_side=True, lower=True)


@inverse_lower.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # dL⁻¹ = -L⁻¹ dL L⁻¹. The derivative rule of `triangular_solve` solves once per tangent; in
    # second derivatives these many small calls were observed to deadlock XLA's thread pool.
    inverse = inverse_lower(*primals)
    return inverse, -matmul(matmul(inverse, jnp.tril(tangents[0])), inverse)


@custom_vmap
def any_member(flag: Array) -> Array:
    """The flag; under `jax.vmap` whether any member of the batch has it set, unbatched."""
    return flag


@any_member.def_vmap
def _(axis_size: int, in_batched: list[bool], flag: Array) -> tuple[Array, bool]:
    return any_member(flag.any(0)), False
