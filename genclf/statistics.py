"""Sufficient statistics: small pytrees that add up.

Two kinds carry every closed-form family. `Sums` holds plain totals; `Moments` holds centred
second moments, because raw ones cancel in float32. Composite statistics (a classifier's, a
product's) are pytrees whose nodes are these two, and the three verbs below map over them.
All formulas act on trailing axes, so statistics with leading batch axes (from `jax.vmap`) work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

T = TypeVar("T")


class Sums(eqx.Module):
    """Weighted totals per class: `count_k = Σ_n w_nk` and `total_k = Σ_n w_nk f(x_n)`.

    Attributes:
        count: total weight of each class, shape (..., K).
        total: summed features of each class, shape (..., K) and the features.
    """

    count: Float[Array, "*batch_K"]
    total: Float[Array, "*batch_K_features"]

    def _merge(self, other: Sums) -> Sums:
        return Sums(self.count + other.count, self.total + other.total)

    def _negate(self) -> Sums:
        return Sums(-self.count, -self.total)

    def _pool(self, add: Callable[[Array], Array]) -> Sums:
        return Sums(add(self.count), add(self.total))


class Moments(eqx.Module):
    """Weighted count, mean and scatter per class, centred.

    `mean_k = Σ_n w_nk x_n / count_k`; `scatter_k = Σ_n w_nk (x_n - mean_k)(x_n - mean_k)ᵀ`, or
    its diagonal. The scatter is a sum, not an average: no divisor has been applied.

    Attributes:
        count: total weight of each class, shape (..., K); or, where cells are missing, of the cells
            of each feature that are not, (..., K, d), with a diagonal scatter.
        mean: shape (..., K, d); 0 for a class without weight.
        scatter: shape (..., K, d, d), or (..., K, d) for the diagonal alone.
    """

    count: Float[Array, "*batch_K_or_K_d"]
    mean: Float[Array, "*batch_K_d"]
    scatter: Float[Array, "*batch_K_d_or_d_d"]

    @property
    def is_full(self) -> bool:
        """Whether the scatter holds whole matrices rather than diagonals."""
        return self.scatter.ndim > self.mean.ndim

    @property
    def diagonal(self) -> Float[Array, "*batch_K_d"]:
        """Diagonal of the scatter, shape (..., K, d)."""
        return jnp.diagonal(self.scatter, axis1=-2, axis2=-1) if self.is_full else self.scatter

    @property
    def of_cells(self) -> bool:
        """Whether every feature has a count of its own."""
        return self.count.ndim == self.mean.ndim

    def per_feature(self, weight: Array) -> Array:
        """A number of the form of the count, for each feature: (..., K, 1) or (..., K, d)."""
        return weight if self.of_cells else weight[..., None]

    def outer(self, weight: Array, deviation: Array) -> Array:
        """`weight · deviation deviationᵀ`, in the form of this scatter."""
        left = self.per_feature(weight) * deviation
        return left[..., :, None] * deviation[..., None, :] if self.is_full else left * deviation

    def _merge(self, other: Moments) -> Moments:
        # Chan, Golub & LeVeque (1983), with δ = m_b - m_a:
        # m = m_a + δ n_b / n;  S = S_a + S_b + δδᵀ n_a n_b / n
        count = self.count + other.count
        share = divide(other.count, count)
        delta = other.mean - self.mean
        mean = self.mean + self.per_feature(share) * delta
        scatter = self.scatter + other.scatter + self.outer(self.count * share, delta)
        return Moments(count, mean, scatter)

    def _negate(self) -> Moments:
        return Moments(-self.count, self.mean, -self.scatter)

    def _pool(self, add: Callable[[Array], Array]) -> Moments:
        count = add(self.count)
        weight, total = self.per_feature(self.count), self.per_feature(count)
        centre = divide(add(weight * self.mean), total)
        # The centre just found has rounded; one pass over the centred means corrects its drift.
        deviation = self.mean - jnp.broadcast_to(centre, self.mean.shape)
        drift = divide(add(weight * deviation), total)
        spread = add(self.scatter + self.outer(self.count, deviation))
        return Moments(count, centre + drift, spread - self.outer(count, drift))


def divide(numerator: Array, denominator: Array) -> Array:
    """`numerator / denominator`, and 0 with gradient 0 where the denominator is 0."""
    empty = denominator == 0
    return jnp.where(empty, 0, numerator / jnp.where(empty, 1, denominator))


def num_features(stats: PyTree) -> PyTree[int]:
    """Last axis of what each statistic sums: for most families the number of features."""
    last = lambda s: (s.total if isinstance(s, Sums) else s.mean).shape[-1]  # noqa: E731
    return jax.tree.map(last, stats, is_leaf=_is_statistic)


def _is_statistic(node: object) -> bool:
    return isinstance(node, Sums | Moments)


def merge(a: T, b: T) -> T:
    """Statistics of two disjoint sets of examples together: S(A ∪ B) = S(A) + S(B).

    Associative and commutative up to rounding. `Moments` merge by the rule of Chan, Golub and
    LeVeque, which subtracts no raw moments.

    Args:
        a: statistics, as returned by `genclf.stats`.
        b: statistics of the same model on other examples.

    Returns:
        The statistics of all examples.

    Raises:
        ValueError: the two are of different models.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=1)
        >>> x, y = jnp.array([[0.0], [2.0], [4.0]]), jnp.zeros(3, int)
        >>> s = gcf.merge(gcf.stats(clf, x[:1], y[:1]), gcf.stats(clf, x[1:], y[1:]))
        >>> print(s.conditional.mean, s.conditional.scatter)
        [[2.]] [[8.]]

    References:
        Chan, Golub & LeVeque (1983), "Algorithms for computing the sample variance", eq. 2.1.
    """
    if _outline(a) != _outline(b):
        raise ValueError(
            f"statistics of different models cannot be merged: {_outline(a)} and {_outline(b)}"
        )
    return jax.tree.map(lambda s, t: s._merge(t), a, b, is_leaf=_is_statistic)


def _outline(stats: PyTree) -> str:
    """The kinds of statistics in a pytree, with the shapes of their arrays."""
    nodes = jax.tree.leaves(stats, is_leaf=_is_statistic)
    return ", ".join(
        f"{type(s).__name__}{[jnp.shape(leaf) for leaf in jax.tree.leaves(s)]}" for s in nodes
    )


def remove(a: T, b: T) -> T:
    """Statistics of the examples of `a` without those of `b`: the inverse of `merge`.

    Closed form of leave-one-out and of unlearning. It subtracts, so it loses the digits that `b`
    shares with `a`; where the complement is at hand (cross-validation), merge that instead.

    Args:
        a: statistics of a set of examples.
        b: statistics of a subset of them.

    Returns:
        The statistics of the rest.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=1)
        >>> x, y = jnp.array([[0.0], [2.0], [7.0]]), jnp.zeros(3, int)
        >>> s = gcf.remove(gcf.stats(clf, x, y), gcf.stats(clf, x[2:], y[2:]))
        >>> print(s.count, s.conditional.mean)
        [2.] [[1.]]
    """
    return merge(a, jax.tree.map(lambda s: s._negate(), b, is_leaf=_is_statistic))


def pool(stats: T, axis: int | str = 0) -> T:
    """All of a batch of statistics merged in one step.

    Args:
        stats: statistics with a batch axis, as from `jax.vmap(genclf.stats, ...)`; or, inside
            `jax.shard_map` or `jax.vmap` with a named axis, this member's statistics.
        axis: the batch axis counted from the front, or the name of a mapped or mesh axis.

    Returns:
        The statistics of all members together, without the batch axis; with a named axis,
        the same value on every member.

    Example:
        >>> import jax, jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=2)
        >>> x, y = jnp.arange(12.0).reshape(3, 4, 1), jnp.array([[0, 1, 0, 1]] * 3)
        >>> batched = jax.vmap(gcf.stats, (None, 0, 0))(clf, x, y)
        >>> print(gcf.pool(batched).count)
        [6. 6.]
    """
    if isinstance(axis, str):
        return _pool(stats, lambda leaf: lax.psum(leaf, axis))
    front = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, axis, 0), stats)
    return _pool(front, lambda leaf: leaf.sum(0))


def _pool(stats: T, add: Callable[[Array], Array]) -> T:
    return jax.tree.map(lambda s: s._pool(add), stats, is_leaf=_is_statistic)
