"""Base classes of the families of counts: smoothing by alpha or a prior, and missing cells.

And counts of events: whole numbers without an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree

from genclf.families.base import Params
from genclf.families.capabilities import (
    HasConditionals,
    HasConjugatePrior,
    HasLinearForm,
    HasRoads,
    HasTerms,
    Latent,
)
from genclf.families.conjugate.base import Prior
from genclf.families.conjugate.dirichlet import smoothing_problems
from genclf.families.missing import MayMiss, is_missing
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


class CountParams(MayMiss, HasConditionals, HasLinearForm, HasTerms, Params):
    """Params of features that are independent given the class, and that may be missing."""

    coupled: ClassVar = False

    def sample_missing(self, key: Array, x: Array, y: Int[Array, "*batch"]) -> PyTree:
        """Draw each missing cell; the others stay."""
        drawn = self.sample(key, y).astype(x.dtype)
        return jnp.where(is_missing(x, self.missing_code), drawn, x)


class Smoothed(MayMiss, HasRoads, HasConjugatePrior, Latent):
    """A family with smoothing or a prior, and with missing cells.

    Its fields are `alpha` (1 if there is a prior instead), `prior`, `missing` and `missing_code`.
    """

    @property
    def num_codes(self) -> int | float:
        """The codes 0..num_codes-1 are values; none of them can mark a missing cell."""
        return math.inf

    def plain(self: Any) -> Any:
        return replace(self, alpha=0.0, prior=None)

    def with_prior(self: Any, prior: Prior | None) -> Any:
        return replace(self, alpha=1.0, prior=prior)

    @property
    def determined_by_prior(self: Any) -> bool | Bool[Array, ""]:
        return self.prior is not None or self.alpha > 0

    def problems(self: Any, d: PyTree[int] | None = None) -> list[str]:
        wrong = smoothing_problems(self.alpha, self.prior)
        return wrong + self.missing_problems(self.num_codes)
