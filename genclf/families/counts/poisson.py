"""Poisson class densities: independent counts, each with a rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Shaped

from genclf.arguments.domains import NON_NEGATIVE, Scalar
from genclf.arguments.hyperparameters import kind_of
from genclf.arguments.module import static
from genclf.arguments.parameters import Parameter
from genclf.families.conjugate.gamma import Gamma, GammaDistribution, split_events
from genclf.families.counts.negative_binomial import NegativeBinomialParams
from genclf.families.counts.smoothed import EVENTS, CountParams, Smoothed, counted
from genclf.families.missing import CODE, MISSING, Missing
from genclf.families.mode import mode
from genclf.families.support import Support
from genclf.numerics.logarithms import gammaln, log_poisson, safe_log, times_log
from genclf.numerics.namespace import Array, matmul, namespace
from genclf.numerics.row_blocks import over_rows
from genclf.numerics.scores.linear import LinearScore
from genclf.sums.accumulate import dense_sums
from genclf.sums.blocks import ClassWeights, accumulate
from genclf.sums.statistics import Sums


def _describe(d: int, by_cell: bool) -> str:
    """A description of what the `Sums` of d features hold."""
    return f"events of {d} kinds" + (", by cell" if by_cell else "")


class PoissonParams(CountParams):
    """Fitted Poisson densities, as `Poisson.estimate` returns them.

    Attributes:
        log_rate: `log λ_kj`, λ_kj the mean count of feature j in class k, shape (K, d); -inf at 0.
        missing: "marginalize" if missing cells are integrated out, else "error".
        missing_code: the integer that marks a missing cell if x is integer.
    """

    parameters: ClassVar = {"log_rate": Parameter("positive", "log")}

    log_rate: Float[Array, "K d"]
    missing: Missing = static(default="error")
    missing_code: int = static(default=-1)

    @property
    def support(self) -> Support:
        return self.allowing(EVENTS)

    @property
    def rate(self) -> Float[Array, "*batch K d"]:
        """λ_kj, shape (K, d)."""
        return namespace(self.log_rate).exp(self.log_rate)

    @property
    def typical(self) -> Float[Array, "d"]:
        """The mean rate of each feature over the classes, relative to which rows are scored."""
        return self.rate.mean(0)

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`Σ_j x_j log λ_kj - λ_kj - log x_j!`."""
        xp, typical = namespace(x, self.log_rate), self.typical

        def common(counts: Array, seen: Array) -> Array:
            each = log_poisson(counts, xp.broadcast_to(typical, counts.shape))
            return xp.where(seen, each, 0).sum(-1, keepdims=True)

        return self._scored(x, common)

    def discriminant(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log_prob` minus its value at the mean of the classes' rates."""
        return self._scored(x, lambda counts, seen: 0 * counts[..., :1])

    def terms(
        self, x: Shaped[Array, "*batch d"], y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """`x_j log (λ_yj / λ_other,j) - (λ_yj - λ_other,j)`."""
        xp = namespace(x, self.log_rate)
        counts, seen = counted(x, self)
        ratio = self.log_rate[y] - self.log_rate[other]
        more = xp.where(counts == 0, 0, counts * ratio)
        return xp.where(seen, more - (self.rate[y] - self.rate[other]), 0)

    def linear_score(self) -> LinearScore:
        """`x log (λ / m) - (λ - m)`, m the typical rates, summed over the observed cells."""
        xp, typical = namespace(self.log_rate), self.typical[None]
        never = xp.isneginf(self.log_rate)
        log_typical = xp.log(xp.where(typical > 0, typical, 1))
        coef = xp.where(never, 0, self.log_rate - log_typical)
        # m - λ, computed from the difference of their logarithms.
        offset = xp.where(never, typical, -typical * xp.expm1(coef))
        veto = never.astype(coef.dtype)
        if self.may_miss:
            return LinearScore.of_cells(coef, offset, veto, xp.zeros_like(offset))
        return LinearScore(coef, offset.sum(-1), veto, xp.zeros_like(offset[:, 0]))

    def _scored(self, x: Array, common: Callable[[Array, Array], Array]) -> Array:
        xp, score = namespace(x, self.log_rate), self.linear_score()

        def rows(x: Array) -> Array:
            counts, seen = counted(x, self)
            given = counts
            if self.may_miss:
                given = xp.concatenate([counts, seen.astype(counts.dtype)], -1)
            return score(given) + common(counts, seen)

        return over_rows(rows, x, 1, score.coef.shape[-1])

    def condition(
        self, x: Shaped[Array, "*batch d"], r: Float[Array, "*batch K"]
    ) -> Float[Array, "*batch d"]:
        """Expected counts; for an observed cell its count."""
        counts, seen = counted(x, self)
        return jnp.where(seen, counts, matmul(r, self.rate))

    def linear(self) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
        """`log λ_k` and `-Σ_j λ_kj`; -inf where λ is 0."""
        return self.log_rate, -self.rate.sum(-1)

    @property
    def statistic(self) -> str:
        return _describe(self.num_features, self.may_miss)

    def log_lik(self, stats: Sums) -> Float[Array, ""]:
        """`Σ_kj total_kj log λ_kj - count_k λ_kj`, minus `Σ_nj w_nk log x_nj!`."""
        total, exposure, log_factorials = split_events(stats)
        each = times_log(total, self.log_rate) - exposure * self.rate
        return each.sum() - log_factorials.sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Int[Array, "*shape d"]:
        """Independent Poisson draws with rates λ_y."""
        return jax.random.poisson(key, self.rate[y])


class Poisson(Smoothed):
    """Independent counts without an upper bound: naive Bayes with Poisson features.

    `p(x | y=k) = Π_j λ_kj^x_j exp(-λ_kj) / x_j!` with `λ_kj = (Σ_n w_nk x_nj + α) / n_k`, n_k the
    weight of the class. α events are added to each total: the mode under the improper
    Gamma(α + 1, 0) prior; 0 is maximum likelihood. A rate without rows and prior is 1. If the
    length of a document is not evidence of its class, use `Multinomial` for its words.

    Args:
        alpha: α >= 0.
        prior: a `Gamma`, instead of alpha; the estimate is then the posterior mode.
        missing: "marginalize" integrates missing cells out: scores leave out their factors, and
            fits leave out the cells; "error" makes a missing cell invalid.
        missing_code: a missing cell is NaN if x is floating, and this code if x is integer.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Poisson(alpha=0.0), num_classes=2)
        >>> params = gcf.fit(clf, jnp.array([[0], [2], [7], [9]]), jnp.array([0, 0, 1, 1]))
        >>> print(params.conditional.rate.ravel(), gcf.predict(params, jnp.array([[3], [4]])))
        [1. 8.] [0 1]

    References:
        Johnson, Kemp & Kotz (2005), Univariate Discrete Distributions, chapter 4; Gelman et al.
        (2013), Bayesian Data Analysis, §2.6.
    """

    domains: ClassVar = {
        "alpha": NON_NEGATIVE,
        "prior": kind_of(Gamma, such_as="Gamma(2.0, 1.0)", optional=True),
        "missing": MISSING,
        "missing_code": CODE,
    }

    alpha: Scalar = 1.0
    prior: Gamma | None = None
    missing: Missing = static(default="error")
    missing_code: int = static(default=-1)

    @property
    def support(self) -> Support:
        return self.allowing(EVENTS)

    def stats(self, x: Shaped[Array, "n d"], w: ClassWeights) -> Sums:
        """`Sums` of x and, in a last column, of `Σ_j log x_j!`.

        If cells may be missing, the count is (K, d + 1): that of the observed cells of each
        feature, and that of rows in the last column.
        """
        d = x.shape[1]

        def block(x: Array, w: ClassWeights) -> Sums:
            xp = namespace(x)
            counts, seen = counted(x, self)
            log_factorials = gammaln(counts + 1).sum(-1, keepdims=True)
            events = xp.concatenate([counts, log_factorials], -1)
            if not self.may_miss:
                return dense_sums(events, w)
            rows = xp.ones_like(log_factorials)
            both = xp.concatenate([events, seen.astype(events.dtype), rows], -1)
            total = dense_sums(both, w).total
            return Sums(total[:, d + 1 :], total[:, : d + 1])

        return accumulate(block, x, w, 2 * (d + 1))

    def statistic(self, stats: Sums) -> str:
        return _describe(stats.total.shape[-1] - 1, self.may_miss)

    def estimate(self, stats: Sums) -> PoissonParams:
        """The mode of each rate; 1 if there are no rows and no prior."""
        total, exposure, _ = split_events(stats)
        xp, prior = namespace(total), self._resolved(total)
        events = total + xp.maximum(prior.shape - 1, -total)
        rows = exposure + prior.rate
        # Without rows, the prior Gamma(α + 1, 0) has no mode.
        unknown = rows <= 0
        return self._params(safe_log(xp.where(unknown, 1, events / xp.where(unknown, 1, rows))))

    def _params(self, log_rate: Array) -> PoissonParams:
        return PoissonParams(log_rate, self.missing, self.missing_code)

    def _resolved(self, like: Array) -> GammaDistribution:
        if self.prior is not None:
            return self.prior.resolve(like)
        xp = namespace(like)
        return GammaDistribution(xp.full_like(like, self.alpha + 1.0), xp.zeros_like(like))

    def start(self, stats: Sums) -> PoissonParams:
        """The rate of all rows together, in every class."""
        total, exposure, _ = split_events(stats)
        rate = (total.sum(0) + 1) / (exposure.sum(0) + 1)
        return self._params(jnp.broadcast_to(jnp.log(rate), total.shape))

    def prior_stats(self, stats: Sums) -> Sums:
        """`shape - 1` events in `rate` rows for each cell, and 0 for the factorials."""
        total, _, _ = split_events(stats)
        prior = self._resolved(total)
        last = [(0, 0), (0, 1)]
        events = jnp.pad(jnp.maximum(prior.shape - 1, -total), last)
        if self.prior is None:
            return Sums(jnp.zeros_like(stats.count), events)
        return Sums(jnp.pad(prior.rate, last), events)

    def conjugate_prior(self, stats: Sums) -> GammaDistribution:
        """The prior given, or Gamma(α + 1, 0)."""
        return self._resolved(split_events(stats)[0])

    @property
    def given_prior(self) -> Gamma:
        if self.prior is None:
            raise ValueError("Poisson has no proper prior: give prior=Gamma(1.0, 1.0)")
        return self.prior

    def predictive(self, posterior: GammaDistribution, stats: Sums) -> NegativeBinomialParams:
        """Negative binomial densities: every example has its own rates."""
        return NegativeBinomialParams(
            posterior.shape, posterior.rate, self.missing, self.missing_code
        )

    def distance(self, x: Shaped[Array, "n d"], seed: Shaped[Array, "d"]) -> Float[Array, "n"]:
        """Squared distance of square roots: their variance hardly depends on the rate."""
        (x, seen), (seed, seed_seen) = self._roots(x), self._roots(seed)
        return jnp.where(seen & seed_seen[None], (x - seed[None]) ** 2, 0).sum(-1)

    def _roots(self, x: Array) -> tuple[Array, Array]:
        counts, seen = counted(x, self)
        return jnp.sqrt(jnp.where(counts > 0, counts, 0)), seen


@mode.register
def _(density: PoissonParams) -> Array:
    return jnp.floor(density.rate)
