"""What a person hands over, checked at the door: the error names it, and says what is expected."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_REAL = (jnp.floating, jnp.integer, jnp.bool_)


def shown(value: object) -> str:
    """The value in a message: its type, and what it holds where that is short."""
    text = "" if hasattr(value, "shape") else repr(value)
    shape = f" of shape {value.shape}" if hasattr(value, "shape") else ""
    return text if 0 < len(text) <= 40 else f"{type(value).__name__}{shape}"


def whole_number(value: Any, name: str, least: int, otherwise: str = "") -> int:
    """The value as an int of at least `least`."""
    expected = f"expected a whole number of at least {least}{otherwise}"
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {shown(value)}, {expected}") from None
    if isinstance(value, bool | np.bool_) or number < least:
        raise ValueError(f"{name} is {shown(value)}, {expected}")
    return number


def yes_or_no(value: Any, name: str) -> bool:
    """The value as a bool."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {shown(value)}, expected True or False")
    return bool(value)


def plain_sequence(value: Any, name: str, expected: str) -> list:
    """The items of a sequence that is no text, no table and no mapping."""
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array, whose mask would be lost, expected {expected}")
    several = getattr(value, "ndim", 1) != 1
    try:
        items = None if several or isinstance(value, str | bytes | dict) else iter(value)
    except TypeError:
        items = None
    if items is None:
        got = "a single str" if isinstance(value, str) else shown(value)
        raise ValueError(f"{name} must be {expected}; got {got}")
    return list(items)


def real_array(value: Any, name: str) -> jax.Array | np.ndarray:
    """The value as an array of real numbers: a JAX array as it is, others as NumPy's."""
    array = value if isinstance(value, jax.Array) else _host_array(value, name)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in _REAL):
        hint = {
            "c": "; take .real, or .real and .imag as two features",
            "O": "; convert the cells by .astype(float), with NaN where a value is missing",
        }.get(array.dtype.kind, "; convert the cells to numbers")
        raise ValueError(
            f"{name} is {shown(value)} of dtype {array.dtype}, expected real numbers{hint}"
        )
    return array


def _host_array(value: Any, name: str) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(
            f"{name} is a masked array, whose mask would be lost; give .filled(np.nan) of floats, "
            "or the rows that are not masked"
        )
    if hasattr(value, "toarray"):
        raise ValueError(f"{name} is {shown(value)}, a sparse matrix; give .toarray()")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is {shown(value)}, expected an array of real numbers: {error}"
        ) from None
    # As this machine writes numbers: JAX takes no other.
    return array.astype(array.dtype.newbyteorder("="), copy=False)
