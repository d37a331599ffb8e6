"""Whether the values in a file are in the sets that their classes declare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from genclf.arguments.hyperparameters import Declared, invalid_fields
from genclf.arguments.parameters import Parameter
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.model import Fitted
from genclf.families.base import Density
from genclf.families.combined.independent import IndependentParams
from genclf.families.combined.mixture import MixtureParams
from genclf.files.annotations import Axes, field_types, fields_of, is_array, mismatch
from genclf.sums.problems import problem_of_stats, problem_of_sums
from genclf.sums.statistics import ClassifierStats, Moments, Sums

T = TypeVar("T")


def problem(given: object, where: str, axes: Axes | None = None) -> str | None:
    """The first problem of an object or a part of it, in words; None if it is valid.

    `where` is its name; `axes` are the sizes of axes in the arrays of the object that holds it.
    """
    if isinstance(given, dict | list) or type(given) is tuple:
        named = given.items() if isinstance(given, dict) else enumerate(given)
        return _first(problem(item, f"{where}[{name!r}]", axes) for name, item in named)
    if isinstance(given, np.ndarray | np.generic | jax.Array):
        is_float = jnp.issubdtype(given.dtype, jnp.floating)
        return f"{where} holds NaN" if is_float and np.isnan(given).any() else None
    if not (fields := fields_of(given)):
        return None
    if axes is not None:  # only the axis K means the same in a part
        axes = Axes(axes.batch, {name: size for name, size in axes.sizes.items() if name == "K"})
    axes = axes or Axes()
    return (
        _of_annotations(given, fields, where, axes)
        or _of_parts(given, fields, where, axes)
        or _of_declarations(given, fields, where)
    )


def _first(problems: Iterable[str | None]) -> str | None:
    return next((found for found in problems if found), None)


def _of_annotations(given: object, fields: dict[str, object], where: str, axes: Axes) -> str | None:
    """The first field whose type, dtype or shape differs from its annotation."""
    kind: Any = type(given)
    hints = field_types(kind)
    named = [(name, hints[name]) for name in fields if name in hints]
    # The shapes of arrays depend on the other fields, so these come first.
    others = [(name, hint) for name, hint in named if not is_array(hint)]
    for name, hint in others:
        if wrong := mismatch(fields[name], hint, axes):
            return f"{where}.{name} {wrong}"
        is_layout = isinstance(given, Density) and not isinstance(fields[name], Density | dict)
        if is_layout and (wrong := problem(fields[name], f"{where}.{name}")):
            return wrong
    dims = given.axes if isinstance(given, Density) else {}
    for name, hint in named:
        if is_array(hint) and (wrong := mismatch(fields[name], hint, axes, dims.get(name))):
            return f"{where}.{name} {wrong}"
    return None


def _of_parts(given: object, fields: dict[str, object], where: str, axes: Axes) -> str | None:
    """The first problem of an object that this one holds."""
    if isinstance(given, Sums | Moments):
        return problem_of_sums(given, where)
    if isinstance(given, ClassifierStats):
        return problem_of_stats(given.labels, given.conditional, where)
    inside = _axes_inside(given, axes)
    # `_of_declarations` checks the arrays of this object itself.
    named = {name: v for name, v in fields.items() if not hasattr(v, "dtype")}
    return _first(problem(part, f"{where}.{name}", inside) for name, part in named.items())


def _axes_inside(given: object, axes: Axes) -> Axes | None:
    """The sizes of axes in the arrays of the parts of an object."""
    if not isinstance(given, Density | Fitted):
        return None
    if isinstance(given, MixtureParams):
        return Axes(axes.batch, {"K": np.shape(given.log_weight)[-2] * axes.sizes["J"]})
    if isinstance(given, IndependentParams) and axes.batch is not None:
        shapes = [np.shape(leaf)[len(axes.batch) :] for leaf in jax.tree.leaves(given.columns)]
        columns = next((shape[:1] for shape in shapes if shape), ())
        return Axes((*axes.batch, *columns), axes.sizes)
    return axes


def _of_declarations(given: object, fields: dict[str, PyTree], where: str) -> str | None:
    """The first value outside its declared set, alone or together with the others."""
    if isinstance(given, Declared):
        wrong = invalid_fields(given) or given.problems()  # type: ignore[attr-defined]
        return f"{where}: {'; '.join(wrong)}" if wrong else None
    parameters = given.parameters if isinstance(given, Density) else {}
    domains = getattr(type(given), "domains", {})
    for name, value in fields.items():
        if name in parameters:
            wrong = _of_parameter(parameters[name], value, f"{where}.{name}")
        elif name in domains and value is not None:
            wrong = domains[name].problem(_plain(value), f"{where}.{name}")
        elif hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating):
            is_finite = np.isfinite(value).all()
            wrong = None if is_finite else f"{where}.{name} holds NaN or an infinite number"
        else:
            wrong = None
        if wrong:
            return wrong
    together: list[str] = getattr(given, "_problems", list)()
    if together:
        return f"{where}.{together[0]}"
    return _of_class_prior(given, where) if isinstance(given, ClassifierParams) else None


def _plain(value: T) -> T | np.ndarray:
    """The array in a dtype that NumPy knows."""
    return np.asarray(value, float) if getattr(value, "dtype", None) == jnp.bfloat16 else value


def _of_parameter(
    parameter: Parameter, stored: Array | np.ndarray | np.generic, where: str
) -> str | None:
    allowed = float(np.sqrt(jnp.finfo(stored.dtype).eps))
    with np.errstate(all="ignore"):
        worst = float(parameter.infeasibility(np.asarray(stored, float)))
    if worst <= allowed:
        return None
    return f"{where} is outside its set, {parameter.constraint}, by {worst:.1e}"


def _of_class_prior(given: ClassifierParams, where: str) -> str | None:
    total = np.exp(np.asarray(given.log_prior, float)).sum(-1)
    worst = total.flat[np.abs(total - 1).argmax()]
    return None if abs(worst - 1) < 1e-3 else f"{where}.log_prior has total probability {worst:.6g}"
