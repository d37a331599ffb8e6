"""The multinomial event model of text: each word of a document is a draw from the class."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from genclf.accumulate import ClassWeights, accumulate, dense_sums, num_classes
from genclf.conjugate.base import Conjugate
from genclf.conjugate.dirichlet import (
    Dirichlet,
    Dirichlets,
    pseudo_counts,
    smoothing,
    smoothing_problems,
)
from genclf.families.base import (
    Family,
    LinearScore,
    Params,
    Scalar,
    Support,
    over_rows,
    safe_log,
    times_log,
)
from genclf.families.dirichlet_multinomial import DirichletMultinomialParams
from genclf.families.tokens import COUNTS, Tokens, counts_of, valid_counts
from genclf.parameters import Parameter
from genclf.statistics import Sums, divide


class MultinomialParams(Params):
    """Fitted word distributions, as `Multinomial.estimate` returns them.

    Attributes:
        log_theta: `log θ_kj`, θ_kj the probability of word j in class k, shape (K, V); -inf at 0.
        mean_length: average number of words in a document, the same for all classes. The
            densities are conditional on the length; only `sample` uses it.
        presence: whether documents are reduced to the words present in them.
    """

    log_theta: Float[Array, "K V"]
    mean_length: Float[Array, ""]
    presence: bool = eqx.field(static=True)

    @property
    def support(self) -> Support:
        return COUNTS

    @property
    def num_features(self) -> int:
        return self.log_theta.shape[-1]

    @property
    def parameters(self) -> dict[str, Parameter]:
        return {"log_theta": Parameter("simplex", "log")}

    def _score(self) -> LinearScore:
        never = jnp.isneginf(self.log_theta)
        zero = jnp.zeros_like(self.log_theta[:, 0])
        coef = jnp.where(never, 0, self.log_theta)
        return LinearScore(coef, zero, never.astype(coef.dtype), zero)

    def _scored(self, score: LinearScore, x: Array | Tokens) -> Array:
        size = score.coef.shape[-1]
        if not isinstance(x, Tokens):
            return over_rows(lambda rows: score(self._features(rows)), x, 1, size)
        table = jnp.where(score.veto > 0, -jnp.inf, score.coef).T

        def look_up(rows: Tokens) -> Array:
            rows = rows.distinct() if self.presence else rows
            found = table.at[rows.ids].get(
                mode="fill", fill_value=jnp.nan, wrap_negative_indices=False
            )
            return jnp.where(rows.mask[..., None], found, 0).sum(-2)

        return over_rows(look_up, x, 1, x.ids.shape[-1] * table.shape[-1])

    def _features(self, x: Array) -> Float[Array, "*batch V"]:
        return counts_of(x, self.presence)

    def log_prob(self, x: Array | Tokens) -> Float[Array, "*batch K"]:
        """`Σ_j x_j log θ_kj`: the log-probability of the sequence of words, given its length."""
        return self._scored(self._score(), x)

    def discriminant(self, x: Array | Tokens) -> Float[Array, "*batch K"]:
        """The same, with log θ_kj less its mean over the classes."""
        return self._scored(self._score().centred(), x)

    def linear(self) -> tuple[Float[Array, "K V"], Float[Array, "K"]]:
        """`log θ_k`, and 0; -inf where θ is 0."""
        return self.log_theta, jnp.zeros_like(self.log_theta[:, 0])

    def log_lik(self, stats: Sums) -> Float[Array, ""]:
        """`Σ_kj total_kj log θ_kj`."""
        return times_log(stats.total, self.log_theta).sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Int[Array, "*shape V"]:
        """Word counts of documents of Poisson(mean_length) words drawn from θ_y.

        A Poisson number of multinomial draws is a Poisson count per word, independently.
        """
        return jax.random.poisson(key, self.mean_length * jnp.exp(self.log_theta)[y])


class Multinomial(Family):
    """The multinomial event model: words drawn independently from the class's distribution.

    `p(x | y=k, length) = Π_j θ_kj^x_j` with `θ_kj = (Σ_n w_nk x_nj + α) / (Σ_nj w_nk x_nj + V α)`,
    x_nj the count of word j in document n. It is the probability of the *sequence* of words, so
    that counts and `Tokens` of the same document score the same; the number of orders,
    `length! / Π_j x_j!`, belongs to no class and is left out. α is Dirichlet smoothing: the mode
    under a Dirichlet(α+1) prior, the mean under Dirichlet(α); 1 is Laplace's rule, 0 maximum
    likelihood.

    A document that is impossible in all classes (a word with θ = 0 in each; only without
    smoothing) has posterior 0/0: NaN, and `predict` says -1.

    Args:
        alpha: α >= 0.
        presence: reduce every document to the words present in it, `x_j > 0`: the multinomial
            model normalised over the vocabulary, θ_kj = (documents of class k with word j + α) /
            (the same summed over words + V α). It is *not* the Bernoulli model: absent words are
            no evidence.
        prior: a `Dirichlet`, instead of alpha; the estimate is then its mode.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Multinomial(alpha=0.0), num_classes=2)
        >>> params = gcf.fit(clf, jnp.array([[1, 0], [1, 1]]), jnp.array([0, 1]))
        >>> print(jnp.exp(gcf.log_posterior(params, jnp.array([[1, 0], [1, 1]]))))
        [[0.667 0.333]
         [0.    1.   ]]

    References:
        McCallum & Nigam (1998), "A comparison of event models for naive Bayes text
        classification", eqs. 4 and 6.
    """

    alpha: Scalar = 1.0
    presence: bool = eqx.field(static=True, default=False)
    prior: Dirichlet | None = None

    @property
    def support(self) -> Support:
        return COUNTS

    def stats(self, x: Array | Tokens, w: ClassWeights) -> Sums:
        """`Sums` of x: weight of each class, and count of every word in it."""
        if isinstance(x, Tokens):
            return accumulate(self._token_sums, x, w, x.ids.shape[1] * num_classes(w))

        def block(x: Array, w: Array) -> Sums:
            return dense_sums(counts_of(x, self.presence), w)

        return accumulate(block, x, w, x.shape[1])

    def _token_sums(self, x: Tokens, w: Float[Array, "K n"]) -> Sums:
        x = x.distinct() if self.presence else x
        w_cell = jnp.where(x.mask[..., None], w.T[:, None, :], 0)
        w_cell = jnp.where(valid_counts(x)[..., None] | (w_cell == 0), w_cell, jnp.nan)
        total = jnp.zeros((x.vocab_size, len(w)), w.dtype)
        return Sums(w.sum(1), total.at[jnp.clip(x.ids, 0, x.vocab_size - 1)].add(w_cell).T)

    def estimate(self, stats: Sums) -> MultinomialParams:
        """Smoothed log θ; uniform for a class without words."""
        count = stats.total + pseudo_counts(self.alpha, self.prior, stats.total)
        count = jnp.where(count.sum(-1, keepdims=True) == 0, 1, count)
        log_theta = safe_log(count) - safe_log(count.sum(-1, keepdims=True))
        return self._params(log_theta, stats)

    def _params(self, log_theta: Array, stats: Sums) -> MultinomialParams:
        mean_length = divide(stats.total.sum(), stats.count.sum())
        return MultinomialParams(log_theta, mean_length, self.presence)

    def start(self, stats: Sums) -> MultinomialParams:
        """Uniform tables."""
        v = stats.total.shape[-1]
        return self._params(jnp.full_like(stats.total, -math.log(v)), stats)

    def prior_stats(self, stats: Sums) -> Sums:
        """α occurrences of every word; `a - 1` of a prior."""
        total = pseudo_counts(self.alpha, self.prior, stats.total)
        return Sums(jnp.zeros_like(stats.count), total)

    def plain(self) -> Multinomial:
        return Multinomial(0.0, self.presence)

    def conjugate_prior(self, stats: Sums) -> Dirichlets:
        """Dirichlet(α + 1), or the prior given."""
        return smoothing(self.alpha, self.prior).tables(stats.total, "log_theta")

    def predictive(self, posterior: Conjugate, stats: Sums) -> DirichletMultinomialParams:
        """Dirichlet-multinomial: one θ for all the words of a document."""
        assert isinstance(posterior, Dirichlets)
        return DirichletMultinomialParams(
            posterior.concentration, self.start(stats).mean_length, self.presence
        )

    def prior_strength(self, stats: Any) -> dict[str, Array]:
        return smoothing(self.alpha, self.prior).strength(stats)

    def with_prior_strength(self, free: dict[str, Array], stats: Any) -> Multinomial:
        prior = smoothing(self.alpha, self.prior).with_strength(free, stats)
        return Multinomial(presence=self.presence, prior=prior)

    def num_parameters(self, num_classes: int, d: int) -> int:
        """V - 1 free probabilities per class."""
        return num_classes * (d - 1)

    def invalid_hyperparameters(self, d: Any = None) -> list[str]:
        return smoothing_problems(self.alpha, self.prior)
