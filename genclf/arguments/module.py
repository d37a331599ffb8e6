"""The bases of all classes that are pytrees, and fields that are part of their structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

M = TypeVar("M", bound="Module")


class Module(eqx.Module):
    """A module whose methods are plain ones.

    Those of `equinox.Module` are pytrees, made anew at each access: 30 microseconds, which is more
    than most calls of NumPy take.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__

    @classmethod
    def of_fields(cls: type[M], **fields: Any) -> M:
        """An instance with these fields, all that it has: 1 microsecond, without a check."""
        self = object.__new__(cls)
        vars(self).update(fields)
        return self


def python_value(value: object) -> object:
    """Convert a number of NumPy or JAX to a Python number, and several of them to a tuple.

    JAX compares structures by `==`, and `==` of two arrays is an array, not a truth value.
    """
    if isinstance(value, list | tuple):
        return tuple(map(python_value, value))
    if not isinstance(value, np.generic | np.ndarray | jax.Array) or isinstance(value, Tracer):
        return value
    return python_value(value.tolist()) if value.ndim < 2 else value


def static(convert: Callable[[Any], Any] = python_value, **options: object) -> Any:
    """A static field; it converts numbers of NumPy and JAX to Python numbers."""
    return eqx.field(static=True, converter=convert, **options)


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
