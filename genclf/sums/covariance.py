"""Covariances from moments, made nonsingular by the rules for rank and scale of `Gaussian`.

All thresholds are relative to the spread of the data, so they do not depend on its units.
"""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from genclf.arguments.domains import Scalar
from genclf.arguments.reprs import ShowsNumbers
from genclf.sums.factors import Covariances, RankRule, cholesky, spectrum
from genclf.sums.magnitudes import Magnitudes, rounding_of
from genclf.sums.statistics import Moments, divide

_EPS64 = 2.0**-52
_SHARE = 1e-6  # squared coefficient of a feature that has a part in a linear combination

Covariance = Literal["full", "diag", "spherical"]


class GaussianDiagnosis(ShowsNumbers):
    """Reasons to distrust a fitted covariance, relative to the scale of the data.

    Attributes:
        too_few: classes whose count is at most d, too few for a full covariance, shape (K,).
        constant: features without spread within a class, shape (K, d).
        dependent: features that vary, of which a linear combination does not, shape (K, d).
        vanishing: features whose squares are too small for the dtype: their variance is NaN, and
            so is all that follows from it; shape (K, d), the same for every class.
        rank: numerical rank of the correlation matrix of each class, shape (K,); if the covariance
            is shared, that of the shared one for every class.
        condition: condition number of the same matrix, shape (K,); inf where rank-deficient. The
            rounding error of a posterior is about its square root times ε, the dtype's epsilon.
        rounding: rounding error of the values of each feature in standard deviations,
            `ε |μ_kj| / σ_kj`, shape (K, d); for a mean of 1,000 standard deviations it is 1e-4 in
            float32. The data have it already: fit and scores add none to it.
        shared: whether the classes share one covariance.
    """

    too_few: Bool[Array, "K"]
    constant: Bool[Array, "K d"]
    dependent: Bool[Array, "K d"]
    vanishing: Bool[Array, "K d"]
    rank: Int[Array, "K"]
    condition: Float[Array, "K"]
    rounding: Float[Array, "K d"]
    shared: bool = eqx.field(static=True)


