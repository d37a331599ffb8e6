"""Figures of two features: decision regions, boundaries of several models, ellipses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from genclf.arguments.domains import FLAG, shown
from genclf.classifier import ClassifierParams
from genclf.entry.verb import ArrayLike, verb
from genclf.families.gaussian_params import GaussianParams
from genclf.model import Fitted, check_params
from genclf.plot.classes import (
    AX,
    Look,
    as_text,
    generative,
    legend,
    looks,
    merged_legend,
    names_of,
    new_axes,
    rows_and_labels,
    scatter,
)
from genclf.plot.plane import View, draw_edges, fill_regions, plane_of, show, view_of
from genclf.scores import predict


def _level(value: Any, name: str) -> list[float]:
    given = list(value) if isinstance(value, list | tuple) else [value]
    for share in given:
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
            raise ValueError(
                f"{name} is {shown(value)}, expected a share between 0 and 1, such as 0.9, or a "
                "list of them"
            )
    return sorted(map(float, given))


def _optional_level(value: Any, name: str) -> list[float]:
    return [] if value is None else _level(value, name)


def _gaussian(value: Any, name: str) -> ClassifierParams:
    params = generative(value, name)
    if not isinstance(params.conditional, GaussianParams):
        raise ValueError(
            f"{name} has class densities {type(params.conditional).__name__}, expected Gaussian "
            "ones, which have ellipses"
        )
    return params


def _models(value: Any, name: str) -> dict[str, Fitted]:
    """Params by name, of the same number of classes and of two features each."""
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{name} is {shown(value)}, expected fitted params by name, as a dict")
    for key, params in value.items():
        check_params(params, f"{name}[{key!r}]", "predict")
        _check_plane(params, f"{name}[{key!r}]")
    if len({params.num_classes for params in value.values()}) > 1:
        numbers = {key: params.num_classes for key, params in value.items()}
        raise ValueError(f"{name} differ in their number of classes: {numbers}")
    return {as_text(key): params for key, params in value.items()}


def _check_plane(params: Fitted, name: str) -> None:
    if params.num_features != 2:
        raise ValueError(
            f"{name} has {params.num_features} features, and a plane has 2: fit the model to two "
            "columns, or see genclf.plot.axes and genclf.plot.pairs"
        )


def pair_of_numbers(value: Any, name: str) -> Any:
    """Two numbers of features; raise for anything else."""
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2 or any(isinstance(j, bool) or not isinstance(j, int) for j in pair):
        raise ValueError(f"{name} is {shown(value)}, expected two numbers of features, as (0, 1)")
    return pair


@verb(any_model=True, x=None, y=None, filled=FLAG, ax=AX)
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
        filled: whether regions are tinted. Otherwise there are only their edges, with other dashes
            for each model that is drawn in the same axes.
        name: the name of the edges in the legend, where regions are not tinted.
        class_names: K names for the legend.
        feature_names: two names for the axes.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: the model has another number of features than two, there is nothing to see, or
            an argument does not fit.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> x, y = data.x_train[:, :2], data.y_train
        >>> ax = plot.boundary(gcf.fit(gcf.qda(11), x, y), x, y, class_names=data.class_names)
    """
    _check_plane(params, "params")
    x, y = rows_and_labels(x, y, 2, params.num_classes)
    kinds, ax = looks(params.num_classes, class_names), new_axes(ax)
    view = view_of(params, x, ax)
    plane = plane_of(params, view)
    show(ax, view)
    if filled:
        fill_regions(ax, plane, kinds, named=bool(len(x)))
    draw_edges(ax, plane, bold=not filled, name=None if name is None else as_text(name))
    if len(x):
        scatter(ax, x, y, kinds)
    return _finished(ax, names_of(feature_names, 2, "feature_names", "feature {}"))


@verb(models=_models, x=None, y=None, level=_optional_level, ax=AX)
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
        level: shares of a class density, each the inside of an ellipse, as for `ellipses`; or None.
        class_names: K names for the legend.
        feature_names: two names for the axes.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: models differ in their number of classes, or not of two features; no model has
            Gaussian classes to draw ellipses of; or an argument does not fit.

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
    kinds = looks(first.num_classes, class_names)
    view = view_of(first, x, ax)
    show(ax, view)
    if len(x):
        scatter(ax, x, y, kinds)
    for name, params in models.items():
        draw_edges(ax, plane_of(params, view), bold=True, name=name)
    if level:
        fitted = (params for params in models.values() if isinstance(params, ClassifierParams))
        gaussian = [p.conditional for p in fitted if isinstance(p.conditional, GaussianParams)]
        if not gaussian:
            raise ValueError("level is given, and no model has Gaussian classes, with ellipses")
        _draw_ellipses(ax, gaussian[0], (0, 1), kinds, level, named=bool(len(x)))
    return _finished(ax, names_of(feature_names, 2, "feature_names", "feature {}"))


