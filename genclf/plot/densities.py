"""The class densities of one feature, beside the rows."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from genclf.arguments.domains import shown
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.families.base import AnyDensity, Density
from genclf.families.capabilities import HasConditionals, require
from genclf.families.counts.multinomial_params import MultinomialParams
from genclf.plot.classes import (
    AX,
    Style,
    as_text,
    drawn_rows,
    generative,
    new_axes,
    rows_and_labels,
    styles_of,
)

_POINTS = 400  # points of a curve
_MOST = 1_000  # number of counts that are tried
_LEAST = 1e-4  # least probability of a count that is drawn


def feature_number(value: object, name: str) -> int:
    """The number of a feature; raise for another type."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} is {shown(value)}, expected the number of a feature, from 0")
    return int(value)


@checked_arguments(params=generative, feature=feature_number, x=None, y=None, ax=AX)
def densities(
    params: ClassifierParams,
    feature: int,
    *,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    feature_name: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """`p(x_j | y=k)` of one feature for each class: curves, or bars where x_j is discrete.

    The other features are integrated out.

    Args:
        params: a classifier whose features can be integrated out, or that has a single feature.
        feature: j, from 0.
        x: rows to draw as histograms behind the curves, shape (n, d); requires y.
        y: their labels, integers 0..K-1, or -1 for none, shape (n,).
        class_names: K names for the legend.
        feature_name: the label of the horizontal axis.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: features cannot be integrated out; there is no such feature; or an argument is
            invalid.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.gaussian_nb(11), data.x_train, data.y_train)
        >>> ax = plot.densities(params, 0, class_names=data.class_names)
    """
    d, ax = checked_feature(params, feature), new_axes(ax)
    if (x is None) != (y is None):
        raise ValueError("only one of x and y is given: give both, or neither")
    if x is not None:
        x, y = rows_and_labels(x, y, d, params.num_classes)
    draw_densities(ax, params, feature, styles_of(params.num_classes, class_names), x, y)
    ax.set(
        xlabel=f"feature {feature}" if feature_name is None else as_text(feature_name),
        ylabel="probability" if is_discrete(params.conditional) else "density",
    )
    ax.legend()
    return ax


def checked_feature(params: ClassifierParams, feature: int) -> int:
    """The number of features; raise if there is no such feature."""
    d = params.num_features
    if not isinstance(d, int):
        raise ValueError("params describes named parts of x: give those of one part")
    if not 0 <= feature < d:
        raise ValueError(f"feature is {feature}, expected a number in 0..{d - 1}")
    return d


def is_discrete(density: Density) -> bool:
    """Whether a feature takes only whole numbers."""
    half = jnp.full((1, density.num_features), 0.5)
    return not bool(np.asarray(density.support.valid(half)).all())


def draw_densities(
    ax: Axes,
    params: ClassifierParams,
    feature: int,
    styles: Sequence[Style],
    x: np.ndarray | None,
    y: np.ndarray | None,
) -> None:
    """Draw the density of each class, and histograms if there are rows.

    Only the classes are in the legend.
    """
    values = drawn_values(params, feature, x)
    p = np.exp(log_densities(params.conditional, feature, values))
    if is_discrete(params.conditional):
        discrete_bars(ax, values, p, styles)
        return
    for k, style in enumerate(styles):
        if x is not None:
            ax.hist(x[y == k, feature], 20, density=True, color=style.colour, alpha=0.2)
        ax.plot(values, p[:, k], linestyle=style.dash, color=style.colour, label=style.name)


def discrete_bars(ax: Axes, values: np.ndarray, p: np.ndarray, styles: Sequence[Style]) -> None:
    """Bars of each class beside each other, at whole numbers."""
    width = 0.8 / len(styles)
    for k, style in enumerate(styles):
        offset = (k - (len(styles) - 1) / 2) * width
        ax.bar(values + offset, p[:, k], width, color=style.colour, label=style.name)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def drawn_values(
    params: ClassifierParams, feature: int, x: np.ndarray | None
) -> Float[np.ndarray, "points"]:
    """The values of a feature that are drawn.

    If they are discrete, those that are probable in some class; otherwise the range of the rows, or
    of draws from the model.
    """
    if is_discrete(params.conditional):
        categories = getattr(params.conditional, "columns", None)
        most = categories.num_values[feature] if categories else _MOST
        values = np.arange(most, dtype=np.float32)
        p = np.nan_to_num(np.exp(log_densities(params.conditional, feature, values)))
        return values[: np.flatnonzero((p > _LEAST).any(1)).max(initial=0) + 1]
    if x is None or not len(x):
        x = drawn_rows(params)
    low, high = np.nanmin(x[:, feature]), np.nanmax(x[:, feature])
    margin = 0.1 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, _POINTS, dtype=np.result_type(x, np.float32))


def log_densities(
    density: AnyDensity, feature: int, values: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "n K"]:
    """`log p(x_j | y=k)` at values of one feature, the others integrated out."""
    d = density.num_features
    rows = np.full((len(values), d), np.nan, values.dtype)
    rows[:, feature] = values
    return np.asarray(marginalizing(density).log_prob(jnp.asarray(rows)))


def marginalizing(density: AnyDensity) -> AnyDensity:
    """The density that takes NaN for features that are integrated out."""
    if density.num_features == 1:
        return density
    require(density, HasConditionals, "densities")
    if isinstance(density, MultinomialParams) or getattr(density, "threshold", None) is not None:
        raise ValueError(
            "words, and features cut at a threshold, have no curves; see genclf.plot.log_odds"
        )
    return density.marginalized()
