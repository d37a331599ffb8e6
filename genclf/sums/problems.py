"""Whether statistics can be sums over rows: their shapes, signs and symmetry, by NumPy alone.

They are `Sums` and `Moments`, or their counterparts on machines without JAX.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

# A low part above this fraction of the largest high part is invalid; correct ones are far smaller.
_LARGEST_LOW = 1e-3


def problem_of_stats(labels: Any, conditional: Any, where: str) -> str | None:
    """The first problem of the statistics of a classifier, in words; None if there is none."""
    wrong = problem_of_sums(labels, f"{where}.labels")
    if not wrong and labels.count.shape != labels.total.shape:
        wrong = f"{where}.labels.total has the shape {labels.total.shape}, unlike the counts"
    return wrong or _of_rows(conditional, np.asarray(labels.count), f"{where}.conditional")


def _of_rows(node: Any, labels: np.ndarray, where: str) -> str | None:
    """The first problem of statistics of x, given the counts of labels."""
    if isinstance(node, dict):
        each = (_of_rows(part, labels, f"{where}[{name!r}]") for name, part in node.items())
        return next(filter(None, each), None)
    is_mixture = hasattr(node, "labels")
    if is_mixture:
        wrong = problem_of_stats(node.labels, node.conditional, where)
    elif hasattr(node, "count"):
        wrong = problem_of_sums(node, where)
    elif hasattr(node, "__dataclass_fields__"):
        return None  # statistics that another package defines
    else:
        return f"{where} is {type(node).__name__}, expected sums, moments or a dict of them"
    if wrong:
        return wrong
    shape = node.labels.count.shape if is_mixture else node.count.shape
    batch, (count,) = labels.shape[:-1], labels.shape[-1:]
    # Statistics of columns have an axis of columns before that of classes.
    own = shape[len(batch) : len(batch) + 2]
    fits = any(size % max(count, 1) == 0 for size in own) if is_mixture else count in own
    if not fits or shape[: len(batch)] != batch:
        return f"{where} has counts of the shape {shape}, but the labels have {labels.shape}"
    values = labels if is_mixture else node.mean if hasattr(node, "mean") else node.total
    # Whether counts are per row; otherwise they are per cell, because cells may be missing.
    of_rows = values.ndim > len(shape)
    if of_rows and shape[len(shape) - labels.ndim :] == labels.shape:
        gap = np.abs(np.asarray(node.count) - labels)
        if (gap > 1e-3 * labels.max(initial=0)).any():
            return f"{where}.count is {node.count}, but the counts of labels are {labels}"
    return None


def problem_of_sums(given: Any, where: str) -> str | None:
    """The first problem of sums or moments, in words; None if there is none."""
    names = ("count", "mean", "scatter") if hasattr(given, "scatter") else ("count", "total")
    more = ("unit", "third", "fourth") if hasattr(given, "fourth") else ()
    for name in (*names, *more):
        if wrong := _of_floats(getattr(given, name), f"{where}.{name}"):
            return wrong
    whole = [np.asarray(getattr(given, name)) for name in names]
    shapes = {name: np.shape(getattr(given, name)) for name in (*names, *more)}
    if wrong := (_of_moments if "mean" in names else _of_totals)(shapes, where):
        return wrong
    rounding = getattr(given, "rounding", None)
    if rounding is not None:
        if wrong := _of_rounding(rounding, whole, f"{where}.rounding"):
            return wrong
        whole = [high + np.asarray(low) for high, low in zip(whole, rounding, strict=True)]
    for name, values in zip(names, whole, strict=True):
        if name in ("count", "total") and (values < -_tolerance(values)).any():
            return f"{where}.{name} is negative, {values.min():.3g}"
    wrong = _of_scatter(whole, f"{where}.scatter") if "mean" in names else None
    return wrong or (_of_fourth(given.fourth, f"{where}.fourth") if more else None)


def _of_floats(value: object, where: str) -> str | None:
    if not hasattr(value, "dtype") or value.dtype.kind not in "fV":  # V: bfloat16
        return f"{where} is {getattr(value, 'dtype', value)!r:.40}, expected an array of floats"
    if not np.isfinite(np.asarray(value)).all():
        return f"{where} holds NaN or an infinite number"
    return None


def _tolerance(values: np.ndarray) -> float:
    """How far below 0 rounding may take a sum."""
    return float(np.finfo(values.dtype).eps ** 0.5 * np.abs(values).max(initial=0))


def _of_totals(shapes: dict[str, tuple[int, ...]], where: str) -> str | None:
    count, total = shapes["count"], shapes["total"]
    if count and total[: len(count)] == count:
        return None
    return f"{where}.total has the shape {total}, but count has {count}"


def _of_moments(shapes: dict[str, tuple[int, ...]], where: str) -> str | None:
    count, mean, scatter = shapes["count"], shapes["mean"], shapes["scatter"]
    if not mean or count not in (mean[:-1], mean):
        return f"{where}.mean has the shape {mean}, but count has {count}"
    *classes, d = mean
    batch, copies = tuple(classes[:-1]), {tuple(classes[-1:]), (1,) * bool(classes)}
    forms = {(*batch, *own, d) for own in copies} | {(*batch, *own, d, d) for own in copies}
    if scatter not in forms:
        return f"{where}.scatter has the shape {scatter}, but mean has {mean}"
    if "fourth" not in shapes:
        return None
    m = shapes["fourth"][-1:]
    for name, form in (("unit", ()), ("third", (*m, d)), ("fourth", (*m, *m))):
        if shapes[name] != (*classes, *form) or (name == "fourth" and m not in ((1,), (d,))):
            return f"{where}.{name} has the shape {shapes[name]}, but mean has {mean}"
    return None


def _of_rounding(rounding: object, whole: list[np.ndarray], where: str) -> str | None:
    if not isinstance(rounding, tuple) or len(rounding) != len(whole):
        return f"{where} is {type(rounding).__name__}, expected {len(whole)} arrays"
    for i, (low, high) in enumerate(zip(rounding, whole, strict=True)):
        if wrong := _of_floats(low, f"{where}[{i}]"):
            return wrong
        if (np.shape(low), low.dtype) != (high.shape, high.dtype):
            return f"{where}[{i}] has the shape {np.shape(low)} and dtype {low.dtype}"
        largest = np.abs(high).max(initial=0)
        if (np.abs(low) > _LARGEST_LOW * largest).any() and largest > 0:
            return f"{where}[{i}] is larger than rounding of numbers up to {largest:.3g}"
    return None


def _of_scatter(moments: list[np.ndarray], where: str) -> str | None:
    count, mean, scatter = moments
    is_full = scatter.ndim > mean.ndim
    diagonal = np.diagonal(scatter, axis1=-2, axis2=-1) if is_full else scatter
    # Rounding of the means changes the scatter.
    from_means = _tolerance(count) * np.square(np.abs(mean).max(initial=0), dtype=float)
    if (diagonal < -_tolerance(diagonal) - from_means).any():
        return f"{where} has the negative sum of squares {diagonal.min():.3g}"
    if not is_full:
        return None
    size = np.sqrt(np.abs(diagonal))
    allowed = 1e-3 * (size[..., None] * size[..., None, :]) + from_means
    gap = np.abs(scatter - np.swapaxes(scatter, -1, -2))
    return f"{where} is not symmetric" if (gap > allowed).any() else None


def _of_fourth(fourth: ArrayLike, where: str) -> str | None:
    values = np.asarray(fourth)
    if (values < -_tolerance(values)).any():
        return f"{where} is negative, {values.min():.3g}"
    gap = np.abs(values - np.swapaxes(values, -1, -2))
    return f"{where} is not symmetric" if (gap > 1e-3 * values.max(initial=0)).any() else None
