"""The scores of classes on a grid of points of the plane, its regions and their edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from genclf.arguments.domains import shown
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.model import Fitted, TakesExamples
from genclf.classifier.scores import discriminant
from genclf.plot.classes import DASHES, Style, drawn_rows, legend

_STEPS = 320  # grid points in each direction
# The grid extends beyond the view by this fraction on each side, because later layers may widen
# the view.
_BEYOND = 0.6
_EDGE = "edge of regions"


class View(NamedTuple):
    """The smallest and the largest value of each of two features that are shown."""

    low: Float[np.ndarray, "2"]
    high: Float[np.ndarray, "2"]


class Plane(NamedTuple):
    """Scores of K classes on a grid; NaN where no class has one.

    Attributes:
        across: values of the first feature.
        up: values of the second feature.
        scores: log-posteriors up to a term that all classes share.
    """

    across: Float[np.ndarray, "a"]
    up: Float[np.ndarray, "b"]
    scores: Float[np.ndarray, "K b a"]


def view_of(params: TakesExamples, x: np.ndarray, ax: Axes) -> View:
    """The view, now that of the axes, of the rows and of what the axes show already.

    If there are neither rows nor earlier layers, the limits of a sample from the model.
    """
    rows = x[np.isfinite(x).all(1)]
    if len(x) and not len(rows):
        raise ValueError(
            f"x has {len(x)} rows, none of two finite numbers: there is nothing to draw"
        )
    parts = [ax.viewLim.get_points()] if ax.has_data() else []
    if not len(rows) and not parts:
        if not isinstance(params, ClassifierParams):
            raise ValueError("x is None, but a model of p(y | x) cannot draw rows: give x")
        rows = drawn_rows(params)
        rows = rows[np.isfinite(rows).all(1)]
    if len(rows):
        low, high = rows.min(0).astype(float), rows.max(0).astype(float)
        margin = 0.07 * np.where(high > low, high - low, 1)
        parts.append(np.stack([low - margin, high + margin]))
    view = View(np.min(parts, (0, 1)), np.max(parts, (0, 1)))
    set_view(ax, view)
    return view


def set_view(ax: Axes, view: View) -> None:
    """Set the limits of the axes."""
    ax.set(xlim=(view.low[0], view.high[0]), ylim=(view.low[1], view.high[1]))


def grid_of(view: View) -> tuple[np.ndarray, np.ndarray, Float[np.ndarray, "n 2"]]:
    """The values of both features, and the points, of a grid that goes just beyond the view."""
    beyond = _BEYOND * (view.high - view.low)
    ends = zip(view.low - beyond, view.high + beyond, strict=True)
    across, up = (np.linspace(*pair, _STEPS) for pair in ends)
    return across, up, np.stack(np.meshgrid(across, up), -1).astype(np.float32).reshape(-1, 2)


def plane_of(params: Fitted, view: View) -> Plane:
    """The scores on a grid that covers the view, and what lies just beyond it."""
    across, up, points = grid_of(view)
    scores = np.asarray(discriminant(params, points), float).T.reshape(-1, _STEPS, _STEPS)
    if np.isnan(scores).all():
        raise ValueError(
            "params has no score anywhere in the plane: its features are not real numbers"
        )
    lowest = scores.min(initial=0, where=np.isfinite(scores))
    return Plane(across, up, np.where(np.isneginf(scores), 10 * lowest - 1, scores))


def fill_regions(ax: Axes, plane: Plane, styles: Sequence[Style], *, named: bool) -> None:
    """Tint the region of each class, where its score is the highest.

    Label the region in the legend if no rows are drawn (`named` is False).
    """
    for k, style in enumerate(styles):
        red, green, blue = to_rgb(style.colour)
        tint = (0.75 + 0.25 * red, 0.75 + 0.25 * green, 0.75 + 0.25 * blue)
        if not named:
            ax.plot([], [], "s", color=tint, markeredgecolor="0.5", markersize=8, label=style.name)
        others = np.delete(plane.scores, k, 0).max(0, initial=-np.inf)
        lead = np.nan_to_num(plane.scores[k] - others, nan=-1, posinf=1)
        if (lead > 0).any():
            ax.contourf(plane.across, plane.up, lead, [0, 2 * lead.max()], colors=[tint], zorder=0)


def draw_edges(ax: Axes, plane: Plane, *, bold: bool = False, name: str | None = None) -> None:
    """The lines where the two highest scores are equal: thin, or bold with the next dash pattern.

    Each edge is drawn once, by the first of its two classes.
    """
    dash: Any = "-"
    if bold:
        earlier = sum(line.get_gid() == _EDGE for line in ax.lines)
        dash = DASHES[earlier % len(DASHES)]
        ax.plot([], [], color="0.15", linestyle=dash, linewidth=1.4, label=name, gid=_EDGE)
    for k, score in enumerate(plane.scores[:-1]):
        later = plane.scores[k + 1 :].max(0)
        earlier_wins = plane.scores[:k].max(0, initial=-np.inf) > np.maximum(score, later)
        lead = np.ma.masked_where(earlier_wins | np.isnan(score - later), score - later)
        if lead.count() and lead.min() < 0 < lead.max():
            ax.contour(
                plane.across, plane.up, lead, [0], linestyles=[dash],
                colors="0.15" if bold else "0.3", linewidths=1.4 if bold else 0.8,
            )  # fmt: skip


def name_axes(ax: Axes, names: Sequence[str]) -> None:
    """Name the two axes, if they have no names yet."""
    ax.set(xlabel=ax.get_xlabel() or names[0], ylabel=ax.get_ylabel() or names[1])


def finished(ax: Axes, names: Sequence[str]) -> Axes:
    """The axes, with their names and a legend."""
    name_axes(ax, names)
    legend(ax)
    return ax


def pair_of_numbers(value: object, name: str) -> tuple[int, int]:
    """Two numbers of features; raise for anything else."""
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2 or any(isinstance(j, bool) or not isinstance(j, int) for j in pair):
        raise ValueError(f"{name} is {shown(value)}, expected two numbers of features, as (0, 1)")
    return pair


def checked_pair(pair: tuple[int, int], size: int, name: str) -> tuple[int, int]:
    """The pair; raise unless these are two different numbers in 0..size-1."""
    if pair[0] == pair[1] or not all(0 <= j < size for j in pair):
        raise ValueError(f"{name} is {pair}, expected two different numbers in 0..{size - 1}")
    return pair


def check_plane(params: TakesExamples, name: str) -> None:
    """Raise unless these params are of two features."""
    if params.num_features != 2:
        raise ValueError(
            f"{name} has {params.num_features} features, but a plane has 2: fit the model to two "
            "columns, or see genclf.plot.axes and genclf.plot.pairs"
        )
