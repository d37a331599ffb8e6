"""Scores of out-of-fold posteriors: functions of (log_posterior, y, weights)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genclf.arguments.domains import shown
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.conversion import as_arrays, widen
from genclf.classifier.labels import check_labels, check_minus_one
from genclf.numerics.namespace import matmul
from genclf.select.cross_validation import CrossValidation
from genclf.select.data import Data
from genclf.select.groups import check_one_per_row, groups_to_score
from genclf.sums.statistics import divide

Score = Literal[
    "accuracy",
    "balanced_accuracy",
    "log_loss",
    "brier",
    "auc",
    "average_precision",
    "mcc",
    "confusion",
]
ScoreFunction = Callable[[Array, Array, Array], Array]


@checked_arguments(found=None, by=groups_to_score)
def score(
    found: CrossValidation | Float[ArrayLike, "n K"],
    y: ArrayLike,
    metric: Score | ScoreFunction = "accuracy",
    *,
    weights: ArrayLike | None = None,
    by: ArrayLike | None = None,
) -> Float[Array, "..."]:
    """A score of posteriors of rows that the model was not trained on.

    The score is of all rows together, never a mean of scores of single rows or folds:

    * "accuracy": the share of rows whose most probable class (the first of a tie) is y.
    * "balanced_accuracy": the mean of the accuracies within each class in y.
    * "log_loss": the mean of `-log p(y | x)`, in nats.
    * "brier": the mean of `Σ_k (p_k - [y = k])²`, from 0 to 2, for two classes too.
    * "auc": the area under the ROC curve of class 1; with more than two classes, the mean of the
      areas of each class against the others. NaN if a class has no rows.
    * "average_precision": the mean over the rows of class 1 of the precision where they are just
      predicted as class 1; with more than two classes, the mean over each class against the
      others. NaN if a class has no rows.
    * "mcc": Matthews' correlation coefficient, 0 if y or the predictions have a single class.
    * "confusion": the total weight of the rows of class i that are predicted as j, (K, K).

    Args:
        found: the result of `cross_validate` or `leave_one_out`, whose held-out rows count; or
            log-posteriors, (n, K).
        y: labels 0..K-1, (n,); rows labelled -1 do not count.
        metric: a name, or a function of (log_posterior, y, weights).
        weights: weight of each row, >= 0, (n,); None for ones.
        by: the fold, subject or group of each row, (n,): each has its own score, in the order of
            the sorted distinct values. Values of one kind, such as strings or integers >= 0; as in
            `folds`, rows with -1 or -2 do not count.

    Returns:
        A number, or (K, K) for "confusion"; with `by`, one for each group along a first axis. NaN
        if a row that counts has no posterior, or no row counts.

    Raises:
        ValueError: a shape is wrong, a label is neither a class nor -1 (in traced code the
            score is NaN), y contains -1 and lacks a class, so -1 may be meant as a class, or the
            metric is unknown.

    Example:
        >>> import jax, genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> folds = gcf.kfold(jax.random.key(0), vowel.y_train, 10)
        >>> cv = gcf.cross_validate(gcf.lda(11), vowel.x_train, vowel.y_train, folds)
        >>> for metric in ("accuracy", "log_loss", "auc"):
        ...     print(metric, gcf.score(cv, vowel.y_train, metric).round(2))
        accuracy 0.64
        log_loss 1.13
        auc 0.94

    References:
        scikit-learn's metrics of the same names; Brier with `scale_by_half=False`.
    """
    rows = held_out_rows(found, y, weights, "found")
    check_one_per_row(y.shape, by=by)
    num_groups = 0 if by is None else int(np.max(np.asarray(by))) + 1
    return _score(score_function(metric), num_groups, *rows, by)


def held_out_rows(
    found: CrossValidation | ArrayLike, y: Array, weights: Array | None, name: str
) -> tuple[Float[Array, "n K"], Int[Array, "n"], Float[Array, "n"]]:
    """The log-posteriors of rows, their labels, and their weights: 0 for rows that do not count.

    Raise unless the shapes and labels fit; `name` is that of the argument `found`.
    """
    if isinstance(found, CrossValidation):
        log_p, held = found.log_posterior, jnp.asarray(found.folds >= 0)
    else:
        log_p = as_arrays(found, name)
        held = jnp.ones(log_p.shape[:1], bool)
    if log_p.ndim != 2 or y.shape != log_p.shape[:1] or not jnp.issubdtype(y.dtype, jnp.integer):
        raise ValueError(
            f"{name} has log-posteriors of shape {log_p.shape}, and y the shape {y.shape} and "
            f"dtype {y.dtype}; expected (n, K) and n integer labels"
        )
    check_one_per_row(y.shape, weights=weights)
    check_labels(y, log_p.shape[1])
    check_minus_one(y, weights, log_p.shape[1])
    y = widen(y)
    weight = jnp.ones(y.shape, log_p.dtype) if weights is None else weights.astype(log_p.dtype)
    return log_p, y, jnp.where(held & (y != -1), weight, 0)


def score_function(metric: object) -> ScoreFunction:
    """The function of that name, or the function itself; raise if there is none."""
    function = _METRICS.get(metric) if isinstance(metric, str) else metric
    if not callable(function):
        raise ValueError(
            f"metric is {shown(metric)}, expected one of {', '.join(get_args(Score))}, or a "
            "function of (log_posterior, y, weights)"
        )
    return function


def number_function(metric: object, num_classes: int, data: Data) -> ScoreFunction:
    """`score_function` of a metric that is one number for such data; raise for others."""
    function = score_function(metric)
    n, dtype = len(data.y), data.w.dtype
    log_posterior = jax.ShapeDtypeStruct((n, num_classes), dtype)
    label, weight = jax.ShapeDtypeStruct((n,), jnp.int32), jax.ShapeDtypeStruct((n,), dtype)
    found = jax.eval_shape(function, log_posterior, label, weight)
    if jnp.shape(found):
        raise ValueError(
            f"metric is {shown(metric)}, whose score has shape {jnp.shape(found)}, expected one "
            "number, because arrays cannot be ranked"
        )
    return function


def score_of(
    function: ScoreFunction,
    num_groups: int,
    log_p: Float[Array, "n K"],
    y: Int[Array, "n"],
    weight: Float[Array, "n"],
    by: Int[Array, "n"] | None,
) -> Float[Array, "..."]:
    """The score of the rows with nonzero weight, or one score for each group."""
    if by is None:
        return _of_rows(function, log_p, y, weight)
    of_group = lambda g: _of_rows(function, log_p, y, jnp.where(by == g, weight, 0))  # noqa: E731
    return jax.lax.map(of_group, jnp.arange(num_groups, dtype=by.dtype))


_score = compiled(score_of, static_argnums=(0, 1), fast_compile=2**17)


def _of_rows(function: ScoreFunction, log_p: Array, y: Array, weight: Array) -> Array:
    """The score of the rows with nonzero weight; the contents of other rows have no effect."""
    counts = weight != 0
    log_p = jnp.where(counts[:, None], log_p, -jnp.log(jnp.asarray(log_p.shape[1], log_p.dtype)))
    bad = jnp.isnan(log_p).any() | ~counts.any() | ~(weight >= 0).all()
    bad |= (counts & ((y < 0) | (y >= log_p.shape[1]))).any()
    found = function(log_p, jnp.where(counts, y, 0), weight)
    return jnp.where(bad, jnp.nan, found)


def confusion(
    log_p: Float[Array, "n K"], y: Int[Array, "n"], w: Float[Array, "n"]
) -> Float[Array, "K K"]:
    """The total weight of the rows of each class (first axis) by predicted class (second axis)."""
    num_classes = log_p.shape[1]
    is_class = jax.nn.one_hot(y, num_classes, dtype=w.dtype)
    predicted = jax.nn.one_hot(log_p.argmax(1), num_classes, dtype=w.dtype)
    return matmul((w[:, None] * is_class).T, predicted)


def _accuracy(log_p: Array, y: Array, w: Array) -> Array:
    return jnp.where(log_p.argmax(1).astype(y.dtype) == y, w, 0).sum() / w.sum()


def _balanced_accuracy(log_p: Array, y: Array, w: Array) -> Array:
    found = confusion(log_p, y, w)
    total = found.sum(1)
    return divide(jnp.diagonal(found), total).sum() / (total > 0).sum().astype(total.dtype)


def log_loss(log_p: Array, y: Array, w: Array) -> Array:
    """The mean of `-log p(y | x)`."""
    loss = -jnp.take_along_axis(log_p, y[:, None], 1)[:, 0]
    return jnp.where(w > 0, w * jnp.where(w > 0, loss, 0), 0).sum() / w.sum()


def brier(log_p: Array, y: Array, w: Array) -> Array:
    """The mean of `Σ_k (p_k - [y = k])²`."""
    error = jnp.exp(log_p) - jax.nn.one_hot(y, log_p.shape[1], dtype=log_p.dtype)
    return (w * (error**2).sum(1)).sum() / w.sum()


def _auc(log_p: Array, y: Array, w: Array) -> Array:
    """`Σ_ij w_i w_j ([s_i > s_j] + ½ [s_i = s_j]) / (W₊ W₋)`, i in the class and j not."""

    def of_ranks(s: Array, inside: Array, outside: Array) -> Array:
        first, last = (_weight_before(s, outside, side=side) for side in ("left", "right"))
        pairs = (inside * 0.5 * (first + last)).sum()
        return pairs / (inside.sum() * outside.sum())

    return _over_classes(of_ranks, log_p, y, w)


def _average_precision(log_p: Array, y: Array, w: Array) -> Array:
    """`Σ_i w_i P(s_i) / W₊` over the rows of the class, P(s) the share of it from score s on."""

    def of_ranks(s: Array, inside: Array, outside: Array) -> Array:
        right, wrong = (_weight_before(-s, a, side="right") for a in (inside, outside))
        return (inside * divide(right, right + wrong)).sum() / inside.sum()

    return _over_classes(of_ranks, log_p, y, w)


def _weight_before(s: Array, weight: Array, *, side: str) -> Array:
    """The weight of the rows with scores below that of each row, or up to it if side is "right"."""
    order = jnp.argsort(s)
    before = jnp.concatenate([jnp.zeros(1, weight.dtype), jnp.cumsum(weight[order])])
    return before[jnp.searchsorted(s[order], s, side=side)]


def _over_classes(
    of_ranks: Callable[[Array, Array, Array], Array], log_p: Array, y: Array, w: Array
) -> Array:
    """The mean over each class against the others; of class 1 alone if there are two.

    Rows are ordered by `log p_k`; where that is rounded to 0, by `-log (1 - p_k)`.
    """
    almost_one = -(float(jnp.finfo(log_p.dtype).eps) ** 0.5)

    def of_class(k: Array) -> Array:
        others = jnp.where(jnp.arange(log_p.shape[1], dtype=y.dtype) == k, -jnp.inf, log_p)
        s = jnp.where(log_p[:, k] > almost_one, -jax.nn.logsumexp(others, 1), log_p[:, k])
        return of_ranks(s, jnp.where(y == k, w, 0), jnp.where(y == k, 0, w))

    if log_p.shape[1] == 2:
        return of_class(jnp.array(1, y.dtype))
    return jax.vmap(of_class)(jnp.arange(log_p.shape[1], dtype=y.dtype)).mean()


def _mcc(log_p: Array, y: Array, w: Array) -> Array:
    found = confusion(log_p, y, w)
    found = found / found.sum()
    true, predicted, right = found.sum(1), found.sum(0), jnp.trace(found)
    variances = (1 - (true**2).sum()) * (1 - (predicted**2).sum())
    root = jnp.sqrt(jnp.where(variances > 0, variances, 1))
    return jnp.where(variances > 0, (right - (true * predicted).sum()) / root, 0)


_METRICS: dict[Any, ScoreFunction] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "log_loss": log_loss,
    "brier": brier,
    "auc": _auc,
    "average_precision": _average_precision,
    "mcc": _mcc,
    "confusion": confusion,
}
