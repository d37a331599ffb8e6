"""A cache keyed by the identity of immutable objects, since comparing them may be slow."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class Remembered:
    """One value per object, dropped when the object is deleted."""

    _known: dict[int, tuple[weakref.ref, Any]] = field(default_factory=dict)

    def get(self, of: object) -> Any:
        """The value for an object; None if there is none."""
        reference, value = self._known.get(id(of), (None, None))
        return value if reference is not None and reference() is of else None

    def keep(self, of: object, value: object) -> None:
        """Remember a value for an object."""
        key = id(of)
        self._known[key] = weakref.ref(of, lambda _: self._known.pop(key, None)), value

    def of(self, given: T, compute: Callable[[T], object]) -> Any:
        """The value for an object, computed unless it is known."""
        value = self.get(given)
        if value is None:
            value = compute(given)
            self.keep(given, value)
        return value
