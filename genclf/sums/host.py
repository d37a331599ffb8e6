"""Statistics as NumPy arrays of float64, and how they are added and merged without JAX.

They hold what `genclf.Sums` and `genclf.Moments` hold, for machines that only read rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import sparray  # slow to import
else:
    sparray = object

_FEW = 2**14  # rows times classes, up to which a product costs less than a sparse matrix


@dataclass(frozen=True)
class HostSums:
    """The weight of each class and totals of its features; see `genclf.Sums`.

    Attributes:
        count: (K,), or (K, d) where cells may be missing.
        total: (K, d).
    """

    count: Float[np.ndarray, "..."]
    total: Float[np.ndarray, "..."]

    def merge(self, other: HostSums) -> HostSums:
        """The sums of both."""
        return HostSums(self.count + other.count, self.total + other.total)


@dataclass(frozen=True)
class HostMoments:
    """Weights, means and scatters about the means; see `genclf.Moments`.

    Attributes:
        count: (K,), or (K, d) where cells may be missing.
        mean: (K, d).
        scatter: (K, d, d), or (K, d) for diagonals; if it is pooled, (1, ...).
    """

    count: Float[np.ndarray, "..."]
    mean: Float[np.ndarray, "... K d"]
    scatter: Float[np.ndarray, "..."]

    def merge(self, other: HostMoments) -> HostMoments:
        """The moments of both, by the rule of Chan, Golub & LeVeque (1983)."""
        # With δ = m_b - m_a: m = m_a + δ n_b / n;  S = S_a + S_b + δδᵀ n_a n_b / n
        count = self.count + other.count
        share = ratio(other.count, count)
        delta = other.mean - self.mean
        scatter = self.scatter + other.scatter + self.outer(self.count * share, delta)
        return HostMoments(count, self.mean + self._per_feature(share) * delta, scatter)

    def _per_feature(self, weight: np.ndarray) -> np.ndarray:
        return weight if weight.ndim == self.mean.ndim else weight[..., None]

    def offsets(self) -> Float[np.ndarray, "..."]:
        """For each feature, the largest absolute class mean divided by the standard deviation.

        It is 0 for a constant feature.
        """
        is_full = self.scatter.ndim > self.mean.ndim
        squares = np.diagonal(self.scatter, axis1=-2, axis2=-1) if is_full else self.scatter
        weight = np.maximum(self._per_feature(self.count).sum(-2), np.finfo(float).tiny)
        deviation = np.sqrt(squares.sum(-2) / weight)
        largest = np.abs(self.mean).max(-2)
        varies = deviation > 64 * np.finfo(float).eps * largest
        return largest / np.where(varies, deviation, np.inf)

    def outer(self, weight: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """`weight · deviation deviationᵀ` in the form of the scatter."""
        full = self.scatter.ndim > self.mean.ndim
        pooled = self.scatter.shape[-3 if full else -2] < self.mean.shape[-2]
        return outer_products(self._per_feature(weight) * deviation, deviation, full, pooled)


@dataclass(frozen=True)
class HostClassifier:
    """Statistics of (x, y); see `genclf.ClassifierStats`.

    Attributes:
        labels: the weight of each class.
        conditional: the statistics of x.
        statistic: what is summed, in words.
    """

    labels: HostSums
    conditional: HostStats
    statistic: str | None

    def merge(self, other: HostClassifier) -> HostClassifier:
        """The statistics of both."""
        conditional = merge_host(self.conditional, other.conditional)
        return HostClassifier(self.labels.merge(other.labels), conditional, self.statistic)


HostStats = Any
"""One of `HostSums`, `HostMoments` and `HostClassifier`, or a dict of them by their names."""


def merge_host(a: HostStats, b: HostStats) -> HostStats:
    """The statistics of both."""
    if isinstance(a, dict):
        return {name: merge_host(part, b[name]) for name, part in a.items()}
    return a.merge(b)


@dataclass(frozen=True)
class LabelledRows:
    """The classes and weights of rows, from which rows are summed by class.

    Attributes:
        label: the class of each row, in 0..K-1.
        weight: weight of each row; None for ones.
        num_classes: K.
    """

    label: Int[np.ndarray, "n"]
    weight: Float[np.ndarray, "n"] | None
    num_classes: int

    def __len__(self) -> int:
        return len(self.label)

    def sums(self, rows: Float[np.ndarray, "n d"] | sparray) -> Float[np.ndarray, "K d"]:
        """`Σ_n w_n row_n` over the rows of each class."""
        n = len(self)
        weight = np.ones(n) if self.weight is None else self.weight
        if n * self.num_classes <= _FEW and isinstance(rows, np.ndarray):
            own = self.label[None] == np.arange(self.num_classes)[:, None]
            return np.where(own, weight, 0.0) @ rows
        from scipy.sparse import csc_array, issparse

        by_class = csc_array((weight, self.label, np.arange(n + 1)), shape=(self.num_classes, n))
        total = by_class @ rows
        return total.toarray() if issparse(total) else total

    def counts(self) -> Float[np.ndarray, "K"]:
        """The weight of each class."""
        return np.bincount(self.label, self.weight, self.num_classes).astype(float)

    def table(self, code: Int[np.ndarray, "n"], num_values: int) -> Float[np.ndarray, "K V"]:
        """The weight of each value in each class; codes of other values are left out."""
        place = self.label * num_values + code
        weight = self.weight
        if len(code) and (code.min() < 0 or code.max() >= num_values):
            known = (code >= 0) & (code < num_values)
            place, weight = place[known], None if weight is None else weight[known]
        found = np.bincount(place, weight, self.num_classes * num_values)
        return found.reshape(self.num_classes, num_values).astype(float)

    def blocks(self, row_size: int) -> Iterator[tuple[slice, LabelledRows]]:
        """Slices of rows that stay in the processor's cache, each with its labels."""
        rows = max(1024, 2**17 // row_size)
        for start in range(0, max(len(self), 1), rows):
            at = slice(start, start + rows)
            weight = None if self.weight is None else self.weight[at]
            yield at, LabelledRows(self.label[at], weight, self.num_classes)


def moments(
    x: Float[np.ndarray, "n d"], rows: LabelledRows, full: bool, pooled: bool
) -> HostMoments:
    """Moments of rows without missing cells, block after block."""
    num_classes, d = rows.num_classes, x.shape[1]
    form = (1 if pooled else num_classes, *(d,) * (2 if full else 1))
    found = HostMoments(np.zeros(num_classes), np.zeros((num_classes, d)), np.zeros(form))
    # A merge costs as much as K rows, or as K d rows if each class has a full scatter.
    per_merge = num_classes * (d if full and not pooled else 1)
    for at, block in rows.blocks(max(1, min(d, 2**17 // (16 * per_merge)))):
        found = found.merge(_moments_of_block(x[at], block, full, pooled))
    return found


def _moments_of_block(x: np.ndarray, rows: LabelledRows, full: bool, pooled: bool) -> HostMoments:
    count = rows.counts()
    mean = ratio(rows.sums(x), count[:, None])
    x = x - mean[rows.label]
    # The mean has a rounding error: the mean of the centred rows estimates and corrects it.
    drift = ratio(rows.sums(x), count[:, None])
    if not full:
        x *= x
        scatter = rows.sums(x)
        scatter = scatter.sum(0, keepdims=True) if pooled else scatter
    elif pooled:
        weighted = x if rows.weight is None else x * rows.weight[:, None]
        scatter = (weighted.T @ x)[None]
    else:
        scatter = _scatter_of_each(x, rows)
    raw = HostMoments(count, mean, scatter)
    return HostMoments(count, mean + drift, scatter - raw.outer(count, drift))


def _scatter_of_each(x: np.ndarray, rows: LabelledRows) -> np.ndarray:
    d = x.shape[1]
    found = np.zeros((rows.num_classes, d, d))
    order = np.argsort(rows.label, kind="stable")
    x, label = x[order], rows.label[order]
    weighted = x if rows.weight is None else x * rows.weight[order, None]
    starts = np.searchsorted(label, np.arange(rows.num_classes + 1))
    for k, (start, end) in enumerate(pairwise(starts)):
        if start < end:
            found[k] = weighted[start:end].T @ x[start:end]
    return found


def moments_of_cells(x: Float[np.ndarray, "n d"], rows: LabelledRows, pooled: bool) -> HostMoments:
    """Diagonal moments of the cells that are not missing, with a count for each feature."""
    zeros = np.zeros((rows.num_classes, x.shape[1]))
    found = HostMoments(zeros, zeros, zeros[:1] if pooled else zeros)
    for at, block in rows.blocks(2 * x.shape[1]):
        cells = x[at]
        seen: Bool[np.ndarray, "n d"] = ~np.isnan(cells)
        count = block.sums(seen.astype(float))
        mean = ratio(block.sums(np.where(seen, cells, 0)), count)
        cells = np.where(seen, cells - mean[block.label], 0)
        drift = ratio(block.sums(cells), count)
        scatter = block.sums(cells * cells) - count * drift * drift
        scatter = scatter.sum(0, keepdims=True) if pooled else scatter
        found = found.merge(HostMoments(count, mean + drift, scatter))
    return found


def outer_products(a: Any, b: Any, full: bool, pooled: bool) -> Any:
    """`a_k b_kᵀ` of each class or, if pooled, their sum; the diagonal unless full."""
    if not full:
        return (a * b).sum(-2, keepdims=True) if pooled else a * b
    return (a.mT @ b)[..., None, :, :] if pooled else a[..., :, None] * b[..., None, :]


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """`numerator / denominator`, 0 where the denominator is 0."""
    return numerator / np.where(denominator == 0, math.inf, denominator)