class CovarianceEstimate(eqx.Module):
    """Estimated covariances; the class axis has length 1 if they are shared.

    Attributes:
        matrix: scatter over its divisor, (K or 1, d, d), or its diagonal (K or 1, d).
        exact: what the covariance matrices are made of; None for diagonals.
        added: the variance that the ridge adds to each feature, (1, d), or (1, 1) if spherical.
        typical: the variance that the ridge is a share of, (1, d), or (1, 1) if spherical.
        ridge: the ridge.
        square: mean square of each feature, (K or 1, d).
        variance: the diagonal plus the ridge, with a positive substitute for constant features;
            (K or 1, d), or (K or 1, 1) if spherical.
        constant: features whose spread is rounding error, (K or 1, d).
        overall_mean: mean of all examples, (d,).
        is_singular: features (all features together if spherical) that are constant and have no
            ridge; the shape of `variance`.
        vanishing: features whose squares underflow in the dtype, so that the variance is NaN, (d,).
    """

    matrix: Float[Array, "..."]
    exact: Covariances | None
    added: Float[Array, "1 d"]
    typical: Float[Array, "1 d"]
    ridge: Float[Array, ""]
    square: Float[Array, "K D"]
    variance: Float[Array, "K d"]
    constant: Bool[Array, "K D"]
    overall_mean: Float[Array, "D"]
    is_singular: Bool[Array, "K d"]
    vanishing: Bool[Array, "D"]

    @property
    def is_full(self) -> bool:
        """Whether `matrix` holds whole matrices, not diagonals."""
        return self.matrix.ndim == 3

    def correlation(self) -> Float[Array, "K d d"]:
        """Correlation matrices: the covariances in units of the standard deviations."""
        sd = jnp.sqrt(self.variance)
        scaled = self.matrix / (sd[:, :, None] * sd[:, None, :])
        return jnp.where(jnp.eye(sd.shape[-1], dtype=bool)[None], 1, scaled)

    def rank_rule(self, low: Float[Array, "K d d"]) -> RankRule:
        """Which directions of the correlation matrices do not vary, and the ridge they get."""
        d, eps = self.variance.shape[-1], jnp.finfo(self.variance.dtype).eps
        # Products in float64 have low parts; a float32 scatter without these has less digits.
        exact = (low != 0).any((1, 2)) | (eps < _EPS64 * 2)
        of_sums = jnp.where(exact, 32 * _EPS64, 2 * eps)
        # Rounding moves a value x by up to ½ ε |x|, which has the variance (ε x)² / 12 at most.
        share = jnp.where(self.is_singular, 0, 1 / self.variance)
        of_cells = eps**2 / 12 * share * self.square
        of_ridge = eps * share * self.added
        lacks = jnp.maximum(eps ** (2 / 3) - self.ridge, 0)
        least = lacks * share * self.typical
        rule = RankRule(d * of_sums, of_cells + of_ridge, share * self.added, least)
        return lax.stop_gradient(rule)

    def square_root(self) -> Float[Array, "..."]:
        """Cholesky factors of the matrices, or standard deviations."""
        sd = jnp.sqrt(self.variance)
        if self.exact is None:
            return sd
        exact = lax.stop_gradient(self.exact)
        return sd[..., None] * cholesky(self.correlation(), exact, self.rank_rule(exact.low))

    def spectrum(self) -> tuple[Float[Array, "K d"], Bool[Array, "K d"], Bool[Array, "K d"]]:
        """Eigenvalues of the correlation matrices, which of them are 0, and features that tell why.

        A constant feature without a ridge has the eigenvalue 0. The features are those with a share
        in the other directions in which nothing varies.
        """
        if self.exact is None:
            found = jnp.where(self.is_singular, 0, jnp.ones_like(self.variance))
            found = jnp.broadcast_to(found, self.constant.shape)
            return found, found == 0, jnp.zeros_like(found, bool)
        found, direction = spectrum(self.exact)
        constant = jnp.broadcast_to(self.is_singular, self.constant.shape)
        none = self.rank_rule(self.exact.low).nothing(found, direction)
        share = jnp.where(none[:, None, :], direction**2, 0).sum(-1)
        return found, none, ~constant & (share > _SHARE)

    def diagnose(
        self, count: Float[Array, "K"], mean: Float[Array, "K d"], shared: bool
    ) -> GaussianDiagnosis:
        """The rank and condition number of the correlation matrices, broadcast to all classes."""
        d = self.constant.shape[-1]
        eps = jnp.finfo(mean.dtype).eps
        found, none, dependent = self.spectrum()
        condition = jnp.where(none.any(-1), jnp.inf, divide(found.max(-1), found.min(-1)))
        return GaussianDiagnosis(
            too_few=count <= d,
            dependent=jnp.broadcast_to(dependent, (len(count), d)),
            constant=jnp.broadcast_to(self.constant & ~self.vanishing[None], (len(count), d)),
            vanishing=jnp.broadcast_to(self.vanishing[None], (len(count), d)),
            rank=jnp.broadcast_to((~none).sum(-1), count.shape),
            condition=jnp.broadcast_to(condition, count.shape),
            rounding=eps * jnp.abs(mean) / jnp.broadcast_to(jnp.sqrt(self.variance), mean.shape),
            shared=shared,
        )


