"""The multinomial event model of text: each word of a document is a draw from the class."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from genclf.accumulate import ClassWeights, accumulate, dense_sums, matmul, num_classes, over_rows
from genclf.arguments.domains import FLAG, NON_NEGATIVE
from genclf.arguments.hyperparameters import kind_of
from genclf.conjugate.base import Conjugate
from genclf.conjugate.dirichlet import (
    Dirichlet,
    Dirichlets,
    log_shares,
    pseudo_counts,
    smoothing,
    smoothing_problems,
)
from genclf.families.base import Family, Init, LinearScore, Params, Scalar, Support
from genclf.families.dirichlet_multinomial import DirichletMultinomialParams
from genclf.families.missing import (
    CODE,
    MISSING,
    Missing,
    allow_missing,
    is_missing,
    missing_problems,
)
from genclf.families.tokens import COUNTS, Tokens, apart, counts_of, valid_counts
from genclf.numerics.logarithms import times_log
from genclf.parameters import Parameter
from genclf.statistics import Sums, divide


def _in_words(num_words: int, presence: bool) -> str:
    """What the `Sums` of so many words are of."""
    return f"{'documents with' if presence else 'occurrences of'} each of {num_words} words"


class MultinomialParams(Params):
    """Fitted word distributions, as `Multinomial.estimate` returns them.

    Attributes:
        log_theta: `log θ_kj`, θ_kj the probability of word j in class k, shape (K, V); -inf at 0.
        mean_length: average number of words in a document, the same for all classes. The
            densities are conditional on the length; only `sample` uses it.
        presence: whether documents are reduced to the words present in them.
        missing: "marginalize" where words may be uncounted, else "error".
        missing_code: what stands for the count of such a word among integers.
    """

    log_theta: Float[Array, "K V"]
    mean_length: Float[Array, ""]
    presence: bool = eqx.field(static=True)
    missing: Missing = eqx.field(static=True, default="error")
    missing_code: int = eqx.field(static=True, default=-1)

    @property
    def support(self) -> Support:
        return allow_missing(COUNTS, self.missing, self.missing_code)

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
            return over_rows(lambda rows: self._score_counts(score, rows), x, 1, size)
        table = jnp.where(score.veto > 0, -jnp.inf, score.coef).T

        def look_up(rows: Tokens) -> Array:
            rows = rows.distinct() if self.presence else rows
            found = table.at[rows.ids].get(
                mode="fill", fill_value=jnp.nan, wrap_negative_indices=False
            )
            return jnp.where(rows.mask[..., None], found, 0).sum(-2)

        return over_rows(look_up, x, 1, x.ids.shape[-1] * table.shape[-1])

    def _score_counts(self, score: LinearScore, x: Array) -> Array:
        if self.missing == "error":
            return score(counts_of(x, self.presence))
        counts, seen = self.counted(x)
        mass = self.counted_mass(seen)
        # Σ_seen x_j log (θ_kj / mass_k): words that are counted, given how many those are.
        length = counts.sum(-1, keepdims=True)
        return score(counts) - length * jnp.log(jnp.where(mass > 0, mass, 1))

    def counted(self, x: Array) -> tuple[Float[Array, "*batch V"], Bool[Array, "*batch V"]]:
        """Counts, 0 where missing, and which are not."""
        seen = ~is_missing(x, self.missing_code)
        return counts_of(jnp.where(seen, x, 0), self.presence), seen

    def counted_mass(self, seen: Bool[Array, "*batch V"]) -> Float[Array, "*batch K"]:
        """Probability in each class of the words that are counted."""
        theta = jnp.exp(self.log_theta)
        mass = matmul(seen.astype(theta.dtype), theta.T)
        return jnp.where(seen.all(-1, keepdims=True), 1, mass)

    def expected_counts(self, x: Array, w: Float[Array, "n K"]) -> Float[Array, "K V"]:
        """`Σ_n w_nk x_nj`, where an uncounted word has the mean `length θ_kj / mass_k`."""
        counts, seen = self.counted(x)
        missing = (~seen & (w != 0).any(1, keepdims=True)).astype(w.dtype)
        more = matmul((w * self._ratio(counts, seen)).T, missing) * jnp.exp(self.log_theta)
        return dense_sums(counts, w.T).total + more

    def _ratio(self, counts: Array, seen: Array) -> Float[Array, "*batch K"]:
        mass = self.counted_mass(seen)
        return divide(jnp.broadcast_to(counts.sum(-1, keepdims=True), mass.shape), mass)

    def marginalized(self) -> MultinomialParams:
        return replace(self, missing="marginalize")

    def condition(
        self, x: Array | Tokens, r: Float[Array, "*batch K"]
    ) -> Float[Array, "*batch V"] | Tokens:
        """Expected counts; of a word that is counted its own. Tokens have no missing cells."""
        if isinstance(x, Tokens):
            return x
        counts, seen = self.counted(x)
        return jnp.where(
            seen, counts, matmul(r * self._ratio(counts, seen), jnp.exp(self.log_theta))
        )

    def sample_missing(
        self, key: Array, x: Array | Tokens, y: Int[Array, "*shape"]
    ) -> Array | Tokens:
        """Words drawn until as many as counted are among those counted: negative multinomial."""
        if isinstance(x, Tokens):
            return x
        key_rate, key_words = jax.random.split(key)
        counts, seen = self.counted(x)
        length = counts.sum(-1)
        mass = jnp.take_along_axis(self.counted_mass(seen), y[..., None], -1)[..., 0]
        rate = jax.random.gamma(key_rate, jnp.where(length > 0, length, 1)) / mass
        rate = jnp.where(length > 0, rate, 0)[..., None] * jnp.exp(self.log_theta)[y]
        return jnp.where(seen, x, jax.random.poisson(key_words, rate).astype(x.dtype))

    def log_prob(self, x: Array | Tokens) -> Float[Array, "*batch K"]:
        """`Σ_j x_j log θ_kj`: the log-probability of the sequence of words, given its length."""
        return self._scored(self._score(), x)

    def discriminant(self, x: Array | Tokens) -> Float[Array, "*batch K"]:
        """The same, with log θ_kj less its mean over the classes."""
        return self._scored(self._score().centred(), x)

    def linear(self) -> tuple[Float[Array, "K V"], Float[Array, "K"]]:
        """`log θ_k`, and 0; -inf where θ is 0."""
        return self.log_theta, jnp.zeros_like(self.log_theta[:, 0])

    @property
    def statistic(self) -> str:
        return _in_words(self.num_features, self.presence)

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
        missing: "marginalize" takes words of a document that were not counted: the others are then
            a document over a smaller vocabulary, of θ_kj over their sum. A fit is by EM; "error"
            takes none.
        missing_code: an uncounted word is NaN, or among integers this code.

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
    presence: bool = eqx.field(static=True, default=False)
    prior: Dirichlet | None = None
    missing: Missing = eqx.field(static=True, default="error")
    missing_code: int = eqx.field(static=True, default=-1)

    @property
    def support(self) -> Support:
        return allow_missing(COUNTS, self.missing, self.missing_code)

    @property
    def hidden(self) -> bool:
        return self.missing == "marginalize"

    def expected_stats(
        self, params: Params, completion: None, x: Array | Tokens, w: ClassWeights
    ) -> Sums:
        if not self.hidden or isinstance(x, Tokens):
            return self.stats(x, w)
        assert isinstance(params, MultinomialParams)
        of = params.expected_counts
        return accumulate(lambda x, w: Sums(w.sum(1), of(x, w.T)), x, w, x.shape[1])

    def initial_stats(self, key: Array, x: Array | Tokens, w: ClassWeights, init: Init) -> Sums:
        """Those of the words that are counted."""
        if self.hidden and not isinstance(x, Tokens):
            x = jnp.where(is_missing(x, self.missing_code), 0, x)
        return self.stats(x, w)

    def dissimilarity(self, x: Array | Tokens, seed: Array | Tokens) -> Float[Array, "n"]:
        """1 less the cosine of which words are present."""
        return apart(x, seed)

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

    def statistic(self, stats: Sums) -> str:
        return _in_words(stats.total.shape[-1], self.presence)

    def estimate(self, stats: Sums) -> MultinomialParams:
        """Smoothed log θ; uniform for a class without words."""
        count = stats.total + pseudo_counts(self.alpha, self.prior, stats.total)
        count = jnp.where(count.sum(-1, keepdims=True) == 0, 1, count)
        whole = jnp.broadcast_to(count.sum(-1, keepdims=True), count.shape)
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
        """α occurrences of every word; `a - 1` of a prior."""
        total = pseudo_counts(self.alpha, self.prior, stats.total)
        return Sums(jnp.zeros_like(stats.count), total)

    def plain(self) -> Multinomial:
        return replace(self, alpha=0.0, prior=None)

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
        return replace(self, alpha=1.0, prior=prior)

    def num_parameters(self, num_classes: int, d: int) -> int:
        """V - 1 free probabilities per class."""
        return num_classes * (d - 1)

    def invalid_hyperparameters(self, d: Any = None) -> list[str]:
        wrong = smoothing_problems(self.alpha, self.prior)
        return wrong + missing_problems(self.missing, self.missing_code, math.inf)
