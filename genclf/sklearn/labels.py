"""Labels of any type as classes and their numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from genclf.arguments.arrays import refuse_mask
from genclf.arguments.domains import shown
from genclf.sklearn.types import LabelsLike
from genclf.tables.cells import is_missing

_NUMBER = (int, float, np.number)
_ARRAYS = (str, bool, float)  # kinds of labels that arrays of NumPy can hold


class Labels(NamedTuple):
    """The sorted classes, and the number of each row's class; -1 for rows without a label."""

    classes: Shaped[np.ndarray, "K"]
    number: Int[np.ndarray, "n"]


def encoded(y: LabelsLike, unlabelled: bool, classes: np.ndarray | None = None) -> Labels:
    """The classes in y, or those given, and their numbers.

    Labels are hashable and of one kind: strings, numbers, truth values, dates, tuples, or any other
    type. They are sorted, by their `repr` if they have no order.

    Args:
        y: labels, (n,).
        unlabelled: whether None, NaN and -1 stand for no label.
        classes: the sorted classes; None for those that occur in y.

    Raises:
        ValueError: no row has a label, a row lacks one although `unlabelled` is False, labels are
            of two kinds, or a label is not among the classes.
    """
    found, code, known = _read(y, unlabelled)
    if found.dtype.kind == "f":
        if not np.isfinite(found).all():
            raise ValueError("Input y contains infinity, which is not a class")
        if (found != np.floor(found)).any():
            check_classification_targets(found[code])  # continuous numbers are not classes
    if classes is not None:
        index = indices_in(classes, found)
        if (index < 0).any():
            strange = plain(found[index.argmin()])
            raise ValueError(
                f"y has the label {strange!r}, expected one of the classes {classes}; "
                "partial_fit adds classes, if its argument classes has them and the earlier ones"
            )
        code, found = index[code], classes
    number = np.full(len(known), -1, np.int32)
    number[known] = code
    return Labels(found, number)


def classes_of(labels: LabelsLike) -> Shaped[np.ndarray, "K"]:
    """The sorted classes among these labels."""
    if not hasattr(labels, "__getitem__") or isinstance(labels, Mapping):
        raise ValueError(f"classes is {labels!r:.80}, expected a list or an array of labels")
    try:
        return _read(labels, False)[0]
    except ValueError as error:
        raise ValueError(f"classes are no labels of one kind: {error}") from error


def numbers_in(classes: Shaped[np.ndarray, "K"], y: LabelsLike) -> Int[np.ndarray, "n"]:
    """The number of each row's class; -1 for a label that is not among the classes.

    Raises:
        ValueError: a row has no label, or y has labels of another kind than the classes.
    """
    found, code, _ = _read(y, False)
    kinds = {_kind(found[0]), _kind(classes[0])}
    if len(kinds) > 1 and kinds != {bool, float}:  # True is 1
        raise _two_kinds("y", found[0], "classes_", classes[0])
    return indices_in(classes, found)[code]


def check_lengths(rows: int, labels: int) -> None:
    """Raise unless there is a label for each row."""
    if rows != labels:
        raise ValueError(f"X has {rows} rows and y {labels} labels")


def prior_by_label(
    class_prior: Any, classes: Shaped[np.ndarray, "K"]
) -> Float[np.ndarray, "_"] | None:
    """The probabilities of the classes: a dict or a Series is read by label.

    Raises:
        ValueError: a class has no probability, or a label that is not a class has one above 0.
    """
    if class_prior is None:
        return None
    if isinstance(class_prior, Mapping):
        of_label = dict(class_prior)
    elif hasattr(class_prior, "iloc") and getattr(class_prior, "ndim", 1) == 1:
        of_label = dict(zip(class_prior.index, class_prior, strict=True))
        if len(of_label) < len(class_prior):
            raise ValueError("class_prior has a label twice, expected one probability per class")
    else:
        return np.asarray(class_prior, np.float64)
    absent = [label for label in classes if label not in of_label]
    strange = [label for label in of_label.keys() - set(classes) if of_label[label] != 0]
    if absent or strange:
        which = f"lacks {plain(absent[0])!r}" if absent else f"has {plain(strange[0])!r}"
        raise ValueError(
            f"class_prior is read by label and {which}, expected a probability for each of the "
            f"classes {classes}; an array has them in that order"
        )
    return np.array([of_label[label] for label in classes], np.float64)


