"""Is the data what the model takes (`validate`)? Does it determine the estimate (`diagnose`)?"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree

from genclf.accumulate import class_counts
from genclf.classifier import Classifier, stats
from genclf.conjugate.whole import check_proper, posteriors
from genclf.families.base import Support
from genclf.families.gaussian import GaussianDiagnosis
from genclf.families.tokens import Tokens
from genclf.model import (
    Fitted,
    Model,
    check_hyperparameters,
    class_weights,
    require_generative,
    valid_labels,
    valid_weights,
    widen,
)
from genclf.shapes import blocks, cells, check_examples, check_rows, float_dtype, own
from genclf.sharding import compiled

_SHOWN = 5  # offenders named in one message


class Diagnosis(eqx.Module):
    """What is wrong with a data set for a model, as `diagnose` returns it.

    Attributes:
        count: weight of each class, shape (K,); NaN where labels or weights are invalid.
        empty: classes without weight, shape (K,): they are never predicted.
        invalid_cells: number of cells of x that the density cannot take; per block of a `Product`.
        invalid_labels: number of labels outside -1..K-1, or of responsibilities that are
            negative or not finite.
        invalid_weights: number of weights that are negative or not finite.
        conditional: the family's own: `GaussianDiagnosis` (too few rows, constant features, rank
            and condition number) for Gaussians, a dict for `Product`, else None; None too where the
            model has no sufficient statistics.
    """

    count: Float[Array, "K"]
    empty: Bool[Array, "K"]
    invalid_cells: PyTree[Int[Array, ""]]
    invalid_labels: Int[Array, ""]
    invalid_weights: Int[Array, ""]
    conditional: PyTree


def diagnose(
    clf: Classifier, x: PyTree, y: ArrayLike, weights: ArrayLike | None = None
) -> Diagnosis:
    """What in this data makes a fit of this model invalid or doubtful, as arrays.

    Runs under jit and vmap, and raises on shapes alone. Ranks and condition numbers are those of
    correlation matrices, so they do not depend on the units of the features.

    Args:
        clf: the model.
        x: rows, as for `fit`.
        y: labels (n,) or responsibilities (n, K).
        weights: weight of each row, (n,).

    Returns:
        A `Diagnosis`.

    Raises:
        ValueError: a shape or dtype does not fit.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x = jnp.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [5.0, 1.0], [6.0, 3.0], [9.0, 2.0]])
        >>> found = gcf.diagnose(gcf.qda(2), x, jnp.array([0, 0, 0, 1, 1, 1]))
        >>> print(found.conditional.rank, found.conditional.condition.round())
        [1 2] [inf  3.]
    """
    require_generative(clf, "diagnose")
    return _diagnose(
        clf, own(x, "x"), own(y, "y"), None if weights is None else own(weights, "weights")
    )


@compiled
def _diagnose(clf: Classifier, x: PyTree, y: Array, weights: Array | None) -> Diagnosis:
    check_rows(clf.support, x, y, weights, clf.num_classes)
    w, invalid = class_weights(y, weights, clf.num_classes, float_dtype(x))
    count = jnp.where(invalid, jnp.nan, class_counts(w))
    conditional = None
    if clf.family.additive:
        s = stats(clf, x, y, weights)
        plain = clf.plain(s) if clf.inference == "ml" else clf
        conditional = plain.family.diagnose(s.conditional)
    found = {
        name: (~support.valid(x)).sum() for name, _, support, x in blocks(clf.family.support, x)
    }
    return Diagnosis(
        count=count,
        empty=count == 0,
        invalid_cells=found["x"] if "x" in found else found,
        invalid_labels=(~valid_labels(y, clf.num_classes)).sum(),
        invalid_weights=jnp.int32(0) if weights is None else (~valid_weights(weights)).sum(),
        conditional=conditional,
    )


def validate(
    model: Model | Fitted,
    x: PyTree,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    latent: bool = False,
) -> None:
    """Raise if this data is not what the model takes, naming the first offenders.

    Compiled functions cannot raise on values: there, what is wrong turns into NaN. Call this on
    the host, once, before a fit (with labels) or before predictions (without). With labels it
    also raises where a Gaussian's covariance is not determined by the labelled rows and nothing
    regularises it, and where a column has no value at all. Rows of weight 0 and unlabelled rows
    (-1) may hold anything in a fit.

    Args:
        model: a `Classifier` or `SoftmaxRegression`, or fitted params.
        x: rows, as for `fit` and `predict`.
        y: labels (n,) or responsibilities (n, K); only with a model.
        weights: weight of each row, (n,); only with y.
        latent: whether unlabelled rows take part, as they do in `em`.

    Raises:
        ValueError: names the argument, row, column and value, what was expected and what to do.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> gcf.validate(gcf.lda(2), jnp.array([[0.0], [jnp.nan]]), jnp.array([0, 1]))
        Traceback (most recent call last):
        ...
        ValueError: x[1, 0] is nan (row 1, column 0), expected a finite number.
    """
    x = own(x, "x")
    if isinstance(model, Fitted):
        if y is not None or weights is not None:
            raise ValueError("labels and weights are checked against a Classifier, not its params")
        check_examples(model, x)
        _check_cells(model.support, x, None)
        return
    check_hyperparameters(model)
    if y is None:
        if weights is not None:
            raise ValueError("weights were given without y; expected both, or x alone")
        _check_cells(model.support, x, None)
        return
    labels = own(y, "y")
    weight = None if weights is None else own(weights, "weights")
    check_rows(model.support, x, labels, weight, model.num_classes)
    _check_labels(labels, model.num_classes)
    used = np.asarray(widen(labels) >= -latent if labels.ndim == 1 else (labels > 0).any(1))
    if weight is not None:
        _raise_at(~np.asarray(valid_weights(weight)), weight, "weights", "a finite number >= 0")
        used = used & (np.asarray(weight) > 0)
    if not used.any():
        label = "" if latent else "both a label and "
        raise ValueError(f"no row has {label}a weight above 0, expected at least one")
    _check_cells(model.support, x, used)
    if isinstance(model, Classifier):
        found = _diagnose(model, x, labels, weight)
        # EM begins with the labelled rows alone, where every class has some.
        if not latent or not np.asarray(found.empty).any():
            _check_determined(found.conditional, "", latent)
        if model.inference == "predictive" and not latent:
            s = stats(model, x, labels, weight)
            check_proper(posteriors(model, s), s, "posterior", "the predictive")


def _check_labels(y: Array, num_classes: int) -> None:
    last = num_classes - 1
    if y.ndim == 1:
        expected = (
            f"a label in 0..{last} (num_classes = {num_classes}), or -1 for an unlabelled row"
        )
    else:
        expected = "a finite responsibility >= 0"
    _raise_at(~np.asarray(valid_labels(y, num_classes)), y, "y", expected)


def _check_cells(support: PyTree[Support], x: PyTree, used: np.ndarray | None) -> None:
    for name, _, rule, block in blocks(support, x):
        # Whole on one device, however its rows are sharded.
        block = jax.tree.map(lambda a: jnp.asarray(np.asarray(a)), block)
        wrong = ~np.asarray(rule.valid(block))
        if used is not None:
            wrong = wrong & used[:, None]
        _raise_at(wrong, cells(block), name, rule.expected)
        if used is not None and rule.missing is not None and not isinstance(block, Tokens):
            gone = np.flatnonzero((np.asarray(rule.missing(block)) | ~used[:, None]).all(0))
            if len(gone):
                raise ValueError(
                    f"columns {gone.tolist()} of {name} have no value in any row that takes part: "
                    "a density of them cannot be fitted; leave them out"
                )


def _raise_at(wrong: np.ndarray, values: Array, name: str, expected: str) -> None:
    """Raise naming the first cells where `wrong` is true."""
    places = np.argwhere(wrong)
    if not len(places):
        return
    first = tuple(int(i) for i in places[0])
    axes = zip(("row", "column"), first, strict=False)
    where = ", ".join(f"{axis} {i}" for axis, i in axes)
    value = np.asarray(values)[first].item()
    shown = f"{value:.6g}" if isinstance(value, float) else value
    message = f"{name}[{', '.join(map(str, first))}] is {shown} ({where})"
    message += f", expected {expected}."
    if len(places) > 1:
        rows = ", ".join(str(int(place[0])) for place in places[1:_SHOWN])
        message += f" {len(places)} such cells in all; the next are in rows {rows}."
    raise ValueError(message)


def _check_determined(found: Any, prefix: str, latent: bool) -> None:
    """Raise where a Gaussian's covariance is singular with nothing to regularise it."""
    if isinstance(found, dict):
        for name, part in found.items():
            _check_determined(part, f"x[{name!r}]: ", latent)
    if not isinstance(found, GaussianDiagnosis):
        return
    d = found.constant.shape[-1]
    rank = np.asarray(found.rank)
    for place in np.argwhere(rank < d):
        *column, k = (int(i) for i in place)
        constant = np.flatnonzero(np.asarray(found.constant)[tuple(place)])
        features = f"; features {constant.tolist()} are constant" if len(constant) else ""
        everywhere = np.asarray(found.constant).reshape(-1, d).all(0) & (not column)
        if everywhere.any():
            advice = f"drop features {np.flatnonzero(everywhere).tolist()}, constant in all classes"
        elif latent:
            advice = "em would begin there: give prior=NormalInverseWishart(), or more labels"
        else:
            pooling = "" if found.shared else ", pool those of all classes (shared=True)"
            advice = f"set ridge > 0, e.g. 1e-3, drop or merge features, use more rows{pooling}"
        whose = "the shared covariance" if found.shared else f"the covariance of class {k}"
        raise ValueError(
            f"{prefix}{whose}{f' in column {column[0]}' if column else ''} has rank "
            f"{rank[tuple(place)]} of {d}{features}: {advice}"
        )
