"""Dirichlet-multinomial class densities: words that make themselves likelier by occurring."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from genclf.conjugate.base import log_rising
from genclf.families.base import Params, Support, over_rows
from genclf.families.tokens import COUNTS, Tokens, counts_of


class DirichletMultinomialParams(Params):
    """The density of a document whose θ is uncertain: the predictive of `Multinomial`.

    `p(x | k, length) = Π_j (a_kj)_x_j / (Σ_j a_kj)_length` with `(a)_n = a (a+1) … (a+n-1)`: the
    probability of the sequence of words (Pólya's urn), θ_k ~ Dirichlet(a_k) integrated out.

    Attributes:
        concentration: a, shape (K, V).
        mean_length: average number of words in a document; only `sample` uses it.
        presence: whether documents are reduced to the words present in them.

    References:
        Madsen, Kauchak & Elkan (2005), "Modeling word burstiness using the Dirichlet
        distribution", eq. 4.
    """

    concentration: Float[Array, "K V"]
    mean_length: Float[Array, ""]
    presence: bool = eqx.field(static=True)

    @property
    def support(self) -> Support:
        return COUNTS

    @property
    def num_features(self) -> int:
        return self.concentration.shape[-1]

    def log_prob(self, x: Array | Tokens) -> Float[Array, "*batch K"]:
        """`Σ_j log (a_kj)_x_j - log (Σ_j a_kj)_length`."""
        if isinstance(x, Tokens):
            return over_rows(self._of_tokens, x, 1, x.ids.shape[-1] * len(self.concentration))
        return over_rows(self._of_counts, x, 1, self.num_features)

    def _normalised(self, score: Array, length: Array) -> Array:
        total = jnp.broadcast_to(self.concentration.sum(-1), score.shape)
        return score - log_rising(total, jnp.broadcast_to(length[..., None], score.shape))

    def _of_tokens(self, rows: Tokens) -> Array:
        rows = rows.distinct() if self.presence else rows
        # The i-th occurrence of a word has probability a + i - 1 over the urn's size.
        ids = jnp.sort(jnp.where(rows.mask, rows.ids, jnp.iinfo(rows.ids.dtype).max), axis=-1)
        position = jnp.broadcast_to(jnp.arange(ids.shape[-1]), ids.shape)
        first = jnp.pad(ids[:, 1:] != ids[:, :-1], [(0, 0), (1, 0)], constant_values=True)
        earlier = position - lax.cummax(jnp.where(first, position, 0), axis=1)
        length = rows.mask.sum(-1, keepdims=True)
        mask = position < length
        found = self.concentration.T.at[jnp.where(mask, ids, 0)].get(
            mode="fill", fill_value=jnp.nan, wrap_negative_indices=False
        )
        terms = jnp.log(found + earlier[..., None].astype(found.dtype))
        score = jnp.where(mask[..., None], terms, 0).sum(-2)
        return self._normalised(score, length[..., 0].astype(score.dtype))

    def _of_counts(self, rows: Array) -> Array:
        x = counts_of(rows, self.presence).astype(self.concentration.dtype)
        of_class = lambda a: log_rising(jnp.broadcast_to(a, x.shape), x).sum(-1)  # noqa: E731
        score = lax.map(of_class, self.concentration).T
        return self._normalised(score, x.sum(-1))

    def log_lik(self, stats: object) -> Float[Array, ""]:
        raise ValueError(
            "a Dirichlet-multinomial density has no sufficient statistics: sum its log_joint over "
            "documents, or use log_evidence, the log-probability of all documents together"
        )

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Int[Array, "*shape V"]:
        """Word counts of documents of Poisson(mean_length) words, each with a θ of its own."""
        key_theta, key_words = jax.random.split(key)
        log_gamma = jax.random.loggamma(key_theta, self.concentration[y])
        theta = jax.nn.softmax(log_gamma, axis=-1)
        return jax.random.poisson(key_words, self.mean_length * theta)
