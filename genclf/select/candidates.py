"""The models of a grid of hyper-parameters, stacked if they have the same structure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Int, PyTree

from genclf.arguments.domains import shown
from genclf.classifier.model import Model, check_hyperparameters
from genclf.families.structure import widths

Grid = Mapping[str, Sequence[Any] | np.ndarray] | Sequence[Mapping[str, Any]]


class Group(NamedTuple):
    """Candidates that share one compiled program.

    Attributes:
        indices: the indices of these candidates, (C,).
        models: one model, whose numeric hyper-parameters are stacked in arrays (C, ...).
    """

    indices: Int[np.ndarray, "C"]
    models: Any


def candidates_of(grid: object, name: str) -> list[dict[str, Any]]:
    """The hyper-parameters of each candidate: all combinations of a dict, or the given list."""
    if isinstance(grid, Mapping):
        columns = [_values(key, values, name) for key, values in grid.items()]
        found = [dict(zip(grid, row, strict=True)) for row in itertools.product(*columns)]
    elif isinstance(grid, Sequence) and all(isinstance(one, Mapping) for one in grid):
        found = [dict(one) for one in grid]
    else:
        found = []
    if not found or any(one.keys() != found[0].keys() for one in found):
        raise ValueError(
            f"{name} is {shown(grid)}, expected the values of each hyper-parameter, such as "
            '{"ridge": [0.01, 0.1, 1.0]}, or a list of such candidates, {"ridge": 0.01}'
        )
    return found


def _values(key: object, values: Any, name: str) -> list[Any]:
    is_array = isinstance(values, np.ndarray | jax.Array)
    some = np.ndim(values) > 0 if is_array else isinstance(values, Sequence)
    if not isinstance(key, str) or isinstance(values, str) or not some:
        raise ValueError(f"{name}[{key!r}] is {shown(values)}, expected a sequence of values")
    return np.asarray(values).tolist() if is_array and values.ndim == 1 else list(values)


def models_of(clf_of: Callable[..., Model], candidates: list[dict], x: PyTree) -> list[Model]:
    """The model of each candidate, checked."""
    found = []
    for number, values in enumerate(candidates):
        try:
            found.append(check_hyperparameters(clf_of(**values), widths(x), "clf_of(...)"))
        except (TypeError, ValueError) as error:
            raise ValueError(f"candidate {number} of grid, {values}: {error}") from error
    if len(sizes := {model.num_classes for model in found}) > 1:
        raise ValueError(f"clf_of makes models of {sorted(sizes)} classes, expected the same")
    return found


def grouped(models: list[Model], dtype: DTypeLike) -> list[Group]:
    """The models grouped by structure; numeric hyper-parameters get the dtype of the rows."""
    groups: dict[Any, list[int]] = {}
    arrays = [jax.tree.map(lambda a: np.asarray(a, dtype), model) for model in models]
    for number, model in enumerate(arrays):
        shapes = tuple(leaf.shape for leaf in jax.tree.leaves(model))
        groups.setdefault((jax.tree.structure(model), shapes), []).append(number)
    stack = lambda *leaves: jnp.asarray(np.stack(leaves))  # noqa: E731
    return [
        Group(np.array(indices), jax.tree.map(stack, *(arrays[number] for number in indices)))
        for indices in groups.values()
    ]
