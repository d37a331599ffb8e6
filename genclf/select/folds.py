"""Folds: one array of integers, the fold of each row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Int

from genclf.arguments.domains import shown, whole
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.labels import AnyArray, check_minus_one, readable
from genclf.select.groups import ALWAYS_TRAIN, UNUSED, check_on_host, groups_of_rows


@checked_arguments(num_folds=whole(2), groups=groups_of_rows)
def kfold(
    key: Array, y: ArrayLike, num_folds: int, *, groups: ArrayLike | None = None
) -> Int[np.ndarray, "n"]:
    """Random folds of nearly equal size, in which classes have nearly equal shares.

    Without groups, the sizes of two folds differ by at most one row, and so do their numbers of
    rows of each class. With groups, each group is in one fold: groups are placed one after the
    other, the largest first, so that the sizes become as equal as this order allows.

    Args:
        key: a `jax.random` key.
        y: labels, integers of shape (n,); rows labelled -1 are spread like a class.
        num_folds: F, from 2 to the number of rows, or of groups.
        groups: the group of each row, (n,), such as subjects or runs: values of one kind, such as
            integers or strings.

    Returns:
        The fold of each row, 0..F-1, a NumPy array of shape (n,).

    Raises:
        ValueError: a shape is wrong, there are fewer rows or groups than folds, or y contains -1
            and lacks a class below its largest label, so -1 may be meant as a class.

    Example:
        >>> import jax, numpy as np, genclf as gcf
        >>> y = np.array([0, 0, 0, 0, 1, 1])
        >>> folds = gcf.kfold(jax.random.key(0), y, 2)
        >>> print([y[folds == f].tolist() for f in range(2)])
        [[0, 0, 1], [0, 0, 1]]
        >>> subjects = np.array(["a", "a", "b", "b", "c", "c"])
        >>> print(gcf.kfold(jax.random.key(0), y, 3, groups=subjects))
        [1 1 2 2 0 0]
    """
    check_on_host("kfold", y, key)
    labels = np.asarray(y)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"y has shape {labels.shape} and dtype {labels.dtype}, expected integer labels (n,)"
        )
    check_minus_one(y, None, int(labels.max(initial=-1)) + 1)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint32).ravel())
    if groups is not None:
        return _of_groups(rng, labels, np.asarray(groups), num_folds)
    if num_folds > len(labels):
        raise ValueError(f"num_folds is {num_folds}, expected at most the {len(labels)} rows")
    order = np.lexsort((rng.random(len(labels)), labels))
    found = np.empty(len(labels), np.int32)
    found[order] = rng.permutation(num_folds)[np.arange(len(labels)) % num_folds]
    return found


def _of_groups(
    rng: np.random.Generator, labels: np.ndarray, groups: np.ndarray, num_folds: int
) -> np.ndarray:
    if groups.shape != labels.shape:
        raise ValueError(f"groups has shape {groups.shape}, expected {labels.shape}: one per row")
    num_groups = groups.max() + 1
    if num_folds > num_groups:
        raise ValueError(f"num_folds is {num_folds}, expected at most the {num_groups} groups")
    classes, of_class = np.unique(labels, return_inverse=True)
    count = np.zeros((num_groups, len(classes)))
    np.add.at(count, (groups, of_class), 1)
    share = count / count.sum(0)
    filled, fold = np.zeros((num_folds, share.shape[1])), np.empty(num_groups, np.int32)
    shuffled = rng.permutation(num_groups)
    for group in shuffled[np.argsort(-share[shuffled].sum(1), kind="stable")]:
        # The fold whose sum of squares grows least; empty folds come first.
        growth = np.where(filled.any(1), filled @ share[group] + 1e-9 * filled.sum(1), -1)
        fold[group] = growth.argmin()
        filled[fold[group]] += share[group]
    return fold[groups]


def _pairs(splits: Any, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Splits as pairs of arrays of row indices."""
    try:
        pairs = [(np.asarray(train), np.asarray(test)) for train, test in splits]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is {shown(splits)}, expected pairs (train, test)") from error
    for rows in (rows for pair in pairs for rows in pair):
        integers = not rows.size or np.issubdtype(rows.dtype, np.integer)
        if rows.ndim != 1 or not integers or (rows < 0).any():
            raise ValueError(
                f"{name} holds {shown(rows)}, expected the indices of rows: integers >= 0"
            )
    if not pairs:
        raise ValueError(f"{name} is empty, expected pairs of training and test rows")
    return [(train.astype(int), test.astype(int)) for train, test in pairs]


