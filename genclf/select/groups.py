"""Values that group rows: of any kind, numbered by the distinct ones."""

from __future__ import annotations

import numpy as np
from jax.core import Tracer
from jaxtyping import Int, Shaped

from genclf.arguments.domains import shown

_EXPECTED = "expected one value of each row, such as integers or strings"


def groups_of_rows(given: object, name: str) -> Int[np.ndarray, "n"] | None:
    """The number of each row's group, in the order of the distinct values; None for None."""
    return None if given is None else distinct(given, name)[1]


def distinct(given: object, name: str) -> tuple[Shaped[np.ndarray, "G"], Int[np.ndarray, "n"]]:
    """The sorted distinct values, and the number of each row's value among them.

    Memory is that of the rows, however large the values are.
    """
    if isinstance(given, Tracer):
        raise ValueError(f"{name} is traced, expected concrete values, outside jit and vmap")
    if isinstance(given, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array, whose mask would be lost, {_EXPECTED}")
    try:
        found = np.asarray(given)
        if found.dtype.kind in "US" and not isinstance(given, np.ndarray):
            found = np.asarray(given, object)  # as strings, 1 and "1" would be the same
        if found.ndim != 1 or not found.size:
            raise ValueError(f"{name} is {shown(given)}")
        if found.dtype.kind not in "biuUS":
            for row, value in enumerate(found.tolist()):
                if value is None or value != value:
                    raise ValueError(f"{name}[{row}] is {value}, a missing value")
        values, number = np.unique(found, return_inverse=True)
    except (TypeError, ValueError) as error:  # NumPy's own: ragged lists, kinds without an order
        text = str(error) if str(error).startswith(name) else f"{name} is {shown(given)}: {error}"
        raise ValueError(f"{text}; {_EXPECTED}") from error
    return values, number
