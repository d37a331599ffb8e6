"""Rows so far away that squares of their cells overflow, of NumPy or JAX."""

from __future__ import annotations

from typing import Any


def nearer(x: Any, deviation: Any) -> Any:
    """Rows so near to 0 that squares in these deviations do not overflow.

    Where the square of a far row overflows, the quadratic terms alone decide which class has the
    larger density. They decide the same of the row times a small number.

    Args:
        x: rows, (n, d); NaN for a missing cell.
        deviation: standard deviations of the classes, (K or 1, d or 1).
    """
    return x * nearness(x, deviation)


def nearness(x: Any, deviation: Any) -> Any:
    """The number by which `nearer` multiplies each row, (n, 1)."""
    xp = x.__array_namespace__()
    largest = float(xp.finfo(x.dtype).max) ** (1 / 3)
    most = largest * xp.min(deviation, axis=0, keepdims=True)
    size = xp.where(xp.isnan(x), 0, xp.abs(x))
    share = xp.where(size > most, most / xp.where(size > 0, size, 1), 1)
    return xp.min(share, axis=1, keepdims=True)
