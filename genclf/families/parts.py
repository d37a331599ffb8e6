"""The interface of families and densities that are made of parts.

A subclass defines how x is split into parts and joined again; its methods delegate to the parts.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

from jaxtyping import PyTree

from genclf.arguments.module import Module
from genclf.families.base import AnyDensity, Family
from genclf.numerics.namespace import Array


class InParts(Module):
    """A family or density made of parts, each of which has its own part of x."""

    @abc.abstractmethod
    def map(self, f: Callable[..., PyTree], *trees: PyTree) -> PyTree:
        """`f(part, *own)` for every part, where `own` is its part of each tree."""

    @abc.abstractmethod
    def assemble(self, parts: PyTree) -> AnyDensity:
        """The density made of these densities of the parts."""

    @abc.abstractmethod
    def split(self, x: PyTree) -> PyTree:
        """The part of x for each part of the family or density."""

    @abc.abstractmethod
    def join(self, parts: PyTree) -> PyTree:
        """The x with these parts: the inverse of `split`."""

    @abc.abstractmethod
    def split_key(self, key: Array, parts: PyTree) -> PyTree:
        """A random key for each of these parts."""

    @abc.abstractmethod
    def total(self, parts: PyTree) -> Array:
        """The sum over the parts."""


def over_parts(family: Family, f: Callable[..., PyTree], *trees: PyTree) -> PyTree:
    """`f(inner, *own)` for each leaf family, in the structure of the parts."""
    if not isinstance(family, InParts):
        return f(family, *trees)
    return family.map(lambda part, *own: over_parts(part, f, *own), *trees)


def assemble(family: Family, parts: PyTree) -> AnyDensity:
    """The params of the family, from those that `over_parts` returned for its parts."""
    if not isinstance(family, InParts):
        return parts
    return family.assemble(family.map(assemble, parts))
