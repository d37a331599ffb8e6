"""The negative conditional log-likelihood of softmax regression, as a function to minimise.

The features are whitened: the Hessian at zero is then the identity, whatever the units, offsets
and correlations of the data. Rows are read one block at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float, Real

from genclf.arguments.module import Module, static
from genclf.families.base import Scalar
from genclf.numerics.batched import cholesky, inverse_lower
from genclf.numerics.namespace import Array, matmul
from genclf.numerics.row_blocks import block_rows, map_rows
from genclf.numerics.sizes import is_at_most
from genclf.sums.accumulate import moments
from genclf.sums.blocks import (
    ClassWeights,
    Hard,
    accumulate,
    class_rows,
    ignore_absent,
    map_weights,
    row_weights,
)
from genclf.sums.statistics import Moments, Sums, divide
from genclf.sums.units import moments_in_units


class Problem(Module):
    """`Σ_nk w_nk (-log p_k(x_n)) + ½ l2 |coef|²`, where the weights w add up to 1.

    Raw features of a row are `(z, products z_i z_j if quadratic, 1)`, `z = (x - centre) / unit`,
    p + 1 in all. White features are `white @ raw`. The search is for v, shape (K, p + 1): the
    scores are `v @ white features`, and the coefficients of raw features are `v @ white`.

    Attributes:
        x: rows, shape (n, d); cells are finite, except in rows without weight.
        w: class weights of the rows.
        l2: weight of the penalty.
        present: which classes have weight, shape (K,); all classes if no row has weight. The
            others have probability 0.
        centre: weighted mean of x, shape (d,).
        unit: weighted standard deviation of x, shape (d,); 1 if that is 0.
        white: whitening matrix, shape (p + 1, p + 1).
        cached: white features of all rows, shape (p + 1, n), if they fit in one block.
        is_quadratic: whether products of two columns are features.
    """

    x: Real[Array, "n d"]
    w: ClassWeights
    l2: Scalar
    present: Bool[Array, "K"]
    centre: Float[Array, "d"]
    unit: Float[Array, "d"]
    white: Float[Array, "p1 p1"]
    cached: Float[Array, "p1 n"] | None
    is_quadratic: bool = static()

    @property
    def row_size(self) -> int:
        """The number of temporaries of one row."""
        return len(self.white) + 2 * len(self.present)

    def raw(self, x: Real[Array, "b d"]) -> Float[Array, "p1 b"]:
        """Raw features of some rows, one row per column."""
        one = jnp.ones((1, x.shape[0]), self.unit.dtype)
        return jnp.concatenate([_raw(self.centre, self.unit, x, self.is_quadratic).T, one])

    @property
    def has_coefficients(self) -> Bool[Array, ""]:
        """Whether the dtype can hold the coefficients, which for products are per unit squared."""
        info = jnp.finfo(self.unit.dtype)
        most = math.sqrt(info.eps / info.tiny) if self.is_quadratic else math.inf
        return ((self.unit < most) & (self.unit > 1 / most)).all()

    def coefficients(self, v: Float[Array, "K p1"]) -> tuple[Array, Array, Array | None]:
        """(coef, intercept, matrix) of `x - centre`."""
        raw = matmul(v, self.white)
        d, matrix = len(self.unit), None
        if self.is_quadratic:
            i, j = np.triu_indices(d)
            half = 0.5 * raw[:, d:-1] / (self.unit[i] * self.unit[j])[None]
            matrix = jnp.zeros((len(v), d, d), v.dtype).at[:, i, j].add(half).at[:, j, i].add(half)
        return raw[:, :d] / self.unit[None], raw[:, -1], matrix

    def penalty(self, v: Float[Array, "K p1"]) -> Float[Array, ""]:
        """`½ l2 (|coef|² + |matrix|²)`, of the coefficients of x itself."""
        coef, _, matrix = self.coefficients(v)
        # l2 multiplies one factor first: 0 times a square that overflowed would be NaN.
        half_l2, squares = 0.5 * jnp.asarray(self.l2, v.dtype), jnp.zeros((), v.dtype)
        if matrix is not None:
            coef = coef - 2 * matmul(matrix, self.centre)
            squares = (half_l2 * matrix * matrix).sum()
        return squares + (half_l2 * coef * coef).sum()

    def value_and_grad(self, v: Float[Array, "K p1"]) -> tuple[Array, Array]:
        """The objective and its gradient, in one pass over the rows."""
        present = self.present[:, None]

        def sums(coef: Array, features: Array, w: Array) -> Sums:
            score = jnp.where(present, matmul(coef, features), 0)
            top = lax.stop_gradient(score.max(0, keepdims=True))
            odds = jnp.where(present, jnp.exp(score - top), 0)
            total = odds.sum(0, keepdims=True)
            # ∂/∂score_k = (Σ_l w_l) p_k - w_k
            slope = w.sum(0, keepdims=True) / total * odds - w
            loss = w * (top + jnp.log(total) - score)
            return Sums(loss.sum(1), matmul(slope, features.T))

        if self.cached is not None:
            found = sums(v, self.cached, class_rows(self.w))
            grad = found.total
        else:
            coef = matmul(v, self.white)

            def block(x: Array, w: Array) -> Sums:
                return sums(coef, self.raw(ignore_absent(x, (w != 0).any(0))), w)

            found = accumulate(block, self.x, self.w, self.row_size)
            grad = matmul(found.total, self.white.T)
        penalty, shrink = jax.value_and_grad(self.penalty)(v)
        return found.count.sum() + penalty, grad + shrink

    def largest_change(self, v: Float[Array, "K p1"]) -> Float[Array, ""]:
        """The largest difference between two scores of one row with weight, at `v`."""

        def of_rows(score: Array, w: Array) -> Array:
            high = jnp.where(self.present[:, None], score, -jnp.inf).max(0)
            low = jnp.where(self.present[:, None], score, jnp.inf).min(0)
            return jnp.where((w > 0).any(0), high - low, 0)

        return self._map_scores(of_rows, v).max(initial=0)

    def separates(self, v: Float[Array, "K p1"]) -> Bool[Array, ""]:
        """Whether each row with weight has one class only, and that class has its largest score."""

        def of_rows(score: Array, w: Array) -> Array:
            own = jnp.where(w > 0, score, jnp.inf).min(0)
            rival = jnp.where((w > 0) | ~self.present[:, None], -jnp.inf, score).max(0)
            return (own > rival) & ((w > 0).sum(0) <= 1)

        some = (row_weights(self.w) > 0).any()
        return self._map_scores(of_rows, v).all() & (self.present.sum() > 1) & some

    def separates_one(self, v: Float[Array, "K p1"]) -> Bool[Array, ""]:
        """Whether the scores of one class alone separate its rows from all others.

        Then larger scores are always better, however the other classes overlap. The gap must exceed
        a thousandth of the largest difference between two scores of one row.
        """

        def of_rows(score: Array, w: Array) -> Array:
            has = (w > 0).astype(jnp.int32)
            lowest = jnp.where(has > 0, score, jnp.inf)
            highest = jnp.where(has.sum(0, keepdims=True, dtype=has.dtype) > has, score, -jnp.inf)
            return jnp.concatenate([lowest, -highest]).T

        lowest, highest = jnp.split(self._map_scores(of_rows, v).min(0, initial=jnp.inf), 2)
        change = self.largest_change(v)
        gap = lowest + highest
        return ((gap > 1e-3 * change) & jnp.isfinite(gap)).any()

    def recedes(self, v: Float[Array, "K p1"]) -> Bool[Array, ""]:
        """Whether `v` is a direction of recession: along it the objective has no minimum.

        That is: up to rounding, no row with weight loses log-odds, and two scores of some row
        differ by more than 1.
        """

        def of_rows(score: Array, w: Array) -> Array:
            own = jnp.where(w > 0, score, jnp.inf).min(0)
            best = jnp.where(self.present[:, None], score, -jnp.inf).max(0)
            return jnp.where((w > 0).any(0), own - best, 0)

        change = self.largest_change(v)
        lost = -self._map_scores(of_rows, v).min(initial=0)
        return (change > 1) & (lost <= jnp.maximum(0.01, 1e-4 * change))

    def _map_scores(self, f: Callable[[Array, Array], Array], v: Array) -> Array:
        coef = matmul(v, self.white)

        def block(rows: tuple[Array, ClassWeights]) -> Array:
            x, w = rows[0], class_rows(rows[1])
            return f(matmul(coef, self.raw(ignore_absent(x, (w != 0).any(0)))), w)

        return map_rows(block, (self.x, self.w), self.row_size)


def _raw(centre: Array, unit: Array, x: Array, is_quadratic: bool) -> Array:
    z = (x.astype(unit.dtype) - centre[None]) / unit[None]
    if not is_quadratic:
        return z
    i, j = np.triu_indices(x.shape[1])
    return jnp.concatenate([z, z[:, i] * z[:, j]], axis=1)


def make_problem(
    x: Real[Array, "n d"], w: ClassWeights, count: Float[Array, "K"], l2: Scalar, is_quadratic: bool
) -> Problem:
    """The problem of rows x, with the coordinates in which to solve it.

    `count` is the total weight of each class; for the other arguments, see `Problem`.
    """
    num_classes, dtype = len(count), count.dtype
    # The minimum does not depend on the coordinates, so they need no derivative.
    x_fixed, row_weight = lax.stop_gradient((x, divide(row_weights(w), count.sum())))
    one = Hard(jnp.where(row_weight != 0, 0, -1), row_weight, 1)
    first, power = moments_in_units(x_fixed, one)
    centre, variance = power * first.mean[0], first.scatter[0]
    unit = jnp.where(variance > 0, power * jnp.sqrt(jnp.where(variance > 0, variance, 1)), 1)

    def block(x: Array, w: Array) -> Moments:
        raw = _raw(centre, unit, ignore_absent(x, w[0] != 0), is_quadratic)
        return moments(raw, w.T, full=True)

    p = x.shape[1] * (x.shape[1] + 3) // 2 if is_quadratic else x.shape[1]
    second = accumulate(block, x_fixed, one, p)
    w = map_weights(lambda a: divide(a, count.sum()), w)
    present = (count > 0) | (count.sum() == 0)
    bare = Problem(x, w, l2, present, centre, unit, jnp.eye(p + 1, dtype=dtype), None, is_quadratic)
    white = _whitening(bare, second.mean[0], second.scatter[0], num_classes)
    problem = replace(bare, white=lax.stop_gradient(white))
    if not is_at_most(x.shape[0], block_rows(problem.row_size)):
        return problem
    cached = matmul(problem.white, problem.raw(ignore_absent(x, row_weight != 0)))
    return replace(problem, cached=cached)


def _whitening(problem: Problem, mean: Array, covariance: Array, num_classes: int) -> Array:
    """`white` that makes the Hessian at v = 0 the identity, except in directions without data."""
    p, dtype = len(mean), mean.dtype

    def curvature(coef: Array) -> Array:
        return jax.grad(problem.penalty)(jnp.append(coef, jnp.zeros(1, dtype))[None])[0, :-1]

    if problem.is_quadratic:
        penalty = jax.vmap(curvature)(jnp.eye(p, dtype=dtype))
    else:
        inverse = 1 / problem.unit
        penalty = jnp.diag(jnp.asarray(problem.l2, dtype) * inverse * inverse)
    # At v = 0 the Hessian is (I - 11ᵀ/K) / K over classes, times the covariance over features.
    hessian = covariance / num_classes + penalty
    scale = jnp.sqrt(jnp.diagonal(hessian))
    flat = ~(scale > 0)
    scale = jnp.where(flat, 1, scale)
    # If other features determine a feature, its pivot is only rounding: the jitter exceeds it.
    jitter = jnp.asarray(jnp.finfo(dtype).eps ** (2 / 3), dtype)
    correlation = hessian / (scale[:, None] * scale[None, :])
    correlation = correlation + jnp.diag(jnp.where(flat, 1, jitter))
    inverse = inverse_lower(cholesky(correlation)) / scale[None]
    last = jnp.zeros((1, p), dtype), jnp.full((1, 1), num_classes**0.5, dtype)
    return jnp.block([[inverse, -matmul(inverse, mean)[:, None]], list(last)])
