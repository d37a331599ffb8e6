"""Arrays that a user gives, of whatever kind: real numbers, or what is wrong with them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from genclf.arguments.domains import shown

_NUMBERS = (jnp.floating, jnp.integer, jnp.bool_)


def real_array(given: Any, name: str) -> jax.Array | np.ndarray:
    """Real numbers: an array of JAX as it is, anything else as one of NumPy."""
    if not isinstance(given, jax.Array):
        return host_numbers(given, name)
    if not any(jnp.issubdtype(given.dtype, kind) for kind in _NUMBERS):
        raise ValueError(f"{name} has dtype {given.dtype}, expected real numbers")
    return given


def host_numbers(given: Any, name: str) -> np.ndarray:
    """Real numbers in an array of NumPy, of a dtype that JAX knows; an error says what is wrong."""
    if given is None:
        raise ValueError(
            f"{name} is None, expected an array of numbers; a missing value is NaN, and a "
            "label that is not known -1"
        )
    if isinstance(given, np.ma.MaskedArray):
        if np.ma.getmaskarray(given).any():
            raise ValueError(
                f"{name} is a masked array, whose mask would be lost: "
                + (
                    "a label that is not known is -1, y.filled(-1)"
                    if name == "y"
                    else f"put NaN in its place, {name}.astype(float).filled(np.nan), for models "
                    "with missing='marginalize'"
                )
            )
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
        # Not the order of bytes of another machine, nor extended precision.
        native = host.dtype.newbyteorder("=")
        return host.astype(np.float64 if host.dtype.itemsize > 8 else native, copy=False)
    if host.ndim == 0 and not isinstance(given, str | np.generic | np.ndarray):
        raise ValueError(f"{name} is {shown(given)}, expected an array of numbers")
    raise ValueError(
        f"{name} has dtype {host.dtype}, expected real numbers; {_way_out(given, host, name)}"
    )


def _way_out(given: Any, host: np.ndarray, name: str) -> str:
    """What to do with an array that does not hold numbers."""
    if host.dtype.kind == "O" and any(value is None for value in host.ravel().tolist()):
        return "a missing value is NaN, and a label that is not known -1, in place of None"
    if host.dtype.kind == "O" and hasattr(given, "dtypes") and hasattr(given, "columns"):
        kinds = [f"{c!r}" for c, kind in given.dtypes.items() if kind.kind not in "iufb"]
        return (
            f"the columns {', '.join(kinds[:5])} hold none: pd.factorize turns values into codes, "
            "for Categorical, and a Product takes columns of several kinds"
        )
    if host.dtype.kind in "mM":
        return "dates and durations are numbers after a division, as by np.timedelta64(1, 'D')"
    if host.dtype.kind == "c":
        return "the real and the imaginary part are two columns"
    if name == "y":
        return (
            "integers 0..K-1: class_names, y = np.unique(labels, return_inverse=True) turns labels "
            "of any kind into them"
        )
    return (
        "genclf.text turns text into counts, and np.unique(column, return_inverse=True) values "
        "into codes"
    )


def numbers(value: Any) -> Any:
    """A list or tuple of numbers as an array; anything else as it is."""
    try:
        return np.asarray(value, float) if isinstance(value, list | tuple) else value
    except (TypeError, ValueError):
        return value  # a verb says what is wrong with it
