"""Dirichlet-multinomial class densities: each occurrence of a word makes it likelier."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, Int

from genclf.arguments.domains import NON_NEGATIVES
from genclf.arguments.module import static
from genclf.arguments.parameters import Parameter
from genclf.families.base import Density
from genclf.families.support import Support
from genclf.families.tokens import COUNTS, Tokens, counts_of, entries_of
from genclf.numerics import loops
from genclf.numerics.log_pochhammer import log_rising_sums, rising_table
from genclf.numerics.logarithms import log_pochhammer, log_pochhammer_remainder
from genclf.numerics.namespace import Array
from genclf.numerics.row_blocks import over_rows

_LARGE = 64  # a count above which the term common to all classes dominates the score
_COMPARED = 128  # words, up to which comparing all pairs costs less than sorting


class DirichletMultinomialParams(Density):
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

    domains: ClassVar = {"mean_length": NON_NEGATIVES}
    parameters: ClassVar = {"concentration": Parameter("positive")}

    concentration: Float[Array, "K V"]
    mean_length: Float[Array, ""]
    presence: bool = static()

    @property
    def support(self) -> Support:
        return replace(COUNTS, sparse=False, repeats=not self.presence)

    def log_prob(self, x: Array | Tokens) -> Float[Array, "*batch K"]:
        """`Σ_j log (a_kj)_x_j - log (Σ_j a_kj)_length`."""
        return self._scored(x, self._of_counts)

    def discriminant(self, x: Array | Tokens) -> Float[Array, "*batch K"]:
        """`log_prob`; for large counts, minus a large term that all classes share.

        The term is `Σ_j x_j log x_j - n log n`. In float32 it would hide the differences between
        classes.
        """

        def of_counts(x: Array, table: Array) -> Array:
            return loops.cond(
                (x > _LARGE).any(), lambda: self._minus_common(x), lambda: self._of_counts(x, table)
            )

        return self._scored(x, of_counts)

    def _scored(
        self, x: Array | Tokens, of_counts: Callable[[Array, Array], Array]
    ) -> Float[Array, "*batch K"]:
        a = self.concentration
        if not isinstance(x, Tokens):
            table = rising_table(a, math.prod(x.shape[:-1]))
            return over_rows(lambda rows: of_counts(rows, table), x, 1, self.num_features)
        longest = x.ids.shape[-1]
        lengths = self._of_length(jnp.arange(longest + 1, dtype=a.dtype))
        return over_rows(lambda rows: self._of_tokens(rows, lengths), x, 1, longest * len(a))

    def _minus_common(self, rows: Array) -> Float[Array, "n K"]:
        x = counts_of(rows, self.presence).astype(self.concentration.dtype)
        length = x.sum(-1)

        def of_class(a: Array) -> Array:
            words = log_pochhammer_remainder(jnp.broadcast_to(a[None], x.shape), x).sum(-1)
            return words - log_pochhammer_remainder(jnp.broadcast_to(a.sum(), length.shape), length)

        found = lax.map(of_class, self.concentration).T
        return jnp.where(jnp.isnan(length)[:, None], jnp.nan, found)

    def _of_length(self, length: Float[Array, "n"]) -> Float[Array, "n K"]:
        shape = (*length.shape, len(self.concentration))
        total = jnp.broadcast_to(self.concentration.sum(-1), shape)
        return log_pochhammer(total, jnp.broadcast_to(length[:, None], shape))

    def _of_counts(self, rows: Array, table: Array) -> Array:
        x = counts_of(rows, self.presence).astype(self.concentration.dtype)
        return log_rising_sums(x, self.concentration, table) - self._of_length(x.sum(-1))

    def _of_tokens(self, rows: Tokens, of_length: Array) -> Array:
        rows, earlier = _occurrences(counts_of(rows, self.presence))
        # The i-th occurrence of a word has probability a + i - 1 over the urn's size.
        found = entries_of(rows, self.concentration.T)
        # Padding is 1 before the logarithm: XLA would not vectorise a 0 after it.
        chance = jnp.where(rows.mask[..., None], found + earlier[..., None].astype(found.dtype), 1)
        return jnp.log(chance).sum(-2) - of_length[rows.mask.sum(-1)]

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Int[Array, "*shape V"]:
        """Word counts of documents of Poisson(mean_length) words, each with its own θ."""
        key_theta, key_words = jax.random.split(key)
        log_gamma = jax.random.loggamma(key_theta, self.concentration[y])
        theta = jax.nn.softmax(log_gamma, axis=-1)
        return jax.random.poisson(key_words, self.mean_length * theta)


def _occurrences(rows: Tokens) -> tuple[Tokens, Int[Array, "n length"]]:
    """The words in some order, and for each the number of its earlier occurrences."""
    ids = jnp.where(rows.mask, rows.ids, jnp.iinfo(rows.ids.dtype).max)
    length = ids.shape[-1]
    if length <= _COMPARED:
        columns, after = ids.T, jnp.arange(length)[:, None]

        def seen(i: Array) -> Array:
            one = lax.dynamic_slice_in_dim(columns, i, min(1, length))
            return ((columns == one) & (after > i)).astype(jnp.int32)

        first, rest = jnp.asarray(0), jnp.arange(1, max(length, 1))
        return rows, loops.scan(lambda n, i: (n + seen(i), None), seen(first), rest)[0].T
    position = jnp.broadcast_to(jnp.arange(length), ids.shape)
    ids = jnp.sort(ids, axis=-1)
    first = jnp.pad(ids[:, 1:] != ids[:, :-1], [(0, 0), (1, 0)], constant_values=True)
    earlier = position - lax.cummax(jnp.where(first, position, 0), axis=1)
    mask = position < rows.mask.sum(-1, keepdims=True)
    return Tokens(ids, mask, rows.vocab_size), earlier
