"""Gaussian class densities: full, diagonal or spherical covariance, per class or shared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Shaped

from genclf.arguments.domains import FLAG, NON_NEGATIVE, one_of
from genclf.arguments.hyperparameters import is_concrete, kind_of
from genclf.conjugate.gaussian import NormalInverseWishartDistribution, flat_prior
from genclf.conjugate.normal_inverse_wishart import NormalInverseWishart
from genclf.families.base import Scalar
from genclf.families.capabilities import (
    Completed,
    HasConjugatePrior,
    HasRoads,
    Init,
    Latent,
    Observed,
    SharesScatter,
)
from genclf.families.gaussian_params import GaussianParams, describe_moments
from genclf.families.gaussian_prior import pseudo_and_others, pseudo_moments, student_t
from genclf.families.mahalanobis import Covariance
from genclf.families.missing import MISSING, Missing, allow_missing
from genclf.families.student_t import FINITE, StudentTParams
from genclf.families.support import Support
from genclf.sums.accumulate import moments, moments_of_cells
from genclf.sums.blocks import ClassWeights, Hard, fold_rows, masked
from genclf.sums.covariance import (
    CovarianceEstimate,
    GaussianDiagnosis,
    estimate_covariance,
    regularisation,
    sqrt_total_covariance,
)
from genclf.sums.merging import merge, pool
from genclf.sums.statistics import Moments, divide


class _Rows(Completed):
    """Rows without missing cells, and points near their class means."""

    x: Array
    near: Array
    full: bool = eqx.field(static=True)
    pooled: bool = eqx.field(static=True)

    def stats(self, w: ClassWeights) -> Moments:
        return moments(self.x, w, full=self.full, pooled=self.pooled, near=self.near)


class Gaussian(HasRoads, HasConjugatePrior, Latent, SharesScatter):
    """Gaussian class densities: discriminant analysis and Gaussian naive Bayes.

    `p(x | y=k) = N(x; μ_k, Σ_k)` with `μ_k = Σ_n w_nk x_n / n_k` and, by maximum likelihood,
    `Σ_k = Σ_n w_nk (x_n-μ_k)(x_n-μ_k)ᵀ / n_k`, n_k the weight of the class; `shared=True` pools
    the scatters, `Σ = Σ_k scatter_k / n`. The divisor is the count unless `ddof` says otherwise.

    ::

        covariance   per class                 shared
        full         QDA                       LDA
        diag         Gaussian naive Bayes      diagonal LDA
        spherical    spheres of their own      nearest centroid

    All rules of rank and regularisation are relative to the scale of the data, so x and 1000 x
    give the same posterior:

    * A feature that is constant in a class has the variance `v_j / (n_k + 1)` there. v_j is its
      variance within classes, or its total variance if it is constant in every class. This is about
      the variance of n_k equal values and one value a typical deviation away, in every dtype.
      Constant means a variance of at most (ε · root mean square)², ε the dtype's epsilon.
    * A feature that is constant over all the data changes no posterior.
    * A direction in which nothing varies has no maximum: features are linearly dependent, or the
      class has fewer rows than features, and the density becomes infinitely thin. In such
      directions, and in no others, the ridge is at least ε^(2/3), so that scores stay finite. The
      directions are the eigenvectors of the correlation matrix whose eigenvalue is not above
      rounding.

    A float32 fit loses no more digits than its scores do, whatever the condition number of the
    covariances and the offset of the features: see the page "How many digits".

    `genclf.diagnose` reports all three, and `genclf.validate` raises.

    Args:
        covariance: "full", "diag" or "spherical" (one variance, the mean over the features).
        shared: one covariance for all classes.
        ridge: added to each variance, as a share of that feature's pooled within-class variance
            (of its total variance, where it is constant within every class). 0: none.
        ddof: subtracted from the count: the divisor is n_k - ddof, or n - ddof where shared. 1
            gives the unbiased class covariance, K the unbiased pooled one, 0 maximum likelihood.
        prior: a `NormalInverseWishart`, instead of ridge and ddof; the estimate is then the
            posterior mode.
        missing: "marginalize" treats NaN as a missing cell and integrates it out: scores are those
            of the observed cells, and a fit maximises their likelihood, in closed form for "diag"
            and "spherical", by EM for "full". "error" makes NaN invalid. If a class has no observed
            value of a feature, the class gets the mean of that feature's observed cells in all
            classes and, unless the covariance is shared or spherical, their variance;
            `genclf.validate` raises.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Gaussian(shared=True), num_classes=2)
        >>> x = jnp.array([[0.0], [2.0], [4.0], [6.0]])
        >>> params = gcf.fit(clf, x, jnp.array([0, 0, 1, 1]))
        >>> print(params.conditional.mean.ravel(), params.conditional.covariances.ravel())
        [1. 5.] [1. 1.]

    References:
        Hastie, Tibshirani & Friedman (2009), The Elements of Statistical Learning, §4.3.
    """

    domains: ClassVar = {
        "covariance": one_of("full", "diag", "spherical"),
        "shared": FLAG,
        "ridge": NON_NEGATIVE,
        "ddof": NON_NEGATIVE,
        "prior": kind_of(NormalInverseWishart, such_as="NormalInverseWishart()", optional=True),
        "missing": MISSING,
    }

    covariance: Covariance = eqx.field(static=True, default="full")
    shared: bool = eqx.field(static=True, default=False)
    ridge: Scalar = 0.0
    ddof: Scalar = 0.0
    prior: NormalInverseWishart | None = None
    missing: Missing = eqx.field(static=True, default="error")

    @property
    def support(self) -> Support:
        return allow_missing(FINITE, self.missing)

    @property
    def hidden(self) -> bool:
        return self.missing == "marginalize" and self.covariance == "full"

    def stats(self, x: Shaped[Array, "n d"], w: ClassWeights) -> Moments:
        """`Moments`: count, mean and scatter (its diagonal, unless the covariance is full).

        The scatter is pooled over the classes if they share a covariance. If cells may be missing,
        the count beside a diagonal is that of observed cells, (K, d).
        """
        if self.missing == "error":
            return moments(x, w, full=self.covariance == "full", pooled=self.shared)
        seen = ~jnp.isnan(x)
        if self.covariance != "full":
            return self.pooled(moments_of_cells(x, seen, w))
        if x.shape[1] > 1:
            raise ValueError(
                "rows with missing cells have no scatter without params: use fit or em"
            )
        return moments(x, masked(seen[:, 0], w), full=True, pooled=self.shared)

    def per_class(self) -> Gaussian:
        return replace(self, shared=False)

    def pooled(self, stats: Moments) -> Moments:
        return stats.pool_classes() if self.shared else stats

    def complete(
        self, params: GaussianParams, x: Shaped[Array, "n d"]
    ) -> tuple[Float[Array, "n K"], Completed]:
        if self.missing == "error":
            return params.log_prob(x), _Rows(x, params.mean, self.covariance == "full", self.shared)
        if not self.hidden or x.shape[1] == 1:
            return params.log_prob(x), Observed(self, x)
        return params.complete(x)

    def initial_stats(self, key: Array, x: Array, w: ClassWeights, init: Init) -> Moments:
        """Expected statistics as if missing cells had their feature's distribution in the class."""
        if not self.hidden or x.shape[1] == 1:
            return self.stats(x, w)
        cells = Gaussian("diag", missing="marginalize")
        params = cells.estimate(cells.stats(x, w))

        def block(x: Array, w: ClassWeights) -> Moments:
            return self.pooled(params.complete(x)[1].stats(w))

        return fold_rows(block, x, w, params.mean.size * x.shape[1])

    def resolve_prior(
        self, x: Shaped[Array, "n d"], weight: Float[Array, "n"], num_classes: int
    ) -> Gaussian:
        if not self.hidden or self.prior is None or x.shape[1] == 1:
            return self
        together = Hard(jnp.zeros(len(x), jnp.int32), weight, num_classes)
        return replace(
            self, prior=self.prior.resolved(moments_of_cells(x, ~jnp.isnan(x), together))
        )

    def heuristics(self) -> list[str]:
        """The names of ridge and ddof, where they are concrete and not 0."""
        rules = [("ridge", self.ridge), ("ddof", self.ddof)]
        return [name for name, value in rules if is_concrete(value) and value != 0]

    def distance(self, x: Shaped[Array, "n d"], seed: Shaped[Array, "d"]) -> Float[Array, "n"]:
        """Squared distance in standard deviations of each feature; 0 where missing."""
        x, seed = (a.astype(jnp.result_type(float, a.dtype)) for a in (x, seed))
        apart = x - seed[None]
        variance = jnp.nanvar(x, 0)
        share = divide(apart**2, jnp.broadcast_to(variance, apart.shape))
        return jnp.where(jnp.isnan(share), 0, share).sum(-1)

    def estimate(self, stats: Moments) -> GaussianParams:
        """Means and square roots of the covariances.

        A class without weight takes the mean and the covariance of all classes together: its
        prior is zero, so they only have to be finite.
        """
        stats, ddof = self._with_prior(stats)
        found = self._covariance(stats, ddof)
        empty = stats.per_feature(stats.count) == 0
        mean = jnp.where(empty, found.overall_mean[None], stats.mean)
        low = stats.rounding
        rounding = None if low is None else jnp.where(empty, 0, low[1])
        return self._params(mean, found.square_root(), rounding)

    def _params(self, mean: Array, scale: Array, rounding: Array | None = None) -> GaussianParams:
        return GaussianParams(mean, scale, self.covariance, self.shared, self.missing, rounding)

    def _with_prior(self, stats: Moments) -> tuple[Moments, Scalar | Array]:
        """The statistics merged with the prior's, and the ddof to subtract from their count."""
        if self.prior is None:
            return stats, self.ddof
        pseudo, ddof = pseudo_moments(self._given(stats), stats)
        return merge(stats, pseudo), ddof

    def start(self, stats: Moments) -> GaussianParams:
        """The mean and the covariance of all examples together, in every class."""
        overall = pool(stats)
        root = sqrt_total_covariance(overall, spherical=self.covariance == "spherical")
        copies = 1 if self.shared else len(stats.count)
        return self._params(
            jnp.broadcast_to(overall.mean, stats.mean.shape),
            jnp.broadcast_to(root, (copies, *root.shape)),
        )

    def prior_stats(self, stats: Moments) -> Moments:
        """The prior as pseudo-examples; or `-ddof` examples, and the scatter that a ridge adds.

        The divisor of the mode counts more than the κ pseudo-examples of a prior. The extra ones
        are placed at the mode of the means, so that they move no mean.
        """
        if self.prior is None:
            return regularisation(stats, ridge=self.ridge, ddof=self.ddof)
        pseudo, others = pseudo_and_others(self._given(stats), stats)
        at_mode = merge(stats, pseudo).mean
        return merge(pseudo, Moments(others, at_mode, jnp.zeros_like(stats.scatter)))

    def log_prior_density(self, params: GaussianParams, stats: Moments) -> Float[Array, ""]:
        """`params.log_lik` of `prior_stats`, with its extra examples at the means of the params."""
        if self.prior is None:
            return params.log_lik(self.prior_stats(stats))
        pseudo, others = pseudo_and_others(self._given(stats), stats)
        there = Moments(others, params.mean, jnp.zeros_like(stats.scatter))
        return params.log_lik(pseudo) + params.log_lik(there)

    def plain(self) -> Gaussian:
        return replace(self, ridge=0.0, ddof=0.0, prior=None)

    def conjugate_prior(self, stats: Moments) -> NormalInverseWishartDistribution:
        """The given prior; without one, the flat prior changed by ridge and ddof."""
        if self.missing == "marginalize":
            raise ValueError(
                'the posterior of Gaussian(missing="marginalize") is not conjugate: use fit, or '
                "drop the rows with missing cells"
            )
        if self.prior is not None:
            return self._given(stats)
        return flat_prior(
            stats, self.prior_stats(stats).scatter, self.ddof, self.covariance, self.shared
        )

    def _given(self, stats: Moments) -> NormalInverseWishartDistribution:
        return self.given_prior.resolve(stats, self.covariance, self.shared)

    @property
    def given_prior(self) -> NormalInverseWishart:
        if self.prior is None:
            raise ValueError("Gaussian has no proper prior: give prior=NormalInverseWishart()")
        return self.prior

    def with_prior(self, prior: Any) -> Gaussian:
        return replace(self, ridge=0.0, ddof=0.0, prior=prior)

    def predictive(
        self, posterior: NormalInverseWishartDistribution, stats: Moments
    ) -> StudentTParams:
        """Student-t densities; see `StudentTParams`."""
        return student_t(posterior)

    def _covariance(self, stats: Moments, ddof: Scalar | Array) -> CovarianceEstimate:
        return estimate_covariance(
            stats,
            spherical=self.covariance == "spherical",
            ridge=self.ridge if self.prior is None else 0.0,
            ddof=ddof,
        )

    def statistic(self, stats: Moments) -> str:
        d = stats.mean.shape[-1]
        return describe_moments(d, self.covariance, self.shared, self.missing)

    def check_stats(self, stats: PyTree) -> None:
        if not isinstance(stats, Moments) or stats.is_full != (self.covariance == "full"):
            form = "whole" if self.covariance == "full" else "diagonal"
            raise ValueError(
                f"Gaussian({self.covariance!r}) estimates from Moments with {form} scatters, "
                f"got {stats!r}"
            )
        if len(stats.mean) > 1 and stats.is_pooled != self.shared:
            have, need = ("pooled", "one per class") if stats.is_pooled else ("per class", "pooled")
            raise ValueError(
                f"Gaussian(shared={self.shared}) estimates from Moments with scatters {need}, and "
                f"these are {have}" + ("; use pool_classes" if self.shared else "")
            )
        if wrong := self.problems(stats.mean.shape[-1]):
            raise ValueError("; ".join(wrong))

    def num_parameters(self, num_classes: int, d: int) -> int:
        """Means, plus d(d+1)/2, d or 1 numbers for each covariance."""
        one = {"full": d * (d + 1) // 2, "diag": d, "spherical": 1}[self.covariance]
        return num_classes * d + one * (1 if self.shared else num_classes)

    def diagnose(self, stats: Moments) -> GaussianDiagnosis:
        """Rank and condition of each class' covariance, ridge included; see GaussianDiagnosis."""
        count = stats.count.min(-1) if stats.of_cells else stats.count
        found = self._covariance(*self._with_prior(stats))
        return found.diagnose(count, stats.mean, self.shared)

    def problems(self, d: Any = None) -> list[str]:
        if self.prior is None:
            return []
        wrong = [
            f"{name} and a prior are given, expected one of them" for name in self.heuristics()
        ]
        return wrong + self.prior.problems(1 if self.covariance != "full" else d)
