"""Leave-one-out: in closed form where there is one, else from merged statistics or by refits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier
from genclf.classifier.estimation import estimated, sums
from genclf.classifier.model import Model
from genclf.classifier.scores import log_posteriors
from genclf.numerics import loops
from genclf.select.cross_validation import (
    CrossValidation,
    by_refit,
    has_statistics,
    in_row_space,
    others,
    posteriors_of_folds,
)
from genclf.select.data import Data, data_of, take
from genclf.select.downdates import has_downdates, without_each
from genclf.select.left_out_words import can_leave_out_words, without_each_document
from genclf.select.splits import splits_of
from genclf.sums.merging import merged

ClosedForm = Callable[..., tuple[Array, Array]]
"""A function that leaves out each row at the cost of a single fit."""

_LARGEST_BATCH = 2**22  # numbers in the statistics of a batch of fits


@checked_arguments(any_model=True, labels="supervised")
def leave_one_out(
    clf: Model,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    batch_size: int | None = None,
) -> CrossValidation:
    """Score each row by the model of all others.

    The statistics of all other rows are merged. Two kinds of models have a closed form. For
    Gaussians with full covariances, unshrunk or shrunk towards the identity by a given share, a
    row is removed by a rank-one downdate: O(n d²) in all. For the multinomial model, the counts of
    a document are subtracted from those of its class. The model is refitted without a row if this
    would lose precision or the covariance may become singular. If a row is the only one of its
    class, the posterior of that class is 0 for the row, unless both the class prior and the class
    density are smoothed. Models without statistics are refitted n times.

    Args:
        clf: the model.
        x: rows, as for `fit`.
        y: labels, or responsibilities, as for `fit`.
        weights: weight of each row, >= 0, (n,); None for ones.
        batch_size: number of fits held in memory at once, if fits are made; None for a default.

    Returns:
        `CrossValidation`, in which each row is a fold, without params.

    Raises:
        ValueError: a shape is wrong, or there is only one row to learn from.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> loo = gcf.leave_one_out(gcf.lda(11), vowel.x_train, vowel.y_train)
        >>> print((loo.log_posterior.argmax(1) != vowel.y_train).sum())
        201
    """
    to_model, x = in_row_space(clf, x)
    clf = to_model(clf)
    folds = np.arange(len(y), dtype=np.int32)
    data = data_of(x, y, splits_of(folds, None, y, weights), weights)
    closed_form: ClosedForm | None = without_each if has_downdates(clf, y) else None
    if closed_form is None and can_leave_out_words(clf, x, y):
        closed_form = without_each_document
    if closed_form is not None:
        found, exact = _by_closed_form(closed_form, clf, data)
        again = np.flatnonzero(~np.asarray(exact))
        if len(again) > len(y) ** 0.5:
            found = _without_each(clf, data, batch_size)
        elif len(again):
            found = found.at[again].set(_refitted(clf, data, jnp.asarray(again)))
    elif has_statistics(clf, x):
        found = _without_each(clf, data, batch_size)
    else:
        found, _ = posteriors_of_folds(clf, data)
    return CrossValidation(found, folds, None)


@partial(compiled, static_argnums=0)
def _by_closed_form(closed_form: ClosedForm, clf: Classifier, data: Data) -> tuple[Array, Array]:
    given = data.x, data.y, data.w
    return closed_form(clf, sums(clf, *given), *given)


@partial(compiled, static_argnums=2)
def _without_each(clf: Classifier, data: Data, batch_size: int | None) -> Array:
    """Leave-one-out by merging.

    The merging has two levels: all other blocks, then all other rows of the block.
    """
    x, y, w = data.x, data.y, data.w
    n = len(y)
    row = jax.eval_shape(sums, clf, *take((x, y, w), jnp.arange(1)))
    size = sum(a.size for a in jax.tree.leaves(row))
    m = batch_size or max(1, min(round(n**0.5), _LARGEST_BATCH // size))
    rows = jnp.arange(n + -n % m, dtype=jnp.int32).reshape(-1, m)
    blocks = (*take((x, y), rows), jnp.where(rows < n, take(w, rows), 0))
    each = loops.mapped(lambda data: sums(clf, *data), blocks)
    zeros = jax.tree.map(lambda a: jnp.zeros_like(a[0]), each)

    def one_block(block: tuple[PyTree, PyTree]) -> Array:
        outside, data = merged(*block[0]), block[1]
        single = jax.tree.map(lambda a: a[:, None], data)
        of_rows = jax.vmap(lambda row: sums(clf, *row))(single)

        def one(before: PyTree, after: PyTree, x: PyTree) -> Array:
            return log_posteriors(estimated(clf, merged(before, after)), x)[0]

        return loops.vmap(one)(*others(outside, of_rows), single[0])

    found = loops.mapped(one_block, (others(zeros, each), blocks))
    return found.reshape(-1, found.shape[-1])[:n]


@compiled
def _refitted(clf: Classifier, data: Data, held: Int[Array, "r"]) -> Array:
    one = lambda row: by_refit(clf, data, log_posteriors, data.w.at[row].set(0), row[None])[0][0]  # noqa: E731
    return loops.mapped(one, held)
