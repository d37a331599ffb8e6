"""Gaussian classes in EM: rows with unobserved labels or cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import jax.numpy as jnp
from jaxtyping import Float, Shaped

from genclf.arguments.module import static
from genclf.covariance.scales import Covariance, OfForm
from genclf.families.capabilities import Completed, Init, Latent, Observed, SharesScatter
from genclf.families.conjugate.normal_inverse_wishart import NormalInverseWishart
from genclf.families.conjugate.two_covariance import TwoCovariance
from genclf.families.gaussian.params import GaussianParams
from genclf.families.missing import MayMiss, Missing
from genclf.numerics.namespace import Array
from genclf.sums.accumulate import moments, moments_of_cells
from genclf.sums.blocks import ClassWeights, Hard, merge_over_blocks
from genclf.sums.statistics import Moments


class _Rows(Completed):
    """Rows without missing cells, and points near their class means."""

    x: Array
    near: Array
    full: bool = static()
    pooled: bool = static()

    @property
    def has_blocks(self) -> bool:
        return self.full and self.pooled

    def stats(self, w: ClassWeights) -> Moments:
        return moments(self.x, w, full=self.full, pooled=self.pooled, near=self.near)


class LatentGaussian(OfForm, MayMiss, Latent, SharesScatter):
    """Gaussian classes whose labels or cells may be unobserved."""

    if TYPE_CHECKING:  # fields of `Gaussian`
        covariance: Covariance
        shared: bool
        prior: NormalInverseWishart | TwoCovariance | None
        missing: Missing

    @property
    def hidden(self) -> bool:
        return self.may_miss and self.arithmetic.is_full

    def complete(
        self, params: GaussianParams, x: Shaped[Array, "n d"]
    ) -> tuple[Float[Array, "n K"], Completed]:
        if not self.may_miss:
            return params.log_prob(x), _Rows(x, params.mean, self.arithmetic.is_full, self.shared)
        if not self.hidden or x.shape[1] == 1:
            return params.log_prob(x), Observed(self, x)
        return params.complete(x)

    def initial_stats(self, key: Array, x: Array, w: ClassWeights, init: Init) -> Moments:
        """Expected statistics as if missing cells had their feature's distribution in the class."""
        if not self.hidden or x.shape[1] == 1:
            return self.stats(x, w)
        cells: Any = replace(cast(Any, self.plain()), covariance="diag", shared=False)
        params = cells.estimate(cells.stats(x, w))

        def block(x: Array, w: ClassWeights) -> Moments:
            return self.pooled(params.complete(x)[1].stats(w))

        return merge_over_blocks(block, x, w, params.mean.size * x.shape[1])

    def resolve_prior(
        self, x: Shaped[Array, "n d"], weight: Float[Array, "n"], num_classes: int
    ) -> LatentGaussian:
        if not self.hidden or self.prior is None or x.shape[1] == 1:
            return self
        together = Hard(jnp.zeros(x.shape[0], jnp.int32), weight, num_classes)
        return replace(
            self, prior=self.prior.resolved(moments_of_cells(x, ~jnp.isnan(x), together))
        )
