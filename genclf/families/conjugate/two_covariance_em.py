"""The two-covariance model of highest evidence, by EM from the statistics of classes."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float, Int

from genclf.covariance.pencil import Pencil, pencil_of
from genclf.covariance.scales import Covariance
from genclf.families.conjugate.normal import mean_deviations
from genclf.families.conjugate.two_covariance import TwoCovariance, counts, overall_mean
from genclf.numerics import loops
from genclf.numerics.batched import cholesky, inverse_lower
from genclf.numerics.namespace import Array, matmul
from genclf.sums.statistics import Moments

_MOST_STEPS = 2000
_FIRST = 0.1  # the least ratio at the start, in units of 1 / n_0
_SCORING_STEPS = 2


class EvidenceMaximum(NamedTuple):
    """Where EM ended.

    Attributes:
        prior: the model, with all its numbers.
        gradient_norm: largest absolute derivative of the log-evidence per example, by M where a
            covariance changes from A to `√A (I + M) √A`, before the last step.
        steps: number of steps.
    """

    prior: TwoCovariance
    gradient_norm: Float[Array, ""]
    steps: Int[Array, ""]


class _State(NamedTuple):
    mean: Array
    pencil: Pencil
    gradient_norm: Array
    steps: Array


def of_highest_evidence(
    prior: TwoCovariance, stats: Moments, covariance: Covariance, tol: float
) -> EvidenceMaximum:
    """Maximise the evidence of all rows over the mean and both covariances.

    A step is one of EM with an expanded parameter, followed by Fisher scoring of the ratios: class
    means are `mean + A u_k`, and A is estimated like the rest. EM alone takes thousands of steps
    where B is nearly singular, and never reaches 0. Numbers that the prior has are where the search
    starts. A `between` that is singular there has at most its rank at the end.

    References:
        Ioffe (2006), "Probabilistic linear discriminant analysis"; Liu, Rubin & Wu (1998),
        "Parameter expansion to accelerate EM: the PX-EM algorithm".
    """
    start = prior.resolve(stats, covariance, True)
    pencil, count = start.pencil, counts(stats)
    # A ratio is in units of 1 / n_0, n_0 a typical number of rows of a class.
    unit = count.sum() / (count**2).sum()
    # Ratios above 0, though only just, let EM turn the directions in which B is singular.
    floor = unit * jnp.finfo(unit.dtype).eps ** 0.58
    if prior.between is None:
        pencil = replace(pencil, ratio=jnp.maximum(pencil.ratio, _FIRST * unit))
    else:
        floor = jnp.where((pencil.ratio == 0).any(), 0, floor)
    infinite = jnp.full((), jnp.inf, stats.mean.dtype)
    begin = _State(start.mean[0], pencil, infinite, jnp.zeros((), jnp.int32))

    def go_on(state: _State) -> Array:
        return (state.gradient_norm > tol) & (state.steps < _MOST_STEPS)

    end = loops.while_loop(go_on, lambda state: _step(state, stats, unit, floor), begin)
    ratio = jnp.where(_is_null(end.pencil.ratio, floor), 0, end.pencil.ratio)
    between, within = (end.pencil.covariance_of(r) for r in (ratio, jnp.ones_like(ratio)))
    return EvidenceMaximum(TwoCovariance(end.mean, between, within), end.gradient_norm, end.steps)


def _is_null(ratio: Array, floor: Array) -> Array:
    return ratio <= 1.5 * floor


def _step(state: _State, stats: Moments, unit: Array, floor: Array) -> _State:
    """The derivatives at these numbers, and the numbers after a step."""
    pencil = state.pencil
    sums = _Sums(pencil)
    mean, count = overall_mean(stats, pencil), counts(stats)
    delta = pencil.coordinates(mean_deviations(stats, mean))
    ratio = jnp.broadcast_to(pencil.ratio, mean.shape)
    root, present = jnp.sqrt(ratio), count > 0
    total = sums.number(count)
    scatter = sums.whitened(stats.pool_classes().scatter[0])
    # u_k = √ψ e_k with standard normal e_k, which given the rows have these means and variances.
    variance = 1 / (1 + count * ratio[None])
    expected = count * variance * root[None] * delta
    second = sums.gram(count * expected, expected) + sums.diagonal(count * variance)
    cross = sums.gram(count * delta, expected)
    spread = sums.gram(expected, expected) + sums.diagonal(jnp.where(present, variance, 0))
    factor = sums.right_divided(cross, second)
    explained = sums.product(factor, cross)
    residual = sums.gram(count * delta, delta) - explained - explained.T
    residual = residual + sums.product(sums.product(factor, second), factor)
    spread = spread / sums.number(present.astype(count.dtype))
    between = sums.product(sums.product(factor, spread), factor)
    new, _ = pencil_of(
        sums.back(between), sums.back((scatter + residual) / total), pencil.covariance, False
    )

    slope = sums.gram(count * variance * delta, count * variance * delta)
    slope = slope - sums.diagonal(count * variance)
    rest = scatter + sums.gram(count * variance * delta, variance * delta)
    rest = rest - sums.diagonal(count + jnp.where(present, variance - 1, 0))
    largest = jnp.maximum(sums.largest_slope(slope, unit, floor), jnp.abs(rest).max())
    return _State(
        mean, _scored(new, mean, stats, floor), 0.5 * largest / count.sum(0).max(), state.steps + 1
    )


def _scored(pencil: Pencil, mean: Array, stats: Moments, floor: Array) -> Pencil:
    """The ratios of highest evidence, given their directions and W: steps of Fisher scoring."""
    sums, count = _Sums(pencil), counts(stats)
    z, ratio = pencil.coordinates(mean_deviations(stats, mean)), pencil.ratio
    for _ in range(_SCORING_STEPS):
        share = count / (1 + count * jnp.broadcast_to(ratio, z.shape))
        slope = sums.vector((share * z) ** 2 - share)
        step = slope / sums.vector(share**2)
        ratio = jnp.where((ratio > 0) | (floor > 0), jnp.maximum(ratio + step, floor), 0)
    return replace(pencil, ratio=ratio)


class _Sums:
    """Sums over classes in the coordinates of a pencil, by the form of its covariances.

    Those of "full" are matrices, those of "diag" have one number per feature, and those of
    "spherical" one number, the sum over all features.
    """

    def __init__(self, pencil: Pencil):
        self.pencil, self.arithmetic = pencil, pencil.arithmetic

    def vector(self, each: Float[Array, "K d"]) -> Array:
        """The sum over classes, of each coordinate or, if spherical, of all."""
        found = each.sum(0)
        return found.sum(keepdims=True) if self.arithmetic.is_spherical else found

    def number(self, count: Float[Array, "K d"]) -> Array:
        """A sum of counts: one number, if all features have the same."""
        return self.vector(count)[0] if self.arithmetic.is_full else self.vector(count)

    def diagonal(self, each: Float[Array, "K d"]) -> Array:
        """The sum over classes as a diagonal matrix."""
        return jnp.diag(self.vector(each)) if self.arithmetic.is_full else self.vector(each)

    def gram(self, a: Float[Array, "K d"], b: Float[Array, "K d"]) -> Array:
        """`Σ_k a_k b_kᵀ`."""
        return matmul(a.T, b) if self.arithmetic.is_full else self.vector(a * b)

    def product(self, a: Array, b: Array) -> Array:
        """`a bᵀ`."""
        return matmul(a, b.T) if self.arithmetic.is_full else a * b

    def right_divided(self, a: Array, b: Array) -> Array:
        """`a b⁻¹` for positive definite b."""
        if not self.arithmetic.is_full:
            return a / b
        inverse = inverse_lower(cholesky(b))
        return matmul(matmul(a, inverse.T), inverse)

    def whitened(self, scatter: Array) -> Array:
        """A scatter in the coordinates."""
        if self.arithmetic.is_full:
            return self.pencil.coordinates(self.pencil.coordinates(scatter).T)
        return self.vector((scatter / self.pencil.scale[0] ** 2)[None])

    def back(self, covariance: Array) -> Array:
        """A covariance from that of the coordinates."""
        if self.arithmetic.is_full:
            return self.pencil.back(self.pencil.back(0.5 * (covariance + covariance.T)).T)
        return self.pencil.scale[0] ** 2 * covariance

    def largest_slope(self, slope: Array, unit: Array, floor: Array) -> Array:
        """The largest derivative by ratios, relative to them.

        For a ratio of 0 it is relative to their unit, and counts if it is positive and the ratio
        can rise: if there is a floor.
        """
        ratio = self.pencil.ratio
        null = _is_null(ratio, floor)
        own = jnp.diagonal(slope) if self.arithmetic.is_full else slope
        up = jnp.where(null & (floor > 0), jnp.maximum(own, 0) * unit, 0).max()
        if not self.arithmetic.is_full:
            return jnp.maximum(up, jnp.abs(jnp.where(null, 0, slope * ratio)).max())
        root = jnp.sqrt(ratio)
        inside = jnp.where(null[:, None] & null[None], 0, root[:, None] * slope * root[None])
        return jnp.maximum(up, jnp.abs(inside).max())
