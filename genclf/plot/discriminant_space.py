"""The rows in discriminant space, on two of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text

from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.multivariate.axes import DiscriminantAxes, discriminant_axes, transform
from genclf.plot.classes import AX, Style, new_axes, rows_and_labels, scatter, styles_of
from genclf.plot.plane import checked_pair, name_axes, pair_of_numbers


def _axes_of(value: Any, name: str) -> DiscriminantAxes:
    return value if isinstance(value, DiscriminantAxes) else discriminant_axes(value)


@checked_arguments(source=_axes_of, x=None, y=None, pair=pair_of_numbers, ax=AX)
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
        ValueError: there are no such axes, or an argument is invalid.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.lda(11), data.x_train, data.y_train)
        >>> ax = plot.axes(params, data.x_train, data.y_train, class_names=data.class_names)
    """
    num_classes, num_axes = source.mean.shape
    styles, ax = styles_of(num_classes, class_names), new_axes(ax)
    x, y = rows_and_labels(x, y, len(source.centre), num_classes)
    scores, mean = np.asarray(transform(source, x)), np.asarray(source.mean)
    names = [f"axis {i + 1} ({share:.0%} of the ratio)" for i, share in enumerate(source.explained)]
    if num_axes == 1:
        bins = np.histogram_bin_edges(scores, 30).tolist()
        for k, style in enumerate(styles):
            ax.hist(scores[y == k, 0], bins, histtype="step", color=style.colour, label=style.name)
            ax.axvline(mean[k, 0], color=style.colour, linestyle=style.dash)
        name_axes(ax, [names[0], "rows"])
        ax.legend()
    else:
        i, j = checked_pair(pair, num_axes, "pair")
        scatter(ax, scores[:, [i, j]], y, styles)
        name_axes(ax, [names[i], names[j]])
        _name_means(ax, mean[:, [i, j]], styles)
    return ax


def _name_means(ax: Axes, mean: np.ndarray, styles: Sequence[Style]) -> None:
    """The name of each class at its mean, moved up or down where names would overlap."""
    means = [
        ax.annotate(
            style.name, at, at, weight="bold", ha="center", va="center", color=style.colour,
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
            arrowprops={"arrowstyle": "-", "color": style.colour, "linewidth": 0.8},
        )
        for style, at in zip(styles, mean, strict=True)
    ]  # fmt: skip
    ax.update_datalim(mean)
    ax.autoscale_view()
    ax.get_figure(root=True).draw_without_rendering()  # type: ignore[union-attr]
    boxes = np.array([Text.get_window_extent(text).get_points() for text in means])
    centre, size = boxes.mean(1), np.ptp(boxes, 1) + 3
    shift = np.zeros(len(means))
    for _ in range(200):
        at = centre + np.stack([0 * shift, shift], -1)
        gap = np.abs(at[:, None] - at) - (size[:, None] + size) / 2
        np.fill_diagonal(gap[..., 0], 1)
        overlap = np.where((gap < 0).all(-1), -gap[..., 1], 0)
        if not overlap.any():
            break
        above = np.sign(at[:, None, 1] - at[:, 1] + 1e-9 * np.subtract.outer(shift, shift))
        order = np.sign(np.subtract.outer(np.arange(len(means)), np.arange(len(means))))
        shift += 0.3 * (np.where(above == 0, order, above) * overlap).sum(1)
    to_data = ax.transData.inverted()
    for text, position in zip(means, centre + np.stack([0 * shift, shift], -1), strict=True):
        text.set_position(tuple(to_data.transform(position)))
