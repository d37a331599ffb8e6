"""The prior of Gaussian classes as the user gives it; fields of None are set from the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float

from genclf.arguments.arrays import numbers
from genclf.arguments.domains import FINITES, OPTIONAL_FINITE, POSITIVES
from genclf.arguments.hyperparameters import is_concrete
from genclf.arguments.module import field
from genclf.covariance.magnitudes import Magnitudes
from genclf.covariance.scales import SCALES, Covariance
from genclf.families.conjugate.base import (
    Prior,
    broadcast_to_last_axes,
    covariance_problems,
    in_form,
)
from genclf.families.conjugate.gaussian import NormalInverseWishartDistribution
from genclf.numerics.namespace import Array
from genclf.sums.statistics import Moments


class NormalInverseWishart(Prior):
    """A conjugate prior of Gaussian classes: `Σ ~ IW(dof, scale)`, `μ_k | Σ ~ N(mean, Σ / kappa)`.

    `p(Σ) ∝ |Σ|^(-(ν+p+1)/2) exp(-½ tr Ψ Σ⁻¹)`, ν = `dof` > p - 1 and Ψ = `scale`. With a "full"
    covariance p = d. With "diag" or "spherical" p = 1, and every variance has the inverse gamma
    distribution of shape ν/2 and rate Ψ/2: the prior is then normal-inverse-gamma. With
    `shared=True` all K means have one Σ.

    With n_k examples of scatter S_k about their mean, `fit` returns the joint mode,
    `Σ_k = (S_k + Ψ + n_k κ / (n_k + κ) δδᵀ) / (n_k + ν + d + 2)`, δ the difference between the
    mean of the examples and `mean` (shared: the divisor is n + ν + d + 1 + K). So the divisor n_k
    of maximum likelihood gives the mode under the flat prior. The divisors n_k - 1 and n - K
    (`ddof`) give the mode of Σ alone under the flat prior, with the means integrated out. Under
    Jeffreys' prior `|Σ|^(-(d+1)/2)` the posterior mean of Σ has the divisors n_k - d - 2 and
    n - K - d - 1.

    A `mean` or `scale` of None is set from the mean and the variances of all examples together, so
    that the units of the data do not matter (Fraley & Raftery).

    Args:
        mean: a number, (d,), or (K, d) for a mean per class; None for the mean of all examples.
        kappa: κ > 0, the number of examples that `mean` counts as; or (K,).
        scale: Ψ: a number s for s·I, (d,) for a diagonal, or (d, d). None for the diagonal with
            `(ν - p + 1) v_j K^(-2/d)`, v_j the variance of feature j over all examples: each
            variance is then scaled-inverse-χ² about `v_j K^(-2/d)`. If a feature is the same in
            all examples, v_j is its square, or 1 if that is 0. A feature that is not 0 but has
            squares that underflow in its dtype (below 1e-15 in float32) makes the prior NaN:
            multiply the feature by a power of ten.
        dof: ν > p - 1; None for p + 2, the least whole number for which Σ has a mean.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> prior = gcf.NormalInverseWishart(mean=0.0, kappa=1.0, scale=2.0, dof=3.0)
        >>> clf = gcf.Classifier(gcf.Gaussian(prior=prior), num_classes=1)
        >>> params = gcf.fit(clf, jnp.array([[2.0], [4.0]]), jnp.array([0, 0]))
        >>> print(params.conditional.mean, params.conditional.covariances)  # 6/3, (2 + 2 + 6)/8
        [[2.]] [[[1.25]]]

    References:
        Murphy (2012), §4.6.3; Fraley & Raftery (2007), "Bayesian regularization for normal mixture
        estimation and model-based clustering", §3.
    """

    domains: ClassVar = {
        "mean": replace(FINITES, optional=True),
        "kappa": POSITIVES,
        "scale": replace(FINITES, optional=True),
        "dof": OPTIONAL_FINITE,
    }

    mean: Any = field(default=None, converter=numbers)
    kappa: Any = field(default=0.01, converter=numbers)
    scale: Any = field(default=None, converter=numbers)
    dof: Any = None

    @property
    def is_complete(self) -> bool:
        return self.mean is not None and self.scale is not None

    def problems(self, p: Any = None) -> list[str]:
        """Error messages for the concrete numbers; `p` is None if it is unknown."""
        wrong = []
        known = self.dof is not None and is_concrete(self.dof) and isinstance(p, int)
        if known and not self.dof > p - 1:
            wrong.append(f"dof of the prior is {self.dof}, expected > p - 1 = {p - 1}")
        return wrong + covariance_problems(self.scale, "scale", "definite", _positive_definite)

    def degrees(self, p: int) -> Any:
        """`dof`, or p + 2 if it is None."""
        return p + 2.0 if self.dof is None else self.dof

    def strength(self, stats: Moments) -> dict[str, Array]:
        """Free coordinates: the logarithms of κ and of ν - p + 1."""
        p, dtype = _dimension(stats), stats.count.dtype
        dof = jnp.asarray(self.degrees(p), dtype)
        return {"kappa": jnp.log(jnp.asarray(self.kappa, dtype)), "dof": jnp.log(dof - (p - 1))}

    def with_strength(self, free: dict[str, Array], stats: Moments) -> NormalInverseWishart:
        """The prior with these coordinates: the inverse of `strength`."""
        dof = _dimension(stats) - 1 + jnp.exp(free["dof"])
        return NormalInverseWishart(self.mean, jnp.exp(free["kappa"]), self.scale, dof)

    def resolved(self, stats: Moments) -> NormalInverseWishart:
        """This prior; a mean or scale of None is set from the statistics."""
        return self.with_numbers_of(self.resolve(stats, "full", shared=True))

    def with_numbers_of(self, used: Any) -> NormalInverseWishart:
        """This prior; a mean or scale of None is that of the distribution."""
        mean = used.mean[0] if self.mean is None else self.mean
        scale = used.scale[0] if self.scale is None else self.scale
        return NormalInverseWishart(mean, self.kappa, scale, self.dof)

    def resolve(
        self, stats: Moments, covariance: Covariance, shared: bool
    ) -> NormalInverseWishartDistribution:
        """The prior as a distribution; None is set from the statistics. NaN if it is invalid."""
        num_classes, d = stats.mean.shape
        dtype, copies = stats.mean.dtype, 1 if shared else num_classes
        arithmetic = SCALES[covariance]
        p, shape = arithmetic.dimension(d), arithmetic.shape(d)
        size = Magnitudes(stats)
        given = size.mean if self.mean is None else self.mean
        mean = broadcast_to_last_axes(given, (num_classes, d), dtype, "mean")
        kappa = broadcast_to_last_axes(self.kappa, (num_classes,), dtype, "kappa")
        dof = jnp.broadcast_to(jnp.asarray(self.degrees(p), dtype), (copies,))
        if self.scale is None:
            variance = jnp.where(size.no_spread, size.square, size.total)
            variance = jnp.where(variance == 0, 1, variance)
            variance = variance * num_classes ** (-2 / d)
            if arithmetic.is_spherical:
                variance = variance.mean(keepdims=True)
            scale = (dof[0] - p + 1) * variance
            scale = jnp.diag(scale) if arithmetic.is_full else scale
        else:
            scale = in_form(self.scale, shape, dtype, "scale")
        # Without data, a mean or scale of None cannot be set.
        known = (stats.count.sum() > 0) | (self.mean is not None and self.scale is not None)
        valid = known & (kappa > 0).all() & (dof > p - 1).all()
        if self.scale is None:
            valid = valid & ~(size.vanishing | size.overflowing).any()
        else:
            valid = valid & _is_definite(scale)
        return NormalInverseWishartDistribution(
            jnp.where(valid, mean, jnp.nan),
            kappa,
            jnp.where(valid, jnp.broadcast_to(scale, (copies, *shape)), jnp.nan),
            dof,
            covariance,
            shared,
        )


def _positive_definite(matrix: np.ndarray) -> bool:
    if not np.isfinite(matrix).all():
        return False
    symmetric = np.abs(matrix - matrix.T).max() <= 1e-5 * np.abs(matrix).max()
    return bool(symmetric and (np.linalg.eigvalsh(matrix) > 0).all())


def _is_definite(scale: Float[Array, "..."]) -> Bool[Array, ""]:
    """`_positive_definite` of a matrix, or of a diagonal, in traced code."""
    scale = lax.stop_gradient(scale)
    if scale.ndim < 2:
        return (scale > 0).all()
    symmetric = jnp.abs(scale - scale.T).max() <= 1e-5 * jnp.abs(scale).max()  # False on NaN
    return symmetric & jnp.isfinite(jnp.linalg.cholesky(scale)).all()


def _dimension(stats: Moments) -> int:
    return stats.mean.shape[-1] if stats.is_full else 1
