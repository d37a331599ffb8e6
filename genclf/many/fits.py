"""One model fitted to many data sets, and the predictions of these fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, overload

import jax
import numpy as np
from jaxtyping import Array, Int, PyTree

from genclf.arguments.domains import shown
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.conversion import as_arrays
from genclf.classifier.diagnosis import Diagnosis, diagnosed
from genclf.classifier.estimation import estimate, sums
from genclf.classifier.model import Fitted, Model, check_hyperparameters
from genclf.classifier.rows import check_examples
from genclf.classifier.scores import predictions
from genclf.fitting.fit import fitted
from genclf.fitting.softmax import SoftmaxParams, SoftmaxRegression
from genclf.many.packing import Datasets, Stack, stacked, stacks, with_copies
from genclf.numerics import loops
from genclf.numerics.members import ITERATED
from genclf.numerics.sizes import padded_size
from genclf.select.chunks import PROGRESS, Progress, Sizes, in_order, map_chunk, over_chunks, sizes
from genclf.select.cross_validation import has_statistics


@overload
def fit_many(
    clf: Classifier,
    datasets: Datasets,
    *,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> ClassifierParams: ...
@overload
def fit_many(
    clf: SoftmaxRegression,
    datasets: Datasets,
    *,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> SoftmaxParams: ...


@checked_arguments(any_model=True, progress=PROGRESS)
def fit_many(
    clf: Model,
    datasets: Datasets,
    *,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Fitted:
    """Fit one model to each of many data sets.

    Data sets of different sizes are padded with rows of weight 0 to a few shapes, or to one shape
    if params hold rows, as those of kernel densities do. The params of a data set with an invalid
    cell are NaN, and those of the others do not change. As in `fit`, `Gaussian` documents the
    result where a direction has no variance; `diagnose_many` finds the data sets with such
    directions.

    Args:
        clf: the model, a `Classifier` or `SoftmaxRegression`.
        datasets: tuples (x, y) or (x, y, weights), as for `fit`; or one such tuple of arrays with a
            leading axis: x (M, n, d), y (M, n), weights (M, n).
        batch_size: number of data sets that a core works on at once; by default (None), few enough
            to stay in its cache.
        progress: called from time to time with the number of fits done and the total.

    Returns:
        Params with a leading axis, in the order of the data sets, as `jax.vmap` of `fit` returns.

    Raises:
        ValueError: a shape, dtype or label of a data set is wrong, or none of its rows has both a
            label and a weight; the message names the data set.

    Example:
        >>> import numpy as np, genclf as gcf
        >>> rng = np.random.default_rng(0)
        >>> sizes = [20, 50, 35]
        >>> datasets = [(rng.normal(size=(n, 2)), np.arange(n) % 3) for n in sizes]
        >>> params = gcf.fit_many(gcf.lda(3), datasets)
        >>> print(params.conditional.mean.shape)
        (3, 3, 2)
    """
    packed = stacks(clf, datasets, fitted)
    return _of_stacks(_fits, clf, packed, batch_size, progress)


@checked_arguments(progress=PROGRESS)
def diagnose_many(
    clf: Model,
    datasets: Datasets,
    *,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """`diagnose` for each of many data sets: whether the fit is invalid or doubtful, and why.

    Args:
        clf: the model, a `Classifier`.
        datasets: as for `fit_many`.
        batch_size: number of data sets that a core works on at once; None for a default.
        progress: called from time to time with the number of data sets done and the total.

    Returns:
        `Diagnosis` with a leading axis, in the order of the data sets.

    Raises:
        ValueError: a shape, dtype or label of a data set is wrong; the message names it.

    Example:
        >>> import numpy as np, genclf as gcf
        >>> y = np.array([0, 0, 0, 1, 1, 1])
        >>> datasets = [(np.arange(12.0).reshape(6, 2) ** power, y) for power in (1, 2)]
        >>> found = gcf.diagnose_many(gcf.lda(2), datasets)
        >>> print(found.conditional.rank.tolist(), np.flatnonzero(found.degenerate))
        [[1, 1], [2, 2]] [0]
    """
    packed = stacks(clf, datasets)
    return _of_stacks(partial(_mapped, diagnosed), clf, packed, batch_size, progress)


@checked_arguments(any_model=True, params=None, x=None)
def predict_many(
    params: Fitted, x: Any, *, batch_size: int | None = None
) -> Array | list[np.ndarray]:
    """The most probable class of each row of each data set, by the fit to that data set.

    Args:
        params: M fits, as `fit_many` returns them.
        x: rows, one array (M, n, d); or a sequence of M arrays.
        batch_size: number of data sets that a core works on at once; None for a default.

    Returns:
        int32 of shape (M, n), or a list of M arrays; -1 where the posterior is NaN.

    Raises:
        ValueError: the number of arrays is not that of the fits, or a shape is wrong.

    Example:
        >>> import numpy as np, genclf as gcf
        >>> x = np.array([[[0.0], [1.0], [5.0]], [[5.0], [4.0], [0.0]]])
        >>> y = np.array([[0, 0, 1], [0, 0, 1]])
        >>> params = gcf.fit_many(gcf.lda(2), (x, y))
        >>> print(gcf.predict_many(params, x))
        [[0 0 1]
         [0 0 1]]
    """
    if not isinstance(params, Fitted) or len(params.batch_shape) != 1:
        raise ValueError(f"params are {shown(params)}, expected the result of fit_many")
    count = params.batch_shape[0]
    if isinstance(x, list | tuple):
        return _predict_each(params, x, count, batch_size)
    x = as_arrays(x, "x")
    if {(a.shape[:1], a.ndim) for a in jax.tree.leaves(x)} != {((count,), 3)}:
        raise ValueError(
            f"x has shape {jax.tree.map(np.shape, x)}, expected ({count}, n, d): rows for each of "
            f"the {count} fits"
        )
    check_examples(params, x)
    size = sizes(count, x, batch_size, params)
    of_chunk = lambda first: _of_members(predictions, (), (params, x), first, size)  # noqa: E731
    return over_chunks(of_chunk, count, size.chunk)


def _fits(clf: Model, stack: Stack, batch_size: int | None, progress: Any) -> PyTree:
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), stack.data[0])
    if not has_statistics(clf, one):
        return _mapped(fitted, clf, stack, batch_size or ITERATED, progress)

    def estimates(first: Array, size: Sizes) -> PyTree:
        # Two programs: in a single one, XLA would recompute the statistics wherever they are used.
        return _estimates(clf, _of_members(sums, (clf,), stack.data, first, size), size)

    return _over_stack(estimates, clf, stack, batch_size, progress)


def _mapped(function: Callable[..., PyTree], clf: Model, stack: Stack, *how: Any) -> PyTree:
    return _over_stack(partial(_of_members, function, (clf,), stack.data), clf, stack, *how)


def _over_stack(
    of_chunk: Callable[..., PyTree], clf: Model, stack: Stack, batch_size: int | None, progress: Any
) -> PyTree:
    """The results for all data sets of a stack."""
    padded = len(stack.data[1])
    size = sizes(padded, stack.data, batch_size, clf)
    count = padded if stack.indices is None else len(stack.indices)
    return over_chunks(lambda first: of_chunk(first, size), count, size.chunk, progress)


@partial(compiled, static_argnums=(0, 4), fast_compile=2**14)
def _of_members(
    function: Callable[..., PyTree], shared: tuple, data: PyTree, first: Array, size: Sizes
) -> PyTree:
    """`function(*shared, *member)` for the data of each member of a chunk."""
    return map_chunk(lambda one: function(*shared, *one), data, first, size)


@partial(compiled, static_argnums=2, fast_compile=2**14)
def _estimates(clf: Classifier, found: PyTree, size: Sizes) -> PyTree:
    return loops.mapped(partial(estimate, clf), found, batch_size=size.batch)


def _of_stacks(of_stack: Callable[..., PyTree], clf: Model, packed: list[Stack], *how: Any) -> Any:
    """The results of all stacks, in the order of the data sets."""
    clf = check_hyperparameters(clf, jax.tree.map(lambda a: a.shape[-1], packed[0].data[0]))
    found = [of_stack(clf, stack, *how) for stack in packed]
    if packed[0].indices is None:
        return found[0]
    return in_order(found, [stack.indices for stack in packed if stack.indices is not None])


def _predict_each(
    params: Fitted, x: list | tuple, count: int, batch_size: int | None
) -> list[Int[np.ndarray, "n"]]:
    if len(x) != count:
        raise ValueError(f"x holds {len(x)} arrays, expected {count}: rows for each of the fits")
    given = [jax.tree.map(np.asarray, rows) for rows in x]
    for i, rows in enumerate(given):
        if any(a.ndim != 2 for a in jax.tree.leaves(rows)):
            raise ValueError(f"x[{i}] has shape {jax.tree.map(np.shape, rows)}, expected (n, d)")
        check_examples(params, rows, f"x[{i}]")
    lengths = [len(jax.tree.leaves(rows)[0]) for rows in given]
    padded = np.array([padded_size(length) for length in lengths])
    found: dict[int, np.ndarray] = {}
    for size in map(int, np.unique(padded)):
        index = with_copies(np.flatnonzero(padded == size))
        rows = jax.tree.map(lambda *a, size=size: stacked(a, size), *(given[i] for i in index))
        chosen = jax.tree.map(lambda a, index=index: a[index], params)
        labels = np.asarray(predict_many(chosen, rows, batch_size=batch_size))
        found |= {i: label[: lengths[i]] for i, label in zip(index, labels, strict=True)}
    return [found[i] for i in range(count)]