@checked_arguments(splits=_pairs, num_rows=whole(1, optional=True))
def folds(
    splits: Iterable[tuple[ArrayLike, ArrayLike]], num_rows: int | None = None
) -> Int[np.ndarray, "n"]:
    """The folds of a splitter of scikit-learn, or of any pairs of training and test rows.

    Args:
        splits: pairs of arrays of row indices, (train, test), as `splitter.split(x, y)` yields
            them. Each row is in at most one test set; each training set holds all other rows that
            occur in any set.
        num_rows: n; None if every row is in some set.

    Returns:
        An array of shape (n,): the number of the split that tests the row; -1 for rows that are
        trained on in every split, -2 for rows in none.

    Raises:
        ValueError: a row is tested twice, a training set is not made of all other rows, or rows are
            in no set without `num_rows`.

    Example:
        >>> import numpy as np, genclf as gcf
        >>> from sklearn.model_selection import KFold
        >>> print(gcf.folds(KFold(3).split(np.zeros(6))))
        [0 0 1 1 2 2]
    """
    pairs = list(splits)
    used = np.unique(np.concatenate([rows for pair in pairs for rows in pair]))
    if not len(used):
        raise ValueError("splits hold no rows, expected pairs of training and test rows")
    if num_rows is None and len(used) <= used[-1]:
        raise ValueError(
            f"splits hold row {used[-1]}, but only {len(used)} different rows: give num_rows if "
            "the others are in no split"
        )
    n = len(used) if num_rows is None else num_rows
    if n <= used[-1]:
        raise ValueError(f"num_rows is {num_rows}, but splits hold row {used[-1]}")
    found = np.full(n, UNUSED, np.int32)
    for train, _ in pairs:
        found[train] = ALWAYS_TRAIN
    tested = np.zeros(len(found), bool)
    for fold, (_, test) in enumerate(pairs):
        if tested[test].any():
            row = int(test[tested[test]][0])
            raise ValueError(
                f"splits test row {row} twice, in {found[row]} and {fold}: expected at most once; "
                "for repeated splits make one array for each repetition"
            )
        tested[test], found[test] = True, fold
    for fold, (train, _) in enumerate(pairs):
        others = (found != fold) & (found != UNUSED)
        wrong = np.flatnonzero(others != (np.bincount(train, minlength=len(found)) > 0))
        if len(wrong):
            problem = "lacks" if others[wrong[0]] else "holds"
            raise ValueError(
                f"the training rows of split {fold} are not all others: it {problem} row {wrong[0]}"
            )
    return found


def with_label_and_weight(y: AnyArray, weights: AnyArray | None) -> Bool[np.ndarray, "n"]:
    """The rows that a fit learns from; traced weights are taken to be nonzero."""
    used = np.asarray(y) >= 0 if y.ndim == 1 else (np.asarray(y) != 0).any(-1)
    if weights is not None and readable(weights):
        used = used & (np.asarray(weights) != 0)
    return used


def check_training(
    folds: np.ndarray, y: AnyArray, weights: AnyArray | None, *, num_held_out: int = 1
) -> None:
    """Raise unless rows with a label and a weight remain when any fold, or any two, are held out.

    Traced labels or responsibilities are not checked; traced weights are taken to be nonzero.
    """
    if not readable(y):
        return
    used = with_label_and_weight(y, weights)
    where = np.unique(folds[used & (folds != UNUSED)])
    if ALWAYS_TRAIN not in where and len(where) <= num_held_out:
        which = " and ".join(map(str, where)) or "none"
        raise ValueError(
            f"folds leave nothing to learn from: all rows with a label and a weight are in fold "
            f"{which}, expected some in other folds, or in -1 for every training set"
        )
