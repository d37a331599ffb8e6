"""The best of many hyper-parameters, by exact cross-validation, optionally nested."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from genclf.arguments.domains import FLAG, Domain
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.conversion import float_dtype
from genclf.classifier.model import Model
from genclf.classifier.rows import check_supervised_rows
from genclf.select.candidates import Grid, Group, candidates_of, grouped, models_of
from genclf.select.chunks import PROGRESS, Progress, Sizes, map_chunk, over_chunks, sizes
from genclf.select.cross_validation import (
    CrossValidation,
    cross_validate,
    has_statistics,
    in_row_space,
)
from genclf.select.data import Data, data_of
from genclf.select.groups import checked_folds
from genclf.select.learning_curve import standard_error
from genclf.select.nested import TrainingStatistics, posteriors, posteriors_within, statistics_of
from genclf.select.permutation import lower_is_better
from genclf.select.score import Score, ScoreFunction, number_function, score_of
from genclf.select.splits import splits_of


class Tuning(ShowsNumbers):
    """Cross-validated scores of candidates, from `tune`.

    Attributes:
        best: the model with the best score; the first of a tie.
        one_se: the first model of the grid whose score is within one standard error of the best
            score: the simplest such model, if the grid goes from simple to complex.
        table: columns by name, as for a DataFrame: the hyper-parameters of each candidate, its
            "score" of all rows together, and its "standard_error", `sd / √F` of the F scores
            of folds.
        nested: posteriors of the rows of each fold by the best candidate of all other folds, fitted
            to these; None unless requested.
        chosen: the number of that candidate for each fold, (F,); None unless nested.
        best_row: the row of `best` in the table.
        one_se_row: the row of `one_se` in the table.
        metric: the `metric` argument.
    """

    best: Any
    one_se: Any
    table: dict[str, Any]
    nested: CrossValidation | None
    chosen: Int[np.ndarray, "F"] | None
    best_row: int
    one_se_row: int
    metric: Any


@checked_arguments(
    clf_of=Domain("a function from hyper-parameters to a model", callable),
    grid=candidates_of,
    folds=checked_folds,
    nested=FLAG,
    progress=PROGRESS,
)
def tune(
    clf_of: Callable[..., Model],
    grid: Grid,
    x: PyTree,
    y: ArrayLike,
    folds: ArrayLike,
    metric: Score | ScoreFunction = "log_loss",
    *,
    nested: bool = False,
    weights: ArrayLike | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Cross-validate every candidate of a grid, and choose the best.

    The statistics of the folds are computed once, for all candidates. Candidates that differ only
    in numeric hyper-parameters share one compiled program; those with different structures, also
    `LowRank(r)` with another r, are compiled one by one.

    The score by which a candidate was chosen is optimistic. `nested=True` chooses a candidate for
    each fold by a cross-validation among the other folds, and scores the fold by that candidate.
    This takes the statistics of all but two folds, for each of the F (F - 1) / 2 pairs.

    Args:
        clf_of: a function from hyper-parameters, by name, to a model, such as `lambda ridge:
            genclf.lda(3, ridge=ridge)`.
        grid: the values of each hyper-parameter, all combinations of which are candidates; or a
            list of candidates, dicts from names to values. `one_se` needs the order from simple to
            complex.
        x: rows, as for `fit`.
        y: labels 0..K-1, (n,); -1 for rows without a label, which are not used.
        folds: the fold of each row, as for `cross_validate`.
        metric: a name or a function, as for `score`, that gives one number; larger values of a
            function are better.
        nested: whether to score the choice itself.
        weights: weight of each row in fits and scores, >= 0, (n,); None for ones.
        batch_size: number of candidates that a core works on at once; None for a default.
        progress: called with the number of candidates done and the total.

    Returns:
        `Tuning`.

    Raises:
        ValueError: a hyper-parameter of a candidate is invalid (the message names the candidate),
            no candidate has a score, the metric is not one number, or all labelled rows are in
            one fold (in two, if nested).

    Example:
        >>> import jax, numpy as np, genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> folds = gcf.kfold(jax.random.key(0), vowel.y_train, 5)
        >>> found = gcf.tune(
        ...     lambda pooling: gcf.rda(11, pooling=pooling, shrinkage=0.0),
        ...     {"pooling": np.linspace(1, 0, 11)},
        ...     vowel.x_train, vowel.y_train, folds, "accuracy",
        ... )
        >>> print(f"{found.best.family.pooling:.1f} {found.one_se.family.pooling:.1f}")
        0.1 0.2

    References:
        Stone (1974), "Cross-validatory choice and assessment of statistical predictions"; Breiman,
        Friedman, Olshen & Stone (1984), Classification and Regression Trees, §3.4.3.
    """
    candidates = cast(list[dict[str, Any]], grid)
    models = models_of(clf_of, candidates, x)
    check_supervised_rows(models[0], x, y, weights)
    if y.ndim != 1 or len(folds) != len(y):
        raise ValueError(
            f"folds has shape {folds.shape}, and y has {y.shape}; expected a fold and a label of "
            "each row"
        )
    splits = splits_of(folds, None, y, weights, num_held_out=1 + nested)
    data = data_of(x, y, splits, weights)
    function = number_function(metric, models[0].num_classes, data)
    num_folds = len(data.rows)
    table = np.full((len(models), num_folds + 1), np.nan)
    inner = np.full((len(models), num_folds), np.nan)
    for group in grouped(models, float_dtype(x)):
        some, within = _scores(function, models, group, data, nested, batch_size, progress)
        table[group.indices], inner[group.indices] = some, within
    sign = -1 if lower_is_better(metric) else 1
    best, one_se, error = _choice(sign * table, metric)
    columns: dict[str, Any] = {name: [one[name] for one in candidates] for name in candidates[0]}
    columns |= {"score": table[:, 0], "standard_error": error}
    outer = chosen = None
    if nested:
        chosen = np.where(np.isnan(inner), -np.inf, sign * inner).argmax(0)
        outer = CrossValidation(_by_chosen(models, chosen, data, folds), folds, None)
    return Tuning(models[best], models[one_se], columns, outer, chosen, best, one_se, metric)


