"""Convert array arguments of any kind to real numbers, or raise an error with the reason."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from genclf.arguments.domains import shown

T = TypeVar("T")
DATES_TO_NUMBERS = (
    "subtract a reference date from dates, and divide durations by a unit, such as "
    "np.timedelta64(1, 'D')"
)
_NUMBERS = (jnp.floating, jnp.integer, jnp.bool_)


def real_array(given: object, name: str) -> jax.Array | np.ndarray:
    """Return a JAX array as it is, and anything else as a NumPy array; raise unless it is real."""
    if not isinstance(given, jax.Array):
        return host_numbers(given, name)
    if not any(jnp.issubdtype(given.dtype, kind) for kind in _NUMBERS):
        raise ValueError(f"{name} has dtype {given.dtype}, expected real numbers")
    return given


def host_numbers(given: object, name: str) -> np.ndarray:
    """Convert to a NumPy array of real numbers, of a dtype that JAX supports, or raise an error."""
    if given is None:
        raise ValueError(
            f"{name} is None, expected an array of numbers; use NaN for a missing value, and -1 "
            "for an unknown label"
        )
    refuse_mask(given, name)
    if isinstance(given, np.ma.MaskedArray):
        given = given.data
    if hasattr(given, "toarray"):
        raise ValueError(
            f"{name} is a sparse {type(given).__name__}, expected a dense array: {name}.toarray(), "
            "or for word counts genclf.Tokens"
        )
    try:
        host = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is {shown(given)}, expected an array of numbers") from error
    if host.dtype.kind in "iufb" or jnp.issubdtype(host.dtype, jnp.floating):
        # Convert a foreign byte order to the native one, and extended precision to float64.
        native = host.dtype.newbyteorder("=")
        return host.astype(np.float64 if host.dtype.itemsize > 8 else native, copy=False)
    if host.ndim == 0 and not isinstance(given, str | np.generic | np.ndarray):
        raise ValueError(f"{name} is {shown(given)}, expected an array of numbers")
    raise ValueError(
        f"{name} has dtype {host.dtype}, expected real numbers; {_advice(given, host, name)}"
    )


def refuse_mask(given: object, name: str) -> None:
    """Raise for an array with masked cells, since the mask would be lost."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.getmaskarray(given).any():
        raise ValueError(
            f"{name} is a masked array, whose mask would be lost: "
            + (
                "use -1 for an unknown label, y.filled(-1)"
                if name == "y"
                else f"use NaN for a masked cell, {name}.astype(float).filled(np.nan), with "
                "models that have missing='marginalize'"
            )
        )


def _advice(given: object, host: np.ndarray, name: str) -> str:
    """Advice for an array that does not hold numbers, for the error message."""
    if host.dtype.kind == "O" and any(value is None for value in host.ravel().tolist()):
        return "use NaN for a missing value, and -1 for an unknown label, instead of None"
    if host.dtype.kind == "O" and hasattr(given, "dtypes") and hasattr(given, "columns"):
        kinds = [f"{c!r}" for c, kind in given.dtypes.items() if kind.kind not in "iufb"]
        return (
            f"the columns {', '.join(kinds[:5])} are not numeric: pd.factorize turns values into "
            "codes for Categorical, and a Product takes columns of several kinds"
        )
    if host.dtype.kind in "mM":
        return DATES_TO_NUMBERS
    if host.dtype.kind == "c":
        return "give the real and the imaginary part as two columns"
    if name == "y":
        return (
            "labels are integers 0..K-1, and class_names, y = np.unique(labels, "
            "return_inverse=True) makes them from labels of any kind"
        )
    return (
        "genclf.text turns text into counts, and np.unique(column, return_inverse=True) turns "
        "values into codes"
    )


def numbers(value: T) -> T | np.ndarray:
    """Convert a list or tuple of numbers to an array; return anything else unchanged."""
    try:
        return np.asarray(value, float) if isinstance(value, list | tuple) else value
    except (TypeError, ValueError):
        return value  # the function that uses it raises the error
