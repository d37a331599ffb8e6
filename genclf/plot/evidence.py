"""Figures of the effects of features: coefficients of a model, and the terms of one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import jax
import numpy as np
from jaxtyping import Float, PyTree
from matplotlib.axes import Axes

from genclf.arguments.domains import Domain, whole
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.explanation import Explanation
from genclf.classifier.forms import linear_form
from genclf.classifier.model import Fitted
from genclf.families.base import Density
from genclf.families.counts.categorical_params import CategoricalParams
from genclf.families.gaussian.params import GaussianParams
from genclf.plot.classes import AX, as_text, names_of, new_axes, styles_of

_CLASS = whole(0, optional=True)


@checked_arguments(any_model=True, top=whole(1), of=whole(0), against=_CLASS, ax=AX)
def log_odds(
    params: Fitted,
    *,
    top: int = 20,
    of: int = 1,
    against: int | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The features with the largest coefficients of `linear_form` in the log-odds of a class.

    A bar is `coef_a - coef_b`: what one more unit of the feature adds to `log p(a | x) / p(b | x)`.
    The unit of a word is one occurrence, that of a 0/1 feature is its presence, and that of a
    Gaussian feature is the standard deviation within classes.

    Args:
        params: a model that is linear in x.
        top: number of features to show.
        of: a.
        against: b; None for the mean of the coefficients of all other classes.
        class_names: K names for the title.
        feature_names: d names; for a categorical column each value is appended.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: the model is not linear in x or has a `Product`; a coefficient is infinite; or
            there is no such class.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_house_votes()
        >>> params = gcf.fit(gcf.bernoulli_nb(2), data.x == 1, data.y)
        >>> ax = plot.log_odds(params, top=5, feature_names=data.feature_names)
    """
    coef, _ = linear_form(params)
    if isinstance(coef, dict):
        raise ValueError("params describes named parts of x: draw each part separately")
    coef, num_classes = np.asarray(coef), params.num_classes
    for name, k in (("of", of), ("against", against)):
        if k is not None and k >= num_classes:
            raise ValueError(f"{name} is {k}, expected 0..{num_classes - 1}")
    if not np.isfinite(coef).all():
        k, j = np.argwhere(~np.isfinite(coef))[0]
        raise ValueError(f"the coefficient of feature {j} in class {k} is infinite: smooth the fit")
    if of == against:
        raise ValueError(
            f"of and against are both {of}: the log-odds of a class against itself are 0"
        )
    other = np.delete(coef, of, 0).mean(0) if against is None else coef[against]
    bars, unit = coef[of] - other, ""
    density = params.conditional if isinstance(params, ClassifierParams) else None
    if isinstance(density, GaussianParams):
        bars = bars * np.sqrt(np.diagonal(np.asarray(density.covariances)[0]))
        unit = " per standard deviation"
    classes = [style.name for style in styles_of(num_classes, class_names)]
    versus = "the others" if against is None else classes[against]
    if num_classes == 2:
        versus = classes[1 - of]
    ax = draw_bars(ax, bars, _coefficient_names(density, feature_names, len(bars)), top)
    ax.set(xlabel=f"log-odds of {classes[of]} against {versus}{unit}")
    return ax


def _coefficient_names(density: Density | None, given: object, size: int) -> list[str]:
    """A name for each coefficient; a categorical column has one for each value."""
    if not isinstance(density, CategoricalParams):
        return names_of(given, size, "feature_names", "feature {}")
    sizes = density.columns.num_values
    columns = names_of(given, len(sizes), "feature_names", "feature {}")
    pairs = zip(columns, sizes, strict=True)
    return [f"{name} = {value}" for name, number in pairs for value in range(number)]


