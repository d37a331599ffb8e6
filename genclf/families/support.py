"""Which values a density allows in the cells of x."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Bool, Float, PyTree

from genclf.arguments.domains import Scalar as Scalar
from genclf.numerics.namespace import Array, namespace
from genclf.sums.sparse import SparseRows


@dataclasses.dataclass(frozen=True)
class Support:
    """Which values a density allows in the cells of x, declared once and read by every check.

    Traced code turns the other cells into NaN; `genclf.validate` names them.

    Attributes:
        valid: a function from x to the mask of its allowed cells, of the shape of x.
        expected: the rule in words, to follow "expected" in an error message.
        tokens: whether x may also be `Tokens`.
        sparse: whether x may also be sparse.
        missing: a function from x to the mask of its missing cells; None if none may be missing.
        repeats: whether a cell n adds n equal terms to a score, whose rounding errors add up.
    """

    valid: Callable[[PyTree], Bool[Array, "..."]]
    expected: str
    tokens: bool = False
    sparse: bool = False
    missing: Callable[[PyTree], Bool[Array, "..."]] | None = None
    repeats: bool = False

    def holds(self, x: PyTree) -> Bool[Array, "..."]:
        """Which cells of x are allowed; for sparse rows, which of the stored cells."""
        return self.valid(x.values if isinstance(x, SparseRows) else x)


FINITE = Support(lambda x: namespace(x).isfinite(x), "a finite number")
"""The support of real numbers."""


def nan_outside_support(x: Array, support: Support) -> Float[Array, "..."]:
    """Convert x to floats, at least float32, with NaN in the cells outside the support."""
    xp = namespace(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        floats = x.astype(xp.result_type(float))
    else:
        floats = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
    return xp.where(support.valid(x), floats, xp.nan)
