"""The two-covariance model: a prior of class means, for classes with one known covariance."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from genclf.arguments.arrays import numbers
from genclf.arguments.domains import FINITES
from genclf.arguments.module import field
from genclf.covariance.pencil import Pencil, is_covariance, pencil_of
from genclf.covariance.scales import SCALES, Covariance
from genclf.families.conjugate.base import (
    Prior,
    broadcast_to_last_axes,
    covariance_problems,
    in_form,
)
from genclf.families.conjugate.normal import NormalDistribution, mean_deviations
from genclf.numerics.namespace import Array, is_traced, matmul
from genclf.sums.statistics import Moments, divide

_OPTIONAL = replace(FINITES, optional=True)


class TwoCovariance(Prior):
    """A prior of the means of Gaussian classes with one known covariance: `μ_k ~ N(mean, between)`.

    Rows are `x | y=k ~ N(μ_k, within)`: the two-covariance model, or probabilistic linear
    discriminant analysis (PLDA). It is a prior of `Gaussian(shared=True)`. With n_k rows of mean
    m_k, W = `within` and B = `between`,

    ::

        μ_k | rows      ~  N(mean + V_k n_k W⁻¹ (m_k - mean), V_k),   V_k = (B⁻¹ + n_k W⁻¹)⁻¹
        a further row   ~  N(E[μ_k], W + V_k)

    `fit` returns the means E[μ_k] and the covariance W; `inference="predictive"` returns the
    densities of a further row. B may be singular: in the other directions all classes have one
    mean. All is computed in coordinates in which W is the identity and B is diagonal, at the cost
    of d² numbers for all classes, and d for each.

    `fit_prior` finds the numbers of highest evidence, from the statistics of classes: then they are
    a prior of other classes, from one row each or none. `genclf.bayes.same_class` compares sets of
    rows.

    Args:
        mean: a number or (d,); None for the mean of highest likelihood given B and W,
            `(Σ_k A_k)⁻¹ Σ_k A_k m_k` with `A_k = (B + W / n_k)⁻¹`.
        between: B: a number b for b·I; (d,) for a diagonal, if the covariance is "full" or "diag";
            (d, d) if it is "full". None for the moment estimate
            `(M - W) / n_0`, `M = Σ_k n_k (m_k - m)(m_k - m)ᵀ / (K - 1)`, m the mean of all rows and
            `n_0 = (n - Σ_k n_k² / n) / (K - 1)`; negative eigenvalues, relative to W, become 0.
            K counts the classes with rows, and n is the weight of all rows.
        within: W, in the same forms. None for the pooled covariance, with the divisor n - K.

    Derivatives by whole matrices exist unless two eigenvalues of `W⁻¹ B` above 0 are equal: they
    are NaN there. With numbers or diagonals for both, they exist.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> prior = gcf.TwoCovariance(mean=0.0, between=4.0, within=2.0)
        >>> clf = gcf.Classifier(gcf.Gaussian(shared=True, prior=prior), num_classes=1)
        >>> params = gcf.fit(clf, jnp.array([[3.0], [6.0]]), jnp.array([0, 0]))
        >>> print(params.conditional.mean, params.conditional.covariances)  # V = 1/(1/4 + 2/2)
        [[3.6]] [[[2.]]]

    References:
        Ioffe (2006), "Probabilistic linear discriminant analysis"; Brümmer & de Villiers (2010),
        "The speaker partitioning problem"; Searle, Casella & McCulloch (1992), Variance Components,
        §3.6, the moment estimates.
    """

    domains: ClassVar = {"mean": _OPTIONAL, "between": _OPTIONAL, "within": _OPTIONAL}

    mean: Any = field(default=None, converter=numbers)
    between: Any = field(default=None, converter=numbers)
    within: Any = field(default=None, converter=numbers)

    @property
    def is_complete(self) -> bool:
        return not any(a is None for a in (self.mean, self.between, self.within))

    def problems(self, p: Any = None) -> list[str]:
        """Error messages for the concrete numbers."""
        del p
        semi, strict = (partial(_is_positive, strictly=strictly) for strictly in (False, True))
        between = covariance_problems(self.between, "between", "semi-definite", semi)
        return between + covariance_problems(self.within, "within", "definite", strict)

    def check_determined(self, stats: Moments, spherical: bool) -> None:
        """Raise if concrete statistics do not tell the numbers that are left to them."""
        if is_traced(stats):
            return
        classes = int((np.asarray(counts(stats)) > 0).any(-1).sum())
        if self.between is None and classes < 2:
            raise ValueError(
                f"between is None, and {classes} class has rows: two or more tell how class means "
                "vary; give more classes, or a number or matrix as between"
            )
        if self.within is None:
            shrunk = 'fit(lda(K, shrinkage="ledoit-wolf"), x, y).conditional.covariances[0]'
            check_within(stats, spherical, "within is None", f", or give within, such as {shrunk}")

    def strength(self, stats: Moments) -> dict[str, Array]:
        """No coordinates: `fit_prior` maximises the evidence by EM."""
        return {}

    def with_strength(self, free: dict[str, Array], stats: Moments) -> TwoCovariance:
        return self

    def resolved(self, stats: Moments) -> TwoCovariance:
        if not self.is_complete:
            raise ValueError(
                "rows with missing cells do not tell the numbers of TwoCovariance: give mean, "
                "between and within, such as those that fit_prior finds on complete rows"
            )
        return self

    def with_numbers_of(self, used: Any) -> TwoCovariance:
        """This prior, with the numbers of the distribution in place of None."""
        pencil = used.pencil
        ratios = {"between": used.ratio[0], "within": jnp.ones_like(used.ratio[0])}
        own = {name: getattr(self, name) for name in ratios}
        found = {
            k: pencil.covariance_of(r) if own[k] is None else own[k] for k, r in ratios.items()
        }
        return TwoCovariance(used.mean[0] if self.mean is None else self.mean, **found)

    def resolve(self, stats: Moments, covariance: Covariance, shared: bool) -> NormalDistribution:
        """The prior as a distribution; None is set from the statistics. NaN if it is invalid."""
        num_classes, d = stats.mean.shape
        pencil, is_valid = self._pencil(stats, covariance)
        if self.mean is None:
            mean = overall_mean(stats, pencil)
        else:
            mean = broadcast_to_last_axes(self.mean, (d,), stats.mean.dtype, "mean")
        ratio = jnp.broadcast_to(pencil.ratio, (num_classes, *pencil.ratio.shape))
        mean = jnp.broadcast_to(jnp.where(is_valid, mean, jnp.nan), (num_classes, d))
        return NormalDistribution(mean, ratio, pencil)

    def _pencil(self, stats: Moments, covariance: Covariance) -> tuple[Pencil, Array]:
        arithmetic, d = SCALES[covariance], stats.mean.shape[-1]
        shape = arithmetic.shape(d)
        given = {"within": self.within, "between": self.between}
        diagonal = all(value is not None and jnp.ndim(value) < 2 for value in given.values())
        forms = {
            name: None if value is None else in_form(value, shape, stats.mean.dtype, name)
            for name, value in given.items()
        }
        within = forms["within"]
        if within is None:
            within = within_classes(stats, arithmetic.is_spherical)
        between = forms["between"]
        if between is not None:
            return pencil_of(between, within, covariance, diagonal)
        found, _ = pencil_of(
            between_classes(stats, within, arithmetic.is_spherical), within, covariance, False
        )
        return found, jnp.isfinite(found.ratio).all()


def check_within(stats: Moments, spherical: bool, why: str, advice: str = "") -> None:
    """Raise if the rows of concrete statistics do not determine a covariance within classes."""
    pooled = stats.pool_classes()
    count = np.asarray(counts(stats), np.float64)
    free = (count.sum(0) - (count > 0).sum(0)).min()
    d = stats.mean.shape[-1]
    least = d if stats.is_full else 1
    if free < least:
        raise ValueError(
            f"{why}: {count.sum(0).max():g} rows of {(count > 0).any(-1).sum()} classes do not "
            f"determine the covariance of {d} features within classes, which takes {least} rows "
            f"more than classes: use more rows or fewer features{advice}"
        )
    size = np.asarray(count.sum(0) * np.square(stats.mean).max(0) + pooled.diagonal[0])
    eps = np.finfo(size.dtype).eps
    still = np.flatnonzero(np.asarray(pooled.diagonal[0]) <= eps**2 * size)
    if len(still) == d or (len(still) and not spherical):
        raise ValueError(
            f"{why}: features {still.tolist()} do not vary within classes, so that their variance "
            f"there is 0: leave them out{advice}"
        )


def within_classes(stats: Moments, spherical: bool) -> Float[Array, "..."]:
    """`Σ_k S_k / (n - K)`, NaN if no rows are left; the mean over features if spherical."""
    count = counts(stats)
    divisor = (count - (count > 0).astype(count.dtype)).sum(0)
    divisor = jnp.where(divisor > 0, divisor, jnp.nan)
    scatter = stats.pool_classes().scatter[0]
    if spherical:
        return scatter.sum(keepdims=True) / divisor.sum(keepdims=True)
    return scatter / (divisor[0] if stats.is_full else divisor)


def between_classes(
    stats: Moments, within: Float[Array, "..."], spherical: bool
) -> Float[Array, "..."]:
    """The moment estimate of the covariance of class means, which may be indefinite."""
    count = counts(stats)
    total, classes = count.sum(0), (count > 0).astype(count.dtype).sum(0)
    free = jnp.where(classes > 1, classes - 1, jnp.nan)
    deviation = stats.mean - divide((count * stats.mean).sum(0), total)[None]
    rows = (total - divide((count**2).sum(0), total)) / free
    if stats.is_full:
        spread = matmul((count * deviation).T, deviation)
        return (spread / free[0] - within) / rows[0]
    spread = (count * deviation**2).sum(0) / free
    if spherical:
        return (spread.mean(keepdims=True) - within) / rows.mean(keepdims=True)
    return (spread - within) / rows


def counts(stats: Moments) -> Float[Array, "K d"]:
    """The number of rows of each class, or of its observed cells."""
    return jnp.broadcast_to(stats.per_feature(stats.count), stats.mean.shape)


def overall_mean(stats: Moments, pencil: Pencil) -> Float[Array, "d"]:
    """The generalised-least-squares mean of all classes."""
    count = counts(stats)
    middle = divide((count * stats.mean).sum(0), count.sum(0))
    weight = count / (1 + count * jnp.broadcast_to(pencil.ratio, stats.mean.shape))
    total = weight.sum(0)
    weighted = (weight * pencil.coordinates(mean_deviations(stats, middle))).sum(0)
    return middle + pencil.back((weighted / jnp.where(total > 0, total, jnp.nan))[None])[0]


def _is_positive(matrix: Any, strictly: bool) -> bool:
    if not (np.isfinite(matrix).all() and is_covariance(matrix)):
        return False
    variance = np.diagonal(matrix)
    sd = np.sqrt(np.where(variance > 0, variance, 1))
    least = np.linalg.eigvalsh(matrix / (sd[:, None] * sd[None]))[0]
    return bool(least > 0 and (variance > 0).all() if strictly else least >= -1e-5)
