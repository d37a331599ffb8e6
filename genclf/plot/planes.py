"""Figures of two features or axes at a time: decision regions, ellipses, discriminant space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from genclf.arguments.domains import shown
from genclf.classifier import ClassifierParams
from genclf.entry.verb import ArrayLike, verb
from genclf.families.gaussian_params import GaussianParams
from genclf.model import Fitted
from genclf.multivariate.axes import DiscriminantAxes, discriminant_axes, transform
from genclf.plot.classes import (
    AX,
    Look,
    generative,
    looks,
    names_of,
    new_axes,
    rows_and_labels,
    scatter,
    tints,
)
from genclf.scores import predict

_STEPS = 240  # grid points in each direction, where classes are predicted


def _level(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError(f"{name} is {shown(value)}, expected a share between 0 and 1, such as 0.9")
    return float(value)


def _gaussian(value: Any, name: str) -> ClassifierParams:
    params = generative(value, name)
    if not isinstance(params.conditional, GaussianParams):
        raise ValueError(
            f"{name} has class densities {type(params.conditional).__name__}, expected Gaussian "
            "ones, which have ellipses"
        )
    return params


def _pair(value: Any, name: str) -> Any:
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2 or any(isinstance(j, bool) or not isinstance(j, int) for j in pair):
        raise ValueError(f"{name} is {shown(value)}, expected two numbers of features, as (0, 1)")
    return pair


@verb(any_model=True, x=None, y=None, ax=AX)
def boundary(
    params: Fitted,
    x: ArrayLike,
    y: ArrayLike,
    *,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The region of the plane in which each class is the most probable, and the rows.

    Args:
        params: a model fitted to two features.
        x: rows, shape (n, 2); they set the limits of the axes.
        y: labels, integers 0..K-1, or -1 for none, shape (n,).
        class_names: K names for the legend.
        feature_names: two names for the axes.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: the model has another number of features than two, or an argument does not fit.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> x, y = data.x_train[:, :2], data.y_train
        >>> ax = plot.boundary(gcf.fit(gcf.qda(11), x, y), x, y, class_names=data.class_names)
    """
    if params.num_features != 2:
        raise ValueError(
            f"params has {params.num_features} features, and a plane has 2: fit the model to two "
            "columns, or see genclf.plot.axes and genclf.plot.pairs"
        )
    num_classes = params.num_classes
    x, y = rows_and_labels(x, y, 2, num_classes)
    kinds, ax = looks(num_classes, class_names), new_axes(ax)
    low, high = np.nanmin(x, 0), np.nanmax(x, 0)
    margin = 0.07 * np.where(high > low, high - low, 1)
    across, up = (
        np.linspace(start, end, _STEPS)
        for start, end in zip(low - margin, high + margin, strict=True)
    )
    plane = np.stack(np.meshgrid(across, up), -1).astype(np.result_type(x.dtype, np.float32))
    found = np.asarray(predict(params, plane.reshape(-1, 2))).reshape(_STEPS, _STEPS)
    ax.pcolormesh(
        across, up, found, cmap=ListedColormap(list(tints(kinds))), vmin=-0.5,
        vmax=num_classes - 0.5, rasterized=True,
    )  # fmt: skip
    for k in range(num_classes):
        if (found == k).any() and (found != k).any():
            ax.contour(across, up, found == k, [0.5], colors="0.3", linewidths=0.8)
    scatter(ax, x, y, kinds)
    name_axes(ax, names_of(feature_names, 2, "feature_names", "feature {}"))
    ax.legend()
    return ax


