"""Bernoulli class densities: a word is present or not."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from genclf.arguments.domains import NON_NEGATIVE, OPTIONAL_FINITE
from genclf.arguments.hyperparameters import kind_of
from genclf.conjugate.beta import Beta, BetaDistribution, zeros_of
from genclf.families.base import Scalar, set_fields
from genclf.families.linear_score import LinearScore
from genclf.families.missing import (
    CODE,
    MISSING,
    Missing,
    allow_missing,
    is_missing,
    observed,
)
from genclf.families.seeding import hamming_distance
from genclf.families.smoothed import CountParams, Smoothed
from genclf.families.support import Support, nan_outside_support
from genclf.logarithms import safe_log, times_log
from genclf.parameters import Parameter
from genclf.sums.accumulate import dense_sums
from genclf.sums.blocks import ClassWeights, accumulate, over_rows
from genclf.sums.class_sums import class_counts
from genclf.sums.products import matmul
from genclf.sums.sparse import Sparse, SparseRows
from genclf.sums.statistics import Sums

BINARY = Support(
    lambda x: (x == 0) | (x == 1), "0 or 1 (or set Bernoulli(threshold=...))", sparse=True
)
ABOVE = Support(jnp.isfinite, "a finite number", sparse=True)


def _support(threshold: float | Array | None) -> Support:
    return BINARY if threshold is None else ABOVE


def _binary(x: Array, threshold: float | Array | None) -> Float[Array, "*batch d"]:
    x = nan_outside_support(x, _support(threshold))
    if threshold is None:
        return x
    above = jnp.where(jnp.isnan(threshold), jnp.nan, (x > threshold).astype(x.dtype))
    return jnp.where(jnp.isnan(x), x, above)


def _sparse_binary(x: Sparse, threshold: Scalar | None) -> tuple[Sparse, Float[Array, ""]]:
    """What the 0/1 features differ from those of zeros by, and the latter."""
    base = jnp.zeros(()) if threshold is None else _binary(jnp.zeros(1), threshold)[0]
    of_values = lambda values: _binary(jnp.asarray(values), threshold) - base  # noqa: E731
    if isinstance(x, SparseRows):
        return x.with_values(of_values), base
    if threshold is not None:
        return x.with_values(lambda values: np.asarray(of_values(values))), base
    return x.with_values(_host_binary), base


def _host_binary(values: np.ndarray) -> np.ndarray:
    valid = values * values == values
    return values if valid.all() else np.where(valid, values, np.nan)


def _seen(x: Array, threshold: float | Array | None, code: int) -> Float[Array, "*batch twice_d"]:
    """The observed ones and, in further columns, 0/1 indicators of the observed cells."""
    seen = ~is_missing(x, code)
    ones = jnp.where(seen, _binary(jnp.where(seen, x, 0), threshold), 0)
    return jnp.concatenate([ones, seen.astype(ones.dtype)], axis=-1)


def _describe(d: int, threshold: Scalar | None, missing: Missing) -> str:
    """A description of what the `Sums` of d features hold."""
    what = "0/1 features" if threshold is None else "features above a threshold"
    return f"ones of {d} {what}" + (", by cell" if missing == "marginalize" else "")


class BernoulliParams(CountParams):
    """Fitted Bernoulli densities, as `Bernoulli.estimate` returns them.

    Attributes:
        logits: `log p_kj / (1 - p_kj)` of p_kj = p(x_j = 1 | y = k), shape (K, d); ±inf where
            p_kj is 1 or 0. Both log p and log (1-p) keep all their digits in this coordinate.
        threshold: x counts as 1 above it; None where x must be 0 or 1.
        missing: "marginalize" where missing cells are integrated out, else "error".
        missing_code: the integer that marks a missing cell if x is integer.
    """

    logits: Float[Array, "K d"]
    threshold: Scalar | None
    missing: Missing = eqx.field(static=True, default="error")
    missing_code: int = eqx.field(static=True, default=-1)

    @property
    def support(self) -> Support:
        return allow_missing(_support(self.threshold), self.missing, self.missing_code)

    @property
    def num_features(self) -> int:
        return self.logits.shape[-1]

    @property
    def parameters(self) -> dict[str, Parameter]:
        return {"logits": Parameter("unit_interval", "logit")}

    @property
    def probs(self) -> Float[Array, "*batch K d"]:
        """p(x_j = 1 | y = k), shape (K, d)."""
        return jax.nn.sigmoid(self.logits)

    def _logs(self) -> tuple[Array, Array]:
        """`log p` and `log (1 - p)`."""
        return jax.nn.log_sigmoid(self.logits), jax.nn.log_sigmoid(-self.logits)

    def _score(self) -> LinearScore:
        # log p(x) = Σ_j x_j log p_j + (1-x_j) log (1-p_j); a veto marks values of probability 0.
        log_p, log_q = self._logs()
        never, always = jnp.isneginf(self.logits), jnp.isposinf(self.logits)
        log_p, log_q = jnp.where(never, 0, log_p), jnp.where(always, 0, log_q)
        never, always = never.astype(log_p.dtype), always.astype(log_p.dtype)
        coef, veto = log_p - log_q, never - always
        if self.missing == "error":
            return LinearScore(coef, log_q.sum(-1), veto, always.sum(-1))
        # The intercept becomes linear in the indicators: Σ_j seen_j log (1-p_j).
        nothing = jnp.zeros_like(log_q[:, 0])
        both = jnp.concatenate([coef, log_q], 1), jnp.concatenate([veto, always], 1)
        return LinearScore(both[0], nothing, both[1], nothing)

    def _scored(self, score: LinearScore, x: Array | Sparse) -> Any:
        if isinstance(x, Sparse):
            ones, base = _sparse_binary(x, self.threshold)
            return score.shifted(base.astype(score.coef.dtype))(ones)

        def rows(x: Array) -> Array:
            if self.missing == "error":
                return score(_binary(x, self.threshold))
            return score(_seen(x, self.threshold, self.missing_code))

        return over_rows(rows, x, 1, score.coef.shape[-1])

    def log_prob(self, x: Shaped[Array, "*batch d"] | Sparse) -> Any:
        """`Σ_j x_j log p_kj + (1 - x_j) log (1 - p_kj)`."""
        return self._scored(self._score(), x)

    def discriminant(self, x: Shaped[Array, "*batch d"] | Sparse) -> Any:
        """`log_prob` minus its mean over the classes."""
        return self._scored(self._score().centred(), x)

    def terms(
        self, x: Shaped[Array, "*batch d"], y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """`log p_y - log p_other` where x is 1, `log (1-p_y) - log (1-p_other)` where it is 0."""
        seen = observed(x, self.missing, self.missing_code)
        log_p, log_q = (a[y] - a[other] for a in self._logs())
        ones = _binary(jnp.where(seen, x, 0), self.threshold)
        found = jnp.where(ones > 0, log_p, jnp.where(ones == 0, log_q, jnp.nan))
        return jnp.where(seen, found, 0)

    def condition(
        self, x: Shaped[Array, "*batch d"], r: Float[Array, "*batch K"]
    ) -> Float[Array, "*batch d"]:
        """p(x_j = 1 | observed cells); for an observed cell its value, 0 or 1."""
        seen = ~is_missing(x, self.missing_code)
        return jnp.where(seen, _binary(x, self.threshold), matmul(r, self.probs))

    def sample_missing(
        self, key: Array, x: Shaped[Array, "*batch d"], y: Int[Array, "*batch"]
    ) -> Shaped[Array, "*batch d"]:
        """Draw missing cells as 0 or 1; the others stay."""
        missing = is_missing(x, self.missing_code)
        return jnp.where(missing, self.sample(key, y).astype(x.dtype), x)

    def linear(self) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
        """`log p/(1-p)` and `Σ_j log (1-p_kj)`; infinite where p is 0 or 1."""
        return self.logits, self._logs()[1].sum(-1)

    @property
    def statistic(self) -> str:
        return _describe(self.num_features, self.threshold, self.missing)

    def log_lik(self, stats: Sums) -> Float[Array, ""]:
        """`Σ_kj total_kj log p_kj + (count_k - total_kj) log (1 - p_kj)`."""
        log_p, log_q = self._logs()
        absent = zeros_of(stats)
        return (times_log(stats.total, log_p) + times_log(absent, log_q)).sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Int[Array, "*shape d"]:
        """Independent 0/1 draws with probabilities p_yj."""
        return jax.random.bernoulli(key, self.probs[y]).astype(jnp.int32)


class Bernoulli(Smoothed):
    """Independent 0/1 features: multivariate Bernoulli naive Bayes.

    `p(x | y=k) = Π_j p_kj^x_j (1-p_kj)^(1-x_j)` with `p_kj = (Σ_n w_nk x_nj + α) / (n_k + 2α)`,
    n_k the weight of the class. α is Dirichlet smoothing: the mode under a Beta(α+1, α+1) prior,
    the mean under Beta(α, α); 1 is Laplace's rule, 0 maximum likelihood. Absent words count as
    evidence, unlike in `Multinomial`.

    Args:
        alpha: α >= 0.
        threshold: if given, x is first turned into `x > threshold`; otherwise x must be 0 or 1.
        prior: a `Beta`, instead of alpha; the estimate is then the posterior mode.
        missing: "marginalize" integrates missing cells out: scores leave out their factors, and
            fits leave out the cells; "error" makes a missing cell invalid.
        missing_code: a missing cell is NaN if x is floating, and this code if x is integer.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Bernoulli(alpha=1.0), num_classes=2)
        >>> x, y = jnp.array([[1, 0], [1, 1], [0, 0]]), jnp.array([0, 0, 1])
        >>> print(gcf.fit(clf, x, y).conditional.probs)
        [[0.75  0.5  ]
         [0.333 0.333]]

    References:
        McCallum & Nigam (1998), "A comparison of event models for naive Bayes text
        classification", eqs. 1 and 3.
    """

    domains: ClassVar = {
        "alpha": NON_NEGATIVE,
        "threshold": OPTIONAL_FINITE,
        "prior": kind_of(Beta, such_as="Beta(2.0, 2.0)", optional=True),
        "missing": MISSING,
        "missing_code": CODE,
    }

    alpha: Scalar = 1.0
    threshold: Scalar | None = None
    prior: Beta | None = None
    missing: Missing = eqx.field(static=True, default="error")
    missing_code: int = eqx.field(static=True, default=-1)

    @property
    def support(self) -> Support:
        return allow_missing(_support(self.threshold), self.missing, self.missing_code)

    def stats(self, x: Array | Sparse, w: ClassWeights) -> Sums:
        """`Sums` of x: the count of each class, and the count of its ones in each feature.

        If cells may be missing, the count is that of the observed cells, (K, d).
        """
        d = x.shape[1]
        if isinstance(x, Sparse):
            ones, base = _sparse_binary(x, self.threshold)
            count = class_counts(w)
            return Sums(count, ones.sums(w) + (base.astype(count.dtype) * count)[:, None])

        def block(x: Array, w: Array) -> Sums:
            if self.missing == "error":
                return dense_sums(_binary(x, self.threshold), w)
            both = dense_sums(_seen(x, self.threshold, self.missing_code), w).total
            return Sums(both[:, d:], both[:, :d])

        return accumulate(block, x, w, d)

    def statistic(self, stats: Sums) -> str:
        return _describe(stats.total.shape[-1], self.threshold, self.missing)

    def estimate(self, stats: Sums) -> BernoulliParams:
        """Smoothed logits, `log (total + α) - log (count - total + α)`; 0 for an empty class."""
        added = self._pseudo_counts(stats)
        present, absent = stats.total + added[0], zeros_of(stats) + added[1]
        unknown = (present == 0) & (absent == 0)
        present, absent = jnp.where(unknown, 1, present), jnp.where(unknown, 1, absent)
        return self._params(safe_log(present) - safe_log(absent))

    def _params(self, logits: Array) -> BernoulliParams:
        return BernoulliParams(logits, self.threshold, self.missing, self.missing_code)

    def start(self, stats: Sums) -> BernoulliParams:
        """Every probability ½."""
        return self._params(jnp.zeros_like(stats.total))

    def _pseudo_counts(self, stats: Sums) -> tuple[Array, Array]:
        """The pseudo-counts of ones and of zeros."""
        if self.prior is not None:
            return self.prior.pseudo_counts(stats.total, zeros_of(stats))
        alpha = jnp.full_like(stats.total, self.alpha)
        return alpha, alpha

    def prior_stats(self, stats: Sums) -> Sums:
        """α ones and α zeros; or, with a prior, `a - 1` and `b - 1`, and a count per feature."""
        ones, zeros = self._pseudo_counts(stats)
        count = jnp.full_like(stats.count, 2 * self.alpha) if self.prior is None else ones + zeros
        return Sums(count, ones)

    def conjugate_prior(self, stats: Sums) -> BetaDistribution:
        """Beta(α + 1, α + 1), or the prior given."""
        return self.given_prior.resolve(stats.total)

    @property
    def given_prior(self) -> Beta:
        return Beta(self.alpha + 1.0, self.alpha + 1.0) if self.prior is None else self.prior

    def predictive(self, posterior: BetaDistribution, stats: Sums) -> BernoulliParams:
        """Params with the expected probabilities, since the density is linear in them."""
        return set_fields(self.start(stats), "", posterior.expected())

    def distance(self, x: Array | SparseRows, seed: Array) -> Float[Array, "n"]:
        """The number of cells that differ."""
        return hamming_distance(x, seed)

    def num_parameters(self, num_classes: int, d: int) -> int:
        """One probability per class and feature."""
        return num_classes * d

    @property
    def num_codes(self) -> int | float:
        return 2
