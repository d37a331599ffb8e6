"""Which labels and weights are valid, and errors for those that are not.

The checks read concrete values only.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from genclf.classifier.conversion import float_dtype, widen
from genclf.numerics.namespace import Array

AnyArray = Array | np.ndarray


def valid_labels(y: Array, num_classes: int) -> Array:
    """Which labels are classes or -1, or which responsibilities are finite and >= 0."""
    if y.ndim == 2:
        return jnp.isfinite(y) & (y >= 0)
    y = widen(y)
    return (y >= -1) & (y < num_classes)


def valid_weights(weights: Array) -> Array:
    """Which weights are finite and >= 0."""
    return jnp.isfinite(weights) & (weights >= 0)


def check_labels(
    y: AnyArray, num_classes: int, *, unlabelled: bool = True, used: np.ndarray | bool = True
) -> None:
    """Raise for a concrete label that is neither a class nor -1; a traced one makes results NaN.

    Responsibilities are not checked, nor are rows that are not `used`. Without `unlabelled`, -1
    raises too.
    """
    if y.ndim != 1 or not jnp.issubdtype(y.dtype, jnp.integer) or not readable(y):
        return
    labels = np.asarray(y)
    wrong = np.flatnonzero(used & ((labels < -int(unlabelled)) | (labels >= num_classes)))
    if not len(wrong):
        return
    row, last = wrong[0], num_classes - 1
    expected = f"a label in 0..{last} (num_classes = {num_classes})"
    expected += ", or -1 for an unlabelled row" if unlabelled else " of each row"
    hint = ""
    if labels[row] == -1:
        hint = "; leave out rows without a label"
    elif labels.min() == 1 and labels.max() == num_classes:
        hint = "; labels begin at 0: subtract 1"
    elif labels.min() >= -1 and labels.max() < 1000:
        hint = f"; or num_classes={int(labels.max()) + 1}, if it is a class"
    elif labels.min() >= -1:
        hint = "; np.unique(labels, return_inverse=True)[1] are labels from 0 on"
    raise ValueError(f"y[{row}] is {labels[row]} (row {row}), expected {expected}{hint}")


def check_minus_one(y: AnyArray, weights: AnyArray | None, num_classes: int) -> None:
    """Raise if rows are labelled -1 while a class has no row: the labels may be -1 and 1."""
    if y.ndim != 1 or not jnp.issubdtype(y.dtype, jnp.integer) or not readable(y):
        return
    known = None if weights is None or not readable(weights) else np.asarray(weights)
    if (found := unlabelled_and_empty(np.asarray(y), known, num_classes)) is not None:
        raise ValueError(
            f"y[{found[0]}] is -1, which stands for an unlabelled row, but no row has the label "
            f"{found[1]} (num_classes = {num_classes}), so -1 may be meant as a class: then number "
            "the classes from 0, as np.unique(y, return_inverse=True)[1] does; if it means "
            "unlabelled, leave these rows out, x[y >= 0] and y[y >= 0], or learn from them by "
            "genclf.em"
        )


def unlabelled_and_empty(
    labels: np.ndarray, weights: np.ndarray | None, num_classes: int
) -> tuple[int, int] | None:
    """The first row that is labelled -1, unless its weight is 0, and the first class without rows.

    None if there is no such row, or no such class.
    """
    unlabelled = labels == -1
    if weights is not None and weights.shape == labels.shape:
        unlabelled = unlabelled & (weights != 0)
    if not unlabelled.any():
        return None
    present = np.unique(labels[(labels >= 0) & (labels < num_classes)])
    if len(present) == num_classes:
        return None
    missing = np.append(present, -1) != np.arange(len(present) + 1)
    return int(unlabelled.argmax()), int(missing.argmax())


def check_some_labels(y: AnyArray, weights: AnyArray | None) -> None:
    """Raise if no row has both a label and a weight; traced ones are not checked."""
    if y.ndim not in (1, 2) or not readable(y) or not (weights is None or readable(weights)):
        return
    labelled: np.ndarray = np.asarray(y) >= 0 if y.ndim == 1 else (np.asarray(y) != 0).any(-1)
    if weights is not None and weights.shape == labelled.shape:
        # Compiled code treats subnormal numbers as 0.
        least = jnp.finfo(float_dtype(weights)).tiny
        labelled = labelled & ~(np.abs(np.asarray(weights)) < least)
    if not labelled.any():
        raise ValueError(
            f"none of the {len(labelled)} rows has both a label and a weight above 0 (weights "
            "too small for the dtype count as 0): there is nothing to "
            "learn from (genclf.em takes rows without labels)"
        )


def readable(a: AnyArray) -> bool:
    """Whether the values can be read: not traced, and addressable by this process."""
    return isinstance(a, np.ndarray) or (not isinstance(a, Tracer) and a.is_fully_addressable)
