"""Triangular factors of correlation matrices and their inverses, with finite derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float

from genclf.arguments.unlikely import needs_no_derivative
from genclf.numerics import batched, loops
from genclf.numerics.compensated import Pair
from genclf.numerics.double import in_double, widen
from genclf.numerics.members import part
from genclf.numerics.namespace import Array, matmul, namespace, on_host
from genclf.numerics.row_blocks import map_in_blocks
from genclf.sums.statistics import divide

R = TypeVar("R")
T = TypeVar("T")

_THIN = 1e-6  # squared pivot below which a matrix may be singular
_TOGETHER = 2**20  # cells of matrices that are factorised together; some 20 copies of each exist


class Covariances(NamedTuple):
    """Exact covariances `keep (scatter + low) / divisor`, for computing correlation matrices.

    Attributes:
        scatter: (K, d, d).
        low: the low part of the scatter.
        divisor: (K,).
        keep: (K,).
        added: what is added to each variance, (1 or K, d).
        unit: the standard deviations, (K, d).
        constant: features whose variance is `unit²` instead, (K, d).
        instead: mask of classes, (K,), and the scatter that they have, (1, d, d), as high and low;
            None if there are none.
    """

    scatter: Array
    low: Array
    divisor: Array
    keep: Array
    added: Array
    unit: Array
    constant: Array
    instead: tuple[Array, Pair] | None = None

    def sums(self) -> Pair:
        """The scatters of all classes and their low parts."""
        return replaced((self.scatter, self.low), self.instead)

    def matrices(self) -> Array:
        """The covariance matrices, in the precision of the dtype."""
        xp = namespace(self.scatter)
        share = divide(self.keep, self.divisor)[:, None, None]
        eye = xp.eye(self.unit.shape[-1], dtype=self.unit.dtype)
        added = xp.broadcast_to(self.added, self.unit.shape)
        return self.sums()[0] * share + added[..., None] * eye[None]

    def correlation(self) -> Array:
        """The correlation matrices in float64; call it where `jax.enable_x64` is on."""
        xp = namespace(self.scatter)
        divisor, keep, added, unit = map(widen, self[2:6])
        scatter, low = map(widen, self.sums())
        diagonal = lambda a: xp.diagonal(a, axis1=-2, axis2=-1)  # noqa: E731
        inverse = 1 / unit
        left = inverse * (keep / divisor)[..., None]
        own = (diagonal(scatter) + diagonal(low)) * left * inverse + added * inverse**2
        own = xp.where(self.constant, 1, own)
        eye = xp.eye(unit.shape[-1], dtype=bool)
        matrix = (scatter + low) * left[..., :, None] * inverse[..., None, :]
        return xp.where(xp.broadcast_to(eye, matrix.shape), own[..., None], matrix)


def replaced(scatter: Pair, instead: tuple[Array, Pair] | None) -> Pair:
    """The scatters, with another one in the place of those of some classes."""
    if instead is None:
        return scatter
    mask, (high, low) = instead
    mask = mask[..., None, None]
    return jnp.where(mask, high, scatter[0]), jnp.where(mask, low, scatter[1])


def cholesky(correlation: Array, exact: Covariances, rule: RankRule) -> Array:
    """Cholesky factors of correlation matrices, made regular by the rule.

    The derivative is that of the factor of `correlation`.
    """
    if on_host(correlation):
        return _regular(correlation, batched.cholesky(correlation), rule)
    # A rule for derivatives is a function within, whose branches are not left out.
    own = _factors if needs_no_derivative() else _regular_factor
    return own(correlation, exact, rule)


def _factors(correlation: Array, exact: Covariances, rule: RankRule) -> Array:
    return by_classes(_cholesky, (correlation, exact, rule))


_regular_factor = jax.custom_jvp(_factors)


def by_classes(f: Callable[[T], R], of: T) -> R:
    """`f(of)`, a few classes at a time if their matrices are large."""
    matrices = jax.tree.leaves(of)[0]
    num_classes, d = matrices.shape[:2]
    if jax.typeof(matrices).sharding.spec[0] is not None:
        return f(of)  # each device has some of the classes
    own, put = part(of, [len(a) == num_classes for a in jax.tree.leaves(of)])
    return map_in_blocks(lambda own: f(put(own)), own, max(1, _TOGETHER // d**2))


def _cholesky(of: tuple[Array, Covariances, RankRule]) -> Array:
    correlation, exact, rule = of
    factor = batched.cholesky(correlation)
    if correlation.dtype == jnp.float64:
        return _regular(correlation, factor, rule)
    inexact = _has_small_pivot(factor, 4.0)

    def by_double() -> Array:
        return jnp.where(inexact[:, None, None], _in_double(exact, rule), factor)

    return loops.cond(loops.any_member(inexact.any()), by_double, lambda: factor)


@in_double
def _in_double(exact: Covariances, rule: RankRule) -> Array:
    matrix = exact.correlation()
    factor = _regular(matrix, batched.cholesky(matrix), jax.tree.map(widen, rule))
    return lax.convert_element_type(factor, exact.scatter.dtype)


def spectrum(exact: Covariances) -> tuple[Float[Array, "K d"], Float[Array, "K d d"]]:
    """Eigenvalues of the correlation matrices, ascending, and vectors; without derivatives.

    Constant features have the eigenvalue 0.
    """
    if on_host(exact.scatter):
        return _eigen(exact)
    return by_classes(_spectrum, lax.stop_gradient(exact))


@in_double
def _spectrum(exact: Covariances) -> tuple[Array, Array]:
    found = _eigen(exact)
    return jax.tree.map(lambda a: lax.convert_element_type(a, exact.scatter.dtype), found)


def _eigen(exact: Covariances) -> tuple[Array, Array]:
    xp, vary = namespace(exact.scatter), ~exact.constant
    both = vary[..., :, None] & vary[..., None, :]
    values, vectors = batched.eigh(xp.where(both, exact.correlation(), 0))
    return values, vectors


@_regular_factor.defjvp
def _(
    primals: tuple[Array, Covariances, RankRule], tangents: tuple[Array, Covariances, RankRule]
) -> tuple[Array, Array]:
    # This is finite wherever L is; the derivative of a failed factorization would be NaN.
    factor = _regular_factor(*primals)
    return factor, batched.tangent_of_cholesky(factor, tangents[0])


def _has_small_pivot(factor: Array, times: float) -> Array:
    """Whether a factor of a correlation matrix has a squared pivot below `1 / times`, or NaN."""
    xp = namespace(factor)
    pivots = xp.diagonal(factor, axis1=-2, axis2=-1)
    return ~(pivots**2 > 1 / times).all(-1)


class RankRule(NamedTuple):
    """The treatment of directions without variance.

    Let C be a correlation matrix, and D the diagonal matrix of `ridge`. An eigenvector u of C - D
    is such a direction if `uᵀ (C - D) u <= of_sums + Σ_j of_cells_j u_j²`. In the span of these
    directions C is replaced by D plus `least`.

    Attributes:
        of_sums: the largest variance that rounding of sums may give a direction, (K,).
        of_cells: the largest variance that rounding of its values may give a feature, (K, d).
        ridge: the part of the diagonal that a ridge has added, (K, d).
        least: the least ridge of such a direction, minus the ridge it has, (K, d).
    """

    of_sums: Array
    of_cells: Array
    ridge: Array
    least: Array

    def is_degenerate(self, variance: Array, direction: Array) -> Array:
        """Whether each eigenvector is a direction without variance, (K, d)."""
        of_cells = matmul(self.of_cells[..., None, :], direction**2)[..., 0, :]
        return variance <= self.of_sums[..., None] + of_cells


def _regular(matrix: Array, factor: Array, rule: RankRule) -> Array:
    """The factor; for singular matrices, the factor of the matrix changed by the rule."""
    xp = namespace(matrix)

    def repaired() -> Array:
        eye = xp.broadcast_to(xp.eye(matrix.shape[-1], dtype=matrix.dtype), matrix.shape)
        variance, direction = batched.eigh(matrix - rule.ridge[..., None] * eye)
        degenerate = rule.is_degenerate(variance, direction)
        # In these coordinates large and small variances do not mix, so both stay precise.
        ridge, least = (
            matmul(direction.mT, a[..., None] * direction) for a in (rule.ridge, rule.least)
        )
        both = degenerate[..., :, None] & degenerate[..., None, :]
        varying = xp.where(degenerate, 0, variance)[..., None] * eye
        root = batched.cholesky(varying + ridge + xp.where(both, least, 0))
        upper = batched.upper_of_qr(matmul(direction, root).mT)
        signs = xp.sign(xp.diagonal(upper, axis1=-2, axis2=-1))
        changed = (signs[..., None] * upper).mT
        return xp.where(degenerate.any(-1)[..., None, None], changed, factor)

    def by_least_eigenvalue() -> Array:
        # The least eigenvalue is above 1 / |L⁻¹|². If a direction has no variance, the least
        # eigenvalue is at most the ridge plus rounding.
        most = 1 / (batched.inverse_lower(factor) ** 2).sum((-2, -1))
        enough = xp.where(least > 0, rounding + ridge, 0)
        return loops.unlikely(~(most > enough).all(), repaired, lambda: factor)

    ridge, least = rule.ridge.max(-1), rule.least.max(-1)
    rounding = rule.of_sums + rule.of_cells.max(-1)
    unsure = xp.maximum(_THIN, xp.maximum(4 * rounding, 64 * (ridge + least)))
    pivots = xp.diagonal(factor, axis1=-2, axis2=-1)
    clear = pivots**2 > xp.where(least > 0, unsure, 0)[..., None]  # False on NaN
    return loops.unlikely(~clear.all(), by_least_eigenvalue, lambda: factor)


def needs_double(scatter: Float[Array, "K d d"]) -> tuple[Array, Array]:
    """Units in which scatters are correlation matrices, and whether float32 is too inexact."""

    def of_classes(scatter: Array) -> tuple[Array, Array]:
        unit = jnp.sqrt(jnp.diagonal(scatter, axis1=-2, axis2=-1))
        unit = jnp.where(unit > 0, unit, 1)
        usable = jnp.isfinite(unit).all(-1)
        return unit, usable & _has_small_pivot(batched.cholesky(_correlation(scatter, unit)), 16.0)

    return by_classes(of_classes, scatter)


def whitener(scatter: Float[Array, "K d d"], unit: Float[Array, "K d"]) -> Float[Array, "K d d"]:
    """Lower triangular A with `A scatter Aᵀ` near the identity; a diagonal if that fails."""
    d = unit.shape[-1]
    eye = jnp.eye(d, dtype=unit.dtype)[None]
    jitter = 10 * d * jnp.finfo(unit.dtype).eps

    def of_classes(of: tuple[Array, Array]) -> Array:
        scatter, unit = of
        regular = _correlation(scatter, unit) + jitter * eye
        found = batched.inverse_lower(batched.cholesky(regular))
        good = jnp.isfinite(found).all((-2, -1), keepdims=True)
        return jnp.where(good, found, eye) / unit[:, None, :]

    return by_classes(of_classes, (scatter, unit))


def _correlation(scatter: Array, unit: Array) -> Array:
    scaled = scatter / (unit[:, :, None] * unit[:, None, :])
    return jnp.where(jnp.eye(unit.shape[-1], dtype=bool)[None], 1, scaled)