def _choice(scores: np.ndarray, metric: Score | ScoreFunction) -> tuple[int, int, np.ndarray]:
    """The best candidate, the first within one standard error of it, and standard errors."""
    if np.isnan(scores[:, 0]).all():
        raise ValueError(f"no candidate of grid has a score, by metric {metric!r}: all are NaN")
    of_folds = scores[:, 1:]
    with np.errstate(invalid="ignore"):  # infinite scores have no standard error
        error = standard_error(of_folds)
    whole = np.where(np.isnan(scores[:, 0]), -np.inf, scores[:, 0])
    best = int(whole.argmax())
    margin = 0 if np.isnan(error[best]) else error[best]
    return best, int(np.flatnonzero(whole >= whole[best] - margin)[0]), error


def _scores(
    function: ScoreFunction,
    models: list[Model],
    group: Group,
    data: Data,
    nested: bool,
    batch_size: int | None,
    progress: Progress | None,
) -> tuple[Array, Array]:
    """The results of `_of_chunk` for all candidates of a group."""
    first = models[group.indices[0]]
    to_model, x = in_row_space(first, data.x)
    clfs, data = jax.vmap(to_model)(group.models), data._replace(x=x)
    statistics = None
    if has_statistics(first, x):
        statistics = statistics_of(to_model(first), data, nested)
    count, num_folds = len(group.indices), len(data.rows)
    of_one_fit = sum(a.size // len(a) for a in jax.tree.leaves(statistics))
    each = (num_folds if nested else 1) * first.num_classes * len(data.y) + of_one_fit
    size = sizes(count, jax.ShapeDtypeStruct((count, each), jnp.float32), batch_size, group.models)
    run = partial(_of_chunk, function, nested, clfs, data, statistics, size)
    return over_chunks(run, count, size.chunk, progress)


@partial(compiled, static_argnums=(0, 1, 5))
def _of_chunk(
    function: ScoreFunction,
    nested: bool,
    clfs: PyTree,
    data: Data,
    merged: TrainingStatistics | None,
    size: Sizes,
    first: Array,
) -> tuple[Float[Array, "C scores"], Float[Array, "C F"]]:
    """For each candidate: the score of all rows and of each fold; and that outside each fold.

    The score outside a fold is that of all rows that are not in it; 0 unless nested.
    """
    folds, counts, num_folds = data.folds, data.counts, len(data.rows)

    def one(clf: Model) -> tuple[Array, Array]:
        found = posteriors(clf, data, merged)
        whole = score_of(function, 0, found, data.y, counts, None)
        each = score_of(function, num_folds, found, data.y, counts, folds)
        scores = jnp.concatenate([whole[None], each])
        if not nested:
            return scores, jnp.zeros_like(each)
        table = posteriors_within(clf, data, merged)
        held = jnp.arange(num_folds, dtype=folds.dtype)[:, None] == folds[None]
        of_all_but = jnp.where(held, 0, counts[None])
        of_others = lambda found, w: score_of(function, 0, found, data.y, w, None)  # noqa: E731
        return scores, jax.vmap(of_others)(table, of_all_but)

    return map_chunk(one, clfs, first, size)


def _by_chosen(models: list[Model], chosen: np.ndarray, data: Data, folds: np.ndarray) -> Array:
    """The posteriors of the rows of each fold by the candidate that was chosen for it."""
    of_row = np.where(folds >= 0, chosen[folds], -1)
    found: Array = jnp.full((len(folds), models[0].num_classes), jnp.nan, data.w.dtype)
    for candidate in np.unique(chosen):
        cv = cross_validate(models[candidate], data.x, data.y, folds, data.w)
        found = jnp.where(jnp.asarray(of_row == candidate)[:, None], cv.log_posterior, found)
    return found
