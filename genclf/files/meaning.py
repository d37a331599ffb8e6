"""Whether the values in a file are in the sets that their classes declare."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from genclf.families.base import Params
from genclf.model import Fitted, Model, check_hyperparameters
from genclf.sums.statistics import ClassifierStats, Moments, Sums


def problem(given: Any, where: str) -> str | None:
    """The first problem of an object or a part of it, in words; None if it is valid."""
    if isinstance(given, dict | tuple | list):
        named = given.items() if isinstance(given, dict) else enumerate(given)
        return _first(problem(item, f"{where}[{name!r}]") for name, item in named)
    if isinstance(given, Model):
        try:
            check_hyperparameters(given, name=where)
        except ValueError as error:
            return str(error)
    is_array = isinstance(given, np.ndarray | np.generic | jax.Array)
    if is_array and jnp.issubdtype(given.dtype, jnp.floating) and np.isnan(given).any():
        return f"{where} holds NaN"
    own = _own_problem(given, where)
    fields = {name: v for name, v in _fields(given).items() if name not in _MAY_BE_NAN}
    return own or _first(problem(v, f"{where}.{name}") for name, v in fields.items())


_MAY_BE_NAN = ("gradient_norm",)  # `softmax_form` has no fit, and so no gradient


def _first(problems: Any) -> str | None:
    return next((found for found in problems if found), None)


def _fields(given: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return {f.name: getattr(given, f.name) for f in dataclasses.fields(given)}
    return vars(given) if hasattr(given, "params_") else {}


def _own_problem(given: Any, where: str) -> str | None:
    if isinstance(given, Params):
        return _first(
            _of_parameter(parameter, getattr(given, name), f"{where}.{name}")
            for name, parameter in given.parameters.items()
        )
    if isinstance(given, Fitted):
        return _of_classifier(given, where)
    if isinstance(given, Sums | Moments) and (np.asarray(given.count) < 0).any():
        return f"{where}.count is negative"
    if isinstance(given, ClassifierStats):
        return _of_stats(given, where)
    if hasattr(given, "params_") and len(given.classes_) != len(_log_prior(given.params_)):
        return f"{where} has {len(given.classes_)} classes, and params of another number"
    return None


def _of_parameter(parameter: Any, stored: Any, where: str) -> str | None:
    stored = np.asarray(stored)
    allowed = float(np.sqrt(jnp.finfo(stored.dtype).eps))
    with jax.enable_x64(True):
        worst = float(parameter.infeasibility(jnp.asarray(stored)))
    if worst <= allowed:
        return None
    return f"{where} is outside its set, {parameter.constraint}, by {worst:.1e}"


def _of_classifier(given: Fitted, where: str) -> str | None:
    """A problem of the shapes of arrays, by an abstract score of rows, or of the class prior."""
    if given.batch_shape:
        return None
    count, dtype = len(_log_prior(given)), _log_prior(given).dtype
    try:
        with jax.enable_x64(True):
            x = jax.tree.map(lambda d: jax.ShapeDtypeStruct((2, d), dtype), given.num_features)
            shape = jax.eval_shape(lambda params, x: params.discriminant(x), given, x).shape
    except Exception as error:  # wrong shapes can raise any error
        return f"{where} has arrays of shapes that do not fit: {error}"
    if shape != (2, count):
        return f"{where} has arrays of {shape[-1]} classes and {count} class probabilities"
    if not given.generative:
        return None
    total = float(np.exp(np.asarray(_log_prior(given), float)).sum())
    return None if abs(total - 1) < 1e-3 else f"{where}.log_prior has the sum {total:.6g}"


def _log_prior(params: Any) -> Any:
    return params.log_prior if params.generative else params.intercept


def _of_stats(given: ClassifierStats, where: str) -> str | None:
    """A problem if the statistics of x have another number of classes than those of the labels."""
    count = np.shape(given.labels.count)[-1]
    is_sums = lambda node: isinstance(node, Sums | Moments)  # noqa: E731
    for part in jax.tree.leaves(given.conditional, is_leaf=is_sums):
        if is_sums(part) and count not in np.shape(part.count):  # other axes: columns, features
            return f"{where} has counts of shape {np.shape(part.count)} and {count} classes"
    return None
