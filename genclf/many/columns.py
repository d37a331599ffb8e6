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
from genclf.many.scan import Found, Shared
from genclf.select.chunks import Progress, over_chunks, sizes
from genclf.select.cross_validation import each_by_others, has_statistics, in_row_order
from genclf.select.permutation import labelling
from genclf.select.score import ScoreFunction, score_of

_TOGETHER = 2**18  # numbers in the scores of places that are computed together


def of_one_column(family: Family) -> Family | None:
    """The family of one column, if columns are independent given the class and fitted alone."""
    if isinstance(family, Independent):
        return family.family
    if getattr(family, "prior", None) is not None:
        return None
    if isinstance(family, Gaussian):
        couples = family.shrinkage is not None or family.soft_threshold is not None
        return family if family.structure.is_product and not couples else None
    if isinstance(family, Categorical):
        return family if isinstance(family.num_values, int) else None
    return family if isinstance(family, Bernoulli | Poisson) else None


def scan_columns(
    clf: Classifier,
    function: ScoreFunction,
    shared: Shared,
    index: Int[np.ndarray, "C m"],
    progress: Progress | None,
) -> Found | None:
    """The scores at all places; None unless the model is naive Bayes of its columns."""
    column = of_one_column(clf.family)
    if column is None or any(np.ndim(leaf) for leaf in jax.tree.leaves(clf.family)):
        return None
    clf = replace(clf, family=Independent(column))
    if not has_statistics(clf, shared.data.x):
        return None
    places = jnp.asarray(np.where(index < 0, shared.data.x.shape[1], index))
    observed = _observed(function, clf, shared, places)
    if shared.labels is None:
        return Found(observed, None)
    num = len(shared.numbers)
    size = sizes(num, jax.ShapeDtypeStruct((num, 1), jnp.float32), 1)
    of_chunk = partial(_permuted, function, clf, shared, places, size.chunk)
    return Found(observed, over_chunks(of_chunk, num, size.chunk, progress).T)


@partial(compiled, static_argnums=0)
def _observed(function: ScoreFunction, clf: Classifier, shared: Shared, places: Array) -> Array:
    return _scores(function, clf, shared, places, shared.y)


@partial(compiled, static_argnums=(0, 4))
def _permuted(
    function: ScoreFunction, clf: Classifier, shared: Shared, places: Array, size: int, first: Array
) -> Array:
    assert shared.labels is not None
    labels = shared.labels

    def one(number: Array) -> Array:
        y = labelling(shared.key, number, labels)
        return _scores(function, clf, shared, places, y)

    return lax.map(one, lax.dynamic_slice_in_dim(shared.numbers, first, size))


def _scores(
    function: ScoreFunction, clf: Classifier, shared: Shared, places: Int[Array, "C m"], y: Array
) -> Float[Array, "C"]:
    x, w, where, counts, _ = shared.data
    n, (num_places, m) = len(y), places.shape

    def of_columns(params: ClassifierParams, x: Array) -> Array:
        density = params.conditional
        columns = density.map(lambda part, x: part.log_prob(x), density.split(x))
        prior = jnp.broadcast_to(params.log_prior, (1, *columns.shape[1:]))
        table = jnp.concatenate([columns, jnp.zeros_like(prior), prior])
        return jnp.moveaxis(table, 1, 0).reshape(len(x), -1)

    found, _ = each_by_others(clf, x, y, w, where, of_columns)
    table = in_row_order(found, where.rows, n).reshape(n, -1, clf.num_classes)
    table = jnp.moveaxis(table, 1, 0)
    log_prior = table[-1]

    def one(place: Array) -> Array:
        joint = table[place].sum(0)
        never = jnp.isneginf(log_prior)
        joint = jnp.where(never, -jnp.inf, joint + jnp.where(never, 0, log_prior))
        return score_of(function, 0, jax.nn.log_softmax(joint), y, counts, None)

    together = max(1, _TOGETHER // (n * m * clf.num_classes))
    return lax.map(one, places, batch_size=min(together, num_places))
