"""Cells that hold no value: NaN in floating columns, a declared code in integer ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool

from genclf.arguments.domains import one_of, whole
from genclf.families.support import Support
from genclf.families.tokens import Tokens

Missing = Literal["error", "marginalize"]
MISSING = one_of("error", "marginalize")
CODE = whole(-(2**31), 2**31 - 1)


def is_missing(x: Array, code: int = -1) -> Bool[Array, "..."]:
    """Which cells are missing: NaN, or equal to the code."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.isnan(x)
    if jnp.issubdtype(x.dtype, jnp.integer):
        held = jnp.iinfo(x.dtype)
        if not held.min <= code <= held.max:  # such as -1 among unsigned integers
            return jnp.zeros(x.shape, bool)
    return x == jnp.asarray(code, x.dtype)


def observed(x: Array, missing: Missing, code: int = -1) -> Bool[Array, "..."]:
    """Which cells hold a value: all of them, unless some may be missing."""
    return jnp.ones(x.shape, bool) if missing == "error" else ~is_missing(x, code)


def allow_missing(support: Support, missing: Missing, code: int = -1) -> Support:
    """The support; with missing="marginalize", missing cells are valid too."""
    if missing == "error":
        return support

    def valid(x: Array | Tokens) -> Bool[Array, "..."]:
        found = support.valid(x)
        return found if isinstance(x, Tokens) else found | is_missing(x, code)

    expected = f"{support.expected}, or NaN ({code} among integers) where it is missing"
    return replace(
        support,
        valid=valid,
        expected=expected,
        missing=partial(is_missing, code=code),
        sparse=False,
    )


def missing_problems(missing: Missing, code: int = -1, num_values: int | float = 0) -> list[str]:
    """What is wrong with these hyper-parameters, in words; codes 0..num_values-1 are values."""
    if missing == "marginalize" and 0 <= code < num_values:
        return [f"missing_code is {code}, which is a value; expected another code, such as -1"]
    return []
