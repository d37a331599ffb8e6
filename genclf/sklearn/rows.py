"""Rows of estimators: scikit-learn's checks, and one for dates, which it would read as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, PyTree
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from genclf.arguments.arrays import DATES_TO_NUMBERS, refuse_mask
from genclf.sklearn.types import RowsLike, WeightsLike
from genclf.sums.sparse import canonical
from genclf.tables.frames import check_names

_DATES = ("date", "time", "duration")  # how their dtypes begin in pandas, polars and NumPy


def checked_rows(estimator: BaseEstimator, X: RowsLike, **how: Any) -> PyTree:
    """`validate_data` of scikit-learn, with sparse rows in canonical form.

    Raises:
        ValueError: a cell is invalid or masked, a column holds dates or durations, or two columns
            have the same name.
    """
    refuse_mask(X, "X")
    check_names(X, "X")
    _refuse_dates(X)
    try:
        x = validate_data(estimator, X, **how)
    except ValueError as error:
        allowed = how.get("ensure_all_finite", True) == "allow-nan"
        valid = lambda a: ~np.isinf(a) if allowed else np.isfinite(a)  # noqa: E731
        raise _located(error, X, "X", valid) from error
    return canonical(x) if issparse(x) else x


def weights_in(sample_weight: WeightsLike, count: int) -> Float[np.ndarray, "n"]:
    """The weight of each row; raise for a wrong shape, or a weight that is not >= 0 and finite."""
    refuse_mask(sample_weight, "sample_weight")
    how: dict[str, Any] = {"dtype": np.float64, "ensure_non_negative": True}
    try:
        return _check_sample_weight(sample_weight, np.empty((count, 0)), **how)
    except ValueError as error:
        raise _located(
            error, sample_weight, "sample_weight", lambda a: (a >= 0) & (a < np.inf)
        ) from error


def _located(
    error: ValueError, given: Any, name: str, valid: Callable[[np.ndarray], np.ndarray]
) -> ValueError:
    """The error, with the first cell that is not valid, if there is one."""
    try:
        cells = np.asarray(given, np.float64)
        index = tuple(np.argwhere(~valid(cells))[0].tolist())
    except (TypeError, ValueError, IndexError):
        return error
    at = ", ".join(map(str, index))
    return ValueError(f"{name}[{at}] is {cells[index]:g}: {error}")


def _refuse_dates(X: Any) -> None:
    is_table = hasattr(X, "columns") and hasattr(X, "dtypes")  # of pandas or polars
    names = [f"column {name!r}" for name in X.columns] if is_table else ["X"]
    dtypes = X.dtypes if is_table else [getattr(X, "dtype", None)]
    for name, dtype in zip(names, dtypes, strict=True):
        if str(dtype).lower().startswith(_DATES):
            raise ValueError(f"{name} has dtype {dtype}, expected numbers; {DATES_TO_NUMBERS}")
