"""The base of all classes that are pytrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx


class Module(eqx.Module):
    """A module whose methods are plain ones.

    Those of `equinox.Module` are pytrees, made anew at each access: 30 microseconds, which is more
    than most calls of NumPy take.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__
