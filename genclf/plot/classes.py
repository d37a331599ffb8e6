"""Helpers of all figures: the axes to draw in, names, and the style of a class."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from genclf.arguments.domains import Domain, shown
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.labels import check_labels

AX = Domain(
    "axes of matplotlib, or None for new ones", lambda a: isinstance(a, Axes), optional=True
)
# Paul Tol's "bright" palette, safe for the colour-blind; markers and dashes differ in grey too.
_COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#999999")
_MARKERS = "os^DvPX*<>p"
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)))


class Style(NamedTuple):
    """The style in which one class is drawn."""

    name: str
    colour: str
    marker: str
    dash: Any


def styles_of(num_classes: int, class_names: Sequence[str] | None) -> list[Style]:
    """The style of each class; raise unless there is a name for each."""
    names = names_of(class_names, num_classes, "class_names", "class {}")
    fields = zip(names, cycle(_COLOURS), cycle(_MARKERS), cycle(DASHES), strict=False)
    return [Style(*each) for each in islice(fields, num_classes)]


def names_of(given: Any, number: int, argument: str, default: str) -> list[str]:
    """The names as strings, by default from `default`; raise unless there are `number` names."""
    if given is None:
        return [default.format(i) for i in range(number)]
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise ValueError(f"{argument} is {shown(given)}, expected {number} names")
    if len(given) != number:
        raise ValueError(f"{argument} has {len(given)} names, expected {number}")
    return [as_text(name) for name in given]


def as_text(name: object) -> str:
    """A name with dollar signs escaped, so that they do not begin mathematics in matplotlib."""
    return str(name).replace("$", r"\$")


def new_axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def generative(value: object, name: str) -> ClassifierParams:
    """The params of a single classifier; raise for any other value."""
    if not isinstance(value, ClassifierParams) or value.batch_shape:
        hint = "; of an estimator, give its params_" if hasattr(value, "params_") else ""
        raise ValueError(
            f"{name} is {shown(value)}, expected the params of one fitted classifier{hint}"
        )
    return value


def drawn_rows(params: ClassifierParams) -> np.ndarray:
    """Rows drawn from the densities, equally many of each class."""
    labels = jnp.arange(2_000, dtype=jnp.int32) % params.num_classes
    return np.asarray(params.conditional.sample(jax.random.key(0), labels))


def rows_and_labels(
    x: object, y: object, num_features: int, num_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels as arrays of NumPy, -1 where y is None; raise if their shapes are wrong.

    Without rows there are no labels.
    """
    if x is None:
        if y is not None:
            raise ValueError("y is given without x: give the rows of the labels too")
        return np.empty((0, num_features), np.float32), np.empty(0, int)
    x = np.asarray(x)
    if x.ndim != 2 or x.shape[1] != num_features:
        raise ValueError(f"x has shape {x.shape}, expected (n, {num_features})")
    if x.dtype.kind not in "iufb":
        raise ValueError(f"x has dtype {x.dtype}, expected real numbers")
    return x, np.full(len(x), -1) if y is None else labels(y, len(x), num_classes)


def labels(y: object, num_rows: int, num_classes: int) -> np.ndarray:
    """Labels as an array of NumPy; raise for another shape or dtype, or a class out of range."""
    y = np.asarray(y)
    if y.shape != (num_rows,) or y.dtype.kind not in "iu":
        hint = "" if y.dtype.kind in "iufb" else "; numpy.unique(y, return_inverse=True) has them"
        raise ValueError(
            f"y has shape {y.shape} and dtype {y.dtype}, expected ({num_rows},) integer labels "
            f"0..{num_classes - 1}, or -1 for none{hint}"
        )
    check_labels(y, num_classes)
    return y


def scatter(ax: Axes, points: np.ndarray, y: np.ndarray, styles: Sequence[Style]) -> None:
    """Points (n, 2) in the style of their class; grey where there is no label.

    The legend says how many have a missing or infinite coordinate, and are not shown.
    """
    ax.plot(*points[y < 0].T, ".", color="0.75", markersize=3)
    if hidden := int((~np.isfinite(points).all(1)).sum()):
        ax.plot([], [], " ", label=f"{hidden} rows not shown: a cell is not finite")
    for k, style in enumerate(styles):
        ax.plot(
            *points[y == k].T, style.marker, color=style.colour, markersize=4,
            markeredgecolor="white", markeredgewidth=0.4, label=style.name,
        )  # fmt: skip


def legend(ax: Axes) -> None:
    """A legend with each label once, beside the axes if the layout makes room, else over them."""
    entries = merged_legend(ax)
    if not entries["labels"]:
        return
    if ax.get_figure(root=True).get_layout_engine() is not None:  # type: ignore[union-attr]
        entries |= {"loc": "upper left", "bbox_to_anchor": (1, 1), "frameon": False}
    else:
        entries |= {"frameon": True, "edgecolor": "none", "framealpha": 0.8}
    ax.legend(**entries)


def merged_legend(*panels: Axes) -> dict[str, Any]:
    """The handles and labels of some axes, each label once."""
    first: dict[str, Any] = {}
    for ax in panels:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            first.setdefault(label, handle)
    return {"handles": list(first.values()), "labels": list(first)}
