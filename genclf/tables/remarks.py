"""Remarks on columns that an expert would make: copies of each other, and leaks of the label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from genclf.tables.columns import Column
from genclf.tables.frames import CellsOf
from genclf.tables.labels import some

ALIKE = 0.99  # correlation from which numbers are near copies
_LEAK = 0.99  # share of rows from which one column alone predicts too well
_BINS = 20
_MOSTLY = 0.5  # share of one number, from which a Gaussian hardly fits
_TAILS = 20.0  # kurtosis from which it hardly does


def column_remarks(
    cells: CellsOf, columns: Sequence[Column], y: np.ndarray, w: np.ndarray
) -> list[str]:
    """Sentences on near copies among the columns, and on columns that give the class away."""
    found = []
    if pairs := [f"{a} and {b}" for a, b in _near_copies(cells, columns)]:
        found.append(
            f"Near copies of each other: {some(pairs)}. Naive Bayes counts the evidence of each: "
            "leave one out (drop)."
        )
    if names := [f"{name} ({share:.1%})" for name, share in _leaks(cells, columns, y, w)]:
        found.append(
            f"One column alone gives the class of nearly all rows: {some(names)}. If it is not "
            "known when a class is to be predicted, leave it out (drop)."
        )
    return found


def misfits(cells: CellsOf, columns: Sequence[Column]) -> list[str]:
    """Columns of numbers that Gaussians hardly fit: of one value mostly, or with heavy tails."""
    found = []
    for column in columns:
        if column.kind != "numeric" or column.width > 1:
            continue
        number = cells[column.name].numbers()[:, 0]
        number = number[~np.isnan(number)]
        values, count = np.unique(number, return_counts=True)
        share = count.max() / count.sum()
        z = number - number.mean()
        z = z / np.abs(z).max()
        tails = np.mean(z**4) / np.mean(z**2) ** 2
        if share >= _MOSTLY:
            found.append(f"{column.name} ({share:.0%} of it is {values[count.argmax()]:g})")
        elif tails >= _TAILS:
            found.append(f"{column.name} (a kurtosis of {tails:.0f}, where a Gaussian has 3)")
    return found


def _near_copies(cells: CellsOf, columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Pairs of numbers with a correlation of `ALIKE`, and of values that determine each other."""
    numeric = [c for c in columns if c.kind in ("numeric", "kernel", "count") and c.width == 1]
    if len(numeric) > 1:
        x = np.stack([cells[c.name].numbers()[:, 0] for c in numeric], 1)
        scale = np.nanmax(np.abs(x), 0)
        z = x / np.where(scale > 0, scale, 1)
        z = np.where(np.isnan(z), 0, z - np.nanmean(z, 0))
        norm = np.sqrt(np.square(z).sum(0))
        alike = np.abs(z.T @ z) >= ALIKE * np.outer(norm, norm)
        for i, j in combinations(range(len(numeric)), 2):
            if alike[i, j] and norm[i] > 0 and norm[j] > 0:
                yield str(numeric[i].name), str(numeric[j].name)
    coded = [(c, cells[c.name].encoded()[1]) for c in columns if c.is_coded and c.has_values]
    for (a, of_a), (b, of_b) in combinations(coded, 2):
        if len(a.values) == len(b.values) and _determine(of_a, of_b, len(a.values)):
            yield str(a.name), str(b.name)


def _determine(a: np.ndarray, b: np.ndarray, num_values: int) -> bool:
    """Whether two columns of codes have one value for each value of the other."""
    seen = (a >= 0) & (b >= 0)
    return len(np.unique(np.stack([a[seen], b[seen]]), axis=1).T) <= num_values


def _leaks(
    cells: CellsOf, columns: Sequence[Column], y: np.ndarray, w: np.ndarray
) -> Iterator[tuple[str, float]]:
    """Columns whose values, or bins of numbers, each have rows of nearly one class alone."""
    share = np.bincount(y, w).max() / w.sum()
    for column in columns:
        if column.kind in ("text", "drop") or column.width > 1:
            continue
        own = cells[column.name]
        has_values = column.is_coded and column.has_values
        code = own.encoded()[1] if has_values else _bins(own.numbers()[:, 0])
        table = np.zeros((code.max() + 2, y.max() + 1))
        np.add.at(table, (code, y), w)  # -1, for missing cells, is the last row
        right = table.max(1).sum() / w.sum()
        if right >= _LEAK and right - share > (1 - share) / 2:
            yield str(column.name), float(right)


def _bins(number: np.ndarray) -> np.ndarray:
    """The quantile bin of each number, -1 where missing."""
    seen = number[~np.isnan(number)]
    edges = np.unique(np.quantile(seen, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return np.where(np.isnan(number), -1, np.searchsorted(edges, number))
