"""A cross-validation, with permutations, at each of many places in the features of the rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.model import Model
from genclf.select.chunks import Progress, Sizes, map_chunk, over_chunks, sizes
from genclf.select.cross_validation import layout
from genclf.select.permutation import (
    AS_GIVEN,
    Data,
    Movable,
    by_refits,
    by_rotations,
    movable_labels,
    observed_score,
    rows_and_labels,
)
from genclf.select.permuted_labels import share_scatters
from genclf.select.score import ScoreFunction

At = Callable[[Model, Any, Any], tuple[Model, Array]]
"""The model and the rows at a place: a function of (clf, x, place)."""


class Shared(NamedTuple):
    """Data that all places share.

    Attributes:
        y: labels, (n,).
        data: weights and folds of the rows; its x is that of all places.
        key: the random key of the permutations; None without permutations.
        numbers: the number for the labels as given, then those of the permutations, (1 + num,).
        labels: the labels to permute; None without permutations.
    """

    y: Int[Array, "n"]
    data: Data
    key: Any
    numbers: Int[Array, "_"]
    labels: Movable | None


class Found(NamedTuple):
    """Scores at all places.

    Attributes:
        observed: the scores of the labels as given, (C,).
        scores: the scores of the labels as given and then of permuted labels, all by one algorithm,
            (C, 1 + num); None without permutations.
    """

    observed: Float[Array, "C"]
    scores: Float[Array, "C _"] | None


def shared_by_places(
    x: Array,
    y: Array,
    folds: np.ndarray,
    weights: Array | None,
    key: Array | None,
    num: int,
    blocks: np.ndarray | None,
    whole: bool,
) -> Shared:
    """The rows, labels, weights and folds, checked; raise if permutations lack a key."""
    w = rows_and_labels(x, y, folds, weights)
    counts = jnp.where(jnp.asarray(folds >= 0), w, 0)
    if num and key is None:
        raise ValueError(f"num is {num}, and key is None: give a jax.random key for permutations")
    if not num and (key is not None or blocks is not None or whole):
        raise ValueError("key, blocks or whole_blocks is given without permutations: give num")
    labels = movable_labels(np.asarray(y), blocks, whole) if num else None
    data = Data(x, w, layout(folds), counts, None)
    return Shared(y, data, key, jnp.arange(AS_GIVEN, num), labels)


def scan(
    at: At,
    function: ScoreFunction,
    clf: Model,
    shared: Shared,
    places: PyTree,
    width: int,
    batch_size: int | None,
    progress: Progress | None,
) -> Found:
    """The scores at all places.

    Args:
        at: the function that returns the model and the rows at a place.
        function: the score.
        clf: the model.
        shared: data that all places share.
        places: the argument of `at` for each place, arrays (C, ...).
        width: number of features at a place.
        batch_size: number of places that a core works on at once; None for a default.
        progress: called with the number of places done and that of all.
    """
    count = len(jax.tree.leaves(places)[0])
    # The permutations at a place are computed as one batch.
    labellings = 0 if shared.labels is None else len(shared.numbers)
    each = len(shared.y) * (width + labellings * clf.num_classes)
    size = sizes(count, jax.ShapeDtypeStruct((count, each), jnp.float32), batch_size, shared)
    where = at, function, clf, shared, places, size
    observed = over_chunks(partial(_observed, *where), count, size.chunk, progress)
    if shared.labels is None:
        return Found(observed, None)
    model, _ = at(clf, shared.data.x, jax.tree.map(lambda a: a[0], places))
    if not share_scatters(model):
        return Found(observed, over_chunks(partial(_refits, *where), count, size.chunk, progress))
    scores, exact = over_chunks(partial(_rotations, *where), count, size.chunk, progress)
    for place in np.flatnonzero(~np.asarray(exact).all(1) & ~np.isnan(np.asarray(observed))):
        again = Sizes(1, 1)
        scores = scores.at[place].set(_refits(*where[:-1], again, jnp.int32(place))[0])
    return Found(observed, scores)


@partial(compiled, static_argnums=(0, 1, 5))
def _observed(
    at: At,
    function: ScoreFunction,
    clf: Model,
    shared: Shared,
    places: PyTree,
    size: Sizes,
    first: Array,
) -> Array:
    def one(place: PyTree) -> Array:
        model, x = at(clf, shared.data.x, place)
        return observed_score(function, 0, model, shared.y, shared.data._replace(x=x))

    return map_chunk(one, places, first, size)


@partial(compiled, static_argnums=(0, 1, 5))
def _refits(
    at: At,
    function: ScoreFunction,
    clf: Model,
    shared: Shared,
    places: PyTree,
    size: Sizes,
    first: Array,
) -> Array:
    def one(place: PyTree) -> Array:
        model, x = at(clf, shared.data.x, place)
        data = shared.data._replace(x=x)
        return by_refits(function, 0, model, shared.key, shared.numbers, shared.labels, data)

    return map_chunk(one, places, first, size)


@partial(compiled, static_argnums=(0, 1, 5))
def _rotations(
    at: At,
    function: ScoreFunction,
    clf: Model,
    shared: Shared,
    places: PyTree,
    size: Sizes,
    first: Array,
) -> tuple[Array, Array]:
    key, numbers, labels = shared.key, shared.numbers, shared.labels

    def one(place: PyTree) -> tuple[Array, Array]:
        model, x = at(clf, shared.data.x, place)
        data = shared.data._replace(x=x)
        return by_rotations(function, 0, len(numbers), model, key, numbers, labels, data)

    return map_chunk(one, places, first, size)
