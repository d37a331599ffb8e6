"""Data sets of different sizes, padded with rows of weight 0 and stacked in a few shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int, PyTree

from genclf.arguments.arrays import host_numbers
from genclf.arguments.domains import shown
from genclf.classifier.conversion import as_arrays, host_arrays
from genclf.classifier.labels import AnyArray
from genclf.classifier.model import Model
from genclf.classifier.rows import check_rows, check_supervised_rows
from genclf.numerics.sizes import padded_size

if TYPE_CHECKING:
    Datasets: TypeAlias = Iterable[tuple[PyTree, ...]] | tuple[PyTree, ...]
else:  # no check at run time: messages are those of this library
    Datasets = object


class Stack(NamedTuple):
    """Data sets of one shape.

    Attributes:
        indices: the numbers of these data sets, (L,); None if the stack holds all.
        data: the arguments of `fit` after the model: x (M, n, ...), y (M, n) or (M, n, K), and
            weights (M, n) or None; data sets after the first L are copies.
    """

    indices: Int[np.ndarray, "L"] | None
    data: tuple[PyTree, Array, Array | None]


def stacks(
    clf: Model, datasets: Datasets, result: Callable[..., PyTree] | None = None
) -> list[Stack]:
    """The data sets, checked, in a few shapes, so that padding costs at most a third.

    All have one shape if shapes of `result(clf, x, y, weights)` depend on the number of rows.
    """
    given: Any = datasets
    is_tuple = isinstance(given, tuple) and 2 <= len(given) <= 3
    if is_tuple and not isinstance(given[0], tuple | list) and np.ndim(given[1]) >= 2:
        return [_one_stack(clf, *given)]
    given = [_arrays(each, number) for number, each in enumerate(_listed(datasets))]
    for number, (x, y, w) in enumerate(given):
        _check_one(clf, x, y, w, f"datasets[{number}]")
    _check_alike(given)
    padded = np.array([padded_size(len(y)) for _, y, _ in given])
    if result is not None:
        ends = [given[place] for place in (padded.argmin(), padded.argmax())]
        smallest, largest = (jax.eval_shape(result, clf, *one) for one in ends)
        form = lambda tree: (jax.tree.structure(tree), [a.shape for a in jax.tree.leaves(tree)])  # noqa: E731
        if form(smallest) != form(largest):
            padded[:] = padded.max()
    if len({len(y) for _, y, _ in given}) == 1:
        padded[:] = len(given[0][1])
    return [_stack(given, np.flatnonzero(padded == n), int(n)) for n in np.unique(padded)]


def _listed(datasets: Any) -> Sequence[Any]:
    try:
        found = list(datasets)
    except TypeError:
        found = []
    if not found or isinstance(datasets, str | dict):
        raise ValueError(
            f"datasets is {shown(datasets)}, expected a sequence of tuples (x, y) or "
            "(x, y, weights), or one such tuple of arrays with a leading axis"
        )
    return found


def _arrays(given: Any, number: int) -> tuple[PyTree, np.ndarray, np.ndarray | None]:
    """One data set as NumPy arrays."""
    if not isinstance(given, tuple | list) or not 2 <= len(given) <= 3:
        raise ValueError(
            f"datasets[{number}] is {shown(given)}, expected a tuple (x, y) or (x, y, weights)"
        )
    if any(isinstance(a, Tracer) for a in jax.tree.leaves(given)):
        raise ValueError(
            f"datasets[{number}] is traced: data sets of different sizes are packed on the host; "
            "give a tuple of arrays with a leading axis"
        )
    x, y, *rest = given
    name = f"datasets[{number}]: "
    weights = None if not rest or rest[0] is None else host_numbers(rest[0], name + "weights")
    return host_arrays(x, name + "x"), host_numbers(y, name + "y"), weights


def _check_one(
    clf: Model,
    x: PyTree,
    y: AnyArray,
    weights: AnyArray | None,
    name: str,
    check: Callable[..., None] = check_supervised_rows,
) -> None:
    """The checks of `fit`, in messages that name the data set."""
    try:
        check(clf, x, y, weights)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _doubtful(y: np.ndarray, weights: AnyArray | None, num_classes: int) -> np.ndarray:
    """Which data sets have a row without label or weight; y is (M, n), or (M, n, K)."""
    odd: np.ndarray = (y < 0) | (y >= num_classes) if y.ndim == 2 else ~(y != 0).any(-1)
    if weights is not None and not isinstance(weights, Tracer):
        odd = odd | ~(np.abs(weights) >= np.finfo(np.float32).tiny).reshape(odd.shape)
    return np.any(odd, axis=1)


def _check_alike(given: list[tuple]) -> None:
    """Raise unless all data sets have the same features and the same kind of labels."""
    kind = lambda one: jax.tree.map(lambda a: a.shape[1:], one[:2])  # noqa: E731
    first = kind(given[0])
    for number, one in enumerate(given):
        if kind(one) != first:
            raise ValueError(
                f"datasets[{number}] has rows of x and y of the shapes {kind(one)}, expected "
                f"{first}, as datasets[0] has"
            )


def _stack(given: list[tuple], index: np.ndarray, size: int) -> Stack:
    xs, ys, ws = zip(*(given[i] for i in with_copies(index)), strict=True)
    x = as_arrays(jax.tree.map(lambda *a: stacked(a, size), *xs), "x")
    y, weights = as_arrays(stacked(ys, size), "y"), None
    if min(map(len, ys)) < size or any(w is not None for w in ws):
        full = [
            np.ones(len(y), np.float32) if w is None else w for y, w in zip(ys, ws, strict=True)
        ]
        weights = as_arrays(stacked(full, size), "weights")
    return Stack(index, (x, y, weights))


def with_copies(index: Int[np.ndarray, "M"]) -> Int[np.ndarray, "_"]:
    """Up to 1,024 numbers, and copies of the last up to one of few counts, for few programs."""
    count = len(index)
    return index if count > 1024 else np.pad(index, (0, padded_size(count) - count), "edge")


def stacked(arrays: Sequence[np.ndarray], size: int) -> np.ndarray:
    """The arrays stacked as one, each padded with zeros to `size` rows."""
    found = np.zeros((len(arrays), size, *arrays[0].shape[1:]), np.result_type(*arrays))
    for place, a in enumerate(arrays):
        found[place, : len(a)] = a
    return found


def _one_stack(clf: Model, x: PyTree, y: PyTree, weights: PyTree = None) -> Stack:
    x, y = as_arrays(x, "datasets[0]"), as_arrays(y, "datasets[1]")
    weights = None if weights is None else as_arrays(weights, "datasets[2]")
    counts = {a.shape[:1] for a in jax.tree.leaves((x, y, weights))}
    if len(counts) != 1 or not all(min(counts)):
        raise ValueError(
            f"datasets holds arrays with leading axes {sorted(counts)}, expected the "
            "number of data sets for all of them"
        )
    first = jax.tree.map(lambda a: a[0], (x, y, weights))
    _check_one(clf, first[0], first[1], first[2], "datasets", check_rows)
    if not isinstance(y, Tracer):
        labels = np.asarray(y)
        for number in np.flatnonzero(_doubtful(labels, weights, clf.num_classes)):
            rows, w = jax.tree.map(lambda a, number=number: a[number], (x, weights))
            _check_one(clf, rows, labels[number], w, f"datasets, number {number}")
    return Stack(None, (x, y, weights))
