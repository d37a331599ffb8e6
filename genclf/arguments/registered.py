"""Classes whose instances `genclf.save` can write, also those of other packages."""

from __future__ import annotations

from typing import ClassVar

from genclf.arguments.module import Module

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
