"""Sums of Gaussian kernels over tiles of examples, and the bandwidth by leave-one-out.

They cost one exponential for each pair of rows, and no array exceeds (tile, rows of a block).
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, Int

from genclf.arguments.module import Module
from genclf.numerics import loops
from genclf.numerics.logarithms import safe_log
from genclf.numerics.namespace import Array
from genclf.numerics.row_blocks import zeros_as

_UNROLLED = 8  # features added without writing the distances back to memory


def half_squares(
    x: Float[Array, "d m"], examples: Float[Array, "tile d"], inverse: Float[Array, "d"]
) -> Float[Array, "tile m"]:
    """`½ Σ_j ((x_jm - example_j) · inverse_j)²`, not expanded: expanded squares would cancel.

    Features are the first axis of x, so that the arithmetic is vectorised over rows.
    """
    # The compiler may recompute the result for each use, and fuse a product and a sum into one
    # rounding. The last product is by a power of two, which is exact, so all uses get the same
    # number.

    def add(total: Array, feature: tuple[Array, Array, Array]) -> tuple[Array, None]:
        of_x, of_example, scale = feature
        z = (of_x[None, :] - of_example[:, None]) * scale
        return total + z * z, None

    def zeros(x: Array, examples: Array) -> Array:
        return x[:1] + examples[:, :1]

    features = (x, examples.T, inverse)
    unroll = min(len(x), _UNROLLED)
    return 0.5 * loops.scan(add, zeros_as(zeros, x, examples), features, unroll=unroll)[0]


class RunningLogSumExp(Module):
    """A running log-sum-exp over examples, for each row and for G multipliers of the bandwidth.

    Attributes:
        nearest: half the squared distance of the nearest example, (..., rows).
        total: `Σ_n w_n exp(sharpness · (nearest - half_n))`, (..., G, rows).
    """

    nearest: Float[Array, "*classes m"]
    total: Float[Array, "*classes G m"]

    @classmethod
    def empty(
        cls, x: Float[Array, "d m"], inverse: Float[Array, "*classes d"], num_kernels: int
    ) -> RunningLogSumExp:
        """The sum over no examples, for classes with these inverse bandwidths."""

        def zeros(x: Array, inverse: Array) -> RunningLogSumExp:
            shape = (*inverse.shape[:-1], num_kernels, x.shape[1])
            nearest = jnp.broadcast_to(x[0], (*shape[:-2], shape[-1])) + inverse[..., :1]
            return cls(nearest, jnp.broadcast_to(nearest[..., None, :], shape))

        zero = zeros_as(zeros, x, inverse)
        return cls(zero.nearest + jnp.inf, zero.total)

    def update(
        self,
        half: Float[Array, "tile m"],
        weight: Float[Array, "tile"],
        sharpness: Float[Array, "G"],
    ) -> RunningLogSumExp:
        """Add a tile of weighted examples."""
        weight = weight[:, None]
        present = jnp.where(weight > 0, lax.stop_gradient(half), jnp.inf)
        nearest = jnp.minimum(self.nearest, present.min(0))
        reference = jnp.where(jnp.isposinf(nearest), 0, nearest)
        closer, before = reference[None] - half, reference - self.nearest
        # Only an example of weight 0 can be nearer than `nearest`. The bound keeps 0 · exp at 0 and
        # the derivative by that weight finite. There is one sum for each kernel, since XLA does not
        # vectorise a sum over the middle of three axes.
        total = [
            total * jnp.exp(s * before) + (weight * jnp.exp(jnp.minimum(s * closer, 40))).sum(0)
            for total, s in zip(self.total, sharpness, strict=True)
        ]
        return RunningLogSumExp(nearest, jnp.stack(total))

    def log_sum(self, sharpness: Float[Array, "G"]) -> Float[Array, "G m"]:
        """`log Σ_n w_n exp(-sharpness · half_n)`; the derivative by `nearest` cancels."""
        return safe_log(self.total) - sharpness[:, None] * self.nearest[None]


def leave_one_out(
    examples: Float[Array, "tiles tile d"],
    weight: Float[Array, "tiles tile"],
    label: Int[Array, "tiles"],
    bandwidth: Float[Array, "K d"],
    log_multiplier: Float[Array, "G K"],
) -> Float[Array, "G K"]:
    """`Σ_n w_nk log p_{-n}(x_n | k)` for multiplied bandwidths, up to a term without multipliers.

    The sum leaves out rows that are alone in their class, since they have no such density.
    """
    (num_tiles, tile, d), inverse = examples.shape, 1 / bandwidth

    def add_rows(total: Array, t: Array) -> tuple[Array, None]:
        x, k = examples[t].T, label[t]
        sharpness = jnp.exp(-2 * log_multiplier[:, k])

        def add_examples(seen: RunningLogSumExp, u: Array) -> tuple[RunningLogSumExp, None]:
            def update(seen: RunningLogSumExp) -> RunningLogSumExp:
                itself = (t == u) & jnp.eye(tile, dtype=bool)
                half = jnp.where(itself, jnp.inf, half_squares(x, examples[u], inverse[k]))
                return seen.update(half, weight[u], sharpness)

            return loops.cond(label[u] == k, update, lambda seen: seen, seen), None

        none = RunningLogSumExp.empty(x, inverse[k], len(sharpness))
        seen = loops.scan(add_examples, none, jnp.arange(num_tiles))[0]
        score = seen.log_sum(sharpness) - d * log_multiplier[:, k][:, None]
        counted = (weight[t] > 0) & ~jnp.isposinf(seen.nearest)
        sums = jnp.where(counted[None], weight[t][None] * score, 0).sum(1)
        return total.at[:, k].add(sums), None

    zero = zeros_as(lambda a, b: a + b[None, :, 0], log_multiplier, bandwidth)
    return loops.scan(add_rows, zero, jnp.arange(num_tiles))[0]


def best_log_multiplier(
    examples: Float[Array, "tiles tile d"],
    weight: Float[Array, "tiles tile"],
    label: Int[Array, "tiles"],
    bandwidth: Float[Array, "K d"],
) -> Float[Array, "K"]:
    """The maximiser of `leave_one_out`, on a grid of powers of 2 around 1 and 4 finer grids."""
    # The centre comes first, so it is taken if all scores are equal.
    grid = jnp.array([0, 1, -1, 2, -2, 3, -3], bandwidth.dtype)

    def refine(centre: Array, step: Array) -> tuple[Array, None]:
        tried = centre[None] + step * grid[:, None]
        score = leave_one_out(examples, weight, label, bandwidth, tried)
        return centre + step * grid[score.argmax(0)], None

    steps = math.log(2) / 3.0 ** jnp.arange(5, dtype=bandwidth.dtype)
    return loops.scan(refine, jnp.zeros_like(bandwidth[:, 0]), steps)[0]
