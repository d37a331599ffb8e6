"""P-values of a group, from the permutations of its subjects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from genclf.arguments.domains import shown, whole
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.many.places import Searchlight
from genclf.select.permutation import PermutationTest, lower_is_better, p_values
from genclf.select.score import Score, ScoreFunction, score_function

_TOGETHER = 2**22  # means of a group that are in memory at once


class GroupTest(ShowsNumbers):
    """The mean score of a group at each place, from `group_test`.

    Attributes:
        score: the mean of the subjects' scores, of the shape of one subject's.
        p_value: `(b + 1) / (num + 1)`, where b is the number of drawn means that are at least as
            good at that place.
        p_corrected: the family-wise p-value: the same, where b counts the draws whose best mean
            over all places is at least as good.
    """

    score: Float[Array, "*places"]
    p_value: Float[Array, "*places"]
    p_corrected: Float[Array, "*places"]


def _scores(one: Searchlight | PermutationTest) -> tuple[np.ndarray, np.ndarray]:
    """The observed scores of a subject, and those of permuted labels."""
    observed = one.score if isinstance(one, Searchlight) else one.observed
    return np.asarray(observed), np.asarray(one.null)


def _subjects(given: Any, name: str) -> Any:
    if not isinstance(given, list | tuple) or len(given) < 2:
        raise ValueError(f"{name} is {shown(given)}, expected the results of at least two subjects")
    for number, one in enumerate(given):
        if not isinstance(one, Searchlight | PermutationTest) or one.null is None:
            raise ValueError(
                f"{name}[{number}] is {shown(one)}, expected a result with permutations, of "
                "permutation_test, searchlight, sliding or generalise"
            )
        if one.null.shape != given[0].null.shape:
            raise ValueError(
                f"{name}[{number}] has a null of shape {one.null.shape}, and that of {name}[0] is "
                f"{given[0].null.shape}: expected the same permutations and places"
            )
    return given


@checked_arguments(any_model=False, subjects=_subjects, num=whole(1))
def group_test(
    key: Array,
    subjects: Sequence[Searchlight | PermutationTest],
    metric: Score | ScoreFunction = "balanced_accuracy",
    *,
    num: int = 10_000,
) -> GroupTest:
    """Test whether the mean score of a group is better than with labels independent of the rows.

    One permutation of each subject is drawn at random, the same at all places, and its scores are
    averaged over the subjects. The p-values compare the mean of the observed scores with `num` such
    means. Unlike a t-test of the scores against chance, this assumes no distribution of accuracies
    and no chance level.

    Args:
        key: a `jax.random` key.
        subjects: the results of S subjects, with the same places and number of permutations, from
            `permutation_test`, `searchlight`, `sliding` or `generalise`.
        metric: the metric of these scores, which tells whether larger ones are better.
        num: number of drawn means. With P permutations of each subject there are P^S different
            ones, so a hundred permutations of each are enough.

    Returns:
        `GroupTest`; NaN at places where a subject has no score.

    Raises:
        ValueError: there are fewer than two subjects, one has no permutations, shapes differ, or
            the metric is unknown.

    Example:
        >>> import jax, numpy as np, genclf as gcf
        >>> y, subjects = np.arange(40) % 2, []
        >>> for subject in range(6):
        ...     x = np.random.default_rng(subject).normal(size=(40, 2, 3))
        ...     x[:, :, 1] += 0.4 * y[:, None]  # a weak signal at the second time
        ...     key, folds = jax.random.key(subject), np.arange(40) // 2 % 5
        ...     subjects.append(gcf.sliding(gcf.lda(2), x, y, folds, num=99, key=key))
        >>> group = gcf.group_test(jax.random.key(0), subjects)
        >>> print(group.score.round(1), group.p_corrected < 0.05)
        [0.5 0.6 0.5] [False  True False]

    References:
        Stelzer, Chen & Turner (2013), "Statistical inference and multiple testing correction in
        classification-based multi-voxel pattern analysis (MVPA)": random permutations and cluster
        size control. Clusters are not formed here.
    """
    score_function(metric)  # raises for an unknown name
    scores, of_permuted = zip(*map(_scores, subjects), strict=True)
    observed = np.mean(scores, 0)
    nulls = np.stack([null.reshape(len(null), -1) for null in of_permuted])
    num_places, together = nulls.shape[2], max(1, _TOGETHER // num)
    drawn = jax.random.randint(key, (num, len(nulls)), 0, nulls.shape[1])
    either, best_of = (jnp.fmin, jnp.nanmin) if lower_is_better(metric) else (jnp.fmax, jnp.nanmax)
    places = [slice(i, i + together) for i in range(0, num_places, together)]
    flat = jnp.asarray(observed.reshape(-1))
    p_value, best = [], jnp.full(num, jnp.nan, flat.dtype)
    for some in places:
        means = _means(jnp.asarray(nulls[:, :, some]), drawn)
        p_value.append(p_values(flat[some], means, metric))
        best = either(best, best_of(means, 1))
    corrected = [
        p_values(flat[some], jnp.broadcast_to(best[:, None], (num, len(flat[some]))), metric)
        for some in places
    ]
    shaped = lambda parts: jnp.concatenate(parts).reshape(observed.shape)  # noqa: E731
    return GroupTest(jnp.asarray(observed), shaped(p_value), shaped(corrected))


@compiled
def _means(nulls: Float[Array, "S P C"], drawn: Int[Array, "num S"]) -> Float[Array, "num C"]:
    """The means over subjects of one permutation of each."""

    def add(total: Array, of: tuple[Array, Array]) -> tuple[Array, None]:
        null, number = of
        return total + null[number], None

    total = jnp.zeros((len(drawn), nulls.shape[2]), nulls.dtype)
    return lax.scan(add, total, (nulls, drawn.T))[0] / len(nulls)