@checked_arguments(
    found=Domain(
        "an Explanation, as genclf.explain returns it", lambda a: isinstance(a, Explanation)
    ),
    row=whole(0),
    top=whole(1),
    ax=AX,
)
def explanation(
    found: Explanation,
    row: int = 0,
    *,
    top: int = 20,
    class_names: Sequence[str] | None = None,
    feature_names: object = None,
    ax: Axes | None = None,
) -> Axes:
    """How much each feature contributes to the class of one row: the terms of its log-odds.

    The last bars are the sum of the features not shown, the class prior, and the total.

    Args:
        found: from `genclf.explain`, of rows (n, d) or one row (d,).
        row: the number of the row.
        top: number of features to show.
        class_names: K names; None for those of the explanation, if it has any.
        feature_names: names in the structure of `found.features`: d names, or a dict of names; None
            for those of the explanation, if it has any.
        ax: axes to draw in; None for new ones.

    Returns:
        The axes.

    Raises:
        ValueError: there is no such row, or an argument is invalid.

    Example:
        >>> import genclf as gcf
        >>> from genclf import plot
        >>> data = gcf.datasets.load_house_votes()
        >>> params = gcf.fit(gcf.bernoulli_nb(2), data.x == 1, data.y)
        >>> found = gcf.explain(params, data.x[:3] == 1)
        >>> ax = plot.explanation(found, row=2, top=5, feature_names=data.feature_names)
    """
    shape = found.of.shape
    if len(shape) > 1 or (row and not shape) or (shape and row >= shape[0]):
        raise ValueError(f"row is {row}, but the explanation has rows of shape {shape}")
    one = jax.tree.map(lambda a: a[row] if shape else a, found)
    named = found.feature_names if feature_names is None else feature_names
    terms, names = _flat(one.features, named)
    if not np.isfinite(terms).all():
        raise ValueError(
            f"a term of row {row} is not finite: the row is invalid, or the fit needs smoothing"
        )
    last = {"class prior": float(one.constant), "sum": float(one.log_odds)}
    if len(terms) > top:
        rest = terms[np.argsort(-np.abs(terms), kind="stable")[top:]]
        last = {f"{len(rest)} others": float(rest.sum())} | last
    ax = draw_bars(ax, terms, names, top, last)
    classes = found.class_names if class_names is None else class_names
    sides = [
        f"class {k}" if classes is None else as_text(classes[k]) for k in (one.of, one.against)
    ]
    ax.set(xlabel=f"log-odds of {sides[0]} against {sides[1]}")
    return ax


def _flat(features: PyTree, names: PyTree) -> tuple[Float[np.ndarray, "terms"], list[str]]:
    """The concatenated terms of all parts, and their names."""
    if not isinstance(features, dict):
        return np.asarray(features), names_of(names, len(features), "feature_names", "feature {}")
    found: list[str] = []
    terms = []
    for part, own in features.items():
        given = None if names is None else names[part]
        single = np.size(own) == 1
        if single and given is not None:
            given = [", ".join(map(str, given))]
        of_part, named = _flat(own, given)
        terms.append(of_part)
        if given is None:
            own_name = as_text(part)
            named = [own_name] if single else [f"{own_name}: {name}" for name in named]
        found += named
    return np.concatenate(terms), found


def draw_bars(
    ax: Axes | None,
    values: np.ndarray,
    names: Sequence[str],
    top: int,
    last: Mapping[str, float] = MappingProxyType({}),
) -> Axes:
    """Horizontal bars of the values of largest magnitude, in descending order, then of `last`."""
    ax = new_axes(ax)
    order = np.argsort(-np.abs(values), kind="stable")[:top]
    order = order[np.argsort(-values[order], kind="stable")]
    largest, shown = values[order], [*values[order], *last.values()]
    colours = ["#4477AA" if value > 0 else "#EE6677" for value in largest] + ["0.6"] * len(last)
    hatches = ["" if value > 0 else "//" for value in largest] + [""] * len(last)
    positions = -np.arange(len(shown), dtype=float)
    ax.barh(positions, shown, color=colours, hatch=hatches, edgecolor="white", linewidth=0)
    ax.set_yticks(positions, [*(names[j] for j in order), *last])
    ax.axvline(0, color="0.3", linewidth=0.8)
    return ax
