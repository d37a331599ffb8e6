"""The multinomial event model of text: each word of a document is a draw from the class."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Float

from genclf.arguments.domains import FLAG, NON_NEGATIVE
from genclf.arguments.hyperparameters import kind_of
from genclf.arguments.module import static
from genclf.families.base import Scalar
from genclf.families.capabilities import Completed, Init, Observed
from genclf.families.conjugate.dirichlet import (
    Dirichlet,
    DirichletDistribution,
    log_shares,
    pseudo_counts,
    smoothing,
)
from genclf.families.counts.dirichlet_multinomial import DirichletMultinomialParams
from genclf.families.counts.multinomial_params import MultinomialParams, describe_word_counts
from genclf.families.counts.smoothed import Smoothed
from genclf.families.missing import CODE, MISSING, Missing, is_missing
from genclf.families.support import Support
from genclf.families.tokens import COUNTS, Tokens, is_dense, presence_distance, word_sums
from genclf.numerics.namespace import Array, namespace
from genclf.sums.blocks import ClassWeights, accumulate
from genclf.sums.sparse import Sparse, SparseRows
from genclf.sums.statistics import Sums, divide


class _CompletedCounts(Completed):
    """Documents with uncounted words, and the params that give their expected counts."""

    params: MultinomialParams
    x: Array

    def stats(self, w: ClassWeights) -> Sums:
        expected = self.params.expected_counts
        block = lambda x, w: Sums(w.sum(1), expected(x, w.T))  # noqa: E731
        return accumulate(block, self.x, w, self.x.shape[1])


class Multinomial(Smoothed):
    """The multinomial event model: words drawn independently from the class's distribution.

    `p(x | y=k, length) = Π_j θ_kj^x_j` with `θ_kj = (Σ_n w_nk x_nj + α) / (Σ_nj w_nk x_nj + V α)`,
    x_nj the count of word j in document n. It is the probability of the *sequence* of words, so
    counts and `Tokens` of a document have the same score; the number of orders,
    `length! / Π_j x_j!`, is common to all classes and left out. α is Dirichlet smoothing: the mode
    under a Dirichlet(α+1) prior, the mean under Dirichlet(α); 1 is Laplace's rule, 0 maximum
    likelihood.

    A document that is impossible in all classes (a word with θ = 0 in each; only without
    smoothing) has the posterior 0/0, which is NaN, and `predict` returns -1.

    Args:
        alpha: α >= 0.
        presence: reduce every document to the words present in it, `x_j > 0`: the multinomial
            model normalised over the vocabulary, θ_kj = (documents of class k with word j + α) /
            (the same summed over words + V α). It is *not* the Bernoulli model: absent words are
            not evidence.
        prior: a `Dirichlet`, instead of alpha; the estimate is then the posterior mode.
        missing: "marginalize" allows words of a document that were not counted. The other words are
            then a document over a smaller vocabulary, with θ_kj divided by their sum, and a fit is
            by EM. "error" makes an uncounted word invalid.
        missing_code: an uncounted word is NaN if x is floating, and this code if x is integer.

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

    domains: ClassVar = {
        "alpha": NON_NEGATIVE,
        "presence": FLAG,
        "prior": kind_of(Dirichlet, such_as="Dirichlet(2.0)", optional=True),
        "missing": MISSING,
        "missing_code": CODE,
    }

    alpha: Scalar = 1.0
    presence: bool = static(default=False)
    prior: Dirichlet | None = None
    missing: Missing = static(default="error")
    missing_code: int = static(default=-1)

    @property
    def support(self) -> Support:
        return self.allowing(replace(COUNTS, repeats=not self.presence))

    @property
    def hidden(self) -> bool:
        return self.may_miss

    def complete(
        self, params: MultinomialParams, x: Array | Tokens | SparseRows
    ) -> tuple[Float[Array, "n K"], Completed]:
        score = params.log_prob(x)
        if self.hidden and is_dense(x):
            return score, _CompletedCounts(params, x)
        return score, Observed(self, x)

    def initial_stats(
        self, key: Array, x: Array | Tokens | SparseRows, w: ClassWeights, init: Init
    ) -> Sums:
        """The statistics of the counted words."""
        if self.hidden and is_dense(x):
            x = jnp.where(is_missing(x, self.missing_code), 0, x)
        return self.stats(x, w)

    def distance(self, x: Array | Tokens | SparseRows, seed: Array | Tokens) -> Float[Array, "n"]:
        """1 minus the cosine similarity of the 0/1 indicators of present words."""
        return presence_distance(x, seed)

    def stats(self, x: Array | Tokens | Sparse, w: ClassWeights) -> Sums:
        """`Sums` of x: weight of each class, and count of every word in it."""
        return word_sums(x, w, self.presence)

    def statistic(self, stats: Sums) -> str:
        return describe_word_counts(stats.total.shape[-1], self.presence)

    def estimate(self, stats: Sums) -> MultinomialParams:
        """Smoothed log θ; uniform for a class without words."""
        xp = namespace(stats.total)
        count = stats.total + pseudo_counts(self.alpha, self.prior, stats.total)
        count = xp.where(count.sum(-1, keepdims=True) == 0, 1, count)
        whole = xp.broadcast_to(count.sum(-1, keepdims=True), count.shape)
        return self._params(log_shares(count, whole), stats)

    def _params(self, log_theta: Array, stats: Sums) -> MultinomialParams:
        mean_length = divide(stats.total.sum(), stats.count.sum())
        return MultinomialParams(
            log_theta, mean_length, self.presence, self.missing, self.missing_code
        )

    def start(self, stats: Sums) -> MultinomialParams:
        """Uniform tables."""
        v = stats.total.shape[-1]
        return self._params(jnp.full_like(stats.total, -math.log(v)), stats)

    def prior_stats(self, stats: Sums) -> Sums:
        """α occurrences of every word; or, with a prior, `a - 1` occurrences."""
        total = pseudo_counts(self.alpha, self.prior, stats.total)
        return Sums(jnp.zeros_like(stats.count), total)

    def conjugate_prior(self, stats: Sums) -> DirichletDistribution:
        """Dirichlet(α + 1), or the prior given."""
        return self.given_prior.resolve(stats.total, "log_theta")

    def predictive(
        self, posterior: DirichletDistribution, stats: Sums
    ) -> DirichletMultinomialParams:
        """Dirichlet-multinomial: one θ for all the words of a document."""
        return DirichletMultinomialParams(
            posterior.concentration, self.start(stats).mean_length, self.presence
        )

    @property
    def given_prior(self) -> Dirichlet:
        return smoothing(self.alpha, self.prior)
