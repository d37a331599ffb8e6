"""Scores `log p(x, y=k)` by NumPy in float64, for machines without JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from genclf.numerics.logarithms import log_poisson
from genclf.numerics.scores.linear import LinearScore
from genclf.numerics.scores.posterior import with_slope_and_bias
from genclf.stream.rows import Rows

_BLOCK = 4096  # rows that are scored at once


@runtime_checkable
class PartScores(Protocol):
    """The scores of a part of x."""

    def log_prob(self, x: Any) -> Any:
        """The log-densities of rows, (n, K)."""

    def discriminant(self, x: Any) -> Any:
        """The log-densities up to a term that all classes share."""
        return self.log_prob(x)


@dataclass(frozen=True)
class CategoricalScores(PartScores):
    """`Σ_j log p(x_j | y=k)`; see `genclf.CategoricalParams`.

    Attributes:
        tables: one (V + 2, K) for each column: a row for each value, one for a code past the last
            value, and one for a missing cell.
    """

    tables: tuple[Float[np.ndarray, "_ K"], ...]

    def log_prob(self, x: list[Int[np.ndarray, "n"]]) -> Float[np.ndarray, "n K"]:
        """The scores of columns of codes, -1 where missing."""
        found = np.zeros((len(x[0]), self.tables[0].shape[1]))
        for code, table in zip(x, self.tables, strict=True):
            found += table[np.minimum(code, len(table) - 2)]  # -1 is the last row
        return found


@dataclass(frozen=True)
class BernoulliScores(PartScores):
    """`Σ_j x_j log p_kj + (1 - x_j) log (1 - p_kj)`; see `genclf.BernoulliParams`.

    Attributes:
        score: the score of the ones; if cells may be missing, of the ones and of indicators of
            the observed cells.
        threshold: x counts as 1 above it; None where x is 0 or 1.
        missing: whether NaN is a missing cell.
    """

    score: LinearScore
    threshold: float | None
    missing: bool

    def log_prob(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n K"]:
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
class MultinomialScores(PartScores):
    """`Σ_j x_j log θ_kj`; see `genclf.MultinomialParams`.

    Attributes:
        score: the score of the counts.
        presence: whether a word counts at most once in a row.
    """

    score: LinearScore
    presence: bool

    def log_prob(self, x: Any) -> Float[np.ndarray, "n K"]:
        """The scores of rows, dense or sparse; NaN for a count below 0."""
        if isinstance(x, np.ndarray):
            counts = np.where(x >= 0, x, np.nan)
            return self.score(np.sign(counts) if self.presence else counts)
        return self.score(x.sign() if self.presence else x)


@dataclass(frozen=True)
class PoissonScores(PartScores):
    """`Σ_j x_j log λ_kj - λ_kj - log x_j!`; see `genclf.PoissonParams`.

    Attributes:
        score: the linear score of the counts relative to the `typical` rates; if cells may be
            missing, of the counts and of indicators of the observed cells.
        typical: the mean rate of each feature, (d,).
        missing: whether NaN is a missing cell.
    """

    score: LinearScore
    typical: Any
    missing: bool

    def log_prob(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n K"]:
        """The scores of rows; NaN for a number that is not a count."""
        is_missing = np.isnan(x)
        counts: Any = np.where((x >= 0) & (x == np.floor(x)), x, np.nan)
        seen: Any = np.where(is_missing, 0, counts)
        common = log_poisson(seen, self.typical)
        if not self.missing:
            return self.score(counts) + common.sum(1, keepdims=True)
        score = self.score(np.hstack([seen, ~is_missing]))
        return score + np.where(is_missing, 0, common).sum(1, keepdims=True)


@dataclass(frozen=True)
class HostScores:
    """A fitted model for machines without JAX, as `host_scores` makes it; it can be pickled.

    Attributes:
        log_prior: log class probabilities, (K,).
        parts: the density of each part of the model; a model without parts has the key None.
        calibration: slope and biases of calibrated posteriors; None if they are not calibrated.
    """

    log_prior: Float[np.ndarray, "K"]
    parts: dict[str | None, PartScores]
    calibration: tuple[Any, Any] | None = None

    def log_joint(self, rows: Rows) -> Float[np.ndarray, "n K"]:
        """`log p(x, y=k)`, as `genclf.log_joint` in float64.

        Args:
            rows: rows, as `Schema.read` gives them.

        Raises:
            ValueError: the posteriors are calibrated, so they are not those of a density.
        """
        if self.calibration is not None:
            raise ValueError(
                "log_joint needs p(x, y), and the posteriors of these scores are calibrated: make "
                "them of `params.params`, the classifier that was calibrated"
            )
        return self._summed(rows, lambda part: part.log_prob)

    def discriminant(self, rows: Rows) -> Float[np.ndarray, "n K"]:
        """`log p(x, y=k)` up to a term that all classes share, as `genclf.discriminant`."""
        score = self._summed(rows, lambda part: part.discriminant)
        if self.calibration is None:
            return score
        calibrated: Any = with_slope_and_bias(score, *self.calibration)
        return calibrated

    def _summed(self, rows: Rows, score: Callable[[Any], Callable]) -> Any:
        found = np.tile(self.log_prior, (len(rows.label), 1))
        with np.errstate(all="ignore"):
            for start in range(0, len(found), _BLOCK):
                at = slice(start, start + _BLOCK)
                for name, part in self.parts.items():
                    found[at] += score(part)(_cut(rows.x if name is None else rows.x[name], at))
        # An impossible class stays at -inf, also where the density is NaN.
        found[:, np.isneginf(self.log_prior)] = -np.inf
        return found


def _cut(x: Any, at: slice) -> Any:
    return [column[at] for column in x] if isinstance(x, list) else x[at]
