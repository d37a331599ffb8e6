"""Counts of events: whole numbers without an upper bound."""

from __future__ import annotations

from jaxtyping import Bool, Float

from genclf.families.missing import MayMiss
from genclf.families.support import Support, nan_outside_support
from genclf.numerics.namespace import Array, namespace

EVENTS = Support(
    lambda x: (x >= 0) & (x == namespace(x).floor(x)) & namespace(x).isfinite(x),
    "a whole number 0, 1, 2, ...",
)


def counted(x: Array, of: MayMiss) -> tuple[Float[Array, "*batch d"], Bool[Array, "*batch d"]]:
    """Counts, 0 where missing and NaN where invalid, and a mask of the observed cells."""
    xp, seen = namespace(x), of.seen(x)
    return nan_outside_support(xp.where(seen, x, 0) if of.may_miss else x, EVENTS), seen
