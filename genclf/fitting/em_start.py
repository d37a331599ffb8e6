"""The start of EM: checks of the model, the rows and `init`, and initial statistics."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import PyTree

from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.rows import Rows
from genclf.families.base import Scalar
from genclf.families.capabilities import Init, Latent, require
from genclf.families.combined.mixture import most_components
from genclf.families.initial_clusters import initial_weights
from genclf.numerics.namespace import Array
from genclf.numerics.sizes import is_at_most
from genclf.sums.blocks import Hard
from genclf.sums.statistics import ClassifierStats


def check_latent(clf: Classifier) -> None:
    """Raise if EM cannot fit the model."""
    require(clf.family, Latent, "em")
    if clf.is_predictive:
        raise ValueError('inference is "predictive", expected "map" or "ml": EM finds parameters')


def check_for_em(clf: Classifier) -> None:
    """Raise if EM cannot fit the model, or has no objective."""
    check_latent(clf)
    if rules := clf.effective().family.heuristics():
        raise ValueError(
            f"EM cannot use {' and '.join(rules)}, which is not a prior, so there is no "
            "objective to maximise; give the Gaussian prior=NormalInverseWishart() instead"
        )


def check_clusters(
    clf: Classifier, y: Array, weights: Array | None, unlabelled_weight: Scalar = 1.0
) -> None:
    """Raise if the rows are too few to start the classes, or their components.

    In traced code only the number of rows is checked, outside it also their labels and weights.
    """
    each, num_classes = most_components(clf.family), clf.num_classes
    if any(isinstance(a, Tracer) for a in (y, weights, unlabelled_weight)):
        # Of responsibilities, all may be of one class.
        num_rows, least = y.shape[0], each if y.ndim == 2 else num_classes * each
        if is_at_most(num_rows, least - 1) and (num_rows or y.ndim == 1):
            raise ValueError(_too_few(clf, f"x has {num_rows} rows", least))
        return
    weight = np.ones(len(y)) if weights is None else np.asarray(weights)
    labels = np.asarray(y)
    if labels.ndim == 2:
        own_rows, latent = ((labels > 0) & (weight > 0)[:, None]).sum(0), 0
    else:
        own_rows = np.bincount(labels[(labels >= 0) & (weight > 0)], minlength=num_classes)
        latent = int(((labels == -1) & (weight * np.asarray(unlabelled_weight) > 0)).sum())
    if latent == 0 and not own_rows.sum():
        raise ValueError(
            f"none of the {len(labels)} rows of x has a weight above 0 (weights, or "
            "unlabelled_weight for a row without a label): there is nothing to learn from"
        )
    wanted = np.maximum(each - own_rows[:num_classes], 0)
    if latent == 0:  # then a class without rows stays empty
        few = np.flatnonzero((wanted > 0) & (own_rows[:num_classes] > 0))
        if len(few):
            here = f"class {few[0]} has {own_rows[few[0]]} rows of weight > 0"
            raise ValueError(_too_few(clf, here, each))
    elif wanted.sum() > latent:
        here = f"x has {latent} rows without label, of weight > 0"
        raise ValueError(_too_few(clf, here, int(wanted.sum())))


def _too_few(clf: Classifier, here: str, wanted: int) -> str:
    each = most_components(clf.family)
    parts = f" of {each} components" if each > 1 else ""
    return (
        f"{here}, and EM needs at least {wanted} to start {clf.num_classes} classes{parts}: give "
        "more rows, or a model of fewer classes or components"
    )


def check_init(clf: Classifier, given: ClassifierParams, fresh: PyTree) -> None:
    """Raise unless the given params have the arrays and shapes of the model's params, `fresh`.

    An axis of `scale` may have length 1 in one of the two only. The field `rounding` is not
    compared, since only float32 means have one.
    """

    def name_of(path: tuple) -> str | None:
        return getattr(path[-1], "name", None)

    def outline(params: PyTree) -> list[tuple]:
        found = jax.tree_util.tree_leaves_with_path(params)
        return [(path, leaf) for path, leaf in found if name_of(path) != "rounding"]

    def alike(path: tuple, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        shared = name_of(path) == "scale" and len(a) == len(b)
        return a == b or (shared and all(i == j or 1 in (i, j) for i, j in zip(a, b, strict=True)))

    own, theirs = outline(fresh), outline(given)
    same = [path for path, _ in own] == [path for path, _ in theirs] and all(
        alike(path, a.shape, jnp.shape(b)) for (path, a), (_, b) in zip(own, theirs, strict=True)
    )
    if not same:
        shapes = {jax.tree_util.keystr(path): jnp.shape(a) for path, a in theirs}
        raise ValueError(
            f"init is {type(given.conditional).__name__} of {len(given.log_prior)} classes, from "
            f"which EM of {clf} cannot start: its arrays are {shapes}, expected "
            f"{ {jax.tree_util.keystr(path): a.shape for path, a in own} }"
        )


def start_of(
    clf: Classifier, rows: Rows, key: Array, labelled: bool | Array, init: Init
) -> ClassifierStats:
    """Statistics to start from: of labelled rows only if `labelled` and every class has some."""
    key_labels, key_parts = jax.random.split(key)
    x, w = rows.filled, rows.w
    if isinstance(w, Hard):
        shares = initial_weights(
            key_labels, clf.family.distance, x, w.label, w.weight, clf.num_classes, init
        )
        shares = shares * w.weight[:, None]
        known = jnp.where(w.label[:, None] >= 0, shares, 0)
        w = jnp.where((known.sum(0) > 0).all() & labelled, known, shares)
    return clf.statistics(w.sum(0), clf.family.initial_stats(key_parts, x, w, init))
