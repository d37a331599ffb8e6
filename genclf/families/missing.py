"""Cells that hold no value: NaN in floating columns, a declared code in integer ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool

from genclf.families.base import Support
from genclf.families.tokens import Tokens

Missing = Literal["error", "marginalize"]


def is_missing(x: Array, code: int = -1) -> Bool[Array, "..."]:
    """Which cells are missing: NaN, or equal to the code."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.isnan(x)
    # Unsigned and narrow codes are compared where the code can be written.
    return (x.astype(jnp.int32) if x.dtype != jnp.int64 else x) == code


def allow_missing(support: Support, missing: Missing, code: int = -1) -> Support:
    """The support, with missing cells where they are to be integrated out."""
    if missing == "error":
        return support

    def valid(x: Array | Tokens) -> Bool[Array, "..."]:
        found = support.valid(x)
        return found if isinstance(x, Tokens) else found | is_missing(x, code)

    expected = f"{support.expected}, or NaN ({code} among integers) where it is missing"
    return replace(support, valid=valid, expected=expected, missing=partial(is_missing, code=code))


def missing_problems(missing: Missing, code: int = -1, num_values: int | float = 0) -> list[str]:
    """What is wrong with these hyper-parameters, in words; codes 0..num_values-1 are values."""
    if missing not in ("error", "marginalize"):
        return [f"missing is {missing!r}, expected 'error' or 'marginalize'"]
    if missing == "marginalize" and 0 <= code < num_values:
        return [f"missing_code is {code}, which is a value; expected another code, such as -1"]
    return []
