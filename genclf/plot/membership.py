"""Figures of p-values that rows are of each class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from genclf.arguments.domains import SHARE, Domain, whole
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.conversion import as_arrays
from genclf.plot.classes import AX, labels, names_of, new_axes, rows_and_labels, scatter, styles_of
from genclf.plot.plane import check_plane, grid_of, name_axes, view_of
from genclf.select.membership.coverage import Z95
from genclf.select.membership.rows import MembershipTest

_TEST = Domain("what genclf.typicality_test returns", lambda a: isinstance(a, MembershipTest))


@checked_arguments(test=_TEST, x=None, y=None, alpha=SHARE, ax=AX)
def typical_regions(
    test: MembershipTest,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    alpha: float = 0.05,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The region of the plane where a row may be of each class, and where it is of none.

    A class has the region `p > alpha`; regions overlap where a row may be of several classes. The
    inner line is `p = 0.5`, within which half of the rows of the class are. The rest is hatched: a
    row there is typical of none of the classes.

    Args:
        test: `genclf.typicality_test` of a model of two features.
        x: rows, (n, 2); they set the limits of the axes.
        y: labels, integers 0..K-1, or -1 for none, (n,); without them rows are grey.
        alpha: the level of the sets, 0 to 1.
        class_names: K names for the legend.
        feature_names: two names for the axes.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: the model does not have two features, or an argument is invalid.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> x, y, clf = data.x_train[:, :2], data.y_train, gcf.qda(11)
        >>> test = gcf.typicality_test(clf, gcf.stats(clf, x, y))
        >>> ax = plot.typical_regions(test, x, y, class_names=data.class_names)
    """
    check_plane(test, "test")
    x, y = rows_and_labels(x, y, 2, test.num_classes)
    styles, ax = styles_of(test.num_classes, class_names), new_axes(ax)
    across, up, points = grid_of(view_of(test, x, ax))
    p = np.asarray(test(points)).T.reshape(-1, len(up), len(across))
    for style, own in zip(styles, np.nan_to_num(p), strict=True):
        if own.max() > alpha:
            ax.contourf(across, up, own, [alpha, 2], colors=[style.colour], alpha=0.2, zorder=0)
            ax.contour(
                across, up, own, sorted({alpha, 0.5}), colors=[style.colour],
                linestyles=["-", ":"] if alpha < 0.5 else [":", "-"], linewidths=1,
            )  # fmt: skip
    none = np.nan_to_num(p).max(0) <= alpha
    ax.contourf(across, up, none, [0.5, 2], colors=["none"], hatches=["//"], zorder=0)
    scatter(ax, x, y, styles)
    name_axes(ax, names_of(feature_names, 2, "feature_names", "feature {}"))
    handles, _ = ax.get_legend_handles_labels()
    empty = Patch(facecolor="white", edgecolor="0.3", hatch="//", label=f"none: p ≤ {alpha:g}")
    ax.legend(handles=[*handles, empty])
    return ax


@checked_arguments(p=as_arrays, y=None, num_bins=whole(2), ax=AX)
def typicality(
    p: ArrayLike,
    y: ArrayLike,
    *,
    num_bins: int = 10,
    class_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of the p-values of rows for their own class: flat where the model holds.

    A peak near 0 is of rows that are far from their class; one near 1 is of tails that the density
    has and the class has not.

    Args:
        p: p-values of rows that were not learned, as `genclf.typicality` returns them, (n, K).
        y: labels, integers 0..K-1, or -1 for none, (n,).
        num_bins: number of bins of equal width, >= 2.
        class_names: K names for the legend.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes. The grey band has 95 % of the bins of a uniform distribution, for the class with
        the fewest rows; rows whose p-value is NaN are left out, and counted in the legend.

    Raises:
        ValueError: a shape does not fit, or an argument is invalid.

    Example:
        >>> import jax, genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> clf, learned, rest = gcf.qda(11), slice(0, 528, 2), slice(1, 528, 2)
        >>> stats = gcf.stats(clf, data.x_train[learned], data.y_train[learned])
        >>> p = gcf.typicality(clf, stats, data.x_train[rest])
        >>> ax = plot.typicality(p, data.y_train[rest], class_names=data.class_names)
    """
    p = np.asarray(p)
    if p.ndim != 2 or p.dtype.kind != "f":
        raise ValueError(f"p has shape {p.shape} and dtype {p.dtype}, expected (n, K) p-values")
    y = labels(y, *p.shape)
    styles, ax = styles_of(p.shape[1], class_names), new_axes(ax)
    own = np.where(y >= 0, np.take_along_axis(p, np.maximum(y, 0)[:, None], 1)[:, 0], np.nan)
    edges = np.linspace(0, 1, num_bins + 1)
    fewest = len(p)
    for k, style in enumerate(styles):
        of_class = own[(y == k) & ~np.isnan(own)]
        if len(of_class):
            height = np.histogram(of_class, edges)[0] * num_bins / len(of_class)
            line = {"color": style.colour, "linestyle": style.dash, "label": style.name}
            ax.stairs(height, edges, baseline=None, **line)
            fewest = min(fewest, len(of_class))
    half = Z95 * np.sqrt((num_bins - 1) / max(fewest, 1))
    ax.axhspan(max(1 - half, 0), 1 + half, color="0.9", zorder=0, label=f"95 %, {fewest} rows")
    ax.axhline(1, color="0.6", linewidth=1, zorder=0)
    if lost := int((np.isnan(own) & (y >= 0)).sum()):
        ax.plot([], [], " ", label=f"{lost} rows without a p-value")
    ax.set(
        xlabel="p-value of the row's class",
        ylabel="density",
        xlim=(0, 1),
        ylim=(0, 1.35 * ax.get_ylim()[1]),
    )
    ax.legend(loc="upper right", ncols=2)
    return ax
