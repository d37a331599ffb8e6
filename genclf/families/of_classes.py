"""Some of the classes of a fitted density, by the annotations of its arrays."""

from __future__ import annotations

import dataclasses
from functools import singledispatch
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from genclf.arguments.reprs import dims_of
from genclf.families.base import Density
from genclf.numerics.namespace import Array, namespace


@singledispatch
def of_classes(given: Any, index: Int[np.ndarray, "_"] | Array) -> Any:
    """The densities, or scores, of these classes, in this order; see `genclf.relabel`.

    By default the arrays whose first annotated axis is K, or "one_or_K", are indexed, and others
    stay. A density whose classes are in its arrays in another way registers a function of its own.
    """
    axes = given.axes if isinstance(given, Density) else {}

    def one(value: Any, dims: list[str]) -> Any:
        if not (dims and hasattr(value, "ndim")):
            is_density = lambda node: isinstance(node, Density)  # noqa: E731
            take = lambda node: of_classes(node, index) if is_density(node) else node  # noqa: E731
            return jax.tree.map(take, value, is_leaf=is_density)
        axis = value.ndim - len(dims)
        shared = dims[0] == "one_or_K" and value.shape[axis] == 1
        if dims[0] not in ("K", "one_or_K") or shared:
            return value
        return namespace(value).take(value, index, axis=axis)

    fields = {
        f.name: one(getattr(given, f.name), axes.get(f.name, "").split() or dims_of(f.type))
        for f in dataclasses.fields(given)
    }
    return type(given).of_fields(**fields)
