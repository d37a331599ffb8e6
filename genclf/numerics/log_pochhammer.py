"""Sums over words of `log (a)_x = log a (a+1) … (a+x-1)`, at about the cost of a linear score."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import digamma
from jaxtyping import Float

from genclf.numerics import loops
from genclf.numerics.logarithms import log_pochhammer
from genclf.numerics.namespace import Array, matmul

# How many words are corrected for counts > 1: the smallest that holds all of them, or every word.
_WIDTHS = (128, 1024)
_CHUNK = 8  # words scored together
_COUNTS = 16  # length of the table with many words; longer with few words
_TABLE_ROWS = 2**13


def rising_table(a: Float[Array, "K V"], num_rows: int) -> Float[Array, "K V counts"]:
    """`log (a_kj)_x - x log a_kj` for x = 0, 1, …; fewer x for few rows."""
    size = min(max(_COUNTS, _TABLE_ROWS // a.shape[1]), num_rows // 4)
    earlier = jnp.maximum(jnp.arange(max(size, 2), dtype=a.dtype) - 1, 0)
    return jnp.cumsum(jnp.log1p(earlier[None, None] / a[..., None]), -1)


@jax.custom_jvp
def log_rising_sums(
    x: Float[Array, "n V"], a: Float[Array, "K V"], table: Float[Array, "K V counts"]
) -> Float[Array, "n K"]:
    """`Σ_j log (a_kj)_x_nj`, for `table = rising_table(a, num_rows)`.

    The sum is linear in x where x is 0 or 1, as nearly all counts of a text are: this part is one
    matmul. The remaining term of another count is looked up in the table, or computed if the count
    is large, fractional or NaN, and only for words that have such a count in the block of rows.
    """
    return _sums(x, a, table)


def _jvp(
    primals: tuple[Array, ...], tangents: tuple[Array | np.ndarray | SymbolicZero, ...]
) -> tuple[Array, Array]:
    x, a, table = primals
    dx, *rest = tangents
    rest = [jnp.zeros(t.shape, t.dtype) if isinstance(t, SymbolicZero) else t for t in rest]
    out, change = jax.jvp(lambda a, table: _sums(x, a, table), (a, table), tuple(rest))
    if not isinstance(dx, SymbolicZero):
        # `_sums` looks counts up in a table, so the derivative by x is computed here.
        of_class = lambda a: (digamma(jnp.broadcast_to(a, x.shape) + x) * dx).sum(-1)  # noqa: E731
        change = change + lax.map(of_class, a).T
    return out, change


log_rising_sums.defjvp(_jvp, symbolic_zeros=True)


@jax.checkpoint
def _sums(x: Array, a: Array, table: Array) -> Array:
    whole = (x >= 0) & (x == jnp.floor(x))
    largest = jnp.where(whole, x, jnp.inf).max(0, initial=0)
    repeated, num_words = (largest > 1).sum(), x.shape[1]
    widths = [*(w for w in _WIDTHS if w < num_words), num_words]
    which = sum((repeated > w).astype(jnp.int32) for w in widths[:-1])
    branches = [lambda *of, w=w: _add_nonlinear(w, *of) for w in widths]
    linear = matmul(x, jnp.log(a).T)
    return loops.switch(jnp.asarray(which), branches, linear, largest, x, a, table)


def _add_nonlinear(
    width: int, score: Array, largest: Array, x: Array, a: Array, table: Array
) -> Array:
    """Add `Σ_j log (a_kj)_x_nj - x_nj log a_kj` over the `width` words with the largest counts."""
    chunk, counts = min(_CHUNK, width), table.shape[-1]
    first, words = lax.top_k(largest, width)
    fill = -width % chunk
    first = jnp.pad(first, (0, fill)).reshape(-1, chunk)[:, 0]
    words = jnp.pad(words, (0, fill), constant_values=x.shape[1]).reshape(-1, chunk)

    def in_chunks(of: Array, value: int) -> Array:
        return jnp.moveaxis(of.at[:, words].get(mode="fill", fill_value=value), 1, 0)

    def unchanged(score: Array, x: Array, a: Array, table: Array) -> Array:
        return score

    def look_up(score: Array, x: Array, a: Array, table: Array) -> Array:
        # Flat positions, class by class: the fastest form of this gather.
        at = counts * jnp.arange(chunk, dtype=jnp.int32)[None] + x.astype(jnp.int32)
        return score + lax.map(lambda t: t.reshape(-1)[at].sum(-1), table).T

    def compute(score: Array, x: Array, a: Array, table: Array) -> Array:
        def of_class(a: Array) -> Array:
            a = jnp.broadcast_to(a, x.shape)
            return (log_pochhammer(a, x) - x * jnp.log(a)).sum(-1)

        return score + lax.map(of_class, a).T

    @jax.checkpoint
    def step(score: Array, of: tuple[Array, ...]) -> tuple[Array, None]:
        largest, *rest = of
        how = (largest > 1).astype(jnp.int32) + (largest >= counts).astype(jnp.int32)
        return loops.switch(how, [unchanged, look_up, compute], score, *rest), None

    parts = (first, in_chunks(x, 0), in_chunks(a, 1), in_chunks(table, 0))
    return loops.scan(step, score, parts)[0]