@verb(models=_models, x=None, y=None)
def regions(
    models: Mapping[str, Fitted],
    x: ArrayLike,
    y: ArrayLike,
    *,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
) -> np.ndarray:
    """The regions of several models side by side, with the number of labelled rows each gets wrong.

    Args:
        models: fitted params by name, such as `{"LDA": lda, "QDA": qda}`.
        x: rows, shape (n, 2).
        y: labels, integers 0..K-1, or -1 for none, shape (n,).
        class_names: K names for the legend.
        feature_names: two names for the axes.

    Returns:
        The axes, an array of shape (m,) of a new figure.

    Raises:
        ValueError: models differ in their number of classes, or not of two features; or an argument
            does not fit.

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
    for ax, (name, params) in zip(panels, models.items(), strict=True):
        boundary(params, x, y, class_names=class_names, feature_names=feature_names, ax=ax)
        ax.get_legend().remove()
        wrong = int((np.asarray(predict(params, x)) != y)[y >= 0].sum())
        ax.set(title=f"{name}: {wrong} errors of {(y >= 0).sum()}")
        ax.label_outer()
    for ax in grid.ravel()[len(models) :]:
        ax.set_visible(False)
    figure.legend(**merged_legend(*panels), loc="outside right upper")
    return panels


@verb(params=_gaussian, level=_level, features=pair_of_numbers, ax=AX)
def ellipses(
    params: ClassifierParams,
    *,
    level: Any = (0.9,),
    features: tuple[int, int] = (0, 1),
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Ellipses that contain a share of each Gaussian class density, in two features.

    The ellipse is `(x-μ_k)ᵀ Σ_k⁻¹ (x-μ_k) = -2 log (1 - level)` in the two features; the others are
    integrated out. It shows where rows of the class lie, not a confidence region of its mean.

    Args:
        params: a classifier with `Gaussian` densities.
        level: the share of the density inside, between 0 and 1; or several, as [0.5, 0.9].
        features: the numbers of two features.
        class_names: K names for the legend.
        feature_names: d names; the axes show those of the two features.
        ax: axes to draw in, such as those of `boundary`, which then show all of the ellipses; None
            for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: the densities are not Gaussian, or an argument does not fit.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> ax = plot.ellipses(gcf.fit(gcf.lda(11), data.x_train, data.y_train), level=0.5)
    """
    density, ax = params.conditional, new_axes(ax)
    names = names_of(feature_names, density.num_features, "feature_names", "feature {}")
    i, j = checked_pair(features, len(names), "features")
    kinds = looks(params.num_classes, class_names)
    named = {line.get_label() for line in ax.lines} >= {look.name for look in kinds}
    _draw_ellipses(ax, density, (i, j), kinds, level, named=named)
    name_axes(ax, [names[i], names[j]])
    legend(ax)
    return ax


def _draw_ellipses(
    ax: Axes, density: GaussianParams, pair: Any, kinds: Sequence[Look], level: Any, *, named: bool
) -> None:
    """The ellipses of each level, an entry of the legend for all, and one per class if need be."""
    for share in level:
        draw_ellipses(ax, density, pair, kinds, share)
    if not named:
        for look in kinds:
            ax.plot([], [], linestyle=look.dash, color=look.colour, label=look.name)
    shares = " and ".join(f"{100 * share:.4g} %" for share in level)
    ax.plot([], [], color="0.6", linewidth=1, label=f"{shares} of the class density")


def draw_ellipses(
    ax: Axes, density: GaussianParams, pair: tuple[int, int], kinds: Sequence[Look], level: float
) -> None:
    """The ellipse of each class in two features, without a label; the axes show all of it."""
    of_pair = np.asarray(density.covariances)[:, pair][..., pair]
    root = np.linalg.cholesky(of_pair)
    mean = np.asarray(density.mean)[:, list(pair)]
    turn = np.linspace(0, 2 * np.pi, 200)
    circle = np.sqrt(-2 * np.log1p(-level)) * np.stack([np.cos(turn), np.sin(turn)])
    for k, look in enumerate(kinds):
        edge = mean[k][:, None] + root[k] @ circle
        ax.plot(*edge, linestyle=look.dash, color=look.colour, linewidth=1)
        if not ax.get_autoscale_on():
            low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
            margin = 0.02 * (high - low)
            low = np.minimum(low, edge.min(1) - margin)
            show(ax, View(low, np.maximum(high, edge.max(1) + margin)))


def _finished(ax: Axes, names: Sequence[str]) -> Axes:
    name_axes(ax, names)
    legend(ax)
    return ax


def name_axes(ax: Axes, names: Sequence[str]) -> None:
    """Name the two axes, if they have no names yet."""
    ax.set(xlabel=ax.get_xlabel() or names[0], ylabel=ax.get_ylabel() or names[1])


def checked_pair(pair: tuple[int, int], size: int, name: str) -> tuple[int, int]:
    """The pair; raise unless these are two different numbers of `size` things."""
    if pair[0] == pair[1] or not all(0 <= j < size for j in pair):
        raise ValueError(f"{name} is {pair}, expected two different numbers in 0..{size - 1}")
    return pair
