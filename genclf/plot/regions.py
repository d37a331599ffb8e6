"""Decision regions in the plane: of one model, of several in the same axes, or side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from genclf.arguments.domains import FLAG, shown
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments, optional
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.model import Fitted, check_params
from genclf.classifier.scores import predict
from genclf.families.gaussian.params import GaussianParams
from genclf.plot.classes import (
    AX,
    as_text,
    merged_legend,
    names_of,
    new_axes,
    rows_and_labels,
    scatter,
    styles_of,
)
from genclf.plot.ellipses import draw_levels, levels
from genclf.plot.plane import check_plane, draw_edges, fill_regions, finished, plane_of, view_of


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
    if filled:
        fill_regions(ax, plane, styles, named=bool(len(x)))
    draw_edges(ax, plane, bold=not filled, name=None if name is None else as_text(name))
    if len(x):
        scatter(ax, x, y, styles)
    return finished(ax, names_of(feature_names, 2, "feature_names", "feature {}"))


def _models(value: object, name: str) -> dict[str, Fitted]:
    """Params by name, of the same number of classes and of two features each."""
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{name} is {shown(value)}, expected fitted params by name, as a dict")
    for key, params in value.items():
        check_params(params, f"{name}[{key!r}]", "predict")
        check_plane(params, f"{name}[{key!r}]")
    if len({params.num_classes for params in value.values()}) > 1:
        numbers = {key: params.num_classes for key, params in value.items()}
        raise ValueError(f"{name} differ in their number of classes: {numbers}")
    return {as_text(key): params for key, params in value.items()}


@checked_arguments(models=_models, x=None, y=None, level=optional(levels), ax=AX)
def boundaries(
    models: Mapping[str, Fitted],
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    level: Any = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The boundaries of several models in the same axes, with the rows.

    With `level`, the ellipses of the first model with Gaussian classes show its densities.

    Args:
        models: fitted params by name, such as `{"LDA": lda, "logistic regression": softmax}`.
        x: rows, shape (n, 2), as for `boundary`.
        y: labels, integers 0..K-1, or -1 for none, shape (n,).
        level: the probability content of each ellipse, as for `ellipses`; or None for no ellipses.
        class_names: K names for the legend.
        feature_names: two names for the axes.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: models differ in their number of classes, or do not have two features; no model
            has Gaussian classes to draw ellipses of; or an argument is invalid.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> x, y = data.x_train[:, :2], data.y_train
        >>> models = {"LDA": gcf.lda(11), "softmax": gcf.SoftmaxRegression(11)}
        >>> fits = {name: gcf.fit(model, x, y) for name, model in models.items()}
        >>> ax = plot.boundaries(fits, x, y, level=0.5)
    """
    first, ax = next(iter(models.values())), new_axes(ax)
    x, y = rows_and_labels(x, y, 2, first.num_classes)
    styles = styles_of(first.num_classes, class_names)
    view = view_of(first, x, ax)
    if len(x):
        scatter(ax, x, y, styles)
    for name, params in models.items():
        draw_edges(ax, plane_of(params, view), bold=True, name=name)
    if level:
        fitted = (params for params in models.values() if isinstance(params, ClassifierParams))
        gaussian = [p.conditional for p in fitted if isinstance(p.conditional, GaussianParams)]
        if not gaussian:
            raise ValueError("level is given, but no model has Gaussian classes to draw")
        draw_levels(ax, gaussian[0], (0, 1), styles, level, named=bool(len(x)))
    return finished(ax, names_of(feature_names, 2, "feature_names", "feature {}"))


@checked_arguments(models=_models, x=None, y=None, level=optional(levels))
def regions(
    models: Mapping[str, Fitted],
    x: ArrayLike,
    y: ArrayLike,
    *,
    level: Any = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
) -> np.ndarray:
    """The regions of several models side by side, with the number of labelled rows each gets wrong.

    Args:
        models: fitted params by name, such as `{"LDA": lda, "QDA": qda}`.
        x: rows, shape (n, 2).
        y: labels, integers 0..K-1, or -1 for none, shape (n,).
        level: the probability content of each ellipse, for models of Gaussian classes; or None for
            no ellipses.
        class_names: K names for the legend.
        feature_names: two names for the axes.

    Returns:
        The axes, an array of shape (m,) of a new figure.

    Raises:
        ValueError: models differ in their number of classes, or do not have two features; or an
            argument is invalid.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> x, y = data.x_train[:, :2], data.y_train
        >>> fits = {"LDA": gcf.fit(gcf.lda(11), x, y), "QDA": gcf.fit(gcf.qda(11), x, y)}
        >>> panels = plot.regions(fits, x, y, class_names=data.class_names)
    """
    first = next(iter(models.values()))
    x, y = rows_and_labels(x, y, 2, first.num_classes)
    columns = min(len(models), 3 if len(models) != 4 else 2)
    lines = -(-len(models) // columns)
    figure, grid = plt.subplots(
        lines, columns, sharex=True, sharey=True, squeeze=False, layout="constrained",
        figsize=(3.2 * columns + 1.2, 2.9 * lines),
    )  # fmt: skip
    panels = grid.ravel()[: len(models)]
    for i, (ax, (name, params)) in enumerate(zip(panels, models.items(), strict=True)):
        boundary(params, x, y, class_names=class_names, feature_names=feature_names, ax=ax)
        density = params.conditional if isinstance(params, ClassifierParams) else None
        if level and isinstance(density, GaussianParams):
            styles = styles_of(params.num_classes, class_names)
            draw_levels(ax, density, (0, 1), styles, level, named=True)
        ax.get_legend().remove()
        wrong = int((np.asarray(predict(params, x)) != y)[y >= 0].sum())
        ax.set(title=f"{name}: {wrong} errors of {(y >= 0).sum()}")
        is_lowest = i + columns >= len(models)
        ax.tick_params(labelbottom=is_lowest)
        if not is_lowest:
            ax.set(xlabel="")
        if i % columns:
            ax.set(ylabel="")
    for ax in grid.ravel()[len(models) :]:
        ax.set_visible(False)
    figure.legend(**merged_legend(*panels), loc="outside right upper")
    return panels