def _read(y: LabelsLike, unlabelled: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sorted distinct labels, the index of each label among them, and which rows have one."""
    y = _one_dimensional(y)
    known = _is_label(y, unlabelled)
    if not unlabelled and not known.all():
        raise ValueError(
            f"Input y contains NaN: row {known.argmin()} has no label; leave such rows out, or "
            "set semi_supervised=True where the estimator has it"
        )
    if not known.any():
        raise ValueError("y has no label, expected one in at least one row")
    return *_distinct(_of_one_kind(y[known])), known


def _one_dimensional(y: Any) -> Shaped[np.ndarray, "n"]:
    """Labels as an array, without NumPy's conversion to a common type.

    It would turn 1 beside "1" into a string.
    """
    if isinstance(y, np.ma.MaskedArray) and np.ma.getmaskarray(y).any():
        raise ValueError("y is a masked array, whose mask would be lost: leave such rows out")
    refuse_mask(y, "y")
    is_missing_in = getattr(y, "isna", getattr(y, "is_null", None))  # of pandas, of polars
    if is_missing_in is not None and getattr(y, "ndim", 1) == 1 and is_missing_in().any():
        y = list(y)  # arrays of integers cannot hold missing ones
    if not isinstance(y, list | tuple):
        y = np.asarray(y)
    elif len(kinds := set(map(_kind, y))) > 1 or not kinds <= {*_ARRAYS, list, np.ndarray}:
        y = _objects(y)
    return y if isinstance(y, np.ndarray) and y.ndim == 1 else column_or_1d(y, warn=True)


def _objects(labels: Iterable[object]) -> Shaped[np.ndarray, "n"]:
    labels = list(labels)
    found = np.empty(len(labels), object)
    found[:] = labels
    return found


def _is_label(y: Shaped[np.ndarray, "n"], unlabelled: bool) -> np.ndarray:
    """Which entries are labels: not None, not NaN and, if rows may be unlabelled, not -1."""
    if y.dtype == object:
        return np.array([not (is_missing(v) or (unlabelled and _is_minus_one(v))) for v in y], bool)
    signed = unlabelled and np.issubdtype(y.dtype, np.number)
    return (y == y) & (y != -1) if signed else y == y


def _is_minus_one(value: object) -> bool:
    return isinstance(value, _NUMBER) and bool(value == -1)


def _kind(label: object) -> type:
    """The kind of a label: `float` for every number, `str` for every string, else its type.

    Truth values are no numbers here, and members of an Enum are neither.
    """
    if isinstance(label, Enum):
        return type(label)
    if isinstance(label, bool | np.bool_):
        return bool
    if isinstance(label, _NUMBER):
        return float
    return str if isinstance(label, str) else type(label)


def _of_one_kind(labels: Shaped[np.ndarray, "n"]) -> Shaped[np.ndarray, "n"]:
    """The labels, in an array of numbers if they are numbers; raise if they are of two kinds."""
    if labels.dtype == object:
        kind = _kind(labels[0])
        kinds = {_kind(label): label for label in labels}
        if len(kinds) > 1:
            (_, one), (_, other), *_ = kinds.items()
            raise _two_kinds("y", one, "y", other)
        if not isinstance(labels[0], Hashable):
            raise ValueError(f"y has the label {shown(labels[0])}, expected a hashable one")
        if kind in (bool, float):
            values = np.array(labels.tolist())
            # Some integers are too large for an array of numbers.
            return values if values.tolist() == labels.tolist() else labels
    return labels


def _two_kinds(name: str, one: object, of: str, other: object) -> ValueError:
    return ValueError(
        f"{name} has the label {plain(one)!r} and {of} has {plain(other)!r}, expected labels of "
        "one kind: numbers, strings or another type"
    )


def plain(label: object) -> object:
    """A scalar of NumPy as Python's, which prints without its type."""
    return label.item() if isinstance(label, np.generic) else label


def _distinct(labels: Shaped[np.ndarray, "n"]) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct labels, and the index of each label among them."""
    if labels.dtype != object:
        return np.unique(labels, return_inverse=True)
    found = list(dict.fromkeys(labels))
    try:
        found = sorted(found)
        ordered = all(a < b for a, b in pairwise(found))  # sets have an order that is not total
    except TypeError:
        ordered = False
    classes = _objects(found if ordered else sorted(found, key=repr))
    return classes, indices_in(classes, labels)


def indices_in(
    classes: Shaped[np.ndarray, "K"], labels: Shaped[np.ndarray, "n"]
) -> Int[np.ndarray, "n"]:
    """The index of each label among the classes; -1 if it is not one of them."""
    index = {label: k for k, label in enumerate(classes)}
    return np.array([index.get(label, -1) for label in labels], np.int32)
