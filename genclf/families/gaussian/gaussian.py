"""Gaussian class densities: full, diagonal or spherical covariance, per class or shared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Float, PyTree, Shaped

from genclf.arguments.domains import (
    FLAG,
    NON_NEGATIVE,
    OPTIONAL_NON_NEGATIVE,
    OPTIONAL_SHARE,
    one_of,
)
from genclf.arguments.hyperparameters import is_concrete, kind_of
from genclf.arguments.module import field, static
from genclf.covariance.estimate import CovarianceEstimate, GaussianDiagnosis
from genclf.covariance.fourth import FourthMoments, fourth_moments
from genclf.covariance.regularise import (
    Regularisation,
    estimate_covariance,
    pseudo_examples,
    sqrt_total_covariance,
)
from genclf.covariance.scales import Covariance, Form
from genclf.covariance.shrinkage import SHRINKAGE, Estimated, Method, Target, estimated
from genclf.covariance.structures import STRUCTURE, Structure, as_structure, with_structure
from genclf.families.base import Density, Params, Scalar
from genclf.families.capabilities import HasConjugatePrior, HasRoads
from genclf.families.conjugate.base import Conjugate
from genclf.families.conjugate.gaussian import flat_prior
from genclf.families.conjugate.normal_inverse_wishart import NormalInverseWishart
from genclf.families.conjugate.two_covariance import TwoCovariance
from genclf.families.gaussian.latent import LatentGaussian
from genclf.families.gaussian.low_rank import fit_by_class, is_by_class
from genclf.families.gaussian.params import GaussianParams, describe_moments
from genclf.families.gaussian.prior import at_mode, predictive_density, pseudo_and_others
from genclf.families.gaussian.row_space import diagnose_in_row_space, fit_in_row_space
from genclf.families.gaussian.rules import contradictions, given_of, rules_in_use
from genclf.families.gaussian.shrunken_centroids import shrink_centroids
from genclf.families.missing import MISSING, Missing
from genclf.families.support import FINITE, Support
from genclf.numerics.compensated import zero_low
from genclf.numerics.namespace import Array, namespace
from genclf.numerics.sizes import is_at_most
from genclf.sums.accumulate import moments, moments_of_cells
from genclf.sums.blocks import ClassWeights, masked
from genclf.sums.merging import merge, pool
from genclf.sums.statistics import Moments


class Gaussian(HasRoads, HasConjugatePrior, LatentGaussian):
    """Gaussian class densities: discriminant analysis and Gaussian naive Bayes.

    `p(x | y=k) = N(x; μ_k, Σ_k)` with `μ_k = Σ_n w_nk x_n / n_k` and, by maximum likelihood,
    `Σ_k = Σ_n w_nk (x_n-μ_k)(x_n-μ_k)ᵀ / n_k`, n_k the weight of the class; `shared=True` pools
    the scatters, `Σ = Σ_k scatter_k / n`. The divisor is the count unless `ddof` says otherwise.

    ::

        covariance   per class                 shared
        full         QDA                       LDA
        diag         Gaussian naive Bayes      diagonal LDA
        spherical    one sphere per class      nearest centroid

    All rules of rank and regularisation are relative to the scale of the data, so x and 1000 x
    give the same posterior:

    * A feature that is constant in a class has the variance `v_j / (n_k + 1)` there. v_j is its
      variance within classes, or its total variance if it is constant in every class. This is about
      the variance of n_k equal values and one value a typical deviation away, in every dtype. With
      a ridge or a target its variance is only what these add. A feature counts as constant if its
      variance is at most (ε · root mean square)², ε the dtype's epsilon.
    * A feature that is constant over all the data changes no posterior, unless a mean over the
      features is taken: with "spherical", and with a shrinkage towards "identity".
    * If the rows do not vary in some direction (features are linearly dependent, or the class has
      fewer rows than features), the likelihood has no maximum: the density becomes infinitely thin.
      In these directions only, the ridge is at least ε^(2/3), so that scores stay finite. They are
      the eigenvectors of the correlation matrix whose eigenvalue is not above rounding.

    `genclf.diagnose` reports these three cases, and `genclf.validate` raises for them.

    A float32 fit is as precise as its scores, whatever the condition number of the covariances and
    the offset of the features: see the page "How many digits".

    Args:
        covariance: "full", "diag" or "spherical" (one variance, the mean over the features).
        shared: one covariance for all classes.
        ridge: added to each variance, as a share of that feature's pooled within-class variance
            (of its total variance, if it is constant within every class). 0: none.
        ddof: subtracted from the count: the divisor is n_k - ddof, or n - ddof if shared. 1
            gives the unbiased class covariance, K the unbiased pooled one, 0 maximum likelihood.
        prior: a `NormalInverseWishart`, instead of ridge, ddof, pooling and shrinkage; the estimate
            is then the posterior mode. Or a `TwoCovariance`, of classes with one known covariance.
        missing: "marginalize" treats NaN as a missing cell and integrates it out: scores are those
            of the observed cells, and a fit maximises their likelihood, in closed form for "diag"
            and "spherical", by EM for "full". "error" makes NaN invalid. If a class has no observed
            value of a feature, the class gets the mean of that feature's observed cells in all
            classes and, unless the covariance is shared or spherical, their variance;
            `genclf.validate` raises.
        pooling: λ from 0 to 1, the share of the pooled covariance in that of each class,
            `(1 - λ) Σ_k + λ Σ`: 0 is QDA, 1 is LDA. Only with `shared=False`; the divisor of the
            pooled covariance is the sum of theirs. None: 0.
        shrinkage: γ from 0 to 1, the share of the target in each covariance, `(1 - γ) Σ + γ T`,
            after pooling; instead of a ridge. Or the name of an estimate of γ from the data, for
            each covariance: "ledoit-wolf", "oas", or "james-stein" towards the diagonal. None: 0.
        target: "identity", `T = tr(Σ) / d · I`, which depends on the units of the features; or
            "diagonal", the variances, which shrinks only the correlations.
        structure: a function of each full covariance, after pooling, ridge and shrinkage, to the
            covariance that the density has: `BlockToeplitz(times, channels)`, `LowRank(r)`,
            `Blocks(sizes)`, or a function of yours in `jax.numpy`, of an array (d, d) to a
            symmetric one, such as `lambda c: c + jnp.eye(len(c))`; where its result is not
            symmetric, params are NaN. JAX compares functions by identity: define it once. Arguments
            of it that are to be traced are those of a `jax.tree_util.Partial`. None: the covariance
            as it is.
        soft_threshold: Δ >= 0 of nearest shrunken centroids, for a shared diagonal covariance: a
            class mean becomes `μ_j + m_k (s_j + s_0) sign(d_kj) max(|d_kj| - Δ, 0)`, μ_j the mean
            of all rows, `d_kj = (μ_kj - μ_j) / (m_k (s_j + s_0))`, `m_k = √(1/n_k - 1/n)`, s_0 the
            median of the standard deviations s_j, which become `s_j + s_0`. A feature whose means
            are then equal does not affect the posterior. None: no threshold.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Gaussian(shared=True), num_classes=2)
        >>> x = jnp.array([[0.0], [2.0], [4.0], [6.0]])
        >>> params = gcf.fit(clf, x, jnp.array([0, 0, 1, 1]))
        >>> print(params.conditional.mean.ravel(), params.conditional.covariances.ravel())
        [1. 5.] [1. 1.]

    References:
        Hastie, Tibshirani & Friedman (2009), The Elements of Statistical Learning, §4.3; Friedman
        (1989), "Regularized discriminant analysis", which weights scatters where this weights
        covariances. The estimates of γ: Ledoit & Wolf (2004), "A well-conditioned estimator
        for large-dimensional covariance matrices", eq. 14; Chen, Wiesel, Eldar & Hero (2010),
        "Shrinkage algorithms for MMSE covariance estimation", eq. 23, as in scikit-learn; Schäfer &
        Strimmer (2005), "A shrinkage approach to large-scale covariance matrix estimation", table
        2, target D. Tibshirani, Hastie, Narasimhan & Chu (2002), "Diagnosis of multiple cancer
        types by shrunken centroids of gene expression".
    """

    domains: ClassVar = {
        "covariance": one_of("full", "diag", "spherical"),
        "shared": FLAG,
        "ridge": NON_NEGATIVE,
        "ddof": NON_NEGATIVE,
        "pooling": OPTIONAL_SHARE,
        "shrinkage": SHRINKAGE,
        "target": one_of("identity", "diagonal"),
        "soft_threshold": OPTIONAL_NON_NEGATIVE,
        "structure": STRUCTURE,
        "prior": kind_of(
            NormalInverseWishart, TwoCovariance, such_as="NormalInverseWishart()", optional=True
        ),
        "missing": MISSING,
    }

    added_fields: ClassVar = {"structure": None}  # older files lack it

    covariance: Covariance = static(default="full")
    shared: bool = static(default=False)
    ridge: Scalar = 0.0
    ddof: Scalar = 0.0
    prior: NormalInverseWishart | TwoCovariance | None = None
    missing: Missing = static(default="error")
    pooling: Scalar | None = None
    shrinkage: Scalar | Method | Estimated | None = field(converter=estimated, default=None)
    target: Target = static(default="identity")
    soft_threshold: Scalar | None = None
    structure: Structure | None = field(converter=as_structure, default=None)

    @property
    def support(self) -> Support:
        return self.allowing(FINITE)

    def stats(self, x: Shaped[Array, "n d"], w: ClassWeights) -> Moments:
        """`Moments`: count, mean and scatter (its diagonal, unless the covariance is full).

        The scatter is pooled over the classes if they share a covariance. If cells may be missing
        and the scatter is diagonal, the count is that of observed cells, (K, d). If the shrinkage
        is estimated, the statistics also hold third and fourth moments, and a scatter per class,
        which merging needs.
        """
        if self.needs_fourth:
            return fourth_moments(x, w, each=self.target == "diagonal")
        if not self.may_miss:
            return moments(x, w, full=self.arithmetic.is_full, pooled=self.shared)
        seen = ~namespace(x).isnan(x)
        if not self.arithmetic.is_full:
            return self.pooled(moments_of_cells(x, seen, w))
        if x.shape[1] > 1:
            raise ValueError(
                "rows with missing cells have no scatter without params: use fit or em"
            )
        return moments(x, masked(seen[:, 0], w), full=True, pooled=self.shared)

    @property
    def needs_fourth(self) -> bool:
        return isinstance(self.shrinkage, Estimated) and self.shrinkage.method != "oas"

    def pooled(self, stats: Moments) -> Moments:
        return stats.pool_classes() if self.shared and not self.needs_fourth else stats

    @property
    def determined_by_prior(self) -> bool:
        return self.prior is not None

    def heuristics(self) -> list[str]:
        """The names of the concrete hyper-parameters that regularise."""
        prior = self.prior
        is_open = isinstance(prior, TwoCovariance) and not prior.is_complete
        rule = "a TwoCovariance without numbers (fit_prior finds some)"
        return rules_in_use(self) + [rule] * is_open

    def fit(self, x: Shaped[Array, "n d"], w: ClassWeights) -> Params:
        """The estimate from the statistics.

        If `prefers_rows`, it is found in the row space. With a `LowRank` structure and large
        covariances, it is found class by class.
        """
        if is_by_class(self, x, w):
            return fit_by_class(self, x, w)
        return fit_in_row_space(self, x, w) if self.prefers_rows(x) else super().fit(x, w)

    def prefers_rows(self, x: PyTree) -> bool:
        """Whether a fit needs no (d, d) array: it has a shrinkage, and more features than rows."""
        if len(x.shape) < 2 or not is_at_most(x.shape[0], x.shape[1] - 1):
            return False
        return self.is_equivariant or (
            self.shared and replace(self, target="identity").is_equivariant
        )

    @property
    def is_equivariant(self) -> bool:
        """Whether rotated rows have the same scores, and every direction is shrunk."""
        shrinks = self.shrinkage is not None and self.target == "identity"
        complete = self.arithmetic.is_full and not self.may_miss
        return shrinks and complete and self.prior is None and self.structure is None

    def diagnose_rows(self, x: Shaped[Array, "n d"], w: ClassWeights) -> GaussianDiagnosis:
        if self.prefers_rows(x):
            return diagnose_in_row_space(self, x, w)
        return super().diagnose_rows(x, w)

    def estimate(self, stats: Moments) -> GaussianParams:
        """Means and square roots of the covariances.

        A class without weight takes the mean and the covariance of all classes together: its
        prior is zero, so they only have to be finite.
        """
        if isinstance(self.prior, TwoCovariance):
            found = self._given(stats).update(stats)
            return self._params(found.mean, found.pencil.scale, found.rounding)
        stats, ddof = self._with_prior(stats)
        params = self.of_covariances(stats, self._covariance(stats, ddof))
        if self.soft_threshold is None:
            return params
        return shrink_centroids(params, stats.count, self.soft_threshold)

    def of_covariances(self, stats: Moments, found: CovarianceEstimate) -> GaussianParams:
        """Params with the means of the statistics and these covariances."""
        if (own := self.structure) is None:
            return self.of_scale(stats, found, found.square_root())
        return self.of_scale(stats, found, own.root(found), own.form)

    def of_scale(
        self, stats: Moments, found: CovarianceEstimate, scale: Array, form: Form | None = None
    ) -> GaussianParams:
        """Params with the means of the statistics and this square root of the covariances."""
        xp = namespace(stats.mean)
        empty = stats.per_feature(stats.count) == 0
        mean = xp.where(empty, found.overall_mean[None], stats.mean)
        low = stats.rounding
        rounding = None if low is None else xp.where(empty, 0, low[1])
        return self._params(mean, scale, rounding, form)

    def _params(
        self, mean: Array, scale: Array, rounding: Array | None = None, form: Form | None = None
    ) -> GaussianParams:
        if rounding is None:
            rounding = next(iter(zero_low(mean) or ()), None)
        return GaussianParams.of_fields(
            mean=mean,
            scale=scale,
            covariance=form or self.covariance,
            shared=self.shared,
            missing=self.missing,
            rounding=rounding,
        )

    def _with_prior(self, stats: Moments) -> tuple[Moments, Scalar | Array]:
        """The statistics merged with the prior's, and the ddof to subtract from their count."""
        if self.prior is None:
            return stats, self.ddof
        return at_mode(self._given(stats), stats)

    def start(self, stats: Moments) -> GaussianParams:
        """The mean and the covariance of all examples together, in every class."""
        overall = pool(stats)
        root = sqrt_total_covariance(overall, spherical=self.arithmetic.is_spherical)
        copies = 1 if self.shared else len(stats.count)
        return self._params(
            jnp.broadcast_to(overall.mean, stats.mean.shape),
            jnp.broadcast_to(root, (copies, *root.shape)),
        )

    def prior_stats(self, stats: Moments) -> Moments:
        """The prior as pseudo-examples; without one the regularisation, see `pseudo_examples`.

        The divisor of the mode exceeds n_k + κ. The excess enters as further pseudo-examples at the
        mode of the means, where they move no mean.
        """
        if self.prior is None:
            return pseudo_examples(stats, self.regularisation(), **self._form)
        pseudo, others = pseudo_and_others(self._given(stats), stats)
        at_mode = merge(stats, pseudo).mean
        return merge(pseudo, Moments(others, at_mode, jnp.zeros_like(stats.scatter)))

    def log_prior_density(self, params: GaussianParams, stats: Moments) -> Float[Array, ""]:
        """`params.log_lik` of `prior_stats`, with the further pseudo-examples at the means."""
        if self.prior is None:
            return params.log_lik(self.prior_stats(stats))
        if isinstance(self.prior, TwoCovariance):
            own = {"mean": params.mean, "rounding": params.rounding}
            return self._given(stats).log_prob(own)
        pseudo, others = pseudo_and_others(self._given(stats), stats)
        there = Moments(others, params.mean, jnp.zeros_like(stats.scatter))
        return params.log_lik(pseudo) + params.log_lik(there)

    def plain(self) -> Gaussian:
        return self.with_prior(None)

    def conjugate_prior(self, stats: Moments) -> Conjugate:
        """The given prior; without one, the flat prior changed by ridge and ddof."""
        if used := given_of(self, "pooling", "shrinkage", "structure", "soft_threshold"):
            raise ValueError(
                f"Gaussian has no conjugate prior that stands for {' and '.join(used)}: give "
                "prior=NormalInverseWishart() instead"
            )
        if self.may_miss:
            raise ValueError(
                'the posterior of Gaussian(missing="marginalize") is not conjugate: use fit, or '
                "drop the rows with missing cells"
            )
        if self.prior is not None:
            return self._given(stats)
        return flat_prior(
            stats, self.prior_stats(stats).scatter, self.ddof, self.covariance, self.shared
        )

    def _given(self, stats: Moments) -> Any:
        return self.given_prior.resolve(stats, self.covariance, self.shared)

    @property
    def given_prior(self) -> NormalInverseWishart | TwoCovariance:
        if self.prior is None:
            raise ValueError("Gaussian has no proper prior: give prior=NormalInverseWishart()")
        return self.prior

    def with_prior(self, prior: NormalInverseWishart | TwoCovariance | None) -> Gaussian:
        plain = replace(self, ridge=0.0, ddof=0.0, pooling=None, shrinkage=None)
        return replace(plain, structure=None, soft_threshold=None, prior=prior)

    def predictive(self, posterior: PyTree[Conjugate], stats: Moments) -> Density:
        """Student-t densities; Gaussian ones if the covariance is known."""
        return predictive_density(posterior)

    def _covariance(self, stats: Moments, ddof: Scalar | Array) -> CovarianceEstimate:
        return estimate_covariance(stats, self.regularisation(ddof), **self._form)

    @property
    def _form(self) -> dict[str, bool]:
        return {"spherical": self.arithmetic.is_spherical, "shared": self.shared}

    def regularisation(self, ddof: Scalar | Array | None = None) -> Regularisation:
        """The hyper-parameters of the covariances, with this ddof or that of the family."""
        ddof = self.ddof if ddof is None else ddof
        if self.prior is not None:
            return Regularisation(ddof=ddof)
        ridge = self.ridge
        if self.shrinkage is not None and not is_concrete(ridge):
            ridge = jnp.where(ridge == 0, 0.0, jnp.nan)  # they exclude each other
        return Regularisation(ridge, ddof, self.pooling, estimated(self.shrinkage), self.target)

    def unpenalised(self) -> list[str]:
        """A structure or a threshold; a covariance that is known.

        And a pooling or shrinkage of 1, which leave out a class's covariance.
        """
        others = [f"a {name} is given" for name in given_of(self, "structure", "soft_threshold")]
        rules = [("pooling", self.pooling), ("shrinkage", self.shrinkage)]
        ones = [f"{name} is 1" for name, value in rules if is_concrete(value) and value == 1]
        known = ["the covariance is that of TwoCovariance"] * isinstance(self.prior, TwoCovariance)
        return ones + others + known

    def statistic(self, stats: Moments) -> str:
        d = stats.mean.shape[-1]
        return describe_moments(d, self.arithmetic, self.shared, self.may_miss)

    def check_stats(self, stats: PyTree) -> None:
        if not isinstance(stats, Moments) or stats.is_full != self.arithmetic.is_full:
            forms = {True: "whole", False: "diagonal"}
            have = type(stats).__name__
            have += f" with {forms[stats.is_full]} ones" if isinstance(stats, Moments) else ""
            raise ValueError(
                f"Gaussian({self.covariance!r}) estimates from Moments with "
                f"{forms[self.arithmetic.is_full]} scatters, and stats are {have}: make them with "
                "this model"
            )
        if self.needs_fourth and not isinstance(stats, FourthMoments):
            raise ValueError(
                f"shrinkage={self.shrinkage!r} needs fourth moments, which these statistics do not "
                "have: make them with this model"
            )
        have_all = isinstance(stats, FourthMoments)
        if len(stats.mean) > 1 and stats.is_pooled != self.shared and not have_all:
            have, need = ("pooled", "one per class") if stats.is_pooled else ("per class", "pooled")
            raise ValueError(
                f"Gaussian(shared={self.shared}) estimates from Moments with scatters {need}, and "
                f"these are {have}" + ("; use pool_classes" if self.shared else "")
            )
        if wrong := self.problems(stats.mean.shape[-1]):
            raise ValueError("; ".join(wrong))
        if isinstance(self.prior, TwoCovariance) and not self.prior.is_complete:
            self.prior.check_determined(stats, self.arithmetic.is_spherical)

    def num_parameters(self, num_classes: int, d: int) -> int:
        """Means, plus d(d+1)/2, d or 1 numbers for each covariance that is not given."""
        if isinstance(self.prior, TwoCovariance) and self.prior.is_complete:
            return num_classes * d
        copies = 1 if self.shared else num_classes
        of_one = self.arithmetic if self.structure is None else self.structure
        return num_classes * d + copies * of_one.num_parameters(d)

    def diagnose(self, stats: Moments) -> GaussianDiagnosis:
        """Rank and condition of each class' covariance, ridge included; see GaussianDiagnosis."""
        count = stats.count.min(-1) if stats.of_cells else stats.count
        found = self._covariance(*self._with_prior(stats))
        if self.structure is not None:
            found = with_structure(found, self.structure)
        return found.diagnose(count, stats.mean, self.shared)

    def problems(self, d: PyTree[int] | None = None) -> list[str]:
        if self.prior is None:
            own = self.structure
            return contradictions(self) + ([] if own is None else own.problems(d))
        wrong = [
            f"{name} and a prior are given, expected one of them" for name in rules_in_use(self)
        ]
        if isinstance(self.prior, TwoCovariance) and not self.shared:
            wrong.append("TwoCovariance is of classes with one covariance, expected shared=True")
        return wrong + self.prior.problems(d if self.arithmetic.is_full else 1)
