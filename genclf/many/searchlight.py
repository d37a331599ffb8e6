"""Searchlights: a cross-validated score of every neighbourhood of features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier
from genclf.classifier.conversion import float_dtype
from genclf.classifier.model import Model
from genclf.families.gaussian.padded import PaddedGaussian, can_pad
from genclf.many.columns import scan_columns
from genclf.many.neighbours import Neighbours, padded_index
from genclf.many.places import (
    CHECKS,
    Searchlight,
    check_width,
    require_values,
    result_of,
    times_first,
)
from genclf.many.scan import PlaceScores, Scan, scan
from genclf.select.chunks import Progress, in_order
from genclf.select.data import labelled_data
from genclf.select.labellings import permutations_of
from genclf.select.score import Score, ScoreFunction, number_function
from genclf.select.splits import FoldsOrPairs

_MORE = 3  # columns that cost less than loops over rows whose length is no multiple of a vector's


@checked_arguments(
    any_model=True, labels="supervised", all_features=False, neighbours=None, **CHECKS
)
def searchlight(
    clf: Model,
    x: Shaped[ArrayLike, "n D"],
    y: ArrayLike,
    neighbours: Neighbours,
    folds: FoldsOrPairs,
    metric: Score | ScoreFunction = "balanced_accuracy",
    *,
    test_on: ArrayLike | None = None,
    num: int = 0,
    key: Array | None = None,
    blocks: ArrayLike | None = None,
    whole_blocks: bool = False,
    weights: ArrayLike | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Searchlight:
    """Cross-validate a model on every neighbourhood of features, optionally with permutations.

    Each score is that of `cross_validate` with the features of the neighbourhood alone. Gaussians
    are padded to the largest neighbourhood with columns without effect. Naive Bayes fits every
    feature once and adds up the scores of features. Other models are compiled for each number of
    features; a structure has to fit each neighbourhood. Linear discriminants are not refitted to
    permuted labels; see `permutation_test`.

    Args:
        clf: the model, a `Classifier` or `SoftmaxRegression`.
        x: rows, (n, D).
        y: labels 0..K-1 of all rows, (n,).
        neighbours: the features of each place: C sequences of column numbers, as
            `scipy.spatial.KDTree.query_ball_point` returns them; or a (C, D) matrix, sparse or
            boolean, that is nonzero at the neighbours, as scikit-learn's
            `radius_neighbors_graph` returns it.
        folds: the fold of each row, as for `cross_validate`.
        metric: a name or a function, as for `score`; larger values of a function are better.
        test_on: which rows are tested, a mask (n,), as for `permutation_test`; None: all.
        num: number of permutations; 0 for scores alone.
        key: a `jax.random` key, for permutations.
        blocks: the block of each row, (n,), as for `permutation_test`; labels are permuted within
            blocks only.
        whole_blocks: permute the labels of whole blocks instead; each block must have one label.
        weights: weight of each row in fits and scores, >= 0, (n,); None for ones.
        batch_size: number of places that a core works on at once; None for a default.
        progress: called from time to time with the number of places done and the total.

    Returns:
        `Searchlight`.

    Raises:
        ValueError: a shape is wrong, a neighbourhood is empty or has a column number out of
            range, or permutations lack a key.

    Example:
        >>> import jax, numpy as np, genclf as gcf
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(60) % 2
        >>> x = rng.normal(size=(60, 9))
        >>> x[:, 3:6] += y[:, None]  # the signal
        >>> neighbours = [[j for j in (i - 1, i, i + 1) if 0 <= j < 9] for i in range(9)]
        >>> folds = gcf.kfold(jax.random.key(0), y, 6)
        >>> found = gcf.searchlight(
        ...     gcf.lda(2, shrinkage=0.1), x, y, neighbours, folds, num=99, key=jax.random.key(1)
        ... )
        >>> print(np.flatnonzero(found.score > 0.7), np.flatnonzero(found.p_corrected < 0.05))
        [2 3 4 5] [2 3 4 5]

    References:
        Kriegeskorte, Goebel & Bandettini (2006), "Information-based functional brain mapping";
        Nichols & Holmes (2002), "Nonparametric permutation tests for functional neuroimaging".
    """
    require_values(clf, x, y, weights)
    index = padded_index(neighbours, x.shape[1])
    sizes = (index >= 0).sum(1)
    for size in np.unique(sizes):
        check_width(clf, int(size), f"neighbours[{np.argmax(sizes == size)}]")
    data = labelled_data(x, y, folds, weights, test_on)
    function = number_function(metric, clf.num_classes, data)
    permuted = permutations_of(y, key, num, blocks, whole_blocks, test_on)
    given = Scan(function, clf, data, permuted, batch_size, progress)
    return result_of(scan_neighbourhoods(given, index), metric)


@checked_arguments(any_model=True, x=None, **CHECKS)
def sliding(
    clf: Model,
    x: Shaped[ArrayLike, "n d T"],
    y: ArrayLike,
    folds: FoldsOrPairs,
    metric: Score | ScoreFunction = "balanced_accuracy",
    *,
    test_on: ArrayLike | None = None,
    num: int = 0,
    key: Array | None = None,
    blocks: ArrayLike | None = None,
    whole_blocks: bool = False,
    weights: ArrayLike | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Searchlight:
    """Cross-validate a model at every time, on the features of that time alone.

    Args:
        clf: the model, a `Classifier` or `SoftmaxRegression`.
        x: d features of n rows at T times, (n, d, T), such as sensors of a recording; the order of
            axes of `Epochs.get_data()` in MNE.
        y: labels 0..K-1 of all rows, (n,).
        folds: the fold of each row, as for `cross_validate`.
        metric: a name or a function, as for `score`; larger values of a function are better.
        test_on: which rows are tested, a mask (n,), as for `permutation_test`; None: all.
        num: number of permutations; 0 for scores alone.
        key: a `jax.random` key, for permutations.
        blocks: the block of each row, (n,), as for `permutation_test`; labels are permuted within
            blocks only.
        whole_blocks: permute the labels of whole blocks instead; each block must have one label.
        weights: weight of each row in fits and scores, >= 0, (n,); None for ones.
        batch_size: number of times that a core works on at once; None for a default.
        progress: called with the number of times done and the total.

    Returns:
        `Searchlight`, whose places are the times.

    Raises:
        ValueError: a shape is wrong, or permutations lack a key.

    Example:
        >>> import jax, numpy as np, genclf as gcf
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(80) % 2
        >>> x = rng.normal(size=(80, 3, 5))
        >>> x[:, :, 2] += y[:, None]  # the classes differ at the third time
        >>> folds = gcf.kfold(jax.random.key(0), y, 5)
        >>> print(gcf.sliding(gcf.lda(2), x, y, folds).score.round(1))
        [0.5 0.5 0.8 0.5 0.5]

    References:
        King & Dehaene (2014), "Characterizing the dynamics of mental representations".
    """
    x = times_first(clf, x, y, weights)
    data = labelled_data(x, y, folds, weights, test_on)
    function = number_function(metric, clf.num_classes, data)
    permuted = permutations_of(y, key, num, blocks, whole_blocks, test_on)
    given = Scan(function, clf, data, permuted, batch_size, progress)
    return result_of(scan(given, _at_time, np.arange(len(x)), x.shape[2]), metric)


def scan_neighbourhoods(given: Scan, index: np.ndarray) -> PlaceScores:
    """The scores of all neighbourhoods, given by columns that are padded with -1."""
    clf = given.clf
    if isinstance(clf, Classifier) and clf.inference != "predictive":
        if (found := scan_columns(given, index)) is not None:
            return found
        if can_pad(clf.family):
            more = -index.shape[1] % (8 if index.shape[1] < 8 else 16)
            if more <= _MORE:
                index = np.pad(index, [(0, 0), (0, more)], constant_values=-1)
            return scan(given, _padded, index, index.shape[1])
    sizes = (index >= 0).sum(1)
    parts, order = [], []
    for size in np.unique(sizes):
        places = np.flatnonzero(sizes == size)
        parts.append(scan(given, _chosen, index[places, :size], int(size)))
        order.append(places)
    return in_order(parts, order)


def _at_time(clf: Model, x: Array, time: Array) -> tuple[Model, Array]:
    return clf, x[time]


def _chosen(clf: Model, x: Array, columns: Array) -> tuple[Model, Array]:
    return clf, x[:, columns]


def _padded(clf: Any, x: Array, columns: Array) -> tuple[Model, Array]:
    used = columns >= 0
    rows = jnp.where(used[None], x[:, columns], 0).astype(float_dtype(x))
    return replace(clf, family=PaddedGaussian(clf.family, used.sum(dtype=jnp.int32))), rows