def estimate_covariance(
    stats: Moments,
    *,
    spherical: bool,
    ridge: Scalar,
    ddof: Scalar | Array,
) -> CovarianceEstimate:
    """Covariances of the classes, or of a pooled scatter; see `Gaussian` for the rules.

    A class without weight gets the pooled within-class covariance. A class with weight but no
    observed value of a feature gets the variance of all observed cells of that feature.
    """
    n, of_cells = stats.count.sum(0), stats.of_cells
    ridge, ddof = (jnp.asarray(a, stats.count.dtype) for a in (ridge, ddof))
    size = Magnitudes(stats)
    no_spread, typical = size.no_spread[None], size.typical[None]
    added = ridge * typical

    shared, scatter = stats.is_pooled, stats.scatter
    count, square = n[None] if shared else stats.count, size.square_of_class
    empty = count == 0
    divisor = _divisor(count, ddof)
    other = jnp.broadcast_to(scatter.sum(0)[None], scatter.shape)
    if of_cells and not shared:
        unseen = empty & ~empty.all(-1, keepdims=True)
        other = jnp.where(unseen, (n * size.total)[None], other)
        if spherical:  # such a feature has no share in the mean over cells
            empty, divisor = empty & ~unseen, jnp.where(unseen, 0, divisor)
    count, divisor = (jnp.where(empty, jnp.broadcast_to(n, a.shape), a) for a in (count, divisor))
    each = lambda a: a if of_cells else a.reshape(-1, *[1] * (scatter.ndim - 1))  # noqa: E731
    numerator = jnp.where(each(empty), other, scatter)
    matrix = divide(numerator, each(divisor))

    variance = jnp.diagonal(matrix, axis1=-2, axis2=-1) if stats.is_full else matrix
    rows = stats.per_feature(count)
    floor = rounding_of(square)
    constant = no_spread | (variance <= floor)
    mean = lambda a: a.mean(-1, keepdims=True)  # noqa: E731
    if spherical:
        if of_cells:  # the mean over cells
            variance = variance * divide(divisor, mean(divisor))
        variance, added, floor, typical, rows = map(mean, (variance, added, floor, typical, rows))
        no_spread = no_spread.all(-1, keepdims=True)
    variance = variance + added
    singular = no_spread | (variance <= floor)
    # n equal values show that the variance is below v / n, where v is the within-class variance;
    # they do not show that it is 0. A feature that is constant over all the data gives no scale for
    # deviations. Its variance is set to its mean square, so that the feature is no evidence, not
    # even in new rows where it differs.
    apart = jnp.where(size.square == 0, 1, size.square)[None]
    least = jnp.where(no_spread, mean(apart) if spherical else apart, typical / (rows + 1))
    lost = size.vanishing[None]
    lost = lost.any(-1, keepdims=True) if spherical else lost
    variance = jnp.where(lost, jnp.nan, jnp.where(singular, least, variance))
    exact = None
    if stats.is_full:
        low = jnp.zeros_like(numerator) if stats.rounding is None else stats.rounding[2]
        low = jnp.where(each(empty), 0, low)
        exact = Covariances(numerator, low, divisor, added, jnp.sqrt(variance), singular)
    return CovarianceEstimate(
        matrix,
        exact,
        added,
        typical,
        ridge,
        size.square_of_class,
        variance,
        constant,
        size.mean,
        singular,
        size.vanishing,
    )


def regularisation(stats: Moments, *, ridge: Scalar, ddof: Scalar) -> Moments:
    """Ridge and ddof as pseudo-statistics: `-ddof` examples, and the scatter that a ridge adds.

    Merged with the statistics of the data they give the covariance `scatter / (n - ddof)` plus the
    ridge. If the scatter is pooled, each class has its share of the examples.
    """
    ridge, ddof = (jnp.asarray(a, stats.count.dtype) for a in (ridge, ddof))
    total = jnp.broadcast_to(stats.count.sum(0), stats.count.shape)
    taken = divide(ddof * stats.count, total) if stats.is_pooled else ddof
    taken = jnp.where(stats.count == 0, 0, jnp.broadcast_to(taken, stats.count.shape))
    added = stats.per_feature(stats.count - taken) * (ridge * Magnitudes(stats).typical)[None]
    added = added.sum(0, keepdims=True) if stats.is_pooled else added
    if stats.is_full:
        added = added[:, :, None] * jnp.eye(added.shape[-1], dtype=added.dtype)[None]
    return Moments(-taken, stats.mean, added)


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
    return sd[:, None] * lax.linalg.cholesky(regular, symmetrize_input=False)


def _divisor(count: Array, ddof: Array) -> Array:
    """Count - ddof; NaN where a class has too little weight for it."""
    divisor = count - ddof
    return jnp.where((divisor <= 0) & (count > 0), jnp.nan, divisor)
