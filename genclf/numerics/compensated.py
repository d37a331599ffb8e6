"""Compensated summation: a second float keeps the rounding error of each float32 sum.

A sum is held as `high + low`, where |low| is at most half a unit in the last place of high.
Derivatives are those of plain sums: they go through `high` alone.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from genclf.numerics.loops import scan, zeros_like
from genclf.numerics.namespace import Array, namespace

_LARGE = 2**24  # numbers from which sums are added up one by one

Pair = tuple[Array, Array]
"""A number as high and low."""
Low = tuple[Array, ...] | None
"""The low parts of several sums; None where the dtype needs none."""


def zero_low(*sums: Any) -> Low:
    """Low parts of 0 for float32 sums; None for others, since float64 counts exactly to 2⁵³."""
    for a in sums:
        if getattr(a, "dtype", None) != np.float32:
            return None
    return tuple(zeros_like(a) for a in sums)


def add(a: Array, low_a: Array, b: Array, low_b: Array) -> tuple[Array, Array]:
    """`(a + low_a) + (b + low_b)`, as high and low.

    References:
        Knuth (1998), The Art of Computer Programming 2, §4.2.2, theorem B ("two-sum").
    """
    total = a + b
    of_b = total - a
    rounded_off = (a - (total - of_b)) + (b - of_b)
    return _normalised(total, rounded_off + low_a + low_b)


def single(high: Array) -> Pair:
    """A number without a low part."""
    xp = namespace(high)
    return high, xp.zeros_like(high)


def add_to(total: Pair, more: Array | Pair) -> Pair:
    """The sum of a pair and a number, or another pair; in float64 the low part does not change."""
    high, low = more if isinstance(more, tuple) else single(more)
    if high.dtype != np.float32:
        return total[0] + high, total[1]
    return add(*total, high, low)


def rounded(pair: Pair) -> Array:
    """The sum of high and low."""
    return pair[0] + pair[1]


def add_each(
    a: tuple[Array, ...], low_a: Low, b: tuple[Array, ...], low_b: Low
) -> tuple[tuple[Array, ...], Low]:
    """`add` for each of several sums."""
    if low_a is None or low_b is None:
        return tuple(x + y for x, y in zip(a, b, strict=True)), None
    pairs = [add(*each) for each in zip(a, low_a, b, low_b, strict=True)]
    return tuple(high for high, _ in pairs), tuple(low for _, low in pairs)


def pairwise_sum(a: Array, low: Array) -> tuple[Array, Array]:
    """The sum over the first axis: pairwise, or one by one if a copy of half of it is large."""
    if a.size > _LARGE:
        one_by_one = lambda total, more: (add(*total, *more), None)  # noqa: E731
        zero = jnp.zeros_like(a[0])
        return scan(one_by_one, (zero, zero), (a, low))[0]
    while len(a) > 1:
        half = len(a) // 2
        left, right = (
            jax.tree.map(lambda leaf: leaf[rows], (a, low))  # noqa: B023
            for rows in (slice(half), slice(half, 2 * half))
        )
        both = add(left[0], left[1], right[0], right[1])
        rest = (a[2 * half :], low[2 * half :])
        a, low = (jnp.concatenate(each) for each in zip(both, rest, strict=True))
    return a.sum(0), low.sum(0)


def over_axis(a: Array, low: Array, name: str) -> tuple[Array, Array]:
    """The sum over a named axis."""
    return _normalised(lax.psum(a, name), lax.psum(low, name))


def _normalised(total: Array, low: Array) -> tuple[Array, Array]:
    low = lax.stop_gradient(low)
    high = total + low
    return high, lax.stop_gradient(low - (high - total))
