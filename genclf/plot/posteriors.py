"""Figures of Bayes' rule along one feature, and of smoothing in the simplex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.tri import Triangulation

from genclf.arguments.domains import shown
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.presets import categorical_nb
from genclf.classifier.scores import log_joint, log_posterior
from genclf.fitting.fit import fit
from genclf.plot.classes import (
    AX,
    as_text,
    generative,
    names_of,
    new_axes,
    rows_and_labels,
    styles_of,
)
from genclf.plot.densities import (
    checked_feature,
    discrete_bars,
    drawn_values,
    feature_number,
    is_discrete,
    marginalizing,
)

_STEPS = 200  # grid points along each side of the simplex


@checked_arguments(params=generative, feature=feature_number, x=None, y=None)
def class_posterior(
    params: ClassifierParams,
    feature: int = 0,
    *,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    feature_name: str | None = None,
) -> np.ndarray:
    """Bayes' rule along one feature: `p(y=k) p(x_j | y=k)` above, `p(y=k | x_j)` below.

    Where two curves above cross, those below do too: that is a boundary. The other features are
    integrated out.

    Args:
        params: a classifier whose features can be integrated out, or that has a single feature.
        feature: j, from 0.
        x: rows to draw as histograms behind the curves, shape (n, d); requires y.
        y: their labels, integers 0..K-1, or -1 for none, shape (n,).
        class_names: K names for the legend.
        feature_name: the label of the horizontal axis.

    Returns:
        The two axes, an array of shape (2,) of a new figure.

    Raises:
        ValueError: features cannot be integrated out; there is no such feature; or an argument is
            invalid.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> density = gcf.GaussianParams.of([[0.0], [2.0]], [[1.0]])
        >>> above, below = plot.class_posterior(gcf.ClassifierParams.of([0.7, 0.3], density))
    """
    d = checked_feature(params, feature)
    if x is not None and y is None:
        raise ValueError("only one of x and y is given: give both, or neither")
    x, y = rows_and_labels(x, y, d, params.num_classes)
    styles = styles_of(params.num_classes, class_names)
    of_feature = ClassifierParams(params.log_prior, marginalizing(params.conditional))
    figure, panels = plt.subplots(2, 1, sharex=True, layout="constrained")
    values = drawn_values(params, feature, x)
    rows = np.full((len(values), d), np.nan, values.dtype)
    rows[:, feature] = values
    joint, posterior = (
        np.exp(np.asarray(score(of_feature, rows))) for score in (log_joint, log_posterior)
    )
    if is_discrete(params.conditional):
        discrete_bars(panels[0], values, joint, styles)
        discrete_bars(panels[1], values, posterior, styles)
    else:
        for k, style in enumerate(styles):
            line = {"linestyle": style.dash, "color": style.colour}
            own = x[y == k, feature]
            if own.size:
                bins = np.histogram_bin_edges(own[np.isfinite(own)], 20)
                weight = 1 / ((y >= 0).sum() * np.diff(bins)[0])
                weights = np.full(len(own), weight)
                panels[0].hist(own, bins.tolist(), weights=weights, color=style.colour, alpha=0.2)
            panels[0].plot(values, joint[:, k], label=style.name, **line)
            panels[1].plot(values, posterior[:, k], **line)
        best = posterior.argmax(1)
        for i in np.flatnonzero(np.diff(best) != 0):
            for ax in panels:
                ax.axvline(values[i : i + 2].mean(), color="0.6", linewidth=0.8, zorder=0)
    panels[0].set(ylabel="p(y) p(x | y)", ylim=(0, None))
    name = f"feature {feature}" if feature_name is None else as_text(feature_name)
    panels[1].set(ylabel="p(y | x)", ylim=(-0.03, 1.03), xlabel=name)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    return panels


def _counts(value: object, name: str) -> Float[np.ndarray, "3"]:
    counts = np.asarray(value)
    good = counts.shape == (3,) and counts.dtype.kind in "iuf"
    if not good or not (np.isfinite(counts) & (counts >= 0)).all():
        raise ValueError(f"{name} is {shown(value)}, expected 3 counts >= 0")
    return counts.astype(float)


def _alphas(value: object, name: str) -> list[float]:
    given: list[Any] = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    if not given or any(isinstance(a, str) or not 0 <= a < np.inf for a in given):
        raise ValueError(f"{name} is {shown(value)}, expected numbers >= 0, such as [0, 1, 5]")
    return sorted(map(float, given))


@checked_arguments(counts=_counts, alpha=_alphas, ax=AX)
def simplex(
    counts: ArrayLike,
    *,
    alpha: Any = (0.0, 1.0, 5.0),
    value_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Smoothed probabilities of three values in the simplex, for each alpha.

    A point is `(c_v + α) / (n + 3 α)`: the more the pseudo-counts weigh, the nearer it is to the
    centre, along a line. Darker is a higher likelihood `Π_v θ_v^c_v`; the contours are at half and
    at a tenth of its maximum.

    Args:
        counts: c, the number of examples of each of three values.
        alpha: pseudo-counts of each value, one or several.
        value_names: three names for the corners.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: there are not three counts, or a number is not >= 0.

    Example:
        >>> from genclf import plot
        >>> ax = plot.simplex([0, 2, 6], alpha=[0, 1, 5], value_names=["red", "green", "blue"])
    """
    names, ax = names_of(value_names, 3, "value_names", "value {}"), new_axes(ax)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    first, second = np.meshgrid(np.linspace(0, 1, _STEPS), np.linspace(0, 1, _STEPS))
    inside = first + second <= 1 + 1e-9
    theta = np.stack([first[inside], second[inside], 1 - first[inside] - second[inside]], -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(counts == 0, 0, counts * np.log(np.maximum(theta, 0))).sum(-1)
    likelihood = np.exp(logs - logs.max())
    triangles = Triangulation(*(theta @ corners).T)
    ax.tricontourf(triangles, likelihood, np.linspace(0, 1, 21), cmap="Blues", alpha=0.6)
    ax.tricontour(triangles, likelihood, [0.1, 0.5], colors="0.4", linewidths=0.8)
    ax.plot(*corners[[0, 1, 2, 0]].T, color="0.3", linewidth=1)
    path = [corners.mean(0)]
    for style, a in zip(styles_of(len(alpha), None), alpha, strict=True):
        rows = np.arange(3)[:, None]
        smoothed = fit(categorical_nb(1, 3, alpha=a), rows, np.zeros(3, int), weights=counts)
        point = np.asarray(jnp.exp(smoothed.conditional.table(0))[0], float) @ corners
        path.insert(0, point)
        label = "maximum likelihood" if a == 0 else f"α = {a:g}"
        ax.plot(*point, style.marker, color=style.colour, markersize=7, label=label, zorder=3)
    ax.plot(*np.transpose(path), ":", color="0.3", linewidth=1)
    ax.plot(*corners.mean(0), "+", color="0.3", markersize=9, label="uniform")
    for name, corner, side in zip(names, corners, ("top", "top", "bottom"), strict=True):
        shift = -0.03 if side == "top" else 0.03
        ax.text(corner[0], corner[1] + shift, name, ha="center", va=side)
    ax.set(aspect="equal", xlim=(-0.12, 1.5), ylim=(-0.12, 1.0))
    ax.set_axis_off()
    ax.legend(loc="upper right")
    return ax
