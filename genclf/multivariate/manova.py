"""Multivariate analysis of variance from mergeable statistics: tests of means and covariances."""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.special import betainc, gammaincc
from jaxtyping import Array, Float

from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.multivariate.one_covariance import with_scatters
from genclf.numerics.batched import cholesky, inverse_lower
from genclf.numerics.namespace import matmul
from genclf.sums.statistics import ClassifierStats, Moments, divide


class Test(ShowsNumbers):
    """A test: its statistic, the distribution that this is compared with, and the p-value.

    Attributes:
        statistic: the statistic that the test is named after.
        value: the value of F, or of χ² where `denominator` is infinite.
        numerator: degrees of freedom of χ², or of the numerator of F.
        denominator: degrees of freedom of the denominator.
        p_value: probability of a larger value if the hypothesis holds.
    """

    __test__ = False  # pytest must not collect this class

    statistic: Float[Array, "..."]
    value: Float[Array, "..."]
    numerator: Float[Array, "..."]
    denominator: Float[Array, "..."]
    p_value: Float[Array, "..."]


class Manova(ShowsNumbers):
    """Tests of class means and covariances, as `manova` returns them.

    Attributes:
        wilks: Λ, the product of `1 / (1 + λ)`; λ are the eigenvalues of `W⁻¹ B`, W the scatter
            within classes and B that of their means.
        pillai: the sum of `λ / (1 + λ)`.
        hotelling_lawley: the sum of λ.
        roy: the largest λ; its p-value is a lower bound.
        box_m: Box's M, a test of equal covariances: a small p-value is evidence against `lda`. None
            if the statistics have a pooled scatter.
        hotelling: T² of each pair of classes, shape (K, K): `n_k n_l / (n_k + n_l)` times their
            squared distance, by the pooled covariance of all classes.
        squared_distance: squared Mahalanobis distances of the class means, shape (K, K), by the
            pooled covariance with divisor n - K.
    """

    wilks: Test
    pillai: Test
    hotelling_lawley: Test
    roy: Test
    box_m: Test | None
    hotelling: Test
    squared_distance: Float[Array, "K K"]


@checked_arguments
def manova(stats: ClassifierStats) -> Manova:
    """Test whether class means differ, and whether class covariances do, from statistics alone.

    The p-values are those of the usual F approximations. For Wilks they are exact for two or three
    classes, or one or two features; for two classes all four are exact. Box's M has the χ²
    approximation. A row of weight w counts as w rows.

    Args:
        stats: statistics with full scatters, as of `lda` or `qda`; they may be merged or pooled.

    Returns:
        `Manova`; NaN if the covariance within classes is singular, because rows are too few
        (n - K < d), or features are constant or linearly dependent. Box's M is NaN if the
        covariance of any class is singular.

    Raises:
        ValueError: the statistics have no scatter matrix.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> found = gcf.manova(gcf.stats(gcf.qda(11), vowel.x_train, vowel.y_train))
        >>> print(found.wilks.statistic.round(4), found.wilks.value.round(1))
        0.0317 22.6

    References:
        Mardia, Kent & Bibby (1979), Multivariate Analysis, §12.3; Rencher & Christensen (2012),
        Methods of Multivariate Analysis, §6.1 and §7.3, in the forms that SAS and statsmodels use.
    """
    return _manova(with_scatters(stats))


@compiled
def _manova(moments: Moments) -> Manova:
    count, pooled = moments.count, moments.pool_classes()
    num_present = (count > 0).sum().astype(count.dtype)
    n, d = count.sum(), moments.mean.shape[1]
    unit, root = (a[0] for a in _roots(pooled.scatter))
    low = 0.0 if moments.rounding is None else moments.rounding[1]
    deviation = (moments.mean - moments.mean[:1] + low) / unit[None]
    deviation = deviation - (matmul(count, deviation) / n)[None]
    z = jnp.where(count[:, None] > 0, matmul(deviation, inverse_lower(root).T), 0)
    enough = n - num_present >= d
    size = jnp.linalg.svd(jnp.sqrt(count)[:, None] * z, compute_uv=False)
    eigenvalue = jnp.where(enough, size**2, jnp.nan)
    p, q, v = jnp.asarray(d, n.dtype), num_present - 1, n - num_present
    squared = v * ((z[:, None] - z[None]) ** 2).sum(-1)
    both = (count[:, None] > 0) & (count[None] > 0)
    squared = jnp.where(both & enough, squared, jnp.nan)
    pair = divide(count[:, None] * count[None], count[:, None] + count[None])
    t2, rest = pair * squared, v - p + 1
    box = None if moments.is_pooled else _box_m(moments, v, num_present)
    return Manova(
        _wilks(eigenvalue, p, q, v),
        _pillai(eigenvalue, p, q, v),
        _hotelling_lawley(eigenvalue, p, q, v),
        _roy(eigenvalue, p, q, v),
        box,
        _f_test(t2, t2 * rest / (p * v), p, rest),
        squared,
    )


