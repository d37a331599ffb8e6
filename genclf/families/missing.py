"""Cells that hold no value: NaN in floating columns, a declared code in integer ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from jaxtyping import Bool

from genclf.arguments.domains import one_of, whole
from genclf.arguments.module import Module
from genclf.families.support import Support
from genclf.families.tokens import Tokens, is_dense
from genclf.numerics.namespace import Array, namespace

Missing = Literal["error", "marginalize"]
MISSING = one_of("error", "marginalize")
CODE = whole(-(2**31), 2**31 - 1)


def is_missing(x: Array, code: int = -1) -> Bool[Array, "..."]:
    """Which cells are missing: NaN, or equal to the code."""
    xp = namespace(x)
    if xp.issubdtype(x.dtype, xp.floating):
        return xp.isnan(x)
    if xp.issubdtype(x.dtype, xp.integer):
        held = xp.iinfo(x.dtype)
        if not held.min <= code <= held.max:  # such as -1 among unsigned integers
            return xp.zeros(x.shape, bool)
    return x == xp.asarray(code, x.dtype)


class MayMiss(Module):
    """A family or a density in which cells of x may be missing.

    It has a field `missing` and, if x may be integer, a field `missing_code`.
    """

    if TYPE_CHECKING:

        @property
        def missing(self) -> Missing: ...
        @property
        def missing_code(self) -> int: ...
    else:
        missing_code = -1

    @property
    def may_miss(self) -> bool:
        """Whether a missing cell is integrated out, and not an error."""
        return self.missing == "marginalize"

    def seen(self, x: Array) -> Bool[Array, "..."]:
        """Which cells hold a value; all do if none may be missing."""
        xp = namespace(x)
        return ~is_missing(x, self.missing_code) if self.may_miss else xp.ones(x.shape, bool)

    def allowing(self, support: Support) -> Support:
        """The support; it includes missing cells if they are allowed."""
        if not self.may_miss:
            return support

        def valid(x: Array | Tokens) -> Bool[Array, "..."]:
            found = support.valid(x)
            return found | is_missing(x, self.missing_code) if is_dense(x) else found

        code = f"NaN ({self.missing_code} among integers)"
        return replace(
            support,
            valid=valid,
            expected=f"{support.expected}, or {code} where it is missing",
            missing=partial(is_missing, code=self.missing_code),
            sparse=False,
        )

    def missing_problems(self, num_values: int | float) -> list[str]:
        """Error messages for the code; 0..num_values-1 are values."""
        if self.may_miss and 0 <= self.missing_code < num_values:
            code = f"missing_code is {self.missing_code}, which is a value"
            return [f"{code}; expected another code, such as -1"]
        return []
