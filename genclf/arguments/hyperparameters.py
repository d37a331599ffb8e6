"""Check the hyper-parameters of a whole model against the domains that its classes declare.

The class attribute `domains` maps names of fields to domains. Every public function that takes a
model first checks the concrete values. It replaces traced values outside their domain by NaN, so
every result that depends on them is NaN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import numpy as np
from jax.core import Tracer

from genclf.arguments.domains import Domain
from genclf.arguments.module import Registered
from genclf.arguments.reprs import ShowsScalars


class Declared(ShowsScalars, Registered):
    """A module whose fields have domains; its instances can be hashed."""

    domains: ClassVar[Mapping[str, Domain]] = {}

    def __hash__(self) -> int:
        leaves, structure = jax.tree.flatten(self)
        return hash((structure, *((np.shape(leaf), *np.ravel(leaf).tolist()) for leaf in leaves)))


def invalid_fields(node: Declared, of: str = "", part: str = "") -> list[str]:
    """Error messages for the invalid fields of a model, its families and its priors.

    Args:
        node: a model, a family or a prior.
        of: the text after the name of a field in a message, such as " of the prior".
        part: the text before that name: the name of a part of a `Product`.
    """
    found = []
    for name, value in _fields(node):
        domain = node.domains.get(name)
        if domain and (problem := domain.problem(value, name + of)):
            found.append(part + problem)
        elif isinstance(value, Declared):
            inside = {"family": of, "prior": " of the prior"}.get(name, f" of {name}")
            found += invalid_fields(value, inside, part)
        elif isinstance(value, dict):
            named = [(key, inner) for key, inner in value.items() if isinstance(inner, Declared)]
            for key, inner in sorted(named):
                found += invalid_fields(inner, of, f"{part}{key}: ")
    return found


def nan_where_invalid(node: object) -> Any:
    """The same model with NaN for each traced number outside its domain."""
    if isinstance(node, dict):
        new = {key: nan_where_invalid(value) for key, value in node.items()}
        return new if any(new[key] is not value for key, value in node.items()) else node
    if not isinstance(node, Declared):
        return node
    changed = {}
    for name, value in _fields(node):
        domain = node.domains.get(name)
        new = (
            domain.nan_where_invalid(value) if domain and domain.valid else nan_where_invalid(value)
        )
        if new is not value:
            changed[name] = new
    return dataclasses.replace(node, **changed) if changed else node


def is_concrete(value: object) -> bool:
    """Whether no array or number in a value is traced."""
    if value is None or isinstance(value, float | int | str):
        return True
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))


def kind_of(*kinds: type, such_as: str, optional: bool = False) -> Domain:
    """The domain of instances of these classes."""
    names = " or ".join(kind.__name__ for kind in kinds)
    expected = f"a {names}, such as {such_as}" + (", or None" if optional else "")
    contains: Callable[[Any], bool] = lambda value: isinstance(value, kinds)  # noqa: E731
    return Domain(expected, contains, optional=optional)


def _fields(node: Declared) -> list[tuple[str, object]]:
    values = vars(node)  # faster than attribute access, which calls a function of the module
    return [(field.name, values.get(field.name)) for field in dataclasses.fields(node)]
