"""Scores `log p(x, y=k)` by NumPy in float64, for machines without JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import gammaln

from genclf.stream.rows import Rows
from genclf.sums.far import shrink_far_rows

_BLOCK = 4096  # rows that are scored at once
_FAR = 2.0**28  # squared length from which whitened means lose digits
_LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class LinearScores:
    """Scores `x · coef_k + intercept_k`, -inf where `x · veto_k + veto_intercept_k > 0`.

    Attributes:
        coef: (K, d).
        intercept: (K,).
        veto: (K, d); above 0 for what is impossible in a class.
        veto_intercept: (K,).
    """

    coef: Float[np.ndarray, "K d"]
    intercept: Float[np.ndarray, "K"]
    veto: Float[np.ndarray, "K d"]
    veto_intercept: Float[np.ndarray, "K"]

    def __call__(self, x: Any) -> Float[np.ndarray, "n K"]:
        """The scores of rows, dense or sparse."""
        score = x @ self.coef.T + self.intercept
        if self.veto.any() or self.veto_intercept.any():
            score[x @ self.veto.T + self.veto_intercept > 0] = -np.inf
        return score


@dataclass(frozen=True)
class GaussianScores:
    """`log N(x; mean_k, Σ_k)`; see `genclf.GaussianParams`.

    Attributes:
        mean: (K, d).
        scale: lower Cholesky factors (K or 1, d, d), or standard deviations (K or 1, d).
        missing: whether NaN is a missing cell, for standard deviations alone.
    """

    mean: Float[np.ndarray, "K d"]
    scale: Float[np.ndarray, "..."]
    missing: bool

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n K"]:
        """The scores of rows; -inf where a distance overflows."""
        squared = self._distances(x)
        finite = np.isfinite(x) | (np.isnan(x) & self.missing)
        squared[~finite.all(1)] = np.nan
        return -0.5 * squared - self._norms(x)

    def discriminant(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n K"]:
        """The scores up to a term common to all classes; rows far from all means have them too."""
        if len(self.scale) == 1 and not self.missing:
            centre = self.mean[0] + (self.mean - self.mean[0]).mean(0)
            means = self._whitened(self.mean - centre, 0)
            score = self._whitened(x - centre, 0) @ means.T - 0.5 * np.square(means).sum(1)
            return np.where(np.isfinite(score), score, np.nan)
        squared = self._distances(x)
        far = ~np.isfinite(squared).all(1)
        if len(self.scale) == 1:
            # The distances differ by a tiny fraction of their size, so rounding would decide.
            far |= squared.min(1) > 0.02 / np.finfo(float).eps
        if far.any():
            with np.errstate(invalid="ignore", over="ignore"):
                squared[far] = self._compared_far(x[far], squared[far])
            squared[np.isinf(x).any(1)] = np.nan
        return -0.5 * squared - self._norms(x)

    def _compared_far(self, x: np.ndarray, squared: np.ndarray) -> np.ndarray:
        """Distances that are valid only for comparing classes, as in `GaussianParams`."""
        full = self.scale.ndim == 3
        deviation = np.sqrt(np.square(self.scale).sum(-1)) if full else self.scale
        given, x = x, shrink_far_rows(x, deviation)
        if len(self.scale) > 1:
            return self._distances(x)
        scale = self.scale[0]
        label = np.where(np.isnan(squared), np.inf, squared).argmin(1)

        def linear(x: np.ndarray) -> np.ndarray:
            seen, own = ~np.isnan(x), self.mean[label]
            z = np.where(seen, (x - own) / scale, 0)
            difference = np.where(seen[:, None], (self.mean[None] - own[:, None]) / scale, 0)
            squares = np.einsum("nkd,nkd->nk", difference, difference)
            return squares - 2 * np.einsum("nd,nkd->nk", z, difference)

        found = linear(given)
        overflows = ~np.isfinite(found).all(1, keepdims=True)
        return np.where(overflows, linear(x), found)

    def _norms(self, x: np.ndarray) -> np.ndarray:
        full = self.scale.ndim == 3
        deviation = np.diagonal(self.scale, axis1=1, axis2=2) if full else self.scale
        norm = np.log(deviation) + 0.5 * _LOG_2PI
        return (~np.isnan(x)).astype(float) @ norm.T if self.missing else norm.sum(1)

    @np.errstate(over="ignore", invalid="ignore")
    def _distances(self, x: np.ndarray) -> np.ndarray:
        """`(x-μ_k)ᵀ Σ_k⁻¹ (x-μ_k)`."""
        if len(self.scale) == 1 and not self.missing:
            centre = self.mean.mean(0)
            means = self._whitened(self.mean - centre, 0)
            if np.square(means).sum(1).max() < _FAR:
                return cdist(self._whitened(x - centre, 0), means, "sqeuclidean")
        found, is_missing = np.empty((len(x), len(self.mean))), np.isnan(x)
        for k, mean in enumerate(self.mean):
            z = self._whitened(x - mean, k if len(self.scale) > 1 else 0)
            z = np.where(is_missing, 0, z) if self.missing else z
            found[:, k] = np.einsum("nd,nd->n", z, z)
        return found

    def _whitened(self, deviation: np.ndarray, k: int) -> np.ndarray:
        scale = self.scale[k]
        if scale.ndim == 1:
            return deviation / scale
        return solve_triangular(scale, deviation.T, lower=True, check_finite=False).T


@dataclass(frozen=True)
class CategoricalScores:
    """`Σ_j log p(x_j | y=k)`; see `genclf.CategoricalParams`.

    Attributes:
        tables: one (V + 2, K) for each column: a row for each value, one for a code past the last
            value, and one for a missing cell.
    """

    tables: tuple[Float[np.ndarray, "_ K"], ...]

    def __call__(self, x: list[Int[np.ndarray, "n"]]) -> Float[np.ndarray, "n K"]:
        """The scores of columns of codes, -1 where missing."""
        found = np.zeros((len(x[0]), self.tables[0].shape[1]))
        for code, table in zip(x, self.tables, strict=True):
            found += table[np.minimum(code, len(table) - 2)]  # -1 is the last row
        return found


@dataclass(frozen=True)
class BernoulliScores:
    """`Σ_j x_j log p_kj + (1 - x_j) log (1 - p_kj)`; see `genclf.BernoulliParams`.

    Attributes:
        score: the score of the ones; if cells may be missing, of the ones and of indicators of
            the observed cells.
        threshold: x counts as 1 above it; None where x is 0 or 1.
        missing: whether NaN is a missing cell.
    """

    score: LinearScores
    threshold: float | None
    missing: bool

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n K"]:
        """The scores of rows; without a threshold, NaN for numbers other than 0 and 1."""
        is_missing = np.isnan(x)
        if self.threshold is None:
            ones = np.where((x == 0) | (x == 1), x, np.nan)
        else:
            ones = np.where(is_missing, np.nan, x > self.threshold)
        if self.missing:
            ones = np.hstack([np.where(is_missing, 0, ones), ~is_missing])
        return self.score(ones)


@dataclass(frozen=True)
class MultinomialScores:
    """`Σ_j x_j log θ_kj`; see `genclf.MultinomialParams`.

    Attributes:
        score: the score of the counts.
        presence: whether a word counts at most once in a row.
    """

    score: LinearScores
    presence: bool

    def __call__(self, x: Any) -> Float[np.ndarray, "n K"]:
        """The scores of rows, dense or sparse; NaN for a count below 0."""
        if isinstance(x, np.ndarray):
            counts = np.where(x >= 0, x, np.nan)
            return self.score(np.sign(counts) if self.presence else counts)
        return self.score(x.sign() if self.presence else x)


@dataclass(frozen=True)
class PoissonScores:
    """`Σ_j x_j log λ_kj - λ_kj - log x_j!`; see `genclf.PoissonParams`.

    Attributes:
        score: the linear score of the counts relative to the `typical` rates; if cells may be
            missing, of the counts and of indicators of the observed cells.
        typical: the mean rate of each feature, (d,).
        missing: whether NaN is a missing cell.
    """

    score: LinearScores
    typical: Float[np.ndarray, "d"]
    missing: bool

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n K"]:
        """The scores of rows; NaN for a number that is not a count."""
        is_missing = np.isnan(x)
        counts = np.where((x >= 0) & (x == np.floor(x)), x, np.nan)
        common = log_poisson(np.where(is_missing, 0, counts), self.typical)
        if not self.missing:
            return self.score(counts) + common.sum(1, keepdims=True)
        score = self.score(np.hstack([np.where(is_missing, 0, counts), ~is_missing]))
        return score + np.where(is_missing, 0, common).sum(1, keepdims=True)


def log_poisson(
    x: Float[np.ndarray, "n d"], rate: Float[np.ndarray, "d"]
) -> Float[np.ndarray, "n d"]:
    """`x log λ - λ - log x!` in terms that are small where x is near λ; 0 where λ is 0."""
    safe = np.where(rate > 0, rate, 1)
    count = np.where(x > 0, x, 1)
    deviation = (count - safe) / safe
    # λ ((1 + t) log (1 + t) - t), with t = (x - λ) / λ, and log x! - (x log x - x).
    deviance = safe * ((1 + deviation) * np.log1p(deviation) - deviation)
    found = -deviance - _log_factorial_remainder(count)
    return np.where(rate > 0, np.where(x > 0, found, -rate), 0)


def _log_factorial_remainder(x: np.ndarray) -> np.ndarray:
    """`log x! - (x log x - x)` of counts from 1, by Stirling's series for large ones."""
    small, large = np.minimum(x, 16), np.maximum(x, 16)
    w = 1 / (large * large)
    series = (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w / 1680))) / large
    direct = gammaln(small + 1) - small * (np.log(small) - 1)
    return np.where(x < 16, direct, 0.5 * (_LOG_2PI + np.log(large)) + series)