def _roots(scatter: Float[Array, "K d d"]) -> tuple[Float[Array, "K d"], Float[Array, "K d d"]]:
    """Units, and Cholesky factors of the scatters in these units; NaN for singular scatters."""
    unit = jnp.sqrt(jnp.diagonal(scatter, axis1=-2, axis2=-1))
    unit = jnp.where(unit > 0, unit, jnp.nan)
    root = cholesky(scatter / (unit[:, :, None] * unit[:, None, :]))
    d, pivots = scatter.shape[-1], jnp.diagonal(root, axis1=-2, axis2=-1)
    regular = (pivots**2 > 16 * d * jnp.finfo(unit.dtype).eps).all(-1)  # False on NaN
    return unit, jnp.where(regular[:, None, None], root, jnp.nan)


def _log_det(scatter: Float[Array, "K d d"]) -> Float[Array, "K"]:
    unit, root = _roots(scatter)
    pivots = jnp.diagonal(root, axis1=-2, axis2=-1)
    return 2 * (jnp.log(unit) + jnp.log(pivots)).sum(-1)


def _f_test(statistic: Array, value: Array, numerator: Array, denominator: Array) -> Test:
    shape = value.shape
    numerator, denominator = (jnp.broadcast_to(a, shape) for a in (numerator, denominator))
    denominator = jnp.where(denominator > 0, denominator, jnp.nan)
    share = denominator / (denominator + numerator * value)
    p_value = betainc(0.5 * denominator, 0.5 * numerator, share)
    return Test(statistic, value, numerator, denominator, p_value)


def _wilks(eigenvalue: Array, p: Array, q: Array, v: Array) -> Test:
    statistic = jnp.exp(-jnp.log1p(eigenvalue).sum())
    squares = p**2 + q**2 - 5
    root = jnp.where(squares > 0, (p**2 * q**2 - 4) / jnp.where(squares > 0, squares, 1), 1)
    t = jnp.sqrt(jnp.maximum(root, 1))
    denominator = (v - 0.5 * (p - q + 1)) * t - 0.5 * (p * q - 2)
    power = statistic ** (1 / t)
    return _f_test(statistic, (1 - power) / power * denominator / (p * q), p * q, denominator)


def _pillai(eigenvalue: Array, p: Array, q: Array, v: Array) -> Test:
    statistic, s = (eigenvalue / (1 + eigenvalue)).sum(), jnp.minimum(p, q)
    numerator, denominator = s * jnp.maximum(p, q), s * (v - p + s)
    value = statistic / (s - statistic) * denominator / numerator
    return _f_test(statistic, value, numerator, denominator)


def _hotelling_lawley(eigenvalue: Array, p: Array, q: Array, v: Array) -> Test:
    statistic, s = eigenvalue.sum(), jnp.minimum(p, q)
    m, half = 0.5 * (jnp.abs(p - q) - 1), 0.5 * (v - p - 1)
    b = (p + 2 * half) * (q + 2 * half) / (2 * (2 * half + 1) * (half - 1))
    many = 4 + (p * q + 2) / (b - 1)
    of_many = many * half / (p * q * 0.5 * (many - 2)) * statistic
    few = 2 * (s * half + 1)
    numerator = jnp.where(half > 0, p * q, s * (2 * m + s + 1))
    denominator = jnp.where(half > 0, many, few)
    value = jnp.where(half > 0, of_many, few / (s * s * (2 * m + s + 1)) * statistic)
    return _f_test(statistic, value, numerator, denominator)


def _roy(eigenvalue: Array, p: Array, q: Array, v: Array) -> Test:
    largest, numerator = eigenvalue.max(), jnp.maximum(p, q)
    denominator = v - numerator + q
    return _f_test(largest, largest * denominator / numerator, numerator, denominator)


def _box_m(moments: Moments, v: Array, num_present: Array) -> Test:
    """`(n-K) log |S| - Σ_k (n_k-1) log |S_k|`, the covariances with divisors n - K and n_k - 1."""
    d, own, present = moments.mean.shape[1], moments.count - 1, moments.count > 0
    pooled = moments.scatter.sum(0, keepdims=True)
    # In the units of the pooled scatter, so that logarithms are of numbers near 1.
    unit = jnp.sqrt(jnp.diagonal(pooled, axis1=-2, axis2=-1))
    units = unit[:, :, None] * unit[:, None, :]
    log_det = _log_det(moments.scatter / units) - d * jnp.log(jnp.where(present, own, 1))
    log_det = jnp.where(own >= d, log_det, jnp.nan)
    of_all = _log_det(pooled / units)[0] - d * jnp.log(v)
    statistic = v * of_all - jnp.where(present, own * log_det, 0).sum()
    groups = jnp.where(present, 1 / own, 0).sum() - 1 / v
    correction = groups * (2 * d**2 + 3 * d - 1) / (6 * (d + 1) * (num_present - 1))
    freedom = 0.5 * d * (d + 1) * (num_present - 1)
    value = statistic * (1 - correction)
    p_value = gammaincc(0.5 * freedom, 0.5 * value)
    return Test(statistic, value, freedom, jnp.full_like(value, jnp.inf), p_value)
