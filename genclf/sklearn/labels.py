"""Labels of any type as classes and their numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, Shaped
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from genclf.tables.frames import is_missing


class Labels(NamedTuple):
    """The sorted classes, and the number of each row's class; -1 for rows without a label."""

    classes: Shaped[np.ndarray, "K"]
    number: Int[np.ndarray, "n"]


def encoded(y: Any, unlabelled: bool, classes: Any = None) -> Labels:
    """The classes in y, or those given, and their numbers.

    Args:
        y: labels, (n,).
        unlabelled: whether None, NaN and -1 stand for no label.
        classes: the sorted classes; None for those that occur in y.

    Raises:
        ValueError: no row has a label, a row lacks one although `unlabelled` is False, or a label
            is not among the classes.
    """
    y = column_or_1d(y, warn=True)
    if not unlabelled and y.dtype == object and (holes := list(map(is_missing, y))).count(True):
        raise ValueError(
            f"Input y contains NaN: row {holes.index(True)} has no label; leave such rows out, or "
            "set semi_supervised=True where the estimator has it"
        )
    known = _is_label(y) if unlabelled else np.ones(len(y), bool)
    some = y[known]
    if not len(some):
        raise ValueError("y has no label, expected one in at least one row")
    if some.dtype == object and not all(isinstance(label, str) for label in some):
        some = np.array(some.tolist())
    check_classification_targets(some)
    found, code = np.unique(some, return_inverse=True)
    if classes is not None:
        strange = np.setdiff1d(found, classes)
        if len(strange):
            raise ValueError(
                f"y has the label {strange.tolist()[0]!r}, expected one of the classes {classes}"
            )
        code, found = np.searchsorted(classes, found)[code], classes
    number = np.full(len(y), -1, np.int32)
    number[known] = code
    return Labels(found, number)


def _is_label(y: Shaped[np.ndarray, "n"]) -> np.ndarray:
    """Which entries are labels: not None, not NaN, not -1."""
    if y.dtype != object:
        number = np.issubdtype(y.dtype, np.number)
        return (y == y) & (y != -1) if number else np.ones(len(y), bool)
    return np.array([not (is_missing(v) or _is_minus_one(v)) for v in y])


def _is_minus_one(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and value == -1
