"""Decisions by the number of rows or cells, which `jax.export` may leave unknown."""

from __future__ import annotations

import jax


def is_symbolic(size: object) -> bool:
    """Whether this number of rows or cells is unknown until a program of `jax.export` is called."""
    return not isinstance(size, int)


def is_at_most(size: object, most: int) -> bool:
    """Whether a number of rows or cells is at most `most`; False if it is symbolic."""
    return isinstance(size, int) and size <= most


def at_most(size: object, most: int) -> int:
    """The number of rows or cells; `most` if it is larger or symbolic."""
    return min(size, most) if isinstance(size, int) else most


def on_cpu() -> bool:
    """Whether the default backend is a CPU; a program may still be compiled for another."""
    return jax.default_backend() == "cpu"
