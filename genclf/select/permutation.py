"""Permutation tests of cross-validated scores."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from genclf.arguments.domains import FLAG, whole
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier
from genclf.classifier.model import Model
from genclf.numerics import loops
from genclf.select.cross_validation import has_statistics, in_row_space, posteriors_of_folds
from genclf.select.data import Data, labelled_data
from genclf.select.groups import check_one_per_row, groups_of_rows, groups_to_score
from genclf.select.labellings import Permutations, labelling, over_labellings, permutations_of
from genclf.select.permuted_labels import posteriors, rotated, share_scatters
from genclf.select.score import Score, ScoreFunction, number_function, score_of
from genclf.select.splits import FoldsOrPairs, checked_mask, folds_or_pairs

_LARGEST_BATCH = 2**22  # numbers in the one-hot labels of a batch of permutations
_REFITS = 8  # permutations whose statistics are computed by one product
_LOWER_IS_BETTER = ("log_loss", "brier")


class PermutationTest(ShowsNumbers):
    """A cross-validated score and the scores of permuted labels, from `permutation_test`.

    Attributes:
        observed: the score of the labels as given; with `by`, one score for each group, (G,).
        null: the scores of permuted labels, (num,) or (num, G).
        p_value: `(b + 1) / (num + 1)`, where b is the number of permutations whose score is at
            least as good, or NaN.
    """

    observed: Float[Array, "..."]
    null: Float[Array, "num ..."]
    p_value: Float[Array, "..."]


@checked_arguments(
    any_model=True,
    labels="supervised",
    folds=folds_or_pairs,
    test_on=checked_mask,
    by=groups_to_score,
    blocks=groups_of_rows,
    num=whole(1),
    whole_blocks=FLAG,
)
def permutation_test(
    key: Array,
    clf: Model,
    x: PyTree,
    y: ArrayLike,
    folds: FoldsOrPairs,
    metric: Score | ScoreFunction = "balanced_accuracy",
    *,
    test_on: ArrayLike | None = None,
    num: int = 1000,
    blocks: ArrayLike | None = None,
    whole_blocks: bool = False,
    by: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    batch_size: int | None = None,
) -> PermutationTest:
    """Test whether a cross-validated score is better than with labels independent of the rows.

    The folds stay, the labels are permuted, and the cross-validation is repeated. A Gaussian with
    one full covariance, without a ridge, is not refitted, also if its shrinkage is estimated: all
    labellings of a fold share its total scatter. Towards the diagonal, this needs fewer features
    than rows. In float32 its scores differ from those of refits by rounding; scores that would lose
    precision are computed by refits.

    Args:
        key: a `jax.random` key.
        clf: the model, a `Classifier` or `SoftmaxRegression`.
        x: rows, as for `fit`.
        y: labels 0..K-1 of all rows, (n,).
        folds: the fold of each row, as for `cross_validate`.
        metric: a name or a function, as for `score`, that gives one number; larger values of a
            function are better.
        test_on: which rows are tested, a mask (n,), as for `cross_validate`. Labels are then
            permuted among the tested rows, and among the others; whole blocks among all. None: all.
        num: number of permutations.
        blocks: the block of each row, (n,), such as runs of a recording: values of one kind, such
            as integers or strings. Labels are permuted within blocks only.
        whole_blocks: permute the labels of whole blocks instead; each block must have one label.
        by: the group of each row, (n,), as for `score`: each has a score and a p-value.
        weights: weight of each row in fits and scores, >= 0, (n,); None for ones.
        batch_size: number of permutations held in memory at once; None for a default.

    Returns:
        `PermutationTest`.

    Raises:
        ValueError: a shape is wrong, a row has no label, a whole block has several labels, the
            metric is not one number, or all labelled rows are in one fold.

    Example:
        >>> import jax, genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> x, y = vowel.x_train[:, 5:], vowel.y_train
        >>> folds = gcf.kfold(jax.random.key(0), y, 5)
        >>> test = gcf.permutation_test(jax.random.key(1), gcf.lda(11), x, y, folds, num=99)
        >>> print(f"{test.observed:.2f}", test.null.max() < 0.2, test.p_value)
        0.27 True 0.01

    References:
        Ojala & Garriga (2010), "Permutation tests for studying classifier performance", test 1;
        Phipson & Smyth (2010), "Permutation p-values should never be zero".
    """
    to_model, x = in_row_space(clf, x)
    clf = to_model(clf)
    data, num_groups = labelled_data(x, y, folds, weights, test_on), 0
    check_one_per_row(y.shape, by=by)
    if by is not None:
        data, num_groups = data._replace(by=jnp.asarray(by)), int(np.max(by)) + 1
    function = number_function(metric, clf.num_classes, data)
    permuted = permutations_of(y, key, num, blocks, whole_blocks, test_on)
    assert permuted is not None  # num is at least 1
    given = function, num_groups, clf, data
    if not share_scatters(clf, data.x):
        scores = by_refits(*given, permuted)
    else:
        together = batch_size or max(1, min(num, _LARGEST_BATCH // (len(y) * clf.num_classes)))
        scores, exact = by_rotations(*given, permuted, together)
        again = np.flatnonzero(~np.asarray(exact))
        if len(again):
            refits = by_refits(*given, permuted._replace(numbers=permuted.numbers[again]))
            scores = scores.at[again].set(refits)
    observed = observed_score(*given)
    return PermutationTest(observed, scores[1:], p_values(scores[0], scores[1:], metric))


def lower_is_better(metric: Score | ScoreFunction) -> bool:
    """Whether smaller values of the metric are better; for functions, larger ones are."""
    return isinstance(metric, str) and metric in _LOWER_IS_BETTER


@partial(jax.jit, static_argnums=2)
def p_values(observed: Array, null: Array, metric: Score | ScoreFunction) -> Array:
    """`(b + 1) / (num + 1)`, where b is the number of permutations that score at least as well.

    Scores that differ by rounding alone count as equal: those of equal labellings may do so.
    """
    size = jnp.maximum(jnp.abs(observed), jnp.nanmedian(jnp.abs(null), 0))
    rounding = jnp.where(jnp.isfinite(size), jnp.sqrt(jnp.finfo(null.dtype).eps) * size, 0)
    sign = 1 if lower_is_better(metric) else -1
    worse = sign * null > (sign * observed + rounding)[None]
    found = ((~worse).sum(0) + 1) / (len(null) + 1)
    return jnp.where(jnp.isnan(observed), jnp.nan, found.astype(observed.dtype))


@partial(compiled, static_argnums=(0, 1), fast_compile=2**17)
def observed_score(function: ScoreFunction, num_groups: int, clf: Model, data: Data) -> Array:
    """The cross-validated score of the labels of the data."""
    found, _ = posteriors_of_folds(clf, data)
    return score_of(function, num_groups, found, data.y, data.counts, data.by)


@partial(compiled, static_argnums=(0, 1))
def by_refits(
    function: ScoreFunction, num_groups: int, clf: Model, data: Data, permuted: Permutations
) -> Array:
    """Scores of these labellings, each by a new cross-validation."""
    together = _REFITS if has_statistics(clf, data.x) else None
    score = lambda y: observed_score(function, num_groups, clf, data._replace(y=y))  # noqa: E731
    return over_labellings(score, permuted, together)


@partial(compiled, static_argnums=(0, 1, 5), fast_compile=2**13)
def by_rotations(
    function: ScoreFunction,
    num_groups: int,
    clf: Classifier,
    data: Data,
    permuted: Permutations,
    batch_size: int | None = None,
) -> tuple[Array, Bool[Array, "num"]]:
    """Scores of these labellings without refits, and whether they are accurate.

    Memory holds `batch_size` labellings at once; all, if it is None.
    """
    key, numbers, labels = permuted
    batch_size = batch_size or len(numbers)
    x = data.x.astype(data.w.dtype)
    each = data.each_fold(lambda w, _: rotated(clf, x, w))

    def some(numbers: Array) -> tuple[Array, Array]:
        y = jax.vmap(lambda number: labelling(key, number, labels))(numbers)
        of_fold = lambda fold: posteriors(clf, fold[0], fold[1], y)  # noqa: E731
        found, exact = loops.mapped(of_fold, (each, data.rows))
        ordered = jax.vmap(data.in_row_order, 1)(found)
        of_labels = lambda p, y: score_of(function, num_groups, p, y, data.counts, data.by)  # noqa: E731
        return loops.vmap(of_labels)(ordered, y), exact.all(0)

    batches = jnp.pad(numbers, (0, -len(numbers) % batch_size)).reshape(-1, batch_size)
    found, exact = loops.mapped(some, batches)
    whole = lambda a: a.reshape(-1, *a.shape[2:])[: len(numbers)]  # noqa: E731
    return whole(found), whole(exact)
