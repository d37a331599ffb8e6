"""Posteriors under a candidate, by fits without one fold and by fits without two folds."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.classifier import Classifier, ClassifierStats
from genclf.classifier.estimation import estimated
from genclf.classifier.model import Model
from genclf.classifier.scores import log_posteriors
from genclf.numerics import loops
from genclf.select.cross_validation import (
    FoldStatistics,
    fold_statistics,
    others,
    posteriors_of_folds,
    scores_by_others,
)
from genclf.select.data import Data
from genclf.sums.merging import merged


class TrainingStatistics(NamedTuple):
    """Statistics of all rows but those of one fold, and of all rows but those of two folds.

    Attributes:
        folds: the rows of the folds.
        without: for each fold, two statistics whose sum is that of all other folds.
        pairs: the pairs of folds, (F (F - 1) / 2, 2); None unless nested.
        without_pairs: for each pair, two statistics whose sum is that of all folds outside it.
    """

    folds: FoldStatistics
    without: tuple[ClassifierStats, ClassifierStats]
    pairs: Int[Array, "pairs 2"] | None
    without_pairs: Any


@partial(compiled, static_argnums=2)
def statistics_of(clf: Classifier, data: Data, nested: bool) -> TrainingStatistics:
    """The statistics of all fits: of all folds but one and, if nested, of all folds but two."""
    found = fold_statistics(clf, data)
    without = others(found.shared, found.each)
    if not nested:
        return TrainingStatistics(found, without, None, None)
    num_folds = len(data.rows)
    index = jnp.arange(num_folds, dtype=jnp.int32)

    def without_two(fold: Array) -> PyTree:
        rest = jax.tree.map(  # zeros are the statistics of no rows
            lambda a: jnp.where((index == fold).reshape(-1, *[1] * (a.ndim - 1)), 0, a), found.each
        )
        return others(found.shared, rest)

    every = loops.mapped(without_two, index)
    i, j = np.triu_indices(num_folds, 1)
    pairs = jax.tree.map(lambda a: a[i, j], every)
    return TrainingStatistics(found, without, jnp.stack([jnp.asarray(i), jnp.asarray(j)], 1), pairs)


def posteriors(clf: Any, data: Data, sums: TrainingStatistics | None) -> Float[Array, "n K"]:
    """Log-posteriors of the rows of each fold, by a fit to the others."""
    if sums is None:
        return posteriors_of_folds(clf, data)[0]
    found, _ = scores_by_others(clf, sums.folds.rows, sums.without, log_posteriors)
    return data.in_row_order(found)


def posteriors_within(
    clf: Model, data: Data, sums: TrainingStatistics | None
) -> Float[Array, "F n K"]:
    """For each fold, the log-posteriors of the rows of all others, by fits without both folds."""
    if sums is None:
        return data.each_fold(lambda w, _: posteriors_of_folds(clf, data._replace(w=w))[0])

    def one(both: tuple[PyTree, Array]) -> Array:
        rows = jax.tree.map(lambda a: a[both[1]], sums.folds.rows)
        params = estimated(clf, merged(*both[0]))
        return loops.mapped(lambda x: log_posteriors(params, x), rows)

    pairs: Any = sums.pairs
    found = loops.mapped(one, (sums.without_pairs, pairs))
    table = jnp.full((len(data.rows), len(data.y), found.shape[-1]), jnp.nan, found.dtype)
    i, j = pairs[:, 0], pairs[:, 1]
    # The fit excludes both folds; the scores of each help to choose the candidate for the other.
    table = table.at[i[:, None], data.rows[j]].set(found[:, 1], mode="drop")
    return table.at[j[:, None], data.rows[i]].set(found[:, 0], mode="drop")
