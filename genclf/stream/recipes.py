"""What the families sum over rows, for machines without JAX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from genclf.numerics.logarithms import gammaln
from genclf.sums.host import HostMoments, HostSums, LabelledRows, moments, moments_of_cells
from genclf.tables.rules import Kind


@dataclass(frozen=True)
class OfMoments:
    """Moments of numbers, as a `Gaussian` sums them."""

    full: bool
    pooled: bool
    missing: bool
    expected: ClassVar = "a number"

    def valid(self, x: np.ndarray) -> np.ndarray:
        """Which cells are allowed, beside missing ones."""
        return np.isfinite(x)

    def __call__(self, x: Float[np.ndarray, "n d"], rows: LabelledRows) -> HostMoments:
        """The moments of these rows."""
        if not self.missing:
            return moments(x, rows, self.full, self.pooled)
        return moments_of_cells(x, rows, self.pooled)


@dataclass(frozen=True)
class OfCategories:
    """One table of counts (classes by values) per column, concatenated, as of `Categorical`.

    A code below 0 is missing.
    """

    num_values: tuple[int, ...]
    missing: bool
    expected: ClassVar = "a value"

    def valid(self, x: np.ndarray) -> np.ndarray:
        """Which codes are allowed, beside missing ones."""
        return x >= 0

    def __call__(self, x: Sequence[np.ndarray], rows: LabelledRows) -> HostSums:
        """The tables of these columns of codes."""
        tables = [rows.table(c, v) for c, v in zip(x, self.num_values, strict=True)]
        return HostSums(rows.counts(), np.concatenate(tables, 1))


@dataclass(frozen=True)
class OfBits:
    """Counts of ones, as `Bernoulli` sums them."""

    threshold: float | None
    missing: bool
    expected: ClassVar = "0 or 1"

    def valid(self, x: np.ndarray) -> np.ndarray:
        """Which cells are allowed, beside missing ones."""
        return (x == 0) | (x == 1) if self.threshold is None else np.isfinite(x)

    def __call__(self, x: Float[np.ndarray, "n d"], rows: LabelledRows) -> HostSums:
        """The ones of these rows."""
        ones = (x > self.threshold if self.threshold is not None else x != 0).astype(float)
        if not self.missing:
            return HostSums(rows.counts(), rows.sums(ones))
        seen = ~np.isnan(x)
        return HostSums(rows.sums(seen.astype(float)), rows.sums(np.where(seen, ones, 0)))


@dataclass(frozen=True)
class OfWords:
    """Counts of words, as `Multinomial` sums them; of dense or sparse rows."""

    presence: bool
    missing: ClassVar = False
    expected: ClassVar = "a count >= 0"

    def valid(self, x: np.ndarray) -> np.ndarray:
        """Which cells are allowed, beside missing ones."""
        return x >= 0

    def __call__(self, x: Any, rows: LabelledRows) -> HostSums:
        """The counts of these rows."""
        return HostSums(rows.counts(), rows.sums((x > 0).astype(float) if self.presence else x))


@dataclass(frozen=True)
class OfEvents:
    """Counts of events and, in a last column, `Σ_j log x_j!`, as `Poisson` sums them."""

    missing: bool
    expected: ClassVar = "a whole number >= 0"

    def valid(self, x: np.ndarray) -> np.ndarray:
        """Which cells are allowed, beside missing ones."""
        return (x >= 0) & (x == np.floor(x))

    def __call__(self, x: Float[np.ndarray, "n d"], rows: LabelledRows) -> HostSums:
        """The counts of these rows."""
        seen = ~np.isnan(x)
        x = np.where(seen, x, 0) if self.missing else x
        total = rows.sums(np.column_stack([x, gammaln(x + 1).sum(1)]))
        if not self.missing:
            return HostSums(rows.counts(), total)
        count = rows.sums(np.column_stack([seen, np.ones(len(x))]).astype(float))
        return HostSums(count, total)


Recipe = OfMoments | OfCategories | OfBits | OfWords | OfEvents
RECIPES = {kind.__name__: kind for kind in (OfMoments, OfCategories, OfBits, OfWords, OfEvents)}


@dataclass(frozen=True)
class PartOfModel:
    """A part of a model, and what it sums.

    Attributes:
        name: its name in a `Product`; None for a model without parts.
        kind: the kind of its columns.
        missing: whether cells may be missing.
        recipe: what it sums; None if only JAX can sum it.
    """

    name: str | None
    kind: Kind
    missing: bool
    recipe: Recipe | None
