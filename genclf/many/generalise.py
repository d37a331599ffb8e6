"""Generalisation across time: fits at each time, tested at every other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier
from genclf.classifier.conversion import float_dtype
from genclf.classifier.model import Fitted, Model
from genclf.classifier.scores import log_posteriors
from genclf.covariance.scale import finite
from genclf.families.gaussian.gaussian import Gaussian
from genclf.many.places import CHECKS, Searchlight, result_of, times_first
from genclf.many.scan import PlaceScores, Scan, at_all_places
from genclf.numerics import loops
from genclf.numerics.namespace import matmul
from genclf.numerics.scores.shared_scale import SharedForm
from genclf.select.chunks import Progress
from genclf.select.cross_validation import posteriors_of_folds
from genclf.select.data import Data, labelled_data
from genclf.select.labellings import Permutations, over_labellings, permutations_of
from genclf.select.score import Score, ScoreFunction, number_function, score_of
from genclf.select.splits import FoldsOrPairs

_TOGETHER = 20  # training times whose scores are one product of matrices,
_LARGEST = 2**22  # unless they take more numbers than this


@checked_arguments(any_model=True, x=None, **CHECKS)
def generalise(
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
    """Cross-validate a model of each time on the features of every time.

    Entry (s, t) is the score at time t of the fit at time s: in each fold, a model is fitted to the
    training rows at s, and the rows held out are scored at t. On the diagonal it is `sliding`. A
    model that is good at times other than its own has found what lasts; one that is not, what
    changes.

    Args:
        clf: the model, a `Classifier` or `SoftmaxRegression`.
        x: d features of n rows at T times, (n, d, T), such as sensors of a recording; the order of
            axes of `Epochs.get_data()` in MNE.
        y: labels 0..K-1 of all rows, (n,).
        folds: the fold of each row, as for `cross_validate`.
        metric: a name or a function, as for `score`; larger values of a function are better.
        test_on: which rows are tested, a mask (n,), as for `permutation_test`; None: all.
        num: number of permutations, each of which refits all models; 0 for scores alone.
        key: a `jax.random` key, for permutations.
        blocks: the block of each row, (n,), as for `permutation_test`; labels are permuted within
            blocks only.
        whole_blocks: permute the labels of whole blocks instead; each block must have one label.
        weights: weight of each row in fits and scores, >= 0, (n,); None for ones.
        batch_size: number of training times that a core works on at once; None for a default.
        progress: called with the number of training times done and the total.

    Returns:
        `Searchlight`, whose places are pairs of times, (T, T): training times in rows.

    Raises:
        ValueError: a shape is wrong, or permutations lack a key.

    Example:
        >>> import jax, numpy as np, genclf as gcf
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(2000) % 2
        >>> x = rng.normal(size=(2000, 3, 4))
        >>> x[:, 0, :2] += 2 * y[:, None]  # the same difference at the first two times
        >>> x[:, 1, 2:] += 2 * y[:, None]  # and another one at the last two
        >>> folds = gcf.kfold(jax.random.key(0), y, 5)
        >>> print(np.asarray(gcf.generalise(gcf.lda(2), x, y, folds).score).round(1))
        [[0.8 0.8 0.5 0.5]
         [0.8 0.8 0.5 0.5]
         [0.5 0.5 0.8 0.8]
         [0.5 0.5 0.8 0.8]]

    References:
        King & Dehaene (2014), "Characterizing the dynamics of mental representations: the temporal
        generalization method".
    """
    x = times_first(clf, x, y, weights)
    data = labelled_data(x, y, folds, weights, test_on)
    function = number_function(metric, clf.num_classes, data)
    permuted = permutations_of(y, key, num, blocks, whole_blocks, test_on)
    times, n, d = x.shape
    data = data._replace(x=_recording(clf, x, data.rows))
    each = n * (d + times * clf.num_classes)
    batch_size = batch_size or max(1, min(_TOGETHER, _LARGEST // each))
    given = Scan(function, clf, data, permuted, batch_size, progress)
    run = partial(at_all_places, given, _at_time, jnp.arange(times), each)
    observed = run(_everywhere)
    if permuted is None:
        return result_of(PlaceScores(observed, None), metric)
    return result_of(PlaceScores(observed, run(_of_permuted, permuted)), metric)


class _Recording(NamedTuple):
    """Rows at T times.

    Attributes:
        rows: the rows of each time, (T, n, d).
        held: those of each fold minus `centre`, (F, T, m, d).
        centre: the mean of all rows of each time, for a model whose scores are linear about a
            point, (T, d); 0 for others.
    """

    rows: Float[Array, "T n d"]
    held: Float[Array, "F T m d"]
    centre: Float[Array, "T d"]


@compiled
def _recording(clf: Model, x: Float[Array, "T n d"], rows: Int[Array, "F m"]) -> _Recording:
    x = x.astype(float_dtype(x))
    mean = x.mean(1)
    centre = mean if _is_linear(clf, x[0]) else jnp.zeros_like(mean)
    held = loops.mapped(lambda fold: x.at[:, fold].get(mode="clip"), rows)
    return _Recording(x, held - centre[None, :, None], centre)


def _is_linear(clf: Model, x: Array) -> bool:
    """Whether the params have one covariance, not in the row space, and take no missing cells."""
    if not isinstance(clf, Classifier) or clf.is_predictive or not isinstance(clf.family, Gaussian):
        return False
    return clf.family.shared and not clf.family.may_miss and not clf.family.prefers_rows(x)


def _at_time(clf: Model, x: _Recording, time: Array) -> tuple[Model, Any]:
    return clf, (x.rows[time], x)


@partial(compiled, static_argnums=(0, 1))
def _everywhere(
    function: ScoreFunction, num_groups: int, clf: Model, data: Data
) -> Float[Array, "T"]:
    """The scores at all times of the fits to one; x are the rows of that time and of each."""
    own, every = data.x
    _, params = posteriors_of_folds(clf, data._replace(x=own))
    of_fold: Callable[..., Array] = _linear if _is_linear(clf, own) else _any
    found = loops.mapped(lambda fold: of_fold(*fold, every.centre), (params, every.held))
    found = jnp.moveaxis(found, 1, 2)  # folds, rows, times, classes
    ordered = data.in_row_order(found.reshape(*found.shape[:2], -1))
    ordered = ordered.reshape(len(data.y), *found.shape[2:])
    score = lambda p: score_of(function, num_groups, p, data.y, data.counts, data.by)  # noqa: E731
    return jax.vmap(score, 1)(ordered)


def _any(params: Fitted, held: Float[Array, "T m d"], centre: Float[Array, "T d"]) -> Array:
    """The log-posteriors of the rows, given minus the centres."""
    return log_posteriors(params, held + centre[:, None])


def _linear(params: Any, held: Float[Array, "T m d"], centre: Float[Array, "T d"]) -> Array:
    """The same as one product of matrices, for scores that are linear in the rows."""
    density = params.conditional
    means, arithmetic = density.scores.means, density.arithmetic
    form = SharedForm(means, arithmetic.inverse(density.scale)[0], arithmetic)

    def about_centre() -> Array:
        # (x - c)ᵀ a = (x - m)ᵀ a + (m - c)ᵀ a: m is near to x, and the second is small if m is
        # near to c, so that a common offset of all rows costs no precision.
        own = matmul(form.coef, (centre - means.centre).T) + form.intercept[:, None]
        along = matmul(form.coef, held.reshape(-1, held.shape[-1]).T)
        score = finite(along.reshape(-1, *held.shape[:2]) + own[:, :, None])
        # With the classes in front, XLA takes two thirds of the time.
        joint = jnp.moveaxis(params.with_log_prior(jnp.moveaxis(score, 0, -1)), -1, 0)
        return jnp.moveaxis(jax.nn.log_softmax(joint, 0), 0, -1)

    return loops.unlikely(form.are_far_apart, lambda: _any(params, held, centre), about_centre)


@partial(compiled, static_argnums=(0, 1))
def _of_permuted(
    function: ScoreFunction, num_groups: int, clf: Model, data: Data, permuted: Permutations
) -> Float[Array, "num T"]:
    score = lambda y: _everywhere(function, num_groups, clf, data._replace(y=y))  # noqa: E731
    return over_labellings(score, permuted)
