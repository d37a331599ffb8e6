"""Rows, of NumPy or JAX, with cells so large that their squares overflow."""

from __future__ import annotations

from typing import Any


def shrink_far_rows(x: Any, deviation: Any) -> Any:
    """The rows, shrunk towards 0 so that squares in units of the deviations do not overflow.

    If the square of a row overflows, the quadratic terms alone decide which class has the larger
    density. They decide the same for the row times a small number.

    Args:
        x: rows, (n, d); NaN for a missing cell.
        deviation: standard deviations of the classes, (K or 1, d or 1).
    """
    return x * far_row_factor(x, deviation)


def far_row_factor(x: Any, deviation: Any) -> Any:
    """The number by which `shrink_far_rows` multiplies each row, (n, 1)."""
    xp = x.__array_namespace__()
    largest = float(xp.finfo(x.dtype).max) ** (1 / 3)
    most = largest * xp.min(deviation, axis=0, keepdims=True)
    size = xp.where(xp.isnan(x), 0, xp.abs(x))
    share = xp.where(size > most, most / xp.where(size > 0, size, 1), 1)
    return xp.min(share, axis=1, keepdims=True)
