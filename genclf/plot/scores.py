"""Figures of the results of cross-validation, tuning and permutation tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes

from genclf.arguments.domains import Domain, shown, whole
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments, optional
from genclf.classifier.conversion import as_arrays
from genclf.plot.classes import AX, as_text, labels, names_of, new_axes, styles_of
from genclf.select.calibration import calibration
from genclf.select.groups import distinct
from genclf.select.learning_curve import LearningCurve
from genclf.select.membership.coverage import Share
from genclf.select.permutation import PermutationTest
from genclf.select.tune import Tuning


def _a(kind: type, source: str) -> Domain:
    return Domain(
        f"a {kind.__name__}, as genclf.{source} returns it", lambda a: isinstance(a, kind)
    )


@checked_arguments(
    log_posterior=as_arrays, calibrated=optional(as_arrays), num_bins=whole(1), ax=AX
)
def reliability(
    log_posterior: ArrayLike,
    y: ArrayLike,
    *,
    calibrated: ArrayLike | None = None,
    num_bins: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Reliability diagram: the accuracy of the most probable class against its probability.

    The bins are those of `calibration`.
    At a point on the diagonal, the probabilities equal the shares of rows that are right. The bars
    are 95 % intervals of a share (Wilson); the area of a point grows with its number of rows.

    Args:
        log_posterior: log-posteriors of rows that the model was not fitted to, shape (n, K), such
            as `CrossValidation.log_posterior`.
        y: labels, integers 0..K-1, shape (n,).
        calibrated: calibrated log-posteriors of the same rows, (n, K), to draw beside them.
        num_bins: B >= 1.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: as for `calibration`.

    Example:
        >>> import jax, genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> x, y = data.x_train, data.y_train
        >>> cv = gcf.cross_validate(gcf.qda(11), x, y, gcf.kfold(jax.random.key(0), y, 5))
        >>> after = gcf.recalibrate(cv, y)(cv.log_posterior)
        >>> ax = plot.reliability(cv.log_posterior, y, calibrated=after)

    References:
        Wilson (1927), "Probable inference, the law of succession, and statistical inference".
    """
    ax = new_axes(ax)
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    error = _points(ax, log_posterior, y, num_bins, "#4477AA", "o", "as fitted")
    title = f"expected calibration error {error:.3f}"
    if calibrated is not None:
        after = _points(ax, calibrated, y, num_bins, "#EE6677", "s", "calibrated")
        title += f", calibrated {after:.3f}"
        ax.legend(loc="upper left")
    ax.set(
        xlabel="probability of the most probable class", ylabel="share of rows where it is right",
        xlim=(0, 1.02), ylim=(0, 1.02), title=title,
    )  # fmt: skip
    return ax


def _points(
    ax: Axes, log_posterior: Any, y: Any, num_bins: int, colour: str, marker: str, name: str
) -> float:
    """Draw the points of a reliability diagram, and return the expected calibration error."""
    error = calibration(log_posterior, y, num_bins=num_bins).expected_error
    p = np.exp(np.asarray(log_posterior))
    confidence, hit = p.max(1), p.argmax(1) == np.asarray(y)
    bin_of = np.searchsorted(np.arange(1, num_bins) / num_bins, confidence)
    count = np.bincount(bin_of, minlength=num_bins)
    used = np.flatnonzero(count)
    total, right = (np.bincount(bin_of, a)[used] for a in (confidence, hit))
    share = Share.of(jnp.asarray(right), jnp.asarray(count[used], float))
    mean = total / count[used]
    ax.vlines(mean, share.lower, share.upper, color=colour, alpha=0.6)
    size = 200 * count[used] / count.sum() + 12
    ax.scatter(mean, share.value, size, color=colour, marker=marker, label=name, zorder=3)
    return float(error)


