"""Numbers of rows and cells, which `jax.export` may leave unknown, and what they depend on."""

from __future__ import annotations

import jax


def is_symbolic(size: object) -> bool:
    """Whether this number of rows or cells is unknown until a program of `jax.export` is called."""
    return not isinstance(size, int)


def is_at_most(size: object, most: int) -> bool:
    """Whether there are so few rows or cells; False if their number is symbolic."""
    return isinstance(size, int) and size <= most


def at_most(size: object, most: int) -> int:
    """The number of rows or cells, but `most` if there are more or their number is symbolic."""
    return min(size, most) if isinstance(size, int) else most


def on_cpu() -> bool:
    """Whether programs are compiled for a CPU, unless JAX is told otherwise for single ones."""
    return jax.default_backend() == "cpu"
