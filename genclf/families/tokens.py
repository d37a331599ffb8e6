"""Documents as counts of words, or as sequences of word ids."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Bool, Float, Int, PyTree

from genclf.arguments.module import Module, python_value, static
from genclf.arguments.sharding import compiled
from genclf.families.support import Support, nan_outside_support
from genclf.numerics.namespace import Array, namespace
from genclf.numerics.row_blocks import over_rows
from genclf.numerics.scores.linear import LinearScore
from genclf.sums.accumulate import dense_sums
from genclf.sums.blocks import ClassWeights, accumulate
from genclf.sums.class_sums import class_counts
from genclf.sums.sparse import HostRows, Sparse, SparseRows, is_sparse
from genclf.sums.statistics import Sums


def _vocab_size(given: object) -> int:
    given = python_value(given)
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise ValueError(f"vocab_size is {given!r}, expected the number of words, an integer >= 1")
    return given


class Tokens(Module):
    """Documents as padded sequences of word ids: the same data as counts, without the zeros.

    Attributes:
        ids: word ids in 0..vocab_size-1, shape (..., length).
        mask: which positions hold a word, shape (..., length).
        vocab_size: number of words V, >= 1.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> ids, lengths = jnp.array([[2, 0, 2], [1, 0, 0]]), jnp.array([3, 1])
        >>> gcf.Tokens.from_lengths(ids, lengths, vocab_size=4).counts().tolist()
        [[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    """

    ids: Int[Array, "*batch length"]
    mask: Bool[Array, "*batch length"]
    vocab_size: int = static(_vocab_size)

    @property
    def shape(self) -> tuple[Any, ...]:
        """(..., V), the shape of the counts; the number of rows may be symbolic."""
        return *self.ids.shape[:-1], self.vocab_size

    @classmethod
    def from_lengths(cls, ids: object, lengths: object, vocab_size: Any) -> Tokens:
        """Tokens in which the first `lengths[n]` ids of row n are words and the rest is padding.

        Args:
            ids: word ids, integers of shape (..., length); padding may hold any integer.
            lengths: number of words of each row, integers in 0..length, shape (...).
            vocab_size: number of words V, >= 1.

        Returns:
            `Tokens`; if a traced length is invalid, all ids of its row become invalid, so its
            scores are NaN.

        Raises:
            ValueError: not integers, shapes that do not fit, or a length outside 0..length.
        """
        ids, lengths = _integers(ids, "ids"), _integers(lengths, "lengths")
        if ids.ndim == 0 or lengths.shape != ids.shape[:-1]:
            raise ValueError(
                f"ids has shape {ids.shape} and lengths {lengths.shape}, expected (..., length) "
                "and (...): one length for each row of ids"
            )
        most = ids.shape[-1]
        invalid = (lengths < 0) | (lengths > most)
        if not isinstance(invalid, Tracer) and invalid.any():
            index = tuple(int(i) for i in np.argwhere(invalid)[0])
            where = f"[{', '.join(map(str, index))}]" if index else ""
            raise ValueError(
                f"lengths{where} is {lengths[index]}, expected 0..{most}: rows of ids have length "
                f"{most}"
            )
        position = jnp.broadcast_to(jnp.arange(most, dtype=lengths.dtype), ids.shape)
        invalid = jnp.broadcast_to(invalid[..., None], ids.shape)
        ids = jnp.where(invalid, -1, ids)
        return cls(ids, invalid | (position < lengths[..., None]), vocab_size)

    def counts(self) -> Float[Array, "*batch V"]:
        """Number of occurrences of every word, shape (..., V); NaN if an id is not a word."""
        return _counts(self)

    def distinct(self) -> Tokens:
        """Each word of a document once (in the order of the ids)."""
        ids = jnp.sort(jnp.where(self.mask, self.ids, jnp.iinfo(self.ids.dtype).max), axis=-1)
        repeated = jnp.pad(ids[..., 1:] == ids[..., :-1], [(0, 0)] * (ids.ndim - 1) + [(1, 0)])
        position = jnp.broadcast_to(jnp.arange(ids.shape[-1]), ids.shape)
        length = self.mask.sum(-1, keepdims=True)
        return Tokens(ids, (position < length) & ~repeated, self.vocab_size)


def _integers(given: object, name: str) -> Array:
    """An array of signed integers, of 32 bits or more."""
    if np.ma.isMaskedArray(given):
        raise ValueError(
            f"{name} is a masked array, expected an array of integers; genclf.Tokens takes ids "
            "with a mask, which is true where there is a word"
        )
    try:
        array = given if isinstance(given, jax.Array) else np.asarray(given)
    except ValueError as error:
        raise ValueError(f"{name} is not an array: {error}; pad the rows to one length") from error
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise ValueError(
            f"{name} is a {type(given).__name__} of dtype {array.dtype}, expected an array of "
            "integers"
        )
    dtype = jax.dtypes.canonicalize_dtype(np.int64 if array.dtype.itemsize == 8 else np.int32)
    if isinstance(array, np.ndarray):
        outside = array[(array < jnp.iinfo(dtype).min) | (array > jnp.iinfo(dtype).max)]
        if outside.size:  # JAX would wrap it around
            raise ValueError(f"{name} has {outside[0]}, expected integers that fit {dtype}")
        return jnp.asarray(np.array(array, dtype))  # a copy: the caller may change the array
    return array.astype(dtype)


@partial(compiled, batch_of=0)
def _counts(x: Tokens) -> Float[Array, "*batch V"]:
    flat = x.ids.reshape(math.prod(x.ids.shape[:-1]), x.ids.shape[-1])
    rows = jnp.arange(len(flat))[:, None]
    counts = jnp.zeros((len(flat), x.vocab_size), jnp.result_type(float))
    cell = x.mask.reshape(flat.shape).astype(counts.dtype)
    cell = jnp.where(valid_counts(x).reshape(flat.shape), cell, jnp.nan)
    counts = counts.at[rows, jnp.clip(flat, 0, x.vocab_size - 1)].add(cell)
    return counts.reshape(*x.ids.shape[:-1], x.vocab_size)


def is_dense(x: object) -> TypeGuard[Array]:
    """Whether x is an array with a cell for each column, so that cells may be missing."""
    return not (isinstance(x, Tokens) or is_sparse(x))


def valid_counts(x: Array | Tokens) -> Bool[Array, "..."]:
    """Which cells hold a count, or a word id."""
    if isinstance(x, Tokens):
        return ~x.mask | ((x.ids >= 0) & (x.ids < x.vocab_size))
    return (x >= 0) & namespace(x).isfinite(x)


COUNTS = Support(
    valid_counts, "a count >= 0 (or a word id in 0..vocab_size-1)", tokens=True, sparse=True
)


def counts_of(x: Any, presence: bool) -> Any:
    """The counts as floats, NaN where they are invalid; with `presence`, only 0 and 1.

    Sparse rows and tokens keep their form; with `presence`, tokens hold each word once.
    """
    xp = namespace(x)
    if isinstance(x, Tokens):
        return x.distinct() if presence else x
    if isinstance(x, Sparse):
        of_values: Any = _host_counts if isinstance(x, HostRows) else counts_of
        return x.with_values(lambda values: of_values(values, presence))
    x = nan_outside_support(x, COUNTS)
    return xp.where(xp.isnan(x), x, (x > 0).astype(x.dtype)) if presence else x


def _host_counts(values: np.ndarray, presence: bool) -> np.ndarray:
    if values.size and not (values.min() >= 0 and values.max() < np.inf):
        values = np.where((values >= 0) & (values < np.inf), values, np.nan)
    if not presence:
        return values
    return np.where(np.isnan(values), values, (values > 0).astype(np.float32))


def word_sums(x: Array | Tokens | Sparse, w: ClassWeights, presence: bool) -> Sums:
    """`Sums` of counts: the weight of each class, and the count of every word in it."""
    if isinstance(x, Sparse):
        return Sums(class_counts(w), counts_of(x, presence).sums(w))

    def of_tokens(x: Tokens, w: Array) -> Sums:
        x = counts_of(x, presence)
        w_cell = jnp.where(x.mask[..., None], w.T[:, None, :], 0)
        w_cell = jnp.where(valid_counts(x)[..., None] | (w_cell == 0), w_cell, jnp.nan)
        total = jnp.zeros((x.vocab_size, len(w)), w.dtype)
        return Sums(w.sum(1), total.at[jnp.clip(x.ids, 0, x.vocab_size - 1)].add(w_cell).T)

    if isinstance(x, Tokens):
        return accumulate(of_tokens, x, w, x.ids.shape[1] * w.shape[1])
    return accumulate(lambda x, w: dense_sums(counts_of(x, presence), w), x, w, x.shape[1])


def word_scores(score: LinearScore, x: Array | Tokens | Sparse, presence: bool) -> Any:
    """A linear score of counts."""
    if isinstance(x, Sparse):
        return score(counts_of(x, presence))
    if not isinstance(x, Tokens):
        return over_rows(lambda x: score(counts_of(x, presence)), x, 1, score.coef.shape[-1])
    table = jnp.where(score.veto > 0, -jnp.inf, score.coef).T

    def look_up(x: Tokens) -> Array:
        x = counts_of(x, presence)
        return jnp.where(x.mask[..., None], entries_of(x, table), 0).sum(-2)

    return over_rows(look_up, x, 1, x.ids.shape[-1] * table.shape[-1])


def entries_of(x: Tokens, table: Float[Array, "V K"]) -> Float[Array, "*batch length K"]:
    """The row of a table for each position of tokens; NaN for an id that is not a word."""
    return table.at[x.ids].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)


def lengths_of(x: Array | Tokens | SparseRows) -> Float[np.ndarray, "n"]:
    """`√(Σ_v x_v²)` of each row of counts, on the host."""
    if isinstance(x, SparseRows):
        values = np.square(np.asarray(x.values, float))
        return np.sqrt(np.bincount(np.asarray(x.rows), values, x.shape[0]))
    if not isinstance(x, Tokens):
        return np.linalg.norm(np.asarray(x, float), axis=1)
    rows = zip(np.asarray(x.ids), np.asarray(x.mask), strict=True)
    counts = [np.unique(ids[mask], return_counts=True)[1] for ids, mask in rows]
    return np.array([np.linalg.norm(own) for own in counts])


def presence_distance(x: Array | Tokens | SparseRows, seed: PyTree) -> Float[Array, "n"]:
    """1 - |A ∩ B| / √(|A| |B|), where A and B are the sets of words of a row and the seed."""
    sizes: tuple[Array, Array, Array]
    if isinstance(x, Tokens):
        here, rows = seed.counts() > 0, x.distinct()
        inside = here.at[rows.ids].get(mode="fill", fill_value=False, wrap_negative_indices=False)
        sizes = (rows.mask & inside).sum(1), rows.mask.sum(1), here.sum()
    elif isinstance(x, SparseRows):
        here = (seed > 0).astype(jnp.result_type(float))
        both = jnp.stack([here, jnp.ones_like(here)], 1)
        common, size = counts_of(x, presence=True).dot(both).T
        sizes = common, size, here.sum()
    else:
        present = x > 0
        sizes = (present & (seed > 0)[None]).sum(1), present.sum(1), (seed > 0).sum()
    common, size, own = (a.astype(jnp.result_type(float)) for a in sizes)
    return 1 - common / jnp.sqrt(jnp.maximum(size * own, 1))