@verb(params=_gaussian, level=_level, features=_pair, ax=AX)
def ellipses(
    params: ClassifierParams,
    *,
    level: float = 0.9,
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
        level: the share of the density inside, between 0 and 1.
        features: the numbers of two features.
        class_names: K names for the legend.
        feature_names: d names; the axes show those of the two features.
        ax: axes to draw in, such as those of `boundary`; None for new ones.

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
    i, j = _checked_pair(features, len(names), "features")
    kinds = looks(params.num_classes, class_names)
    named = {line.get_label() for line in ax.lines}
    draw_ellipses(ax, density, (i, j), kinds, level)
    if not named >= {look.name for look in kinds}:
        for look in kinds:
            ax.plot([], [], linestyle=look.dash, color=look.colour, label=look.name)
    ax.plot([], [], color="0.3", label=f"{100 * level:.4g} % of the class density")
    name_axes(ax, [names[i], names[j]])
    ax.legend()
    return ax


def draw_ellipses(
    ax: Axes, density: GaussianParams, pair: tuple[int, int], kinds: Sequence[Look], level: float
) -> None:
    """The ellipse of each class in two features, without a label."""
    of_pair = np.asarray(density.covariances)[:, pair][..., pair]
    root = np.linalg.cholesky(of_pair)
    mean = np.asarray(density.mean)[:, list(pair)]
    turn = np.linspace(0, 2 * np.pi, 200)
    circle = np.sqrt(-2 * np.log1p(-level)) * np.stack([np.cos(turn), np.sin(turn)])
    for k, look in enumerate(kinds):
        ax.plot(*(mean[k][:, None] + root[k] @ circle), linestyle=look.dash, color=look.colour)


def name_axes(ax: Axes, names: Sequence[str]) -> None:
    """Name the two axes, if they have no names yet."""
    ax.set(xlabel=ax.get_xlabel() or names[0], ylabel=ax.get_ylabel() or names[1])


def _checked_pair(pair: tuple[int, int], size: int, name: str) -> tuple[int, int]:
    for j in pair:
        if not 0 <= j < size:
            raise ValueError(f"{name} is {pair}, expected two numbers in 0..{size - 1}")
    return pair


def _axes_of(value: Any, name: str) -> DiscriminantAxes:
    return value if isinstance(value, DiscriminantAxes) else discriminant_axes(value)


@verb(source=_axes_of, x=None, y=None, pair=_pair, ax=AX)
def axes(
    source: Any,
    x: ArrayLike,
    y: ArrayLike,
    *,
    pair: tuple[int, int] = (0, 1),
    class_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The rows in discriminant space, on two of its axes, with the class means.

    Within a class, scores on the axes are uncorrelated with variance 1.

    Args:
        source: `DiscriminantAxes`, or what `discriminant_axes` takes.
        x: rows, shape (n, d).
        y: labels, integers 0..K-1, or -1 for none, shape (n,).
        pair: the numbers of two axes, from 0; with one axis only, rows are drawn by class.
        class_names: K names.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes of the figure.

    Raises:
        ValueError: there are no such axes, or an argument does not fit.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.lda(11), data.x_train, data.y_train)
        >>> ax = plot.axes(params, data.x_train, data.y_train, class_names=data.class_names)
    """
    num_classes, num_axes = source.mean.shape
    kinds, ax = looks(num_classes, class_names), new_axes(ax)
    x, y = rows_and_labels(x, y, len(source.centre), num_classes)
    scores, mean = np.asarray(transform(source, x)), np.asarray(source.mean)
    names = [f"axis {i + 1} ({share:.0%} of the ratio)" for i, share in enumerate(source.explained)]
    if num_axes == 1:
        bins = np.histogram_bin_edges(scores, 30).tolist()
        for k, look in enumerate(kinds):
            ax.hist(scores[y == k, 0], bins, histtype="step", color=look.colour, label=look.name)
            ax.axvline(mean[k, 0], color=look.colour, linestyle=look.dash)
        name_axes(ax, [names[0], "rows"])
        ax.legend()
    else:
        i, j = _checked_pair(pair, num_axes, "pair")
        scatter(ax, scores[:, [i, j]], y, kinds)
        for look, at in zip(kinds, mean[:, [i, j]], strict=True):
            ax.annotate(
                look.name, at, weight="bold", ha="center", va="center", color=look.colour,
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
            )  # fmt: skip
        name_axes(ax, [names[i], names[j]])
    return ax
