"""Kernel density estimates of the classes: a Gaussian kernel at every example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float, Int, PyTree, Shaped

from genclf.arguments.domains import FLAG, POSITIVE
from genclf.arguments.module import field, static
from genclf.arguments.parameters import Parameter
from genclf.covariance.magnitudes import Magnitudes, rounding_of
from genclf.covariance.scales import SCALES
from genclf.families.base import Density, Family, Scalar
from genclf.families.kernels.kernel_sums import RunningLogSumExp, best_log_multiplier, half_squares
from genclf.families.missing import MISSING, MayMiss, Missing
from genclf.families.of_classes import of_classes
from genclf.families.support import FINITE, Support, nan_outside_support
from genclf.numerics import loops
from genclf.numerics.logarithms import LOG_2PI
from genclf.numerics.namespace import Array
from genclf.numerics.row_blocks import broadcast_rows, over_rows
from genclf.numerics.sizes import at_most
from genclf.sums.blocks import ClassWeights, Hard, ignore_absent, map_weights, one_label_each
from genclf.sums.class_sums import class_counts
from genclf.sums.far import shrink_far_rows
from genclf.sums.statistics import Moments, divide
from genclf.sums.tiles import class_tiles
from genclf.sums.units import moments_in_units

_TILE = 512  # maximum rows of a tile


class KernelDensityParams(MayMiss, Density):
    """Kernel densities, as `KernelDensity.fit` returns them: the examples, sorted into tiles.

    A tile holds examples of one class, and others with weight 0 to fill it.

    Attributes:
        examples: shape (tiles, tile, d).
        weight: share of each example in its class, shape (tiles, tile); sums to 1 over a class.
        label: class of each tile, in non-decreasing order, shape (tiles,).
        bandwidth: standard deviations h_kj of the kernel, shape (K, d).
        missing: "marginalize" if a missing cell of the only feature is no evidence, else "error".
    """

    examples: Float[Array, "tiles tile d"]
    weight: Float[Array, "tiles tile"]
    label: Int[Array, "tiles"]
    bandwidth: Float[Array, "K d"]
    missing: Missing = static(default="error")

    @property
    def parameters(self) -> dict[str, Parameter]:
        return {"weight": Parameter("unit_interval"), "bandwidth": Parameter("positive")}

    def _problems(self) -> list[str]:
        batch, count = self.bandwidth.shape[:-2], self.bandwidth.shape[-2]
        label = np.asarray(self.label).reshape(-1, self.label.shape[-1])
        weight = np.asarray(self.weight, float).sum(-1).reshape(label.shape)
        if not ((label >= 0) & (label < count)).all() or (np.diff(label) < 0).any():
            return [f"label is not in order from 0 to {count - 1}"]
        number = label + count * np.arange(len(label))[:, None]
        total = np.bincount(number.ravel(), weight.ravel(), count * len(label))
        error = np.abs(total - 1).reshape(*batch, count)
        return ["weight has a sum other than 1 in a class"] if (error > 1e-3).any() else []

    @property
    def support(self) -> Support:
        return self.allowing(FINITE)

    @property
    def num_features(self) -> int:
        return self.bandwidth.shape[-1]

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log Σ_n w_nk / n_k Π_j N(x_j; x_nj, h_kj²)`; -inf if all distances overflow."""
        common = SCALES["diag"].log_determinants(self.bandwidth, self.num_features)[1]
        constant = common + 0.5 * self.num_features * LOG_2PI
        return self._where_seen(lambda x: self._scores(x, compared=False) - constant, x)

    def discriminant(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log_prob` with each h_kj relative to its mean over the classes, and without 2π."""
        return self._where_seen(lambda x: self._scores(x, compared=True), x)

    def _where_seen(self, score: Callable[[Array], Array], x: Array) -> Array:
        """The scores, 0 for a row whose cell is missing."""
        if not self.may_miss:
            return score(x)
        seen = self.seen(x)
        return jnp.where(seen.all(-1)[..., None], score(jnp.where(seen, x, 0)), 0)

    def _scores(self, x: Array, *, compared: bool) -> Float[Array, "*batch K"]:
        own = SCALES["diag"].log_determinants(self.bandwidth, self.num_features)[0]
        one = jnp.ones(1, self.bandwidth.dtype)
        inverse = 1 / self.bandwidth

        def rows(x: Array) -> Array:
            x = nan_outside_support(x, FINITE).astype(self.bandwidth.dtype)
            score = scores(x)
            if not compared:
                return score
            # If all densities of a row underflow, those of the row shrunk towards 0 decide.
            underflow = jnp.isneginf(score).all(1)
            again = lambda: scores(shrink_far_rows(x, self.bandwidth))  # noqa: E731
            return loops.unlikely(underflow.any(), again, lambda: score)

        def scores(x: Array) -> Array:
            x = x.T

            def step(seen: RunningLogSumExp, tile: tuple) -> tuple[RunningLogSumExp, None]:
                examples, weight, k = tile
                half = half_squares(x, examples, inverse[k])
                own = jax.tree.map(lambda a: a[k], seen).update(half, weight, one)
                return jax.tree.map(lambda a, new: a.at[k].set(new), seen, own), None

            none = RunningLogSumExp.empty(x, inverse, 1)
            tiles = (self.examples, self.weight, self.label)
            seen = loops.scan(jax.checkpoint(step), none, tiles)[0]
            score = jax.vmap(lambda seen: seen.log_sum(one)[0], out_axes=1)(seen)
            invalid = jnp.isnan(x).any(0)[:, None]
            return jnp.where(invalid, jnp.nan, score - broadcast_rows(own, score))

        # A derivative recomputes a block instead of storing its distances.
        return over_rows(jax.checkpoint(rows), x, 1, self.weight.shape[-1])

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Float[Array, "*shape d"]:
        """An example of class y, drawn by weight, plus `h_y ε` with standard normal ε."""
        key_example, key_noise = jax.random.split(key)
        dtype, d = self.bandwidth.dtype, self.num_features
        # Shares sum to 1 in a class, and classes are in order, so the cumulative sum of the shares
        # runs from k to k+1 in class k.
        per_tile = self.weight.shape[-1]
        first = jnp.searchsorted(self.label, jnp.arange(len(self.bandwidth) + 1)) * per_tile
        level = y.astype(dtype) + jax.random.uniform(key_example, y.shape, dtype)
        row = jnp.searchsorted(jnp.cumsum(self.weight.ravel()), level, side="right")
        row = jnp.clip(row, first[y], first[y + 1] - 1)
        noise = jax.random.normal(key_noise, (*y.shape, d), dtype)
        return self.examples.reshape(-1, d)[row] + self.bandwidth[y] * noise


@jax.tree_util.register_static
class _Rule(str):
    """The name of a rule: a static part of the pytree, whereas a number is a leaf."""


_BANDWIDTH = replace(
    POSITIVE,
    expected="scott, silverman or a finite number > 0",
    contains=lambda given: (
        given in ("scott", "silverman") if isinstance(given, str) else POSITIVE.contains(given)
    ),
)


@of_classes.register
def _(given: KernelDensityParams, index: Int[np.ndarray, "_"]) -> KernelDensityParams:
    # Examples of other classes stay, with weight 0.
    to = np.full(given.bandwidth.shape[-2], -1, given.label.dtype)
    to[index] = np.arange(len(index))
    label = jnp.asarray(to)[given.label]
    weight = jnp.where(label[..., None] < 0, 0, given.weight)
    label = jnp.where(label < 0, len(index) - 1, label)
    order = jnp.argsort(label, -1)
    return KernelDensityParams.of_fields(
        examples=jnp.take_along_axis(given.examples, order[..., None, None], -3),
        weight=jnp.take_along_axis(weight, order[..., None], -2),
        label=jnp.take_along_axis(label, order, -1),
        bandwidth=jnp.take(given.bandwidth, index, axis=-2),
        missing=given.missing,
    )


class KernelDensity(MayMiss, Family):
    """Kernel density estimates: every example of the class is the centre of a Gaussian kernel.

    `p(x | y=k) = Σ_n w_nk / n_k Π_j N(x_j; x_nj, h_kj²)`, n_k the weight of the class. Bandwidths
    are relative, `h_kj = f_k s_kj`: s_kj is the maximum-likelihood standard deviation of feature j
    in class k (divisor n_k), so that units do not matter, and the factor is::

        bandwidth      f_k
        "scott"        m_k^(-1/(d+4))
        "silverman"    (m_k (d+2)/4)^(-1/(d+4))
        a number       that number

    m_k is the effective number of examples, `(Σ_n w_nk)² / Σ_n w_nk²` (Kish). It is the number of
    rows if all have the same weight, and less if few rows have most of the weight. So a row of
    weight 2 differs from a row that occurs twice, for which these rules give narrower kernels; with
    a number as the bandwidth the two are the same.

    A feature that is constant in a class, as with one example, takes its pooled within-class
    deviation. A class without weight gets one kernel at the mean of all examples: its prior is
    zero, so it only has to be finite.

    The examples are the parameters. So statistics cannot be merged, `fit` is the only way to fit,
    and memory and the cost of a prediction grow with the number of examples.
    `KernelDensity()` models all features together; `Independent(KernelDensity())` is naive Bayes,
    one density per column.

    Args:
        bandwidth: "scott", "silverman" or a factor > 0.
        leave_one_out: multiply each f_k by the number between 1/22 and 22 that maximises
            `Σ_n w_nk log p_{-n}(x_n | k)`, where p_{-n} is the density of the class without row n
            (a weighted row is left out entirely). The number is accurate to half a percent, and
            derivatives treat it as a constant. Rows should differ: the narrowest kernel explains a
            repeated row best, so many repeated rows push the multiplier to its lower end. Give a
            row more weight instead of repeating it.
        missing: "marginalize" takes NaN for a missing cell, which is no example of its class in a
            fit, and has density 1 in a score. It is for one feature, so for
            `Independent(KernelDensity(missing="marginalize"))`; "error" does not allow it.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.KernelDensity(), num_classes=2)
        >>> x = jnp.array([[0.0], [1.0], [8.0], [9.0], [4.0], [5.0]])
        >>> params = gcf.fit(clf, x, jnp.array([0, 0, 0, 0, 1, 1]))
        >>> print(gcf.predict(params, jnp.array([[0.5], [4.4], [8.5]])))
        [0 1 0]

    References:
        Scott (1992), Multivariate Density Estimation, §6.3.1 and eq. 6.42; Silverman (1986),
        Density Estimation, §3.4.4 (leave-one-out likelihood) and eq. 4.14; Kish (1965), Survey
        Sampling, §11.7; SciPy's `gaussian_kde` has the same effective number.
    """

    domains: ClassVar = {"bandwidth": _BANDWIDTH, "leave_one_out": FLAG, "missing": MISSING}

    bandwidth: Scalar | str = field(
        default="scott", converter=lambda b: _Rule(b) if isinstance(b, str) else b
    )
    leave_one_out: bool = static(default=False)
    missing: Missing = static(default="error")

    @property
    def support(self) -> Support:
        return self.allowing(FINITE)

    def problems(self, d: PyTree[int] | None = None) -> list[str]:
        if self.may_miss and isinstance(d, int) and d > 1:
            return [
                f'missing="marginalize" is for one feature, got {d}: wrap the family in Independent'
            ]
        return []

    def fit(self, x: Shaped[Array, "n d"], w: ClassWeights) -> KernelDensityParams:
        """The examples of each class, their shares of its weight, and the bandwidths."""
        if self.may_miss:
            seen = self.seen(x).all(1)
            x = jnp.where(seen[:, None], x, 0)
            w = map_weights(lambda a: jnp.where(seen.reshape(-1, *[1] * (a.ndim - 1)), a, 0), w)
        count, (scaled, unit) = class_counts(w), moments_in_units(x, w)
        magnitudes = Magnitudes(scaled)
        empty = count == 0
        count = jnp.where(empty, 1, count)
        deviation = unit[None] * jnp.sqrt(_variances(scaled, magnitudes))
        size = jnp.where(empty, 1, _effective_number(w))
        bandwidth = self._factor(size, x.shape[1])[:, None] * deviation

        num_classes, dtype = len(count), count.dtype
        rows = jnp.concatenate([x.astype(dtype), (unit * magnitudes.mean)[None]])
        # With responsibilities a class has a copy of each row. An empty class has row n, the mean.
        row, own = one_label_each(jnp.arange(x.shape[0]), w)
        row = jnp.append(row, jnp.full(num_classes, x.shape[0]))
        label = jnp.append(own.label, jnp.arange(num_classes, dtype=own.label.dtype))
        weight = jnp.append(own.weight, empty.astype(dtype))
        share = max(1, at_most(row.shape[0], 8 * num_classes * _TILE) // (8 * num_classes))
        num_tiles, tile_of = class_tiles(
            Hard(label, weight, num_classes), max(1 << (share.bit_length() - 1), 16)
        )

        def tile(t: Array) -> tuple[Array, Array, Array]:
            k, indices, weight = tile_of(t)
            return ignore_absent(rows[row[indices]], weight != 0), weight / count[k], k

        tiles = jax.vmap(tile)(jnp.arange(num_tiles))
        params = KernelDensityParams(*tiles, bandwidth, self.missing)
        if not self.leave_one_out:
            return params
        multiplier = jnp.exp(best_log_multiplier(*lax.stop_gradient(jax.tree.leaves(params))))
        return replace(params, bandwidth=multiplier[:, None] * bandwidth)

    def _factor(self, size: Float[Array, "K"], d: int) -> Float[Array, "K"]:
        if not isinstance(self.bandwidth, str):
            return jnp.full_like(size, self.bandwidth)
        size = size if self.bandwidth == "scott" else size * (d + 2) / 4
        return size ** (-1 / (d + 4))


def _effective_number(w: ClassWeights) -> Float[Array, "K"]:
    """`(Σ_n w_nk)² / Σ_n w_nk²`; 0 for a class without weight."""
    # Weights are taken relative to the largest: squares neither overflow nor all underflow.
    w = map_weights(lambda a: divide(a, lax.stop_gradient(a.max(initial=0))), w)
    return divide(class_counts(w) ** 2, class_counts(map_weights(jnp.square, w)))


def _variances(size: Moments, magnitudes: Magnitudes) -> Float[Array, "K d"]:
    """Maximum-likelihood variances; pooled within-class ones where these are rounding error."""
    own = divide(size.scatter, size.count[:, None])
    # As in `Gaussian`: the variance of a feature that is constant over all data is its square.
    square = jnp.where(magnitudes.square == 0, 1, magnitudes.square)
    other = jnp.where(magnitudes.no_spread, square, magnitudes.typical)
    rounding = magnitudes.no_spread[None] | (own <= rounding_of(magnitudes.square_of_class))
    return jnp.where(rounding, other[None], own)
