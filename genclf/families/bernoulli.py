"""Bernoulli class densities: a word is present or not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from genclf.accumulate import ClassWeights, accumulate, dense_sums
from genclf.conjugate.beta import Beta, Betas, zeros_of
from genclf.conjugate.dirichlet import smoothing_problems
from genclf.families.base import (
    Family,
    LinearScore,
    Params,
    Scalar,
    Support,
    over_rows,
    poison,
    safe_log,
    times_log,
)
from genclf.parameters import Parameter
from genclf.statistics import Sums

BINARY = Support(lambda x: (x == 0) | (x == 1), "0 or 1 (or set Bernoulli(threshold=...))")
ABOVE = Support(jnp.isfinite, "a finite number")


def _support(threshold: float | Array | None) -> Support:
    return BINARY if threshold is None else ABOVE


def _binary(x: Array, threshold: float | Array | None) -> Float[Array, "*batch d"]:
    x = poison(x, _support(threshold))
    if threshold is None:
        return x
    return jnp.where(jnp.isnan(x), x, (x > threshold).astype(x.dtype))


class BernoulliParams(Params):
    """Fitted Bernoulli densities, as `Bernoulli.estimate` returns them.

    Attributes:
        logits: `log p_kj / (1 - p_kj)` of p_kj = p(x_j = 1 | y = k), shape (K, d); ±inf where
            p_kj is 1 or 0. Both log p and log (1-p) keep all their digits in this coordinate.
        threshold: x counts as 1 above it; None where x must be 0 or 1.
    """

    logits: Float[Array, "K d"]
    threshold: Scalar | None

    @property
    def support(self) -> Support:
        return _support(self.threshold)

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
        # log p(x) = Σ_j x_j log p_j + (1-x_j) log (1-p_j); a certain value vetoes its opposite.
        log_p, log_q = self._logs()
        never, always = jnp.isneginf(self.logits), jnp.isposinf(self.logits)
        log_p, log_q = jnp.where(never, 0, log_p), jnp.where(always, 0, log_q)
        never, always = never.astype(log_p.dtype), always.astype(log_p.dtype)
        return LinearScore(log_p - log_q, log_q.sum(-1), never - always, always.sum(-1))

    def _scored(self, score: LinearScore, x: Array) -> Array:
        return over_rows(lambda r: score(_binary(r, self.threshold)), x, 1, x.shape[-1])

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`Σ_j x_j log p_kj + (1 - x_j) log (1 - p_kj)`."""
        return self._scored(self._score(), x)

    def discriminant(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """The same, less its mean over the classes."""
        return self._scored(self._score().centred(), x)

    def linear(self) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
        """`log p/(1-p)` and `Σ_j log (1-p_kj)`; infinite where p is 0 or 1."""
        return self.logits, self._logs()[1].sum(-1)

    def log_lik(self, stats: Sums) -> Float[Array, ""]:
        """`Σ_kj total_kj log p_kj + (count_k - total_kj) log (1 - p_kj)`."""
        log_p, log_q = self._logs()
        absent = zeros_of(stats)
        return (times_log(stats.total, log_p) + times_log(absent, log_q)).sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Int[Array, "*shape d"]:
        """Independent 0/1 draws with probabilities p_yj."""
        return jax.random.bernoulli(key, self.probs[y]).astype(jnp.int32)


class Bernoulli(Family):
    """Independent 0/1 features: multivariate Bernoulli naive Bayes.

    `p(x | y=k) = Π_j p_kj^x_j (1-p_kj)^(1-x_j)` with `p_kj = (Σ_n w_nk x_nj + α) / (n_k + 2α)`,
    n_k the weight of the class. α is Dirichlet smoothing: the mode under a Beta(α+1, α+1) prior,
    the mean under Beta(α, α); 1 is Laplace's rule, 0 maximum likelihood. Absent words count as
    evidence, which is what tells this model from `Multinomial`.

    Args:
        alpha: α >= 0.
        threshold: if given, x is first turned into `x > threshold`; otherwise x must be 0 or 1.
        prior: a `Beta`, instead of alpha; the estimate is then its mode.

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

    alpha: Scalar = 1.0
    threshold: Scalar | None = None
    prior: Beta | None = None

    @property
    def support(self) -> Support:
        return _support(self.threshold)

    def stats(self, x: Array, w: ClassWeights) -> Sums:
        """`Sums` of x: count of each class, and of the class's ones in each feature."""

        def block(x: Array, w: Array) -> Sums:
            return dense_sums(_binary(x, self.threshold), w)

        return accumulate(block, x, w, x.shape[1])

    def estimate(self, stats: Sums) -> BernoulliParams:
        """Smoothed logits, `log (total + α) - log (count - total + α)`; 0 for an empty class."""
        added = self._pseudo_counts(stats)
        present, absent = stats.total + added[0], zeros_of(stats) + added[1]
        unknown = (present == 0) & (absent == 0)
        present, absent = jnp.where(unknown, 1, present), jnp.where(unknown, 1, absent)
        return BernoulliParams(safe_log(present) - safe_log(absent), self.threshold)

    def start(self, stats: Sums) -> BernoulliParams:
        """Every probability ½."""
        return BernoulliParams(jnp.zeros_like(stats.total), self.threshold)

    def _pseudo_counts(self, stats: Sums) -> tuple[Array, Array]:
        """Of ones and of zeros."""
        if self.prior is not None:
            return self.prior.pseudo_counts(stats.total, zeros_of(stats))
        alpha = jnp.full_like(stats.total, self.alpha)
        return alpha, alpha

    def prior_stats(self, stats: Sums) -> Sums:
        """α ones and α zeros; of a prior `a - 1` and `b - 1`, with a count for each feature."""
        ones, zeros = self._pseudo_counts(stats)
        count = jnp.full_like(stats.count, 2 * self.alpha) if self.prior is None else ones + zeros
        return Sums(count, ones)

    def plain(self) -> Bernoulli:
        return Bernoulli(0.0, self.threshold)

    def conjugate_prior(self, stats: Sums) -> Betas:
        """Beta(α + 1, α + 1), or the prior given."""
        return self._prior().chances(stats.total)

    def _prior(self) -> Beta:
        return Beta(self.alpha + 1.0, self.alpha + 1.0) if self.prior is None else self.prior

    def prior_strength(self, stats: Any) -> dict[str, Array]:
        return self._prior().strength(stats)

    def with_prior_strength(self, free: dict[str, Array], stats: Any) -> Bernoulli:
        prior = self._prior().with_strength(free, stats)
        return Bernoulli(threshold=self.threshold, prior=prior)

    def num_parameters(self, num_classes: int, d: int) -> int:
        """One probability per class and feature."""
        return num_classes * d

    def invalid_hyperparameters(self, d: Any = None) -> list[str]:
        return smoothing_problems(self.alpha, self.prior, kind=Beta)
