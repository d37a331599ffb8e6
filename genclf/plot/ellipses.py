"""Ellipses of Gaussian class densities, in two features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from genclf.arguments.domains import shown
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.families.gaussian.params import GaussianParams
from genclf.plot.classes import AX, Style, generative, names_of, new_axes, styles_of
from genclf.plot.plane import View, checked_pair, finished, pair_of_numbers, set_view


def levels(value: object, name: str) -> list[float]:
    """Shares of a density, ascending; raise for anything but one or several between 0 and 1."""
    given: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
    for share in given:
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
            raise ValueError(
                f"{name} is {shown(value)}, expected a share between 0 and 1, such as 0.9, or a "
                "list of them"
            )
    return sorted(map(float, given))


def _gaussian(value: object, name: str) -> ClassifierParams:
    params = generative(value, name)
    if not isinstance(params.conditional, GaussianParams):
        raise ValueError(
            f"{name} has class densities {type(params.conditional).__name__}, expected Gaussian "
            "ones, which have ellipses"
        )
    return params


@checked_arguments(params=_gaussian, level=levels, features=pair_of_numbers, ax=AX)
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
        ValueError: the densities are not Gaussian, or an argument is invalid.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> ax = plot.ellipses(gcf.fit(gcf.lda(11), data.x_train, data.y_train), level=0.5)
    """
    density, ax = params.conditional, new_axes(ax)
    names = names_of(feature_names, density.num_features, "feature_names", "feature {}")
    i, j = checked_pair(features, len(names), "features")
    styles = styles_of(params.num_classes, class_names)
    named = {line.get_label() for line in ax.lines} >= {style.name for style in styles}
    draw_levels(ax, density, (i, j), styles, level, named=named)
    return finished(ax, [names[i], names[j]])


def draw_levels(
    ax: Axes,
    density: GaussianParams,
    pair: tuple[int, int],
    styles: Sequence[Style],
    level: Sequence[float],
    *,
    named: bool,
) -> None:
    """The ellipses of each level, one legend entry for all and, unless `named`, one per class."""
    for share in level:
        draw_ellipses(ax, density, pair, styles, share)
    if not named:
        for style in styles:
            ax.plot([], [], linestyle=style.dash, color=style.colour, label=style.name)
    shares = " and ".join(f"{100 * share:.4g} %" for share in level)
    ax.plot([], [], color="0.6", linewidth=1, label=f"{shares} of the class density")


def draw_ellipses(
    ax: Axes, density: GaussianParams, pair: tuple[int, int], styles: Sequence[Style], level: float
) -> None:
    """The ellipse of each class in two features, without a label; the axes show all of it."""
    of_pair = np.asarray(density.covariances)[:, pair][..., pair]
    root = np.linalg.cholesky(of_pair)
    mean = np.asarray(density.mean)[:, list(pair)]
    turn = np.linspace(0, 2 * np.pi, 200)
    circle = np.sqrt(-2 * np.log1p(-level)) * np.stack([np.cos(turn), np.sin(turn)])
    for k, style in enumerate(styles):
        edge = mean[k][:, None] + root[k] @ circle
        ax.plot(*edge, linestyle=style.dash, color=style.colour, linewidth=1)
        if not ax.get_autoscale_on():
            low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
            margin = 0.02 * (high - low)
            low = np.minimum(low, edge.min(1) - margin)
            set_view(ax, View(low, np.maximum(high, edge.max(1) + margin)))
