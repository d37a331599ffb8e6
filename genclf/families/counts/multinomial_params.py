"""Fitted multinomial class densities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from genclf.arguments.domains import NON_NEGATIVE, NON_NEGATIVES, Scalar
from genclf.arguments.module import static
from genclf.arguments.parameters import Parameter
from genclf.families.counts.smoothed import CountParams
from genclf.families.given import probabilities
from genclf.families.missing import Missing, is_missing
from genclf.families.support import Support
from genclf.families.tokens import COUNTS, Tokens, counts_of, is_dense, word_scores
from genclf.numerics.logarithms import safe_log, times_log
from genclf.numerics.namespace import Array, matmul, namespace
from genclf.numerics.row_blocks import over_rows
from genclf.numerics.scores.linear import LinearScore
from genclf.sums.accumulate import dense_sums
from genclf.sums.sparse import Sparse
from genclf.sums.statistics import Sums, divide


def describe_word_counts(num_words: int, presence: bool) -> str:
    """A description of what the `Sums` of the words hold."""
    return f"{'documents with' if presence else 'occurrences of'} each of {num_words} words"


class MultinomialParams(CountParams):
    """Fitted word distributions, as `Multinomial.estimate` returns them.

    Attributes:
        log_theta: `log θ_kj`, θ_kj the probability of word j in class k, shape (K, V); -inf at 0.
        mean_length: average number of words in a document, the same for all classes. The
            densities are conditional on the length; only `sample` uses it.
        presence: whether documents are reduced to the words present in them.
        missing: "marginalize" if words may be uncounted, else "error".
        missing_code: the integer that marks an uncounted word if x is integer.
    """

    domains: ClassVar = {"mean_length": NON_NEGATIVES}
    parameters: ClassVar = {"log_theta": Parameter("simplex", "log")}

    log_theta: Float[Array, "K V"]
    mean_length: Float[Array, ""]
    presence: bool = static()
    missing: Missing = static(default="error")
    missing_code: int = static(default=-1)

    @classmethod
    def of(cls, theta: ArrayLike, *, mean_length: Scalar) -> MultinomialParams:
        """The densities of given word distributions.

        Args:
            theta: the probability of each word in each class, shape (K, V).
            mean_length: average number of words in a document that `sample` draws, >= 0.

        Raises:
            ValueError: theta has another shape, a row is not V probabilities with sum 1, or
                mean_length is not a finite number >= 0.

        Example:
            >>> import jax.numpy as jnp, genclf as gcf
            >>> density = gcf.MultinomialParams.of([[0.9, 0.1], [0.5, 0.5]], mean_length=20.0)
            >>> print(jnp.exp(density.log_prob(jnp.array([1, 1]))).round(3))
            [0.09 0.25]
        """
        p = probabilities(theta, "theta", tables=True)
        length = jnp.asarray(NON_NEGATIVE.checked(mean_length, "mean_length"), p.dtype)
        return cls(safe_log(p), length, presence=False)

    @property
    def support(self) -> Support:
        return self.allowing(replace(COUNTS, repeats=not self.presence))

    def linear_score(self) -> LinearScore:
        """The score of the counts."""
        xp = namespace(self.log_theta)
        never = xp.isneginf(self.log_theta)
        zero = xp.zeros_like(self.log_theta[:, 0])
        coef = xp.where(never, 0, self.log_theta)
        return LinearScore(coef, zero, never.astype(coef.dtype), zero)

    def _scored(self, score: LinearScore, x: Array | Tokens | Sparse) -> Array | np.ndarray:
        if not (self.may_miss and is_dense(x)):
            return word_scores(score, x, self.presence)
        return over_rows(lambda rows: self._of_counted(score, rows), x, 1, self.num_features)

    def _of_counted(self, score: LinearScore, x: Array) -> Array:
        counts, seen = self.counted(x)
        mass = self.counted_mass(seen)
        # Σ_seen x_j log (θ_kj / mass_k): the counted words, given their number.
        length = counts.sum(-1, keepdims=True)
        return score(counts) - length * jnp.log(jnp.where(mass > 0, mass, 1))

    def terms(
        self, x: Array | Tokens, y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> Float[Array, "*batch _"]:
        """`x_j (log θ_yj - log θ_other,j)` of each word; for tokens, of each position."""
        xp = namespace(x, self.log_theta)
        if isinstance(x, Tokens):
            rows = counts_of(x, self.presence)
            valid = (rows.ids >= 0) & (rows.ids < self.num_features)
            word = xp.where(valid, rows.ids, 0)
            of, against = (self.log_theta[k[..., None], word] for k in (y, other))
            return xp.where(rows.mask, xp.where(valid, of - against, xp.nan), 0)
        if not self.may_miss:
            counts, ratio = counts_of(x, self.presence), self.log_theta[y] - self.log_theta[other]
        else:
            counts, seen = self.counted(x)
            log_mass = xp.log(self.counted_mass(seen))
            of, against = (
                self.log_theta[k] - xp.take_along_axis(log_mass, k[..., None], -1)
                for k in (y, other)
            )
            ratio = of - against
        return xp.where(counts == 0, 0, counts * ratio)

    def counted(self, x: Array) -> tuple[Float[Array, "*batch V"], Bool[Array, "*batch V"]]:
        """Counts, 0 where missing, and a mask of the counted words."""
        seen = ~is_missing(x, self.missing_code)
        return counts_of(jnp.where(seen, x, 0), self.presence), seen

    def counted_mass(self, seen: Bool[Array, "*batch V"]) -> Float[Array, "*batch K"]:
        """The total probability, in each class, of the words that are counted."""
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

    def condition(
        self, x: Array | Tokens, r: Float[Array, "*batch K"]
    ) -> Float[Array, "*batch V"] | Tokens:
        """Expected counts; for a counted word its count. Tokens have no missing cells."""
        if not is_dense(x):
            return x
        counts, seen = self.counted(x)
        return jnp.where(
            seen, counts, matmul(r * self._ratio(counts, seen), jnp.exp(self.log_theta))
        )

    def sample_missing(
        self, key: Array, x: Array | Tokens, y: Int[Array, "*shape"]
    ) -> Array | Tokens:
        """Draw uncounted words: a negative multinomial, given the number of counted ones."""
        if not is_dense(x):
            return x
        key_rate, key_words = jax.random.split(key)
        counts, seen = self.counted(x)
        length = counts.sum(-1)
        mass = jnp.take_along_axis(self.counted_mass(seen), y[..., None], -1)[..., 0]
        rate = jax.random.gamma(key_rate, jnp.where(length > 0, length, 1)) / mass
        rate = jnp.where(length > 0, rate, 0)[..., None] * jnp.exp(self.log_theta)[y]
        return jnp.where(seen, x, jax.random.poisson(key_words, rate).astype(x.dtype))

    def log_prob(self, x: Array | Tokens | Sparse) -> Any:
        """`Σ_j x_j log θ_kj`: the log-probability of the sequence of words, given its length."""
        return self._scored(self.linear_score(), x)

    def discriminant(self, x: Array | Tokens | Sparse) -> Any:
        """`log_prob` with log θ_kj minus its mean over the classes."""
        return self._scored(self.linear_score().centred(), x)

    def linear(self) -> tuple[Float[Array, "K V"], Float[Array, "K"]]:
        """`log θ_k`, and 0; -inf where θ is 0."""
        xp = namespace(self.log_theta)
        return self.log_theta, xp.zeros_like(self.log_theta[:, 0])

    @property
    def statistic(self) -> str:
        return describe_word_counts(self.num_features, self.presence)

    def log_lik(self, stats: Sums) -> Float[Array, ""]:
        """`Σ_kj total_kj log θ_kj`."""
        return times_log(stats.total, self.log_theta).sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Int[Array, "*shape V"]:
        """Word counts of documents of Poisson(mean_length) words drawn from θ_y.

        A Poisson number of multinomial draws gives independent Poisson counts of the words.
        """
        return jax.random.poisson(key, self.mean_length * jnp.exp(self.log_theta)[y])
