"""Values of any kind that group rows, such as folds, as numbers of the distinct values."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.core import Tracer
from jaxtyping import Int, Shaped

from genclf.arguments.domains import shown

ALWAYS_TRAIN, UNUSED = -1, -2  # folds of rows in every training set, and of rows that are not used
_EXPECTED = "expected one value of each row, such as integers or strings"


def groups_of_rows(given: object, name: str) -> Int[np.ndarray, "n"] | None:
    """The number of each row's group, in the order of the distinct values; None for None."""
    return None if given is None else distinct(given, name)[1]


def groups_to_score(by: object, name: str) -> np.ndarray | None:
    """The number of each row's group; -1 for a row without a fold."""
    if by is None:
        return None
    values, number = distinct(by, name)
    if values.dtype.kind != "i":
        return number
    if values[0] < UNUSED or values[-1] < 0:
        raise ValueError(
            f"{name}[{(number == 0).argmax()}] is {values[0]}, expected integers >= 0, and -1 or "
            f"-2 for rows that do not count; to use negative values as groups, give "
            f"{name}.astype(str)"
        )
    return np.maximum(number - (values < 0).sum(), -1)


def checked_folds(folds: object, name: str) -> np.ndarray:
    """Folds as an array; raise unless they are concrete integers >= -2, each fold with a row."""
    check_on_host(name, folds)
    values, number = distinct(folds, name)
    found = values[number]
    if not np.issubdtype(found.dtype, np.integer):
        raise ValueError(
            f"{name} is {shown(folds)}, expected one integer per row, as kfold returns them; "
            "make them from runs or groups of any kind by np.unique(runs, return_inverse=True)[1], "
            "and from splits of scikit-learn by genclf.folds"
        )
    if len(wrong := np.flatnonzero(found < UNUSED)):
        raise ValueError(f"{name}[{wrong[0]}] is {found[wrong[0]]}, expected a fold, -1 or -2")
    numbers = values[values >= 0]
    wrong = numbers != np.arange(len(numbers))
    if not len(numbers) or wrong.any():
        missing = wrong.argmax() if len(numbers) else 0
        raise ValueError(
            f"{name} has no row in fold {missing}, expected one in each, 0..F-1; "
            "make them from runs or groups of any kind by np.unique(runs, return_inverse=True)[1]"
        )
    return found


def first_of_groups(
    values: Shaped[np.ndarray, "n"], group: Int[np.ndarray, "n"]
) -> tuple[Shaped[np.ndarray, "G"], Int[np.ndarray, "_"]]:
    """The value of the first row of each group, and the rows whose value differs from it."""
    found = values[np.unique(group, return_index=True)[1]]
    return found, np.flatnonzero(values != found[group])


def check_one_per_row(shape: tuple[int, ...], **given: Any) -> None:
    """Raise unless each argument, if it is not None, has the shape of the labels."""
    for name, value in given.items():
        if value is not None and np.shape(value) != shape:
            raise ValueError(f"{name} has shape {np.shape(value)}, expected {shape}")


def check_on_host(name: str, *values: object) -> None:
    """Raise for traced values, which a function that runs on the host cannot read."""
    if any(isinstance(value, Tracer) for value in values):
        raise ValueError(f"{name} is read on the host: give concrete arrays, outside jit and vmap")


def distinct(given: object, name: str) -> tuple[Shaped[np.ndarray, "G"], Int[np.ndarray, "n"]]:
    """The sorted distinct values, and the number of each row's value among them.

    Memory depends on the number of rows alone, not on the values.
    """
    if isinstance(given, Tracer):
        raise ValueError(f"{name} is traced, expected concrete values, outside jit and vmap")
    if isinstance(given, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array, whose mask would be lost, {_EXPECTED}")
    try:
        found = np.asarray(given)
        if found.dtype.kind in "US" and not isinstance(given, np.ndarray):
            found = np.asarray(given, object)  # as strings, 1 and "1" would be the same
        if found.ndim != 1 or not found.size:
            raise ValueError(f"{name} is {shown(given)}")
        if found.dtype.kind not in "biuUS":
            for row, value in enumerate(found.tolist()):
                if value is None or value != value:
                    raise ValueError(f"{name}[{row}] is {value}, a missing value")
        values, number = np.unique(found, return_inverse=True)
    except (TypeError, ValueError) as error:  # of NumPy too: ragged lists, kinds without an order
        text = str(error) if str(error).startswith(name) else f"{name} is {shown(given)}: {error}"
        raise ValueError(f"{text}; {_EXPECTED}") from error
    return values, number
