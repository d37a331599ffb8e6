"""Rows of estimators: scikit-learn's checks, and one for dates, which it would read as numbers."""

from __future__ import annotations

from typing import Any

from jaxtyping import PyTree
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from genclf.arguments.arrays import DATES_TO_NUMBERS, refuse_mask
from genclf.sklearn.types import RowsLike
from genclf.sums.sparse import canonical

_DATES = ("date", "time", "duration")  # how their dtypes begin in pandas, polars and NumPy


def checked_rows(estimator: BaseEstimator, X: RowsLike, **how: Any) -> PyTree:
    """`validate_data` of scikit-learn, with sparse rows in canonical form.

    Raises:
        ValueError: a cell is invalid or masked, a column holds dates or durations, or two columns
            have the same name.
    """
    refuse_mask(X, "X")
    check_names(X)
    _refuse_dates(X)
    x = validate_data(estimator, X, **how)
    return canonical(x) if issparse(x) else x


def check_names(X: Any) -> None:
    """Raise if two columns of a table have the same name."""
    if _is_table(X) and len(set(X.columns)) < len(X.columns):
        names = list(X.columns)
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has the column {twice!r} twice, expected different names")


def _refuse_dates(X: Any) -> None:
    names = [f"column {name!r}" for name in X.columns] if _is_table(X) else ["X"]
    dtypes = X.dtypes if _is_table(X) else [getattr(X, "dtype", None)]
    for name, dtype in zip(names, dtypes, strict=True):
        if str(dtype).lower().startswith(_DATES):
            raise ValueError(f"{name} has dtype {dtype}, expected numbers; {DATES_TO_NUMBERS}")


def _is_table(X: object) -> bool:
    """Whether X has named columns, as tables of pandas and polars have."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")
