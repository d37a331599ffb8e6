"""Estimated covariances, their square roots, and the reasons to distrust them.

All thresholds are relative to the spread of the data, so they do not depend on its units.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float, Int

from genclf.arguments.module import static
from genclf.arguments.reprs import ShowsNumbers
from genclf.numerics.namespace import Array, constant, namespace, on_host
from genclf.sums.factors import Covariances, RankRule, by_classes, cholesky, spectrum
from genclf.sums.statistics import divide

EPS64 = 2.0**-52
_SHARE = 1e-6  # smallest squared coefficient of a feature that is part of a linear combination


class GaussianDiagnosis(ShowsNumbers):
    """Reasons to distrust a fitted covariance, relative to the scale of the data.

    Attributes:
        too_few: classes whose count is at most d, too few for a full covariance, shape (K,).
        constant: features without spread within a class, shape (K, d).
        dependent: features that vary, in a linear combination that does not, shape (K, d).
        out_of_range: features whose squares are too small or too large for the dtype: their
            variance, and every result of it, is NaN; shape (K, d), the same for every class.
        rank: numerical rank of the correlation matrix of each class, shape (K,); if the covariance
            is shared, that of the shared one for every class.
        condition: condition number of the same matrix, shape (K,); inf where rank-deficient. The
            rounding error of a posterior is about its square root times ε, the dtype's epsilon.
        rounding: rounding error of the values of each feature in standard deviations,
            `ε |μ_kj| / σ_kj`, shape (K, d); for a mean of 1,000 standard deviations it is 1e-4 in
            float32. This error is already in the data; fit and scores do not add to it.
        shrinkage: how far each covariance was shrunk towards its target, shape (K,); 0 where it
            was not.
        shared: whether the classes share one covariance.
    """

    too_few: Bool[Array, "K"]
    constant: Bool[Array, "K d"]
    dependent: Bool[Array, "K d"]
    out_of_range: Bool[Array, "K d"]
    rank: Int[Array, "K"]
    condition: Float[Array, "K"]
    rounding: Float[Array, "K d"]
    shrinkage: Float[Array, "K"]
    shared: bool = static()


class CovarianceEstimate(NamedTuple):
    """Estimated covariances; the class axis has length 1 if they are shared.

    Attributes:
        exact: the components of the covariance matrices; None for diagonals.
        from_double: whether the scatter has the precision of float64, (K or 1,).
        shrinkage: the intensity, (K or 1,).
        added: what ridge and target add to each variance, (K or 1, d), or (1, 1) if spherical.
        scale: the variance that ridge or shrinkage multiplies, (K or 1, d), or (1, 1) if
            spherical.
        square: mean square of each feature, (K or 1, d).
        variance: the diagonal plus what is added, with a positive substitute for constant features;
            (K or 1, d), or (K or 1, 1) if spherical.
        constant: features whose spread is rounding error, (K or 1, d).
        overall_mean: mean of all examples, (d,).
        is_singular: features (all features together if spherical) that are constant and have
            no ridge or target added; the shape of `variance`.
        out_of_range: features whose squares leave the range of the dtype, (d,).
    """

    exact: Covariances | None
    from_double: Bool[Array, "one_or_K"]
    shrinkage: Float[Array, "one_or_K"]
    added: Float[Array, "#one_or_K #d"]
    scale: Float[Array, "#one_or_K #d"]
    square: Float[Array, "K D"]
    variance: Float[Array, "K d"]
    constant: Bool[Array, "K D"]
    overall_mean: Float[Array, "D"]
    is_singular: Bool[Array, "K d"]
    out_of_range: Bool[Array, "D"]

    @property
    def is_full(self) -> bool:
        """Whether the covariances are whole matrices, not diagonals."""
        return self.exact is not None

    def rank_rule(self) -> RankRule:
        """The rule for directions without variance: which they are, and the ridge that they get."""
        xp = namespace(self.variance)
        d, eps = self.variance.shape[-1], xp.finfo(self.variance.dtype).eps
        of_sums = xp.where(self.from_double, 32 * EPS64, 2 * eps)
        # Rounding moves a value x by up to ½ ε |x|, which has the variance (ε x)² / 12 at most.
        share = xp.where(self.is_singular, 0, 1 / self.variance)
        of_cells = eps**2 / 12 * share * self.square
        of_added = 8 * eps * share * self.added  # on a GPU quotients and roots are inexact
        least = share * xp.maximum(eps ** (2 / 3) * self.scale - self.added, 0)
        rule = RankRule(d * of_sums, of_cells + of_added, share * self.added, least)
        return constant(rule)

    def square_root(self) -> Float[Array, "..."]:
        """Cholesky factors of the matrices, or standard deviations."""
        xp = namespace(self.variance)
        if self.exact is None:
            return xp.sqrt(self.variance)
        of = self.exact, self.variance, self.rank_rule()
        return _root(of) if on_host(self.variance) else by_classes(_root, of)

    def spectrum(self) -> tuple[Float[Array, "K d"], Bool[Array, "K d"], Bool[Array, "K d"]]:
        """Eigenvalues of the correlation matrices, which of them are 0, and dependent features.

        A constant feature without a ridge has the eigenvalue 0. Dependent features are those that
        contribute to the directions without variance that are not constant features.
        """
        xp = namespace(self.variance)
        if self.exact is None:
            found = xp.where(self.is_singular, 0, xp.ones_like(self.variance))
            found = xp.broadcast_to(found, self.constant.shape)
            return found, found == 0, xp.zeros_like(found, bool)
        found, direction = spectrum(self.exact)
        constant = xp.broadcast_to(self.is_singular, self.constant.shape)
        is_zero = self.rank_rule().is_degenerate(found, direction)
        share = xp.where(is_zero[:, None, :], direction**2, 0).sum(-1)
        return found, is_zero, ~constant & (share > _SHARE)

    def diagnose(
        self, count: Float[Array, "K"], mean: Float[Array, "K d"], shared: bool
    ) -> GaussianDiagnosis:
        """The rank and condition number of the correlation matrices, broadcast to all classes."""
        xp = namespace(mean)
        d = self.constant.shape[-1]
        eps = xp.finfo(mean.dtype).eps
        found, is_zero, dependent = self.spectrum()
        condition = xp.where(is_zero.any(-1), xp.inf, divide(found.max(-1), found.min(-1)))
        return GaussianDiagnosis(
            too_few=count <= d,
            dependent=xp.broadcast_to(dependent, (len(count), d)),
            constant=xp.broadcast_to(self.constant & ~self.out_of_range[None], (len(count), d)),
            out_of_range=xp.broadcast_to(self.out_of_range[None], (len(count), d)),
            rank=xp.broadcast_to((~is_zero).sum(-1), count.shape),
            condition=xp.broadcast_to(condition, count.shape),
            rounding=eps * xp.abs(mean) / xp.broadcast_to(xp.sqrt(self.variance), mean.shape),
            shrinkage=xp.broadcast_to(self.shrinkage, count.shape),
            shared=shared,
        )


def _root(of: tuple[Covariances, Array, RankRule]) -> Float[Array, "K d d"]:
    """Cholesky factors of the covariances, by those of the correlation matrices."""
    exact, variance, rule = of
    xp = namespace(variance)
    sd, share = xp.sqrt(variance), divide(exact.keep, exact.divisor)
    scaled = exact.sums()[0] * share[:, None, None] / (sd[:, :, None] * sd[:, None, :])
    correlation = xp.where(xp.eye(sd.shape[-1], dtype=bool)[None], 1, scaled)
    return sd[..., None] * cholesky(correlation, constant(exact), rule)
