"""Factorizations of a few small matrices by NumPy and LAPACK; NaN where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np


def cholesky(a: Any) -> Any:
    """As `batched.cholesky`."""
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        if a.ndim > 2:
            return np.stack([cholesky(one) for one in a])
        return np.full_like(a, np.nan)


def inverse_lower(factor: Any) -> Any:
    """As `batched.inverse_lower`; the upper triangle of the factor is 0."""
    if factor.ndim > 2:
        return np.stack([inverse_lower(one) for one in factor])
    from scipy.linalg.lapack import dtrtri  # slow to import

    inverse, singular = dtrtri(factor, lower=1)
    return np.full_like(factor, np.nan) if singular else inverse


def eigh(a: Any) -> tuple[Any, Any]:
    """As `batched.eigh`."""
    try:
        values, vectors = np.linalg.eigh(a)
        return values, vectors
    except np.linalg.LinAlgError:
        if a.ndim > 2:
            each = [eigh(one) for one in a]
            return np.stack([own[0] for own in each]), np.stack([own[1] for own in each])
        return np.full_like(a[0], np.nan), np.full_like(a, np.nan)
