"""Scores at many places, with p-values, and the checks of the functions that compute them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from genclf.arguments.domains import FLAG, whole
from genclf.arguments.reprs import ShowsNumbers
from genclf.classifier.checked_arguments import ArrayLike, optional_key
from genclf.classifier.model import Model
from genclf.classifier.rows import check_supervised_rows
from genclf.many.scan import PlaceScores
from genclf.select.chunks import PROGRESS
from genclf.select.groups import groups_of_rows
from genclf.select.permutation import lower_is_better, p_values
from genclf.select.score import Score, ScoreFunction
from genclf.select.splits import checked_mask, folds_or_pairs

CHECKS: dict[str, Any] = {
    "folds": folds_or_pairs,
    "test_on": checked_mask,
    "blocks": groups_of_rows,
    "num": whole(0),
    "key": optional_key,
    "whole_blocks": FLAG,
    "progress": PROGRESS,
}


class Searchlight(ShowsNumbers):
    """Cross-validated scores at C places, from `searchlight` or `sliding`; see `generalise`, too.

    Attributes:
        score: the score at each place, (C,), or at each pair of times, (T, T); NaN where a cell is
            invalid or the score does not exist. As in `fit`, constant features do not affect the
            posterior, and `diagnose` finds singular covariances.
        p_value: `(b + 1) / (num + 1)`, where b is the number of permutations whose score at that
            place is at least as good, (C,) or (T, T); None without permutations.
        p_corrected: the family-wise p-value: the same, where b counts the permutations whose best
            score over all places is at least as good, (C,) or (T, T).
        null: the scores of permuted labels, (num, C) or (num, T, T); each permutation is the same
            at all places.
    """

    score: Float[Array, "*places"]
    p_value: Float[Array, "*places"] | None
    p_corrected: Float[Array, "*places"] | None
    null: Float[Array, "num *places"] | None


def times_first(
    clf: Model, x: ArrayLike, y: ArrayLike, weights: ArrayLike | None
) -> Float[Array, "T n d"]:
    """The rows of each time; raise unless they are rows of the model at all times."""
    if np.ndim(x) != 3 or not np.shape(x)[2]:
        raise ValueError(f"x has shape {np.shape(x)}, expected (n, d, T): d features at T times")
    found = jnp.moveaxis(jnp.asarray(x), -1, 0)
    check_supervised_rows(clf, found[0], y, weights)
    check_width(clf, found.shape[2], "each time")
    require_values(clf, found, y, weights)
    return found


def check_width(clf: Model, d: int, where: str) -> None:
    """Raise if the model cannot be one of d features, which a place has."""
    if wrong := clf.problems(d):
        raise ValueError(f"{where} has {d} features: {'; '.join(wrong)}")


def require_values(*given: PyTree) -> None:
    """Raise for traced arguments."""
    if any(isinstance(a, Tracer) for a in jax.tree.leaves(given)):
        raise ValueError("x, y, weights and clf are read on the host: call it outside jit and vmap")


def result_of(found: PlaceScores, metric: Score | ScoreFunction) -> Searchlight:
    """The scores, with p-values of each place and of the best of all."""
    if found.scores is None:
        return Searchlight(found.observed, None, None, None)
    observed, null = found.scores[:, 0], jnp.moveaxis(found.scores[:, 1:], 1, 0)
    places = tuple(range(1, null.ndim))
    best = (jnp.nanmin if lower_is_better(metric) else jnp.nanmax)(null, places, keepdims=True)
    every = jnp.broadcast_to(best, null.shape)
    return Searchlight(
        found.observed, p_values(observed, null, metric), p_values(observed, every, metric), null
    )
