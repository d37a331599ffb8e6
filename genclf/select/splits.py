"""Which rows each fold is trained on and tested on: by folds, by two conditions, by pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from jaxtyping import Bool, Int

from genclf.arguments.domains import shown
from genclf.classifier.checked_arguments import ArrayLike
from genclf.classifier.labels import AnyArray, readable
from genclf.select.folds import check_training, with_label_and_weight
from genclf.select.groups import (
    ALWAYS_TRAIN,
    UNUSED,
    check_on_host,
    check_one_per_row,
    checked_folds,
)

Pairs: TypeAlias = list[tuple[np.ndarray, np.ndarray]]
FoldsOrPairs: TypeAlias = ArrayLike | Sequence[tuple[ArrayLike, ArrayLike]]


class Splits(NamedTuple):
    """What each fold tests and is trained on.

    Attributes:
        folds: the fold that tests each row, (n,); -1 for rows that are only trained on, -2 for rows
            without use.
        trains: the rows that each fold is trained on, (F, n); None if these are all that it does
            not test.
    """

    folds: Int[np.ndarray, "n"]
    trains: Bool[np.ndarray, "F n"] | None


def folds_or_pairs(given: object, name: str) -> np.ndarray | Pairs:
    """The fold of each row, or pairs (train, test) of masks or row numbers."""
    check_on_host(name, given)
    each: Any = list(given) if isinstance(given, Iterator) else given
    first: Any = each[0] if isinstance(each, list | tuple) and each else None
    is_pair = isinstance(first, list | tuple) and len(first) == 2
    if not is_pair or any(np.ndim(rows) != 1 for rows in first):
        _check_no_splitter(each, name)
        return checked_folds(each, name)
    found = []
    for fold, pair in enumerate(each):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ValueError(f"{name}[{fold}] is {shown(pair)}, expected a pair (train, test)")
        train, test = map(np.asarray, pair)
        for rows in (train, test):
            if rows.ndim != 1 or rows.dtype.kind not in "biu" or not rows.size:
                raise ValueError(
                    f"{name}[{fold}] holds {shown(rows)}, expected a boolean mask of all rows, or "
                    "row numbers"
                )
        found.append((train, test))
    return found


def checked_mask(given: object, name: str) -> np.ndarray | None:
    """A boolean mask of rows; None for None."""
    if given is None:
        return None
    check_on_host(name, given)
    found = np.asarray(given)
    if found.ndim != 1 or found.dtype != bool:
        raise ValueError(f"{name} is {shown(given)}, expected a boolean mask of the rows")
    return found


def _check_no_splitter(given: Any, name: str) -> None:
    """Raise for what other libraries take as folds."""
    if hasattr(given, "split") and hasattr(given, "get_n_splits"):
        instead = "list(splitter.split(x, y)), the pairs of that splitter of scikit-learn"
    elif isinstance(given, int):
        instead = f"genclf.kfold(key, y, {given})"
    elif isinstance(given, tuple) and len(given) == 2 and all(np.ndim(rows) for rows in given):
        instead = "[(train, test)], a list of one pair"
    else:
        return
    raise ValueError(f"{name} is {shown(given)}, expected {instead}, or the fold of each row")


def splits_of(
    folds: FoldsOrPairs,
    test_on: np.ndarray | None,
    y: AnyArray,
    weights: AnyArray | None,
    *,
    num_held_out: int = 1,
) -> Splits:
    """The splits of these rows; raise unless each fold has rows to learn from."""
    n, given = len(y), cast(Any, folds)
    if isinstance(given, list):
        if test_on is not None:
            raise ValueError("test_on and pairs of rows in folds are given, expected one of them")
        found = _of_pairs(given, n)
    elif len(given) != n:
        raise ValueError(f"folds has length {len(given)}, expected {n}: one for each row")
    elif test_on is None:
        check_training(given, y, weights, num_held_out=num_held_out)
        return Splits(given, None)
    else:
        check_one_per_row((n,), test_on=test_on)
        if test_on.all() or not test_on.any():
            which = "all" if test_on.all() else "no"
            raise ValueError(
                f"test_on holds for {which} rows, expected some to test and some to train"
            )
        found = _of_two_conditions(given, test_on)
    if readable(y) and found.trains is not None:
        empty = ~(found.trains & with_label_and_weight(y, weights)).any(1)
        if empty.any():
            raise ValueError(
                f"fold {empty.argmax()} has nothing to learn from: none of its training rows has a "
                "label and a weight"
            )
    return found


def _of_two_conditions(folds: np.ndarray, test_on: np.ndarray) -> Splits:
    """Folds trained on the rows outside the mask, and tested on those in it."""
    tested = np.unique(folds[test_on & (folds >= 0)])
    if not len(tested):
        raise ValueError("test_on holds for no row in a fold, expected some rows to test")
    trains = ~test_on & (folds >= ALWAYS_TRAIN) & (folds != tested[:, None])
    number = np.searchsorted(tested, folds)
    kept = np.where(trains.any(0), ALWAYS_TRAIN, UNUSED)
    return Splits(np.where(test_on & (folds >= 0), number, kept).astype(np.int32), trains)


def _of_pairs(pairs: Pairs, n: int) -> Splits:
    found = np.full(n, UNUSED, np.int32)
    trains, tests = np.zeros((2, len(pairs), n), bool)
    for fold, pair in enumerate(pairs):
        for name, rows, mask in zip(("train", "test"), pair, (trains, tests), strict=True):
            wrong = len(rows) != n if rows.dtype == bool else rows.min() < 0 or rows.max() >= n
            if wrong:
                raise ValueError(
                    f"folds[{fold}] has the {name} rows {shown(rows)}, expected a mask of length "
                    f"{n}, or row numbers from 0 to {n - 1}"
                )
            mask[fold][rows] = True
            if not mask[fold].any():
                raise ValueError(f"folds[{fold}] has no {name} rows, expected some")
    both, twice = trains & tests, tests.sum(0) > 1
    if both.any():
        fold, row = np.argwhere(both)[0]
        raise ValueError(f"folds[{fold}] trains on row {row} and tests it, expected one of them")
    if twice.any():
        row = twice.argmax()
        first, second = np.flatnonzero(tests[:, row])[:2]
        raise ValueError(
            f"folds test row {row} twice, in {first} and {second}: expected at most once; for "
            "repeated splits make one call for each repetition"
        )
    found[trains.any(0)] = ALWAYS_TRAIN
    return Splits(np.where(tests.any(0), tests.argmax(0), found).astype(np.int32), trains)
