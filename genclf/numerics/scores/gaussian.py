"""The log-densities of Gaussians as functions of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jaxtyping import Float, Shaped

from genclf.covariance.scale import Scale
from genclf.numerics import loops
from genclf.numerics.logarithms import LOG_2PI
from genclf.numerics.namespace import Array, namespace
from genclf.numerics.row_blocks import broadcast_rows, over_rows
from genclf.numerics.scores.cells import (
    Densities,
    cell_scores,
    common_norms,
    in_units,
    linear_cell_scores,
    of_far_rows,
    unit_of,
)
from genclf.numerics.scores.distances import distances
from genclf.numerics.scores.elimination import linear_marginal_scores, marginal_scores
from genclf.numerics.scores.means import Means
from genclf.numerics.scores.shared_scale import SharedForm, linear_scores
from genclf.sums.far import shrink_far_rows
from genclf.sums.largest import argmax

Scores = Callable[[Array], Array]


@dataclass(frozen=True)
class GaussianScores:
    """`log N(x; μ_k, Σ_k)` as a function of x; see `genclf.GaussianParams`.

    Attributes:
        means: class means.
        scale: a square root of the covariance, with a class axis of length K or 1.
        arithmetic: the arithmetic of the scale.
        shared: whether all classes have one covariance.
        may_miss: whether NaN is a missing cell, which is integrated out.
        known_inverse: the inverse of the scale; None where it is still to be computed.
    """

    means: Means
    scale: Float[Array, "..."]
    arithmetic: Scale
    shared: bool
    may_miss: bool
    known_inverse: Float[Array, "..."] | None = None

    @property
    def _d(self) -> int:
        return self.means.high.shape[-1]

    def log_norms(self) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        """`-½ log |2π Σ_k|` as two terms: one per class, without units, and one that all share."""
        own, common = self.arithmetic.log_determinants(self.scale, self._d)
        return -own, -common - 0.5 * self._d * LOG_2PI

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`-½ (x-μ_k)ᵀ Σ_k⁻¹ (x-μ_k) - ½ log |2π Σ_k|`, of the observed cells."""
        xp = namespace(x, self.scale)

        def seen(rows: Array) -> Array:
            return self._seen(rows) + common_norms(rows, self._unit)[:, None]

        def infinitely_far(rows: Array) -> Array:
            return xp.where(xp.isfinite(self._far(rows)), -xp.inf, xp.nan)

        if not self.may_miss:
            return self.of_complete(x)
        return self._marginal(x, self.of_complete, seen, infinitely_far)

    def discriminant(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log_prob` up to a common term; if Σ is shared, `(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ`."""
        complete = self._linear if self.shared else partial(self._minus_common, compared=True)
        if not self.may_miss:
            return complete(x)
        eps = float(namespace(self.scale).finfo(self.scale.dtype).eps)
        most = 0.01 / eps if self.shared else math.inf
        return self._marginal(x, complete, self._seen, self._far, most)

    def reduced(self, x: Array, reduce: Scores, *, normalised: bool) -> Array:
        """`reduce` of the scores of complete rows: `log_prob` if `normalised`."""
        if self.shared and not normalised:
            return self._linear(x, reduce)
        common = self.log_norms()[1] if normalised else 0
        whole = lambda score: reduce(score + common)  # noqa: E731
        return self._minus_common(x, whole, compared=not normalised)

    def of_complete(self, x: Array) -> Array:
        """`log_prob` of rows without a missing cell."""
        return self._minus_common(x) + self.log_norms()[1]

    def _minus_common(
        self, x: Array, reduce: Scores = lambda score: score, compared: bool = False
    ) -> Array:
        norms = self.log_norms()[0]

        def scores(squared: Array) -> Array:
            half = -0.5 * squared
            return reduce(half + broadcast_rows(norms, half))

        given = self.means, self.scale, self.inverse, self.arithmetic
        return distances(x, *given, scores, compared=compared)

    def _linear(self, x: Array, reduce: Scores = lambda score: score) -> Array:
        form = SharedForm(self.means, self.inverse[0], self.arithmetic)
        return linear_scores(x, form, self.scale, reduce)

    @property
    def inverse(self) -> Float[Array, "..."]:
        """The inverse of the scale."""
        known = self.known_inverse
        return self.arithmetic.inverse(self.scale) if known is None else known

    def _marginal(
        self, x: Array, complete: Scores, seen: Scores, far: Scores, most: float = math.inf
    ) -> Float[Array, "*batch K"]:
        """Score blocks of rows without a missing cell by `complete`, other blocks by `seen`.

        Rows whose scores overflow, or are all below `-most`, are scored by `far`.
        """
        xp = namespace(x, self.scale)

        def rows(x: Array) -> Array:
            return loops.cond(xp.isnan(x).any(), lambda: seen(x), lambda: complete(x))

        by_blocks = lambda f: over_rows(f, x, 1, 2 * self.arithmetic.row_size(self._d))  # noqa: E731
        scores = by_blocks(rows)
        is_far = ~xp.isfinite(scores).all(-1) | (scores.max(-1) <= -most)
        return of_far_rows(x, scores, is_far, lambda: by_blocks(far))

    def in_units(self) -> Densities:
        """The densities in units of typical deviations, for any covariance."""
        return in_units(self.means, self.scale, self.arithmetic)

    @property
    def _unit(self) -> Float[Array, "d"]:
        """A typical deviation of each feature."""
        return unit_of(self.scale, self.arithmetic, self._d)

    def _seen(self, rows: Array) -> Array:
        if self.arithmetic.is_full:
            return marginal_scores(rows, self.in_units())
        return cell_scores(rows, self.means, self.scale, self._unit)

    def _far(self, rows: Array) -> Array:
        """Scores of rows that are far from all means, only to be compared with each other.

        If classes share Σ, the distances differ by little of their size, so the scores are linear
        in x instead. If squares or products overflow, the row is shrunk towards 0.
        """
        xp = namespace(rows, self.scale)
        shrunk = shrink_far_rows(rows.astype(self.scale.dtype), self._unit[None])
        if not self.shared:
            return self._seen(shrunk)
        score = self._seen(rows)
        label = argmax(xp.where(xp.isnan(score), -xp.inf, score))

        def linear(rows: Array) -> Array:
            if self.arithmetic.is_full:
                return linear_marginal_scores(rows, self.in_units(), label)
            return linear_cell_scores(rows, self.means, self.scale, label)

        found = linear(rows)
        overflows = ~xp.isfinite(found).all(1, keepdims=True)
        return xp.where(overflows, linear(shrunk), found)
