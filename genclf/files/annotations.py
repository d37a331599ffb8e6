"""Checks of values against the types, dtypes and shapes that annotations of fields declare."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import numpy as np
from jaxtyping import AbstractArray


@dataclasses.dataclass
class Axes:
    """The sizes of the axes of the arrays of an object, as far as they are known.

    Attributes:
        batch: the axes before those of a single fit, as `jax.vmap` makes them; None until the first
            array shows them.
        sizes: the size of each named axis.
    """

    batch: tuple[int, ...] | None = None
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)

    def problem(self, shape: tuple[int, ...], dims: str) -> str | None:
        """What is wrong with a shape, in words that follow the array's name; None if valid."""
        if "*" in dims or "..." in dims:
            return None
        names = dims.split()
        batch, own = shape[: len(shape) - len(names)], shape[len(shape) - len(names) :]
        self.batch = batch if self.batch is None else self.batch
        if len(own) == len(names) and batch == self.batch:
            if all(map(self._has, names, own)):
                return None
        before = f", preceded by the batch axes {self.batch}" if self.batch else ""
        known = [f"{name} = {self.sizes[name]}" for name in {*names} if name in self.sizes]
        where = f", where {', '.join(sorted(known))}" if known else ""
        return f"has the shape {shape}, expected ({', '.join(names)}){before}{where}"

    def _has(self, name: str, size: int) -> bool:
        """Whether an axis of this name may have this size; "one_or_K" is 1 or K."""
        if name.isdigit():
            return size == int(name)
        if name == "one_or_K":
            return size in (1, self.sizes.get("K", size))
        return self.sizes.setdefault(name, size) == size


def fields_of(given: object) -> dict[str, Any]:
    """The fields of an object of any kind."""
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return {f.name: getattr(given, f.name) for f in dataclasses.fields(given)}
    if isinstance(given, tuple):
        return given._asdict()  # type: ignore[attr-defined]
    return vars(given) if hasattr(given, "get_params") else {}


@cache
def field_types(kind: type) -> dict[str, object]:
    """The annotation of each field of a class."""
    try:
        hints = typing.get_type_hints(kind)
    except NameError as error:
        raise ValueError(f"an annotation of {kind.__name__} cannot be read: {error}") from error
    is_field = lambda hint: typing.ClassVar not in (hint, typing.get_origin(hint))  # noqa: E731
    return {name: hint for name, hint in hints.items() if is_field(hint)}


def is_array(hint: object) -> bool:
    """Whether an annotation is that of an array, or of an array or None."""
    return any(
        isinstance(one, type) and issubclass(one, AbstractArray)
        for one in (hint, *typing.get_args(hint))
    )


def mismatch(value: object, hint: object, axes: Axes, dims: str | None = None) -> str | None:
    """What is wrong with a value, in words that follow its name; None if it is valid.

    Args:
        value: the value of a field.
        hint: the annotation.
        axes: the sizes of axes in other arrays of the object; those of this one are added.
        dims: the axes of an array, if they are not those of the annotation.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        # Compare an array only with the array types of a union, so that the message is on shapes.
        alike = [one for one in inner if is_array(one) == hasattr(value, "dtype")] or inner
        each = [mismatch(value, one, axes, dims) for one in alike]
        return None if None in each else each[0] if len(each) == 1 else _is_not(value, hint)
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return _of_array(value, hint, axes, dims)
    if origin in (tuple, frozenset, list) and isinstance(value, origin):
        each = [mismatch(item, inner[0], axes) for item in value]
        return next((f"has an item that {wrong}" for wrong in each if wrong), None)
    if origin in (dict, Mapping) and isinstance(value, dict):
        each = [mismatch(name, inner[0], axes) for name in value]
        each += [mismatch(item, inner[1], axes) for item in value.values()]
        return next((f"has an entry that {wrong}" for wrong in each if wrong), None)
    return None if _is_instance(value, origin or hint, inner) else _is_not(value, hint)


def _is_instance(value: object, kind: object, options: tuple[object, ...]) -> bool:
    if kind is Literal:
        return isinstance(value, str) and value in options
    if kind in (int, float):  # bool is a subclass of int
        return isinstance(value, kind | int) and not isinstance(value, bool)
    if kind is None or not isinstance(kind, type):
        return True
    return kind is Any or kind.__name__ == "PyTree" or isinstance(value, kind)


def _of_array(value: object, hint: type[AbstractArray], axes: Axes, dims: str | None) -> str | None:
    if isinstance(value, float):  # a float64 scalar of NumPy is saved as a float
        value = np.asarray(value)
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return _is_not(value, hint)
    if isinstance(hint.dtypes, tuple) and value.dtype.name not in hint.dtypes:
        return f"has the dtype {value.dtype}, expected one of {', '.join(hint.dtypes):.200}"
    return axes.problem(value.shape, hint.dim_str if dims is None else dims)


def _is_not(value: object, hint: object) -> str:
    if typing.get_origin(hint) is Literal:
        expected = " or ".join(map(repr, typing.get_args(hint)))
    else:
        expected = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    plain = isinstance(value, str | float | int | None)
    return f"is {f'{value!r:.40}' if plain else type(value).__name__}, expected {expected:.200}"
