"""A cross-validation, with permutations, at each of many places in the features of the rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.model import Model
from genclf.numerics.sizes import padded_size
from genclf.select.chunks import Progress, Sizes, map_chunk, over_chunks, sizes
from genclf.select.data import Data
from genclf.select.labellings import Permutations
from genclf.select.permutation import by_refits, by_rotations, observed_score
from genclf.select.permuted_labels import share_scatters
from genclf.select.score import ScoreFunction

At = Callable[[Model, Any, Any], tuple[Model, Array]]
"""A function of (clf, x, place) that returns the model and the rows of that place."""


class PlaceScores(NamedTuple):
    """Scores at all places.

    Attributes:
        observed: the scores of the labels as given, (C,), or several at each place, (C, T).
        scores: the scores of the labels as given and then of permuted labels, all by one algorithm,
            (C, 1 + num) or (C, 1 + num, T); None without permutations.
    """

    observed: Float[Array, "C *T"]
    scores: Float[Array, "C _ *T"] | None


class Scan(NamedTuple):
    """What is scored at every place.

    Attributes:
        function: the score.
        clf: the model.
        data: rows, labels, weights and folds; its x is that of all places.
        permuted: the permutations of the labels; None without.
        batch_size: number of places that a core works on at once; None for a default.
        progress: called with the number of places done and the total.
    """

    function: ScoreFunction
    clf: Any
    data: Data
    permuted: Permutations | None
    batch_size: int | None = None
    progress: Progress | None = None


def scan(given: Scan, at: At, places: PyTree, width: int) -> PlaceScores:
    """The scores at all places.

    Args:
        given: what is scored.
        at: the function that returns the model and the rows at a place.
        places: the argument of `at` for each place, NumPy arrays (C, ...).
        width: number of features at a place.
    """
    clf, data, permuted = given.clf, given.data, given.permuted
    # The permutations at a place are computed as one batch.
    labellings = 0 if permuted is None else len(permuted.numbers)
    each = len(data.y) * (width + labellings * clf.num_classes)
    run = partial(at_all_places, given, at, places, each)
    observed = run(observed_score)
    if permuted is None:
        return PlaceScores(observed, None)
    if not share_scatters(*at(clf, data.x, jax.tree.map(lambda a: jnp.asarray(a[0]), places))):
        return PlaceScores(observed, run(by_refits, permuted))
    scores, exact = run(by_rotations, permuted)
    where = clf, data, places, (permuted,)
    again = partial(_at_places, at, given.function, by_refits, Sizes(1, 1), *where)
    for place in np.flatnonzero(~np.asarray(exact).all(1) & ~np.isnan(np.asarray(observed))):
        scores = scores.at[place].set(again(jnp.int32(place))[0])
    return PlaceScores(observed, scores)


def at_all_places(
    given: Scan,
    at: At,
    places: PyTree,
    each: int,
    scores: Callable[..., PyTree],
    *permuted: Permutations,
) -> PyTree:
    """`scores` at all places, with about `each` numbers in memory at a place."""
    count = len(jax.tree.leaves(places)[0])
    number = np.minimum(np.arange(padded_size(count)), count - 1)  # few sizes, for few programs
    stacked = jax.ShapeDtypeStruct((len(number), each), jnp.float32)
    size = sizes(len(number), stacked, given.batch_size, (given.data, permuted))
    where = given.clf, given.data, jax.tree.map(lambda a: jnp.asarray(a[number]), places), permuted
    of_chunk = partial(_at_places, at, given.function, scores, size, *where)
    return over_chunks(of_chunk, count, size.chunk, given.progress)


@partial(compiled, static_argnums=(0, 1, 2, 3))
def _at_places(
    at: At,
    function: ScoreFunction,
    scores: Callable[..., PyTree],
    size: Sizes,
    clf: Model,
    data: Data,
    places: PyTree,
    permuted: tuple[Permutations, ...],
    first: Array,
) -> PyTree:
    """The scores at each place of a chunk, of the labels as given or of permuted ones."""

    def one(place: PyTree) -> PyTree:
        model, x = at(clf, data.x, place)
        return scores(function, 0, model, data._replace(x=x), *permuted)

    return map_chunk(one, places, first, size)
