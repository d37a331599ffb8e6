"""Numbers of rows and cells: unknown ones of `jax.export`, and those that arrays are padded to."""

from __future__ import annotations

from genclf.numerics.namespace import jax

LARGEST = 65_536  # the most rows in one call of a compiled program; more are cut into pieces
_FEWEST = 64  # the smallest size that `few` leaves


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


def padded_size(n: int, *, few: bool = False) -> int:
    """The next number of 2, 3, 4, 6, 8, 12, 16, ..., to which arrays are padded on the host.

    Up to a third of the padded rows are padding. `few` leaves 64, 256, 1024, ... of these numbers,
    so that six programs serve up to `LARGEST` rows; over 64 rows are less than quadrupled.
    """
    power = 1 << max(1, (n - 1).bit_length())
    if few:
        return max(_FEWEST, power if power.bit_length() % 2 else 2 * power)
    return 3 * power // 4 if n <= 3 * power // 4 else power