@checked_arguments(curve=_a(LearningCurve, "learning_curve"), ax=AX)
def learning_curve(curve: LearningCurve, *, ax: Axes | None = None) -> Axes:
    """Mean test error of each model against the number of training rows, ± two standard errors.

    Args:
        curve: from `genclf.learning_curve`.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Example:
        >>> import jax, genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> models = {"lda": gcf.lda(11), "nb": gcf.gaussian_nb(11)}
        >>> curve = gcf.learning_curve(
        ...     models, data.x_train, data.y_train, [100, 200], key=jax.random.key(0), num_splits=5
        ... )
        >>> ax = plot.learning_curve(curve)
    """
    ax, sizes = new_axes(ax), np.asarray(curve.sizes)
    styles = styles_of(len(curve.mean), None)
    for style, (name, mean) in zip(styles, curve.mean.items(), strict=True):
        ax.errorbar(
            sizes, mean, 2 * np.asarray(curve.standard_error[name]), marker=style.marker,
            markersize=4, linestyle=style.dash, color=style.colour, capsize=2, label=as_text(name),
        )  # fmt: skip
    ax.set(xscale="log", xlabel="training rows", ylabel="test error", ylim=(0, None))
    ticks = _spaced(sizes)
    ax.set_xticks(ticks, map(str, ticks))
    ax.minorticks_off()
    ax.legend()
    return ax


def _spaced(sizes: np.ndarray) -> list[int]:
    """The sizes whose numbers have room on a logarithmic axis."""
    kept = [int(sizes[0])]
    for size in sizes[1:].tolist():
        if np.log(size / kept[-1]) >= 0.08 * np.log(sizes[-1] / sizes[0]):
            kept.append(size)
    return kept


@checked_arguments(tuning=_a(Tuning, "tune"), ax=AX)
def cv_curve(tuning: Tuning, *, over: str | None = None, ax: Axes | None = None) -> Axes:
    """Cross-validated score against a hyper-parameter; lines mark the best and one-SE choices.

    The band is one standard error wide on each side. Numbers that span more than two orders of
    magnitude are on a logarithmic axis.

    Args:
        tuning: from `genclf.tune`.
        over: the hyper-parameter of the horizontal axis; None for the only one that varies. Each
            combination of the others has its own line.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: several hyper-parameters vary and `over` is not one of them.

    Example:
        >>> import jax, numpy as np, genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> folds = gcf.kfold(jax.random.key(0), data.y_train, 5)
        >>> tuning = gcf.tune(
        ...     lambda ridge: gcf.lda(11, ridge=ridge), {"ridge": [1.0, 0.1, 0.01]},
        ...     data.x_train, data.y_train, folds,
        ... )
        >>> ax = plot.cv_curve(tuning)
    """
    columns = {k: v for k, v in tuning.table.items() if k not in ("score", "standard_error")}
    varying = [name for name, values in columns.items() if len({*map(repr, values)}) > 1]
    if over is None and len(varying) == 1:
        over = varying[0]
    if over not in columns:
        raise ValueError(f"over is {shown(over)}, expected one of {varying or list(columns)}")
    score, error = (np.asarray(tuning.table[name]) for name in ("score", "standard_error"))
    at, ticks = _positions(columns[over])
    others = [name for name in varying if name != over]
    lines = [", ".join(f"{name} {columns[name][i]}" for name in others) for i in range(len(score))]
    ax, distinct = new_axes(ax), list(dict.fromkeys(lines))
    for style, line in zip(styles_of(len(distinct), distinct), distinct, strict=True):
        rows = np.flatnonzero([line == own for own in lines])
        rows = rows[np.argsort(at[rows], kind="stable")]
        ax.plot(at[rows], score[rows], marker=style.marker, markersize=4, linestyle=style.dash,
                color=style.colour, label=as_text(line) or None)  # fmt: skip
        band = score[rows] - error[rows], score[rows] + error[rows]
        ax.fill_between(at[rows], *band, color=style.colour, alpha=0.15, linewidth=0)
    for row, label, dash in (
        (tuning.best_row, "best", "-"),
        (tuning.one_se_row, "one standard error", ":"),
    ):
        ax.axvline(at[row], color="0.4", linestyle=dash, linewidth=1, label=label)
    if ticks is not None:
        ax.set_xticks(at, ticks)
    elif at.min() > 0 and at.max() > 100 * at.min():
        ax.set_xscale("log")
    name = tuning.metric if isinstance(tuning.metric, str) else "score"
    ax.set(xlabel=as_text(over), ylabel=f"cross-validated {name.replace('_', ' ')}")
    ax.legend()
    return ax


def _positions(values: Sequence[Any]) -> tuple[np.ndarray, list[str] | None]:
    """The positions of values on an axis, and their names unless they are numbers."""
    if all(
        isinstance(v, int | float) or (np.ndim(v) == 0 and np.asarray(v).dtype.kind in "iuf")
        for v in values
    ):
        return np.asarray(values, float), None
    names = [as_text(value) for value in values]
    return np.asarray([names.index(name) for name in names], float), names


