"""Covariances from moments: regularised, and made nonsingular by the rules of `Gaussian`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from genclf.arguments.domains import Scalar
from genclf.covariance.estimate import EPS64, CovarianceEstimate
from genclf.covariance.magnitudes import Magnitudes, rounding_of
from genclf.covariance.shrinkage import Estimated, Target, intensities, target_variances
from genclf.numerics.batched import cholesky
from genclf.numerics.compensated import Pair, add_to
from genclf.numerics.double import scaled
from genclf.numerics.namespace import Array, namespace, on_host
from genclf.sums.factors import Covariances, replaced
from genclf.sums.statistics import Moments, divide


class Regularisation(NamedTuple):
    """Hyper-parameters of covariances.

    Let `S_k = scatter_k / (n_k - ddof)` be the classes' own covariances, their pooled covariance
    `S = Σ_k scatter_k / Σ_k (n_k - ddof)`, and V the variances within classes. The estimate is
    `(1 - shrinkage) M_k + shrinkage T_k + ridge V`, where `M_k = (1 - pooling) S_k + pooling S` and
    T_k is the target made of the variances of M_k. `num_features` is d, if the statistics leave out
    features that do not vary.
    """

    ridge: Scalar | Array = 0.0
    ddof: Scalar | Array = 0.0
    pooling: Scalar | None = None
    shrinkage: Scalar | Estimated | None = None
    target: Target = "identity"
    num_features: int | Array | None = None
    least_shrinkage: float = 0.0


class _Spread(NamedTuple):
    """Scatters as high and low, their divisors and numbers of rows, (one_or_K, 1 or d).

    `instead` is a mask of empty classes, (K,), and the scatter that they have: whole matrices are
    replaced where they are used, so that no copy of all of them is made.
    """

    scatter: Pair
    divisor: Array
    rows: Array
    instead: tuple[Array, Pair] | None = None

    @property
    def variance(self) -> Array:
        """The diagonals of the scatters over the divisors."""
        xp = namespace(self.divisor)
        diagonal = lambda a: xp.diagonal(a, axis1=-2, axis2=-1) if a.ndim == 3 else a  # noqa: E731
        high = diagonal(self.scatter[0])
        if self.instead is not None:
            empty, other = self.instead
            high = xp.where(empty[:, None], diagonal(other[0]), high)
        return divide(high, _broadcast(self.divisor, high))


def estimate_covariance(
    stats: Moments, rule: Regularisation, *, spherical: bool, shared: bool
) -> CovarianceEstimate:
    """Covariances of the classes, or one that they share; see `Gaussian` for the rules.

    A class without weight gets the pooled within-class covariance. A class with weight but no
    observed value of a feature gets the variance of all observed cells of that feature.
    """
    xp = namespace(stats.mean)
    d = stats.mean.shape[-1] if rule.num_features is None else rule.num_features
    shrinkage = intensities(stats, rule.shrinkage, rule.target, shared, d)
    stats = stats.pool_classes() if shared else stats
    size, mean = Magnitudes(stats), _over_features(spherical)
    spread, pooled = _spreads(stats, size, rule.ddof, spherical)
    from_double = _from_double(stats)
    if rule.pooling is not None:
        spread, from_double = (
            _mixed(spread, pooled, rule.pooling),
            xp.broadcast_to(from_double.all(), from_double.shape),
        )
    variance, typical = spread.variance, mean(size.typical[None])
    dtype = variance.dtype
    floor = mean(rounding_of(size.square_of_class))
    no_spread = size.no_spread[None]
    no_spread = no_spread.all(-1, keepdims=True) if spherical else no_spread

    added = xp.asarray(rule.ridge, dtype) * typical
    intensity, scale = xp.zeros(len(variance), dtype), typical
    if shrinkage is not None:
        shrinkage = xp.maximum(shrinkage, rule.least_shrinkage)
        intensity = xp.broadcast_to(shrinkage, intensity.shape)
        scale = target_variances(variance, rule.target, d)
        towards = intensity[:, None] * scale
        added, no_spread = added + towards, no_spread & ~(towards > floor)
    variance = (1 - intensity)[:, None] * variance + added
    singular = no_spread | (variance <= floor)
    # n equal values show that the variance is below v / n, where v is the within-class variance;
    # they do not show that it is 0. A feature that is constant over all the data gives no scale for
    # deviations. Its variance is set to its mean square, so that the feature does not affect the
    # posterior, even in new rows where it differs.
    square = mean(xp.where(size.square == 0, 1, size.square)[None])
    least = xp.where(no_spread, square, typical / (spread.rows + 1))
    info = xp.finfo(dtype)  # an underflow is negligible in a variance above tiny / ε²
    unknown = size.vanishing[None] & ~(added > info.tiny / info.eps**2) | size.overflowing[None]
    unknown = unknown.any(-1, keepdims=True) if spherical else unknown
    variance = xp.where(unknown, xp.nan, xp.where(singular, least, variance))
    exact = None
    if stats.is_full:
        exact = Covariances(
            *spread.scatter,
            spread.divisor[:, 0],
            1 - intensity,
            added,
            xp.sqrt(variance),
            singular,
            spread.instead,
        )
    return CovarianceEstimate(
        exact,
        from_double,
        intensity,
        added,
        scale,
        size.square_of_class,
        variance,
        _constant(stats, size),
        size.mean,
        singular,
        size.vanishing | size.overflowing,
    )


def pseudo_examples(
    stats: Moments, rule: Regularisation, *, spherical: bool, shared: bool
) -> Moments:
    """The regularisation as pseudo-statistics: examples at the means of the classes, and a scatter.

    Merged with the statistics of the data, they give the covariance as scatter over count. If a
    class keeps the share a of its own covariance, it gets `(n_k - ddof) / a - n_k` such examples:
    the regularised covariance maximises a penalised likelihood, with the penalty held fixed. If the
    scatter is pooled, each class has its share of these examples.
    """
    found = estimate_covariance(stats, rule, spherical=spherical, shared=shared)
    stats = stats.pool_classes() if shared else stats
    _, pooled = _spreads(stats, Magnitudes(stats), rule.ddof, spherical)
    count = stats.per_feature(stats.count)
    rows = jnp.broadcast_to(count.sum(0, keepdims=True), count.shape) if shared else count
    ddof = jnp.asarray(rule.ddof, count.dtype)
    pooling = jnp.asarray(0.0 if rule.pooling is None else rule.pooling, count.dtype)
    from_own = (1 - found.shrinkage)[:, None]
    kept = from_own * (1 - pooling)
    more = divide(count, rows) * (rows * (1 - kept) - ddof) / kept
    scatter = jnp.broadcast_to(found.added, (*kept.shape[:1], stats.mean.shape[-1]))
    if stats.is_full:
        scatter = scatter[:, :, None] * jnp.eye(scatter.shape[-1], dtype=scatter.dtype)[None]
    if rule.pooling is not None:
        divisor = _broadcast(pooled.divisor, pooled.scatter[0])
        covariance = divide(pooled.scatter[0], divisor)
        scatter = scatter + _broadcast(from_own * pooling, scatter) * covariance
    # Callers that sum over classes add up the shares of the classes in a pooled scatter again.
    times = jnp.where(count == 0, 0, rows - ddof)[: len(kept)] / kept
    scatter = _broadcast(times, scatter) * scatter
    return Moments(more if stats.of_cells else more[:, 0], stats.mean, scatter)


def sqrt_total_covariance(overall: Moments, *, spherical: bool) -> Float[Array, "..."]:
    """Invertible root of the covariance of all examples: Cholesky factor or standard deviations."""
    variance = divide(overall.diagonal, overall.count)
    if spherical:
        variance = variance.mean(keepdims=True)
    sd = jnp.sqrt(jnp.where(variance > 0, variance, 1))
    if not overall.is_full:
        return sd
    eps = jnp.finfo(sd.dtype).eps
    correlation = divide(overall.scatter, overall.count) / (sd[:, None] * sd[None, :])
    regular = correlation + jnp.sqrt(eps) * jnp.eye(len(sd), dtype=sd.dtype)
    return sd[:, None] * cholesky(regular)


def _spreads(
    stats: Moments, size: Magnitudes, ddof: Scalar | Array, spherical: bool
) -> tuple[_Spread, _Spread]:
    """Scatters of the classes, or a shared one; and the pooled one with `Σ_k (n_k - ddof)`."""
    xp = namespace(stats.mean)
    pooled, count = stats.pool_classes(), stats.per_feature(stats.count)
    less, n = xp.asarray(ddof, count.dtype), count.sum(0, keepdims=True)
    less = less[:, None] if less.ndim == 1 else less
    of_all, mean = _pair(pooled), _over_features(spherical)
    averaged = lambda own: jax.tree.map(mean, own) if spherical else own  # noqa: E731
    taken = xp.where(count == 0, 0, count - less).sum(0, keepdims=True)
    together = _Spread(of_all, taken, n)
    if stats.is_pooled:
        own = _Spread(of_all, divisors(n, less), n)
        return averaged(own), averaged(together)
    empty, divisor, other = count == 0, divisors(count, less), of_all
    if stats.of_cells:
        unobserved = empty & ~empty.all(-1, keepdims=True)
        total = (n * size.total[None], xp.zeros_like(other[1]))
        other = jax.tree.map(lambda a, b: xp.where(unobserved, a, b), total, other)
        if spherical:  # the mean over cells leaves such a feature out
            empty, divisor = empty & ~unobserved, xp.where(unobserved, 0, divisor)
    replace = lambda a, b: xp.where(_broadcast(empty, a), b, a)  # noqa: E731
    own = _Spread(_pair(stats), divisor, count)
    if on_host(empty) and not empty.any():
        return averaged(own), averaged(together)
    if stats.is_full and not on_host(empty):
        rows = replace(divisor, n), replace(count, n)
        own = _Spread(own.scatter, *rows, instead=(empty[:, 0], other))
    else:
        own = jax.tree.map(replace, own, _Spread(other, n, n))
    return averaged(own), averaged(together)


def _mixed(own: _Spread, pooled: _Spread, pooling: Scalar) -> _Spread:
    """The covariances `(1 - pooling) own + pooling pooled`, with a divisor of 1."""
    xp = namespace(own.divisor)
    towards = xp.asarray(pooling, own.divisor.dtype)
    share = xp.broadcast_to(divide(towards, pooled.divisor), own.divisor.shape)
    scatter = replaced(own.scatter, own.instead)
    others: Pair = jax.tree.map(lambda a, b: xp.broadcast_to(a, b.shape), pooled.scatter, scatter)
    # A class without a divisor has no own covariance; at pooling = 1 its weight is 0.
    of_own = xp.where(towards == 1, 0, divide(1 - towards, own.divisor))
    both = add_to(scaled(*scatter, of_own), scaled(*others, share))
    return _Spread(both, xp.ones_like(own.divisor), own.rows)


def _constant(stats: Moments, size: Magnitudes) -> Array:
    """Features whose spread is rounding error, in each class or in all together."""
    xp = namespace(stats.mean)
    rows = stats.per_feature(stats.count)
    rows = rows.sum(0, keepdims=True) if stats.is_pooled else rows
    rows = xp.broadcast_to(rows, stats.diagonal.shape)
    variance = xp.where(rows == 0, size.typical[None], divide(stats.diagonal, rows))
    return size.no_spread[None] | (variance <= rounding_of(size.square_of_class))


def _pair(stats: Moments) -> Pair:
    xp = namespace(stats.scatter)
    low = stats.rounding
    return stats.scatter, xp.zeros_like(stats.scatter) if low is None else low[2]


def _from_double(stats: Moments) -> Array:
    """Whether the scatters have the precision of float64: products in float32 have no low part."""
    xp = namespace(stats.scatter)
    low = _pair(stats)[1]
    return (low != 0).any(tuple(range(1, low.ndim))) | (xp.finfo(low.dtype).eps < 2 * EPS64)


def _over_features(spherical: bool) -> Callable[[Array], Array]:
    return lambda a: a.mean(-1, keepdims=True) if spherical else a


def divisors(count: Array, ddof: Array) -> Array:
    """Count - ddof; NaN for a class with weight, but not more than ddof."""
    xp = namespace(count)
    divisor = count - ddof
    return xp.where((divisor <= 0) & (count > 0), xp.nan, divisor)


def _broadcast(of_class: Array, like: Array) -> Array:
    shape = of_class.shape + (1,) * (like.ndim - of_class.ndim)
    return namespace(of_class).broadcast_to(of_class.reshape(shape), like.shape)
