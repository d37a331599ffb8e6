"""Exact cross-validation: each fold is summed once, and the statistics of all others merged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from genclf.arguments.domains import FLAG
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams, ClassifierStats
from genclf.classifier.conversion import float_dtype
from genclf.classifier.diagnosis import Diagnosis, diagnosed
from genclf.classifier.estimation import estimated, sums
from genclf.classifier.model import Model, require_generative
from genclf.classifier.scores import log_posteriors
from genclf.families.capabilities import is_additive
from genclf.families.combined.combinator import any_prefers_rows
from genclf.families.gaussian.gaussian import Gaussian
from genclf.fitting.fit import fitted
from genclf.multivariate.row_space import row_space
from genclf.numerics import loops
from genclf.select.data import Data, data_of, take
from genclf.select.splits import FoldsOrPairs, checked_mask, folds_or_pairs, splits_of
from genclf.sums.merging import merged


class Members(ShowsNumbers):
    """How likely each row is in its own class, under the fit without its fold.

    Attributes:
        log_density: `log p(x_n | y_n)`, (n,); NaN for rows that were never held out.
        y: labels, (n,).
        weight: weights, (n,); 0 for rows that are never held out, or have no label.
    """

    log_density: Float[Array, "n"]
    y: Int[Array, "n"]
    weight: Float[Array, "n"]


class CrossValidation(ShowsNumbers):
    """Posteriors of rows by models that were not trained on them.

    Attributes:
        log_posterior: the log-posteriors, (n, K), in the order of the rows; NaN for rows that were
            never held out.
        folds: the fold that tests each row, (n,); below 0 for rows that were never held out.
        params: the params of each fold, all leaves with a first axis of length F; None after
            `leave_one_out`.
        diagnosis: `diagnose` for the training rows of each fold, all arrays with a first axis of
            length F; None unless requested.
        members: what `typicality` compares other rows with; None unless requested.
    """

    log_posterior: Float[Array, "n K"]
    folds: Int[np.ndarray, "n"]
    params: Any
    diagnosis: Diagnosis | None = None
    members: Members | None = None


@checked_arguments(
    any_model=True,
    labels="supervised",
    folds=folds_or_pairs,
    test_on=checked_mask,
    diagnosed=FLAG,
    members=FLAG,
)
def cross_validate(
    clf: Model,
    x: PyTree,
    y: ArrayLike,
    folds: FoldsOrPairs,
    weights: ArrayLike | None = None,
    *,
    test_on: ArrayLike | None = None,
    diagnosed: bool = False,
    members: bool = False,
) -> CrossValidation:
    """Fit without each fold in turn, and score its rows.

    A model with statistics is fitted for each fold from the merged statistics of the folds before
    it and after it. This takes one pass over the rows and no subtraction, so the results are those
    of refitting. With more features than rows and a shrinkage towards the identity, all fits are in
    the row space. Other models, and all with `test_on` or pairs, are refitted, with weight 0 for
    the rows held out.

    Args:
        clf: the model, a `Classifier` or `SoftmaxRegression`.
        x: rows, as for `fit`.
        y: labels, or responsibilities, as for `fit`.
        folds: the fold of each row, 0..F-1, (n,), from `kfold` or `genclf.folds`; -1 for rows in
            every training set, -2 for rows that are not used. Or F pairs (train, test) of masks or
            row numbers, such as `splitter.split(x, y)` yields; no row may be tested twice.
        weights: weight of each row in the fits, >= 0, (n,); None for ones.
        test_on: which rows are tested, a mask (n,), such as those of another condition. The others
            are trained on, but for those in the fold of the tested ones. None: all are both.
        diagnosed: whether to diagnose the fit of each fold, for models with p(x | y).
        members: whether to keep the log-density of each row in its class, for `typicality`. Fits
            are then not in the row space, so that their params take rows as they are.

    Returns:
        `CrossValidation`. Params of fits in the row space are for coordinates in that
        space; `row_space(x).params` converts them back.

    Raises:
        ValueError: a shape is wrong, a fold has no row, or all labelled rows are in one fold.

    Example:
        >>> import jax, genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> folds = gcf.kfold(jax.random.key(0), vowel.y_train, 10)
        >>> cv = gcf.cross_validate(gcf.qda(11), vowel.x_train, vowel.y_train, folds)
        >>> print(gcf.score(cv, vowel.y_train).round(2), cv.params.conditional.mean.shape)
        0.93 (10, 11, 10)
    """
    to_model, rows = (lambda clf: clf, x) if members else in_row_space(clf, x)
    splits = splits_of(folds, test_on, y, weights)
    data = data_of(x, y, splits, weights)
    found, params = posteriors_of_folds(to_model(clf), data._replace(x=rows))
    reasons = None
    if diagnosed:
        require_generative(clf, "a diagnosis")
        reasons = _diagnoses(clf, data)
    held = None
    if members:
        require_generative(clf, "cross_validate with members")
        if y.ndim == 2:
            raise ValueError(
                f"y has shape {y.shape}, expected one label for each row: a row with several "
                "responsibilities is no member of one class"
            )
        held = Members(_own_densities(params, data), data.y, data.counts)
    return CrossValidation(found, splits.folds, params, reasons, held)


def in_row_space(clf: Model, x: PyTree) -> tuple[Callable[[Any], Any], PyTree]:
    """A function that converts models to row-space coordinates, and the rows in these coordinates.

    Both models and rows are unchanged if fits do not use the row space.
    """
    family = getattr(clf, "family", None)
    rotates = isinstance(family, Gaussian) and family.is_equivariant and family.prefers_rows(x)
    if not isinstance(clf, Classifier) or not rotates:
        return lambda clf: clf, x
    space = row_space(x.astype(float_dtype(x)))
    return space.model, space.rows


def has_statistics(clf: Model, x: PyTree) -> bool:
    """Whether the model is fitted to such rows from statistics that add up."""
    additive = isinstance(clf, Classifier) and is_additive(clf.family)
    return additive and not any_prefers_rows(clf.family, x)


@partial(compiled, fast_compile=2**17)
def posteriors_of_folds(clf: Model, data: Data) -> tuple[Float[Array, "n K"], PyTree]:
    """The log-posteriors of all rows, each by the fit without its fold; and the params."""
    if isinstance(clf, Classifier) and has_statistics(clf, data.x):
        found, params = held_out_scores(clf, data, log_posteriors)
    else:
        found, params = data.each_fold(partial(by_refit, clf, data, log_posteriors))
    return data.in_row_order(found), params


def by_refit(
    clf: Model, data: Data, scores: Callable[..., Array], w: Array, held: Array
) -> tuple[Array, PyTree]:
    """The scores of the rows held out, by a fit with these weights; and its params."""
    params = fitted(clf, data.x, data.y, w)
    return scores(params, take(data.x, held)), params


@partial(compiled, fast_compile=2**17)
def _own_densities(params: ClassifierParams, data: Data) -> Float[Array, "n"]:
    """`log p(x_n | y_n)` of all rows, each by the fit without its fold."""

    def one(fold: tuple[ClassifierParams, Array]) -> Array:
        params, held = fold
        label = jnp.maximum(take(data.y, held), 0).astype(jnp.int32)
        score = params.conditional.log_prob(take(data.x, held))
        return jnp.take_along_axis(score, label[:, None], 1)

    return data.in_row_order(loops.mapped(one, (params, data.rows)))[:, 0]


@partial(compiled, fast_compile=2**17)
def _diagnoses(clf: Classifier, data: Data) -> Diagnosis:
    return data.each_fold(lambda w, _: diagnosed(clf, data.x, data.y, w))


def held_out_scores(
    clf: Classifier, data: Data, scores: Callable[[ClassifierParams, PyTree], Array]
) -> tuple[Array, ClassifierParams]:
    """The scores of the rows of each fold by the fit to all others, and the params."""
    if data.trains is not None:
        return data.each_fold(partial(by_refit, clf, data, scores))
    found = fold_statistics(clf, data)
    return scores_by_others(clf, found.rows, others(found.shared, found.each), scores)


def scores_by_others(
    clf: Classifier,
    rows: PyTree,
    without: tuple[ClassifierStats, ClassifierStats],
    scores: Callable[[ClassifierParams, PyTree], Array],
) -> tuple[Array, ClassifierParams]:
    """`held_out_scores`, given for each fold the statistics of those before it and those after it.

    The statistics before it include the rows that are always in training.
    """

    def one(fold: tuple[PyTree, PyTree]) -> tuple[ClassifierParams, Array]:
        params = estimated(clf, merged(*fold[0]))
        return params, scores(params, fold[1])

    params, scored = loops.mapped(one, (without, rows))
    return scored, params


class FoldStatistics(NamedTuple):
    """The statistics of each fold, those of rows always in training, and the rows of each fold."""

    each: Any
    shared: Any
    rows: PyTree


def fold_statistics(clf: Classifier, data: Data) -> FoldStatistics:
    """The statistics of each fold, in one pass."""
    every = data.x, data.y, data.w
    rows, labels, weight = take(every, data.rows)
    of_folds = rows, labels, jnp.where(data.real, weight, 0)
    each = loops.mapped(lambda fold: sums(clf, *fold), of_folds)
    return FoldStatistics(each, sums(clf, *take(every, data.always_train)), rows)


def others(shared: ClassifierStats, each: ClassifierStats) -> tuple[PyTree, PyTree]:
    """For each of a batch of statistics, the sum of those before it and the sum of those after."""

    def add(total: ClassifierStats, own: ClassifierStats) -> tuple[PyTree, PyTree]:
        return merged(total, own), total

    _, before = loops.scan(add, shared, each)
    _, after = loops.scan(add, jax.tree.map(jnp.zeros_like, shared), each, reverse=True)
    return before, after
