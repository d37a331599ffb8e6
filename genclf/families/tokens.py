"""What a document is to a model of words: counts, or a sequence of word ids."""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from genclf.families.base import Support, poison


class Tokens(eqx.Module):
    """Documents as padded sequences of word ids: the same data as counts, without the zeros.

    Attributes:
        ids: word ids in 0..vocab_size-1, shape (..., length).
        mask: which positions hold a word, shape (..., length).
        vocab_size: number of words V.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> ids, lengths = jnp.array([[2, 0, 2], [1, 0, 0]]), jnp.array([3, 1])
        >>> gcf.Tokens.from_lengths(ids, lengths, vocab_size=4).counts().tolist()
        [[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    """

    ids: Int[Array, "*batch length"]
    mask: Bool[Array, "*batch length"]
    vocab_size: int = eqx.field(static=True)

    @classmethod
    def from_lengths(cls, ids: Array, lengths: Array, vocab_size: int) -> Tokens:
        """Tokens of which the first `lengths[n]` of row n are words, the rest padding."""
        position = jnp.broadcast_to(jnp.arange(ids.shape[-1]), ids.shape)
        return cls(jnp.asarray(ids), position < jnp.asarray(lengths)[..., None], vocab_size)

    def counts(self) -> Float[Array, "*batch V"]:
        """Number of occurrences of every word, shape (..., V); NaN where an id is no word."""
        flat = self.ids.reshape(math.prod(self.ids.shape[:-1]), self.ids.shape[-1])
        rows = jnp.arange(len(flat))[:, None]
        counts = jnp.zeros((len(flat), self.vocab_size), jnp.result_type(float))
        cell = self.mask.reshape(flat.shape).astype(counts.dtype)
        cell = jnp.where(valid_counts(self).reshape(flat.shape), cell, jnp.nan)
        counts = counts.at[rows, jnp.clip(flat, 0, self.vocab_size - 1)].add(cell)
        return counts.reshape(*self.ids.shape[:-1], self.vocab_size)

    def distinct(self) -> Tokens:
        """Each word of a document once (in the order of the ids)."""
        ids = jnp.sort(jnp.where(self.mask, self.ids, jnp.iinfo(self.ids.dtype).max), axis=-1)
        repeated = jnp.pad(ids[..., 1:] == ids[..., :-1], [(0, 0)] * (ids.ndim - 1) + [(1, 0)])
        position = jnp.broadcast_to(jnp.arange(ids.shape[-1]), ids.shape)
        length = self.mask.sum(-1, keepdims=True)
        return Tokens(ids, (position < length) & ~repeated, self.vocab_size)


def valid_counts(x: Array | Tokens) -> Bool[Array, "..."]:
    """Which cells hold a count, or a word id."""
    if isinstance(x, Tokens):
        return ~x.mask | ((x.ids >= 0) & (x.ids < x.vocab_size))
    return (x >= 0) & jnp.isfinite(x)


COUNTS = Support(valid_counts, "a count >= 0 (or a word id in 0..vocab_size-1)", tokens=True)


def counts_of(x: Array, presence: bool) -> Float[Array, "*batch V"]:
    """The counts as floats, NaN where they are none; with `presence` reduced to 0 and 1."""
    x = poison(x, COUNTS)
    return jnp.where(jnp.isnan(x), x, (x > 0).astype(x.dtype)) if presence else x


def apart(x: Array | Tokens, seed: Array | Tokens) -> Float[Array, "n"]:
    """1 - |A ∩ B| / √(|A| |B|) of the sets of words of each row and of the seed."""
    if isinstance(x, Tokens):
        assert isinstance(seed, Tokens)
        here, rows = seed.counts() > 0, x.distinct()
        inside = here.at[rows.ids].get(mode="fill", fill_value=False, wrap_negative_indices=False)
        sizes = (rows.mask & inside).sum(1), rows.mask.sum(1), here.sum()
    else:
        assert not isinstance(seed, Tokens)
        present = x > 0
        sizes = (present & (seed > 0)[None]).sum(1), present.sum(1), (seed > 0).sum()
    common, size, own = (a.astype(jnp.result_type(float)) for a in sizes)
    return 1 - common / jnp.sqrt(jnp.maximum(size * own, 1))
