"""Intensities of the shrinkage of sample covariances towards simple targets, from moments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Float, Shaped

from genclf.arguments.domains import OPTIONAL_SHARE, Scalar
from genclf.arguments.module import Module, static
from genclf.covariance.fourth import FourthMoments
from genclf.numerics.double import is_cheap, product
from genclf.numerics.namespace import Array, matmul, namespace
from genclf.sums.blocks import ClassWeights, ignore_absent, one_label_each, row_weights
from genclf.sums.class_sums import of_rows
from genclf.sums.statistics import Moments, divide

T = TypeVar("T")
Method = Literal["ledoit-wolf", "oas", "james-stein"]
Target = Literal["identity", "diagonal"]


class Estimated(Module):
    """An intensity to be estimated from the data, by the method of that name."""

    method: Method = static()

    def __repr__(self) -> str:
        return repr(self.method)


def estimated(shrinkage: str | T) -> T | Estimated:
    """A hyper-parameter: the name of a method as `Estimated`, other values as they are."""
    method: Any = shrinkage  # the domain checks the name
    return Estimated(method) if isinstance(shrinkage, str) else shrinkage


def _is_method(value: object) -> bool:
    return isinstance(value, Estimated) and value.method in get_args(Method)


SHRINKAGE = replace(
    OPTIONAL_SHARE,
    expected=f"one number from 0 to 1, {', '.join(map(repr, get_args(Method)))} or None",
    contains=lambda value: _is_method(estimated(value)) or OPTIONAL_SHARE.contains(value),
)
"""The domain of a shrinkage."""


def target_variances(
    variance: Float[Array, "K d"], target: Target, num_features: int | Array
) -> Float[Array, "K d"]:
    """The diagonal of the target: the mean variance of all features, or the variance of each."""
    xp = namespace(variance)
    if target == "diagonal":
        return variance
    mean = variance.sum(-1, keepdims=True) / num_features
    return xp.broadcast_to(mean, variance.shape)


class ShrinkageTerms(NamedTuple):
    """The quantities that the estimates use, for n rows with sample covariance S (divisor n).

    Attributes:
        rows: n.
        trace: `Σ_j s_jj`.
        square: `Σ_ij s_ij²`.
        fourth: `Σ_ij` of the mean of `z_i² z_j²`; None if not known.
        own_square: `Σ_j s_jj²`.
        own_fourth: `Σ_j` of the mean of `z_j⁴`; None if not known.
    """

    rows: Array
    trace: Array
    square: Array
    fourth: Any
    own_square: Array
    own_fourth: Any


def intensities(
    stats: Moments,
    shrinkage: Scalar | Estimated | None,
    target: Target,
    shared: bool,
    d: int | Array,
) -> Float[Array, "..."] | None:
    """The intensity of each covariance: the given number, or the one that the method estimates.

    Estimates towards the diagonal are for features in units of their standard deviations. A class
    without weight has the intensity of the pooled covariance.
    """
    xp = namespace(stats.count)
    if not isinstance(shrinkage, Estimated):
        return None if shrinkage is None else xp.asarray(shrinkage, stats.count.dtype)
    pooled = _in_own_units(stats, pooled=True)
    own = pooled if shared or stats.is_pooled else _in_own_units(stats, pooled=False)
    empty = own[0] == 0
    pick = lambda a, b: xp.where(empty.reshape(-1, *[1] * (a.ndim - 1)), b, a)  # noqa: E731
    n, covariance, squares = jax.tree.map(pick, own, pooled)
    return intensity(shrinkage.method, _terms(n, covariance, squares, target), d)


def _in_own_units(stats: Moments, *, pooled: bool) -> tuple[Array, Array, Array | None]:
    """Counts, covariances and mean products of squares, in units of the mean variance of each.

    The square of the mean variance itself may be too small or too large for the dtype.
    """
    xp = namespace(stats.scatter)
    add = lambda a: a.sum(0, keepdims=True) if pooled else a  # noqa: E731
    n, scatter = add(stats.count), add(stats.scatter)
    mean = xp.trace(scatter, axis1=-2, axis2=-1) / scatter.shape[-1]
    covariance = divide(scatter, mean[:, None, None])
    if not isinstance(stats, FourthMoments):
        return n, covariance, None
    unit = xp.sqrt(xp.where(mean > 0, divide(mean, n), 1))
    fourth = add(stats.fourth_in(xp.broadcast_to(unit, stats.unit.shape)))
    return n, covariance, divide(fourth, n[:, None, None])


def _terms(n: Array, covariance: Array, squares: Array | None, target: Target) -> ShrinkageTerms:
    xp = namespace(n)
    diagonal = lambda a: xp.diagonal(a, axis1=-2, axis2=-1)  # noqa: E731
    if target == "diagonal":
        variance = diagonal(covariance)
        units = xp.where(variance > 0, variance, 1)
        over = lambda a, u: a / u[:, :, None] / u[:, None, :]  # noqa: E731
        covariance = over(covariance, xp.sqrt(units))
        squares = None if squares is None else over(squares, units)
    each = squares is not None and squares.shape[-1] == covariance.shape[-1]
    return ShrinkageTerms(
        n,
        diagonal(covariance).sum(-1),
        (covariance**2).sum((-2, -1)),
        None if squares is None else squares.sum((-2, -1)),
        (diagonal(covariance) ** 2).sum(-1),
        diagonal(squares).sum(-1) if squares is not None and each else None,
    )


def shrinkage_terms(x: Shaped[Array, "n d"], w: ClassWeights, stats: Moments) -> ShrinkageTerms:
    """The terms of the pooled correlations from rows and their moments, without a (d, d) array."""
    n = stats.count.sum(keepdims=True)
    variance = divide(stats.diagonal.sum(0), n)
    unit = jnp.sqrt(jnp.where(variance > 0, variance, 1))
    x, w = one_label_each(ignore_absent(x.astype(unit.dtype), row_weights(w) != 0), w)
    z, rows = (x - of_rows(stats.mean, w)) / unit[None], w.weight
    gram = product(z.T, z.T, is_cheap(*z.T.shape))[0]
    lengths, each = jnp.diagonal(gram), matmul(rows, z**4)
    varying = (variance > 0).sum(keepdims=True).astype(n.dtype)
    return ShrinkageTerms(
        n,
        varying,
        ((rows[:, None] * gram**2) @ rows)[None].sum(-1) / n**2,
        (rows * lengths**2).sum(keepdims=True) / n,
        varying,
        each.sum(keepdims=True) / n,
    )


def intensity(method: str, of: ShrinkageTerms, d: int | Array) -> Array:
    """The estimated intensity, for d features."""
    if method == "oas":
        # min(1, (a + μ²) / ((n + 1) (a - μ² / d))), a the mean of s_ij² and μ that of s_jj.
        xp = namespace(of.square)
        square, mean = of.square / d**2, of.trace / d
        distance = (of.rows + 1) * (square - mean**2 / d)
        return xp.where(distance <= 0, 1, xp.clip(divide(square + mean**2, distance), 0, 1))
    if method == "ledoit-wolf":
        # Σ_ij Var(s_ij) / |S - μ I|² with Var(s_ij) = (mean of z_i² z_j² - s_ij²) / n.
        return _share(divide(of.fourth - of.square, of.rows), of.square - of.trace**2 / d)
    # Σ_{i≠j} Var(r_ij) / Σ_{i≠j} r_ij², Var(r_ij) = (mean of z_i² z_j² - r_ij²) / (n - 1).
    square = of.square - of.own_square
    return _share(divide(of.fourth - of.own_fourth - square, of.rows - 1), square)


def _share(variance: Array, distance: Array) -> Array:
    """Variance over squared distance, at most 1; 0 if the sample is the target."""
    xp = namespace(variance)
    distance = xp.maximum(distance, 0)
    found = divide(xp.clip(variance, 0, distance), distance)
    # A variance cannot be negative: if it is, fourth powers were outside the range of the dtype.
    return xp.where(xp.isfinite(variance) & (variance >= -0.1 * distance), found, xp.nan)
