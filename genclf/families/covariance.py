"""Covariances out of moments, regular whatever the data: the rules of rank and scale of `Gaussian`.

All thresholds are relative to the data's own spread, so that no unit of measurement matters.
"""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float

from genclf.accumulate import matmul
from genclf.families.base import Scalar
from genclf.statistics import Moments, divide, pool


class CovarianceEstimate(eqx.Module):
    """Estimated covariances; the class axis is 1 where they are shared.

    Attributes:
        matrix: scatter over its divisor, (K or 1, d, d), or its diagonal (K or 1, d).
        variance: the diagonal with the ridge, not below the rounding of the data, (ε · rms)²;
            (K or 1, d), or (K or 1, 1) if spherical.
        constant: features whose spread is rounding error, (K or 1, d).
        overall_mean: mean of all examples, (d,).
        is_singular: features, or spheres, that are constant and have no ridge; as `variance`.
    """

    matrix: Float[Array, "..."]
    variance: Float[Array, "K d"]
    constant: Bool[Array, "K D"]
    overall_mean: Float[Array, "D"]
    is_singular: Bool[Array, "K d"]

    @property
    def is_full(self) -> bool:
        """Whether there are whole matrices."""
        return self.matrix.ndim == 3

    def correlation(self) -> Float[Array, "K d d"]:
        """Correlation matrices: the covariance in units that the data chose."""
        sd = jnp.sqrt(self.variance)
        scaled = self.matrix / (sd[:, :, None] * sd[:, None, :])
        return jnp.where(jnp.eye(sd.shape[-1], dtype=bool)[None], 1, scaled)

    def square_root(self) -> Float[Array, "..."]:
        """Cholesky factors of the matrices, or standard deviations."""
        sd = jnp.sqrt(self.variance)
        return sd[..., None] * _cholesky(self.correlation()) if self.is_full else sd

    def correlation_eigenvalues(self) -> Float[Array, "K d"]:
        """Eigenvalues of the correlation matrices, 0 for a constant feature without a ridge."""
        if self.is_full:
            regular = ~self.is_singular
            both = regular[:, :, None] & regular[:, None, :]
            return jnp.linalg.eigvalsh(jnp.where(both, self.correlation(), 0))
        eigenvalues = jnp.where(self.is_singular, 0, jnp.ones_like(self.variance))
        return jnp.broadcast_to(eigenvalues, self.constant.shape)


def estimate_covariance(
    stats: Moments,
    *,
    shared: bool,
    spherical: bool,
    ridge: Scalar,
    ddof: Scalar,
) -> CovarianceEstimate:
    """Covariances of the classes, or the one they share; see `Gaussian` for the rules.

    A class without weight takes the covariance within all classes together.
    """
    n = stats.count.sum()
    ridge, ddof = (jnp.asarray(a, stats.count.dtype) for a in (ridge, ddof))
    overall = pool(Moments(stats.count, stats.mean, stats.diagonal))
    within = divide(stats.diagonal.sum(0), n)
    total = jnp.maximum(divide(overall.scatter, n), 0)  # rounding may leave it below
    square = total + overall.mean**2
    eps, tiny = jnp.finfo(total.dtype).eps, jnp.finfo(total.dtype).tiny
    # In units of x, since squares of small numbers underflow; a mean is good to a few ulp.
    no_spread = jnp.sqrt(total) <= 4 * eps * jnp.sqrt(square)
    floor = jnp.maximum(eps**2 * square, tiny)
    added = ridge * jnp.where(within > floor, within, total)

    pooled = stats.scatter.sum(0)
    if shared:
        matrix = divide(pooled, _divisor(n, ddof))[None]
    else:
        empty, divisor = (
            a.reshape(-1, *[1] * pooled.ndim)
            for a in (stats.count == 0, _divisor(stats.count, ddof))
        )
        matrix = jnp.where(empty, divide(pooled, n)[None], divide(stats.scatter, divisor))

    variance = jnp.diagonal(matrix, axis1=-2, axis2=-1) if stats.is_full else matrix
    constant = no_spread[None] | (variance <= floor[None])
    if spherical:
        variance = variance.mean(-1, keepdims=True)
        added, floor, square = (a.mean(-1, keepdims=True) for a in (added, floor, square))
        no_spread = no_spread.all(-1, keepdims=True)
    variance = variance + added[None]
    # A feature that is constant over all the data has no spread to measure others by: its variance
    # is that of its magnitude, so that it says nothing, also of rows where it differs.
    least = jnp.where(no_spread, jnp.where(square == 0, 1, square), floor)
    singular = no_spread[None] | (variance <= floor[None])
    return CovarianceEstimate(
        matrix, jnp.maximum(variance, least[None]), constant, overall.mean, singular
    )


def _divisor(count: Array, ddof: Array) -> Array:
    """Count - ddof; NaN where a class has too little weight for it."""
    divisor = count - ddof
    return jnp.where((divisor <= 0) & (count > 0), jnp.nan, divisor)


@jax.custom_jvp
def _cholesky(correlation: Array) -> Array:
    """Cholesky factor of correlation matrices; a singular one gets 10 d ε on its diagonal."""
    d = correlation.shape[-1]
    eps = jnp.finfo(correlation.dtype).eps
    factorize = partial(lax.linalg.cholesky, symmetrize_input=False)
    factor = factorize(correlation)
    pivots = jnp.diagonal(factor, axis1=-2, axis2=-1)
    regular = (pivots**2 > d * eps).all(-1)  # False on NaN
    jitter = jnp.where(regular, 0, 10 * d * eps).astype(correlation.dtype)
    repaired = correlation + jitter[:, None, None] * jnp.eye(d, dtype=jitter.dtype)[None]
    # Factoring again is rarely needed; deciding that for a whole vmapped batch keeps it rare.
    return lax.cond(_any_member(~regular.all()), factorize, lambda _: factor, repaired)


@_cholesky.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # dL = L Φ(L⁻¹ dC L⁻ᵀ), Φ the lower triangle with half the diagonal: finite wherever L is,
    # while differentiating through the factorization that failed would give NaN.
    factor = _cholesky(*primals)
    solve = partial(lax.linalg.triangular_solve, factor, lower=True)
    middle = solve(solve(tangents[0], left_side=True), left_side=False, transpose_a=True)
    half = jnp.tril(middle) - 0.5 * middle * jnp.eye(middle.shape[-1], dtype=middle.dtype)[None]
    return factor, matmul(factor, half)


@custom_vmap
def _any_member(flag: Array) -> Array:
    """The flag; under `jax.vmap` whether any member of the batch has it set, unbatched."""
    return flag


@_any_member.def_vmap
def _(axis_size: int, in_batched: list[bool], flag: Array) -> tuple[Array, bool]:
    return _any_member(flag.any(0)), False
