"""What is made of parts: a family of families, and the density that it learns.

A class says how it is cut into parts and put together; what it does is what they do.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, PyTree

from genclf.families.base import Family


class InParts(eqx.Module):
    """A family or a density of which each part has its own part of x."""

    @abc.abstractmethod
    def map(self, f: Callable[..., Any], *trees: PyTree) -> PyTree:
        """`f(part, *own)` for every part, with its own of each tree."""

    @abc.abstractmethod
    def assemble(self, parts: PyTree) -> Any:
        """The density of these densities of the parts."""

    @abc.abstractmethod
    def split(self, x: PyTree) -> PyTree:
        """What each part has of x."""

    @abc.abstractmethod
    def join(self, parts: PyTree) -> PyTree:
        """The x of which each part has that."""

    @abc.abstractmethod
    def split_key(self, key: Array, parts: PyTree) -> PyTree:
        """A random key for each of these parts."""

    @abc.abstractmethod
    def total(self, parts: PyTree) -> Array:
        """The sum over the parts."""


def over_parts(family: Family, f: Callable[..., Any], *trees: PyTree) -> PyTree:
    """`f(plain family, *own)` for every plain family inside, in the structure of the parts."""
    if not isinstance(family, InParts):
        return f(family, *trees)
    return family.map(lambda part, *own: over_parts(part, f, *own), *trees)


def assemble(family: Family, parts: PyTree) -> Any:
    """The params of the family out of those that `over_parts` has for the families inside."""
    if not isinstance(family, InParts):
        return parts
    return family.assemble(family.map(assemble, parts))
