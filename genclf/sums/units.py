"""Moments in units that are powers of two, so that squares neither overflow nor underflow."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, Shaped

from genclf.numerics.logarithms import power_of_two
from genclf.numerics.namespace import Array
from genclf.sums.accumulate import moments
from genclf.sums.blocks import ClassWeights, ignore_absent, merge_over_blocks, row_weights
from genclf.sums.statistics import Moments


def moments_in_units(x: Shaped[Array, "n d"], w: ClassWeights) -> tuple[Moments, Float[Array, "d"]]:
    """Diagonal moments of `x / unit`, and the unit of each column: about its largest magnitude.

    In float32 the squares of numbers below 1e-19 underflow, and those of numbers above 1e19
    overflow. Multiplication by a power of two is exact, so data of ordinary magnitude give the same
    result as without units.
    """
    weight = row_weights(w)
    cells = ignore_absent(lax.stop_gradient(x).astype(weight.dtype), weight != 0)
    largest = jnp.abs(jnp.where(jnp.isfinite(cells), cells, 0)).max(0, initial=0)
    unit, inverse = power_of_two(largest)

    def block(x: Array, w: ClassWeights) -> Moments:
        return moments(x.astype(weight.dtype) * inverse[None], w, full=False)

    return merge_over_blocks(block, x, w, x.shape[1]), unit
