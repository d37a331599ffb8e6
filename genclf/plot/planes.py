"""Decision regions of one model in the plane of two features."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from genclf.arguments.domains import FLAG
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.model import Fitted, TakesExamples
from genclf.plot.classes import (
    AX,
    as_text,
    legend,
    names_of,
    new_axes,
    rows_and_labels,
    scatter,
    styles_of,
)
from genclf.plot.plane import draw_edges, fill_regions, name_axes, plane_of, set_view, view_of


def check_plane(params: TakesExamples, name: str) -> None:
    """Raise unless these params are of two features."""
    if params.num_features != 2:
        raise ValueError(
            f"{name} has {params.num_features} features, but a plane has 2: fit the model to two "
            "columns, or see genclf.plot.axes and genclf.plot.pairs"
        )


@checked_arguments(any_model=True, x=None, y=None, filled=FLAG, ax=AX)
def boundary(
    params: Fitted,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    filled: bool = True,
    name: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The region of the plane in which each class is the most probable, and the rows.

    An edge is the line where the discriminants of two classes are equal.

    Args:
        params: a model fitted to two features.
        x: rows, shape (n, 2); they set the limits of the axes. Without rows, these are those of
            `ax`, or of 2,000 draws from the model.
        y: labels, integers 0..K-1, or -1 for none, shape (n,); without them rows are grey.
        filled: whether regions are tinted. Otherwise only their edges are drawn, with different
            dashes for each model in the same axes.
        name: the name of the edges in the legend, where regions are not tinted.
        class_names: K names for the legend.
        feature_names: two names for the axes.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: the model does not have two features, there is nothing to draw, or an argument
            is invalid.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> x, y = data.x_train[:, :2], data.y_train
        >>> ax = plot.boundary(gcf.fit(gcf.qda(11), x, y), x, y, class_names=data.class_names)
    """
    check_plane(params, "params")
    x, y = rows_and_labels(x, y, 2, params.num_classes)
    styles, ax = styles_of(params.num_classes, class_names), new_axes(ax)
    view = view_of(params, x, ax)
    plane = plane_of(params, view)
    set_view(ax, view)
    if filled:
        fill_regions(ax, plane, styles, named=bool(len(x)))
    draw_edges(ax, plane, bold=not filled, name=None if name is None else as_text(name))
    if len(x):
        scatter(ax, x, y, styles)
    return finished(ax, names_of(feature_names, 2, "feature_names", "feature {}"))


def finished(ax: Axes, names: Sequence[str]) -> Axes:
    """The axes, with their names and a legend."""
    name_axes(ax, names)
    legend(ax)
    return ax
