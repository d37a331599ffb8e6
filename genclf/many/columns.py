"""Searchlights of naive Bayes: every column is scored once, and the scores are added up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from genclf.arguments.sharding import compiled
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.families.base import Family
from genclf.families.combined.independent import Independent
from genclf.families.counts.bernoulli import Bernoulli
from genclf.families.counts.categorical import Categorical
from genclf.families.counts.poisson import Poisson
from genclf.families.gaussian.gaussian import Gaussian
from genclf.many.scan import PlaceScores, Scan
from genclf.numerics import loops
from genclf.select.chunks import over_chunks, sizes
from genclf.select.cross_validation import has_statistics, held_out_scores
from genclf.select.data import Data
from genclf.select.labellings import Permutations, labelling
from genclf.select.score import ScoreFunction, score_of

_TOGETHER = 2**18  # number of array elements in the scores of one batch of neighbourhoods


def of_one_column(family: Family) -> Family | None:
    """The family of one column, if columns are independent in each class and fitted separately."""
    if isinstance(family, Independent):
        return family.family
    if getattr(family, "prior", None) is not None:
        return None
    if isinstance(family, Gaussian):
        couples = family.shrinkage is not None or family.soft_threshold is not None
        return family if family.arithmetic.is_product and not couples else None
    if isinstance(family, Categorical):
        return family if isinstance(family.num_values, int) else None
    return family if isinstance(family, Bernoulli | Poisson) else None


def scan_columns(given: Scan, index: Int[np.ndarray, "C m"]) -> PlaceScores | None:
    """The scores at all places; None unless the model is naive Bayes of its columns."""
    function, clf, data, permuted, _, progress = given
    column = of_one_column(clf.family)
    if column is None or any(np.ndim(leaf) for leaf in jax.tree.leaves(clf.family)):
        return None
    clf = replace(clf, family=Independent(column))
    if not has_statistics(clf, data.x):
        return None
    places = jnp.asarray(np.where(index < 0, data.x.shape[1], index))
    observed = _scores(function, clf, data, places)
    if permuted is None:
        return PlaceScores(observed, None)
    num = len(permuted.numbers)
    size = sizes(num, jax.ShapeDtypeStruct((num, 1), jnp.float32), 1)
    of_chunk = partial(_permuted, function, clf, data, places, permuted, size.chunk)
    return PlaceScores(observed, over_chunks(of_chunk, num, size.chunk, progress).T)


@partial(compiled, static_argnums=(0, 5))
def _permuted(
    function: ScoreFunction,
    clf: Classifier,
    data: Data,
    places: Array,
    permuted: Permutations,
    size: int,
    first: Array,
) -> Array:
    def one(number: Array) -> Array:
        y = labelling(permuted.key, number, permuted.labels)
        return _scores(function, clf, data._replace(y=y), places)

    return loops.mapped(one, lax.dynamic_slice_in_dim(permuted.numbers, first, size))


@partial(compiled, static_argnums=0)
def _scores(
    function: ScoreFunction, clf: Classifier, data: Data, places: Int[Array, "C m"]
) -> Float[Array, "C"]:
    y, counts = data.y, data.counts
    n, (num_places, m) = len(y), places.shape

    def of_columns(params: ClassifierParams, x: Array) -> Array:
        density = params.conditional
        columns = density.map(lambda part, x: part.log_prob(x), density.split(x))
        prior = jnp.broadcast_to(params.log_prior, (1, *columns.shape[1:]))
        table = jnp.concatenate([columns, jnp.zeros_like(prior), prior])
        return jnp.moveaxis(table, 1, 0).reshape(len(x), -1)

    found, _ = held_out_scores(clf, data, of_columns)
    table = jnp.moveaxis(data.in_row_order(found).reshape(n, -1, clf.num_classes), 1, 0)
    log_prior = table[-1]

    def one(place: Array) -> Array:
        joint = table[place].sum(0)
        never = jnp.isneginf(log_prior)
        joint = jnp.where(never, -jnp.inf, joint + jnp.where(never, 0, log_prior))
        return score_of(function, 0, jax.nn.log_softmax(joint), y, counts, None)

    together = max(1, _TOGETHER // (n * m * clf.num_classes))
    return loops.mapped(one, places, batch_size=min(together, num_places))