@checked_arguments(test=_a(PermutationTest, "permutation_test"), ax=AX)
def null(test: PermutationTest, *, metric: str = "score", ax: Axes | None = None) -> Axes:
    """Histogram of the scores of permuted labels, with the observed score and its p-value.

    Args:
        test: from `genclf.permutation_test` without `by`.
        metric: name of the score, for the axis.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: the test is of several groups (`by`).

    Example:
        >>> import jax, genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> x, y = data.x_train, data.y_train
        >>> folds = gcf.kfold(jax.random.key(0), y, 5)
        >>> test = gcf.permutation_test(jax.random.key(1), gcf.lda(11), x, y, folds, num=50)
        >>> ax = plot.null(test, metric="balanced accuracy")
    """
    if np.ndim(test.observed):
        raise ValueError(
            f"test has scores of {len(test.observed)} groups, expected one: draw each group's "
            "`null[:, g]` on its own"
        )
    ax, scores = new_axes(ax), np.asarray(test.null)
    ax.hist(scores[np.isfinite(scores)], 30, color="0.7", label=f"{len(scores)} permutations")
    label = f"labels as they are, p = {float(test.p_value):.3g}"
    ax.axvline(float(test.observed), color="#AA3377", linestyle="--", label=label)
    ax.set(xlabel=as_text(metric), ylabel="permutations")
    ax.legend()
    return ax


@checked_arguments(y=None, predicted=None, ax=AX)
def confusion(
    y: ArrayLike,
    predicted: ArrayLike,
    *,
    class_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Confusion matrix: the number of rows of each class (down) by predicted class (across).

    The shade is the share among the rows of that class.

    Args:
        y: labels, shape (n,): integers 0..K-1, and -1 for rows to leave out. Without class_names
            also other values of one kind, such as strings.
        predicted: predicted classes, shape (n,), of the same kind, without -1.
        class_names: K names; None for the distinct values in y and predicted.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: the shapes differ, or a class is out of range.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.lda(11), data.x_train, data.y_train)
        >>> predicted = gcf.predict(params, data.x_test)
        >>> ax = plot.confusion(data.y_test, predicted, class_names=data.class_names)
    """
    if class_names is None:
        y, predicted, class_names = _numbered(y, predicted)
    y, predicted, size = np.asarray(y), np.asarray(predicted), len(class_names)
    labels(y, len(y), size)
    if predicted.shape != y.shape or ((predicted < 0) | (predicted >= size)).any():
        raise ValueError(
            f"predicted has shape {predicted.shape} and classes {predicted.min()}.."
            f"{predicted.max()}, expected {y.shape} and 0..{size - 1}"
        )
    names, ax = names_of(class_names, size, "class_names", "{}"), new_axes(ax)
    table = np.zeros((size, size), int)
    np.add.at(table, (y[y >= 0], predicted[y >= 0]), 1)
    share = table / np.maximum(table.sum(1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    for (i, j), count in np.ndenumerate(table):
        if count:
            dark = "white" if share[i, j] > 0.5 else "0.2"
            ax.text(j, i, str(count), ha="center", va="center", color=dark, fontsize="small")
    ax.set_xticks(range(size), names, rotation=45 if max(map(len, names)) > 3 else 0)
    ax.set_yticks(range(size), names)
    ax.set(xlabel="predicted", ylabel="class")
    return ax


def _numbered(y: object, predicted: object) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Labels and predicted classes by the numbers of their distinct values, and these as names."""
    of_y, of_predicted = distinct(y, "y"), distinct(predicted, "predicted")
    # As objects, so that NumPy does not convert numbers to strings.
    both = [values.astype(object)[number] for values, number in (of_y, of_predicted)]
    classes, number = distinct(np.concatenate(both), "y and predicted")
    first = 0
    if of_y[0].dtype.kind == "i":
        if of_y[0][0] < -1:
            raise ValueError(f"y holds {of_y[0][0]}, expected integers >= 0, or -1 for none")
        first = int(classes[0] == -1)
    names = [str(value) for value in classes[first:]]
    return number[: len(both[0])] - first, number[len(both[0]) :] - first, names
