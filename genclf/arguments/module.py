"""The bases of all classes that are pytrees, and fields that are part of their structure."""

from __future__ import annotations

import dataclasses
from abc import ABCMeta
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform

import jax
import numpy as np
import wadler_lindig
from jax.core import Tracer
from jax.tree_util import GetAttrKey

M = TypeVar("M", bound="Module")


def field(
    *, static: bool = False, converter: Callable[[Any], Any] | None = None, **own: Any
) -> Any:
    """A field of a `Module`: a static one is part of the structure, not a child."""
    return dataclasses.field(metadata={"static": static, "converter": converter}, **own)


def python_value(value: object) -> object:
    """Convert a number of NumPy or JAX to a Python number, and several of them to a tuple.

    JAX compares structures by `==`, and `==` of two arrays is an array, not a truth value.
    """
    if isinstance(value, list | tuple):
        return tuple(map(python_value, value))
    if not isinstance(value, np.generic | np.ndarray | jax.Array) or isinstance(value, Tracer):
        return value
    return python_value(value.tolist()) if value.ndim < 2 else value


def static(converter: Callable[[Any], Any] = python_value, **own: Any) -> Any:
    """A static field; it converts numbers of NumPy and JAX to Python numbers."""
    return field(static=True, converter=converter, **own)


@dataclass_transform(field_specifiers=(dataclasses.field, field, static))
class Module(metaclass=ABCMeta):  # noqa: B024
    """A dataclass that is a pytree of its fields, each of which is set once.

    A class without an `__init__` has that of its base if this was written by hand, and that of a
    dataclass otherwise.
    """

    _init_by_hand: ClassVar[bool] = False
    _names: ClassVar[frozenset[str]] = frozenset()
    _converters: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        """Make the class a dataclass, and register it as a pytree."""
        super().__init_subclass__(**options)
        cls._init_by_hand |= "__init__" in vars(cls)
        dataclasses.dataclass(init=not cls._init_by_hand, repr=False, eq=False)(cls)
        fields = {field.name: field.metadata for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        cls._names = frozenset(fields)
        given = {name: metadata.get("converter") for name, metadata in fields.items()}
        cls._converters = {name: convert for name, convert in given.items() if convert}
        if not cls._init_by_hand:
            cls.__init__.__annotations__ |= dict.fromkeys(cls._converters, Any)
        _register(cls, {name for name in fields if fields[name].get("static")}, [*fields])

    @classmethod
    def of_fields(cls: type[M], **fields: Any) -> M:
        """An instance with these fields, all that it has: 1 microsecond, without a check."""
        self = object.__new__(cls)
        vars(self).update(fields)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        """Set a field that has no value yet."""
        if name in vars(self) or name not in self._names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        convert = self._converters.get(name)
        vars(self)[name] = value if convert is None else convert(value)

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        """Whether both have the same structure and equal leaves."""
        if jax.tree.structure(self) != jax.tree.structure(other):  # type: ignore[operator]
            return False
        return all(map(_equal, jax.tree.leaves(self), jax.tree.leaves(other)))

    def __hash__(self) -> int:
        leaves, structure = jax.tree.flatten(self)
        return hash((structure, *leaves))

    def __repr__(self) -> str:
        return pformat(self)


def _register(cls: type, static: set[str], names: list[str]) -> None:
    """Register a class as a pytree: its children are the fields that are not static, in order."""
    inner, outer = [name for name in names if name not in static], sorted(static)
    children, structure = _values_of(inner), _values_of(outer)
    keys = [GetAttrKey(name) for name in inner]
    both = [*inner, *outer]

    def unflatten(structure: tuple, children: Iterable) -> Any:
        made: Any = object.__new__(cls)
        vars(made).update(zip(both, (*children, *structure), strict=True))
        return made

    jax.tree_util.register_pytree_with_keys(
        cls,
        lambda node: (tuple(zip(keys, children(node), strict=True)), structure(node)),
        unflatten,
        lambda node: (children(node), structure(node)),
    )


def _values_of(names: list[str]) -> Callable[[Any], tuple]:
    """A function of an object: its attributes of these names, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda node: tuple(getattr(node, name) for name in names)


def _equal(a: Any, b: Any) -> bool:
    """Numbers are equal by value, be they arrays or not; arrays with axes have one dtype."""
    arrays = [isinstance(leaf, jax.Array | np.ndarray) for leaf in (a, b)]
    if not any(arrays):
        return bool(a == b)
    return (np.ndim(a) == 0 or (all(arrays) and a.dtype == b.dtype)) and np.array_equal(a, b)


def pformat(tree: object, width: int = 80) -> str:
    """A pytree as text: arrays as dtype and shape, fields that differ from their defaults."""

    def custom(value: object) -> wadler_lindig.AbstractDoc | None:
        if isinstance(value, jax.Array):
            weak = "weak_" if getattr(value, "weak_type", False) else ""
            return wadler_lindig.array_summary(value.shape, weak + value.dtype.name, kind=None)
        return None

    return wadler_lindig.pformat(tree, width=width, custom=custom)


REGISTERED: dict[str, type] = {}


class Registered(Module):
    """A class whose subclasses register themselves, so that `genclf.save` can write instances.

    A file holds the full name of the class, its `file_version` and its fields. `genclf.load` finds
    the class only if its module has been imported already: a file cannot cause an import.

    Attributes:
        file_version: the version of the fields; raise it when their names or meanings change.
    """

    file_version: ClassVar[int] = 1

    def __init_subclass__(cls, **options: object) -> None:
        """Register the class; a second definition replaces the first."""
        super().__init_subclass__(**options)
        REGISTERED[full_name(cls)] = cls


def full_name(kind: type) -> str:
    """The module of a class, and its name there."""
    return f"{kind.__module__}.{kind.__qualname__}"