PartScores = (
    GaussianScores | CategoricalScores | BernoulliScores | MultinomialScores | PoissonScores
)


@dataclass(frozen=True)
class HostScores:
    """A fitted model for machines without JAX, as `host_scores` makes it; it can be pickled.

    Attributes:
        log_prior: log class probabilities, (K,).
        parts: the density of each part of the model; a model without parts has the key None.
    """

    log_prior: Float[np.ndarray, "K"]
    parts: dict[str | None, PartScores]

    def log_joint(self, rows: Rows) -> Float[np.ndarray, "n K"]:
        """`log p(x, y=k)`, as `genclf.log_joint` in float64.

        Args:
            rows: rows, as `Schema.read` gives them.
        """
        return self._summed(rows, lambda part: part)

    def discriminant(self, rows: Rows) -> Float[np.ndarray, "n K"]:
        """`log p(x, y=k)` up to a term that all classes share, as `genclf.discriminant`."""
        return self._summed(rows, lambda part: getattr(part, "discriminant", part))

    def _summed(self, rows: Rows, score: Callable[[PartScores], Callable]) -> np.ndarray:
        found = np.tile(self.log_prior, (len(rows.label), 1))
        for start in range(0, len(found), _BLOCK):
            at = slice(start, start + _BLOCK)
            for name, part in self.parts.items():
                found[at] += score(part)(_cut(rows.x if name is None else rows.x[name], at))
        # An impossible class stays at -inf, also where the density is NaN.
        found[:, np.isneginf(self.log_prior)] = -np.inf
        return found


def _cut(x: Any, at: slice) -> Any:
    return [column[at] for column in x] if isinstance(x, list) else x[at]


def log_posterior(joint: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n K"]:
    """`log p(y=k | x)`, from `log p(x, y=k)`; NaN for a row that is impossible in all classes."""
    top = joint.max(1, keepdims=True)
    possible = np.isfinite(top)
    difference = np.where(possible, joint - np.where(possible, top, 0), np.nan)
    return difference - np.log(np.exp(difference).sum(1, keepdims=True))


def most_probable(joint: Float[np.ndarray, "n K"]) -> Int[np.ndarray, "n"]:
    """The most probable class, the lowest among ties; -1 where the posterior is NaN."""
    return np.where(np.isfinite(joint.max(1)), joint.argmax(1), -1)
