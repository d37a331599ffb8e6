"""Every pair of some features, with their densities on the diagonal."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np

from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.families.gaussian.params import GaussianParams
from genclf.plot.classes import generative, names_of, rows_and_labels, scatter, styles_of
from genclf.plot.densities import draw_densities
from genclf.plot.ellipses import draw_ellipses


@checked_arguments(params=generative, x=None, y=None)
def pairs(
    params: ClassifierParams,
    x: ArrayLike,
    y: ArrayLike,
    *,
    features: Sequence[int] | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
) -> np.ndarray:
    """Rows in every pair of features, and on the diagonal the class densities of each feature.

    Gaussian classes also have ellipses, as of `ellipses` with level 0.9.

    Args:
        params: a fitted classifier.
        x: rows, shape (n, d).
        y: labels, integers 0..K-1, or -1 for none, shape (n,).
        features: the numbers of 2 to 8 features; None for all.
        class_names: K names for the legend.
        feature_names: d names, for the axes.

    Returns:
        The axes, an array of shape (m, m) of a new figure.

    Raises:
        ValueError: there are fewer than 2 or more than 8 features, or an argument is invalid.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.lda(11), data.x_train, data.y_train)
        >>> grid = plot.pairs(params, data.x_train, data.y_train, features=[0, 1, 4])
    """
    d = params.num_features
    if not isinstance(d, int):
        raise ValueError(
            "params describes named parts of x: pairs are drawn for one array of features"
        )
    chosen = list(range(d)) if features is None else list(features)
    if not 2 <= len(chosen) <= 8 or any(j not in range(d) for j in chosen):
        raise ValueError(f"features is {features}, expected 2 to 8 numbers in 0..{d - 1}")
    names = names_of(feature_names, d, "feature_names", "feature {}")
    styles = styles_of(params.num_classes, class_names)
    x, y = rows_and_labels(x, y, d, params.num_classes)
    size = 1.7 * len(chosen) + 1
    figure, grid = plt.subplots(
        len(chosen), len(chosen), sharex="col", figsize=(size, size), layout="constrained"
    )
    for (row, column), ax in np.ndenumerate(grid):
        i, j = chosen[row], chosen[column]
        if i == j:
            draw_densities(ax, params, i, styles, x, y)
        else:
            scatter(ax, x[:, [j, i]], y, styles)
            if isinstance(params.conditional, GaussianParams):
                draw_ellipses(ax, params.conditional, (j, i), styles, 0.9)
        ax.set(
            xlabel=names[j] if row + 1 == len(chosen) else None,
            ylabel=names[i] if column == 0 else None,
        )
    figure.legend(*grid[0, 1].get_legend_handles_labels(), loc="outside right upper")
    return grid
