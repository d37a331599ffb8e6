"""Gaussian classes with more features than rows, in coordinates of the row space.

If a covariance is shrunk towards a multiple of the identity, it is that multiple in every direction
that is orthogonal to the rows. So all is computed in the r <= n coordinates of the rows: no (d, d)
array is made, and the answers are those of the full computation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Shaped

from genclf.arguments.domains import POSITIVES, SHARES, whole
from genclf.arguments.module import static
from genclf.covariance.estimate import CovarianceEstimate, GaussianDiagnosis
from genclf.covariance.magnitudes import Magnitudes
from genclf.covariance.regularise import estimate_covariance
from genclf.covariance.rotation import Rotation, rotation_of, unit_of
from genclf.covariance.scales import SCALES
from genclf.covariance.shrinkage import Estimated, estimated, intensity, shrinkage_terms
from genclf.families.base import Condition, Density, Params, Wrapping
from genclf.families.capabilities import HasLinearForm, HasTerms
from genclf.families.gaussian.params import GaussianParams, describe_moments
from genclf.families.gaussian.terms import shared_terms
from genclf.families.mode import mode
from genclf.families.support import Support
from genclf.numerics.batched import singular_values
from genclf.numerics.logarithms import LOG_2PI
from genclf.numerics.namespace import Array, einsum, matmul
from genclf.numerics.row_blocks import broadcast_rows
from genclf.numerics.scores.means import Means
from genclf.sums.accumulate import moments
from genclf.sums.blocks import ClassWeights, row_weights
from genclf.sums.statistics import Moments, divide


class RowSpaceParams(HasLinearForm, HasTerms, Params):
    """Gaussian densities whose covariance is a multiple of the identity outside a subspace.

    In units of the features, `Σ_k = V Σ'_k Vᵀ + τ_k (I - V Vᵀ)`, V the basis of the space.

    Attributes:
        inside: the densities of the r coordinates in the space, with covariances Σ'.
        outside: τ, the variance in all other directions, shape (K or 1,).
        shrinkage: the shrinkage of each covariance, shape (K or 1,).
        rotation: the space; None if rows are given as their coordinates in it.
        width: d.
        of_correlations: whether the units are the standard deviations of the features.
    """

    domains: ClassVar = {"outside": POSITIVES, "shrinkage": SHARES, "width": whole(1)}
    conditions: ClassVar = {
        HasTerms: Condition(
            "with one covariance", lambda self: self.inside.shared, "fit Gaussian(shared=True)"
        )
    }

    inside: GaussianParams
    outside: Float[Array, "one_or_K"]
    shrinkage: Float[Array, "one_or_K"]
    rotation: Rotation | None
    width: int = static()
    of_correlations: bool = static(default=False)

    def _problems(self) -> list[str]:
        copies = self.inside.scale.shape[-3:-2]
        expected = {"outside": copies, "shrinkage": copies}
        shapes = {name: getattr(self, name).shape[-1:] for name in expected}
        if self.rotation is not None:
            expected["rotation.basis"] = self.width, self.inside.num_features
            shapes["rotation.basis"] = self.rotation.basis.shape[-2:]
        return [
            f"{name} has the shape {shapes[name]}, expected {wanted}"
            for name, wanted in expected.items()
            if shapes[name] != wanted
        ]

    @property
    def support(self) -> Support:
        return self.inside.support

    @property
    def num_features(self) -> int:
        return self.inside.num_features if self.rotation is None else self.width

    @property
    def mean(self) -> Float[Array, "*batch K d"]:
        """Class means, shape (K, d)."""
        mean = self.inside.mean
        return mean if self.rotation is None else self.rotation.back(mean)

    @property
    def covariances(self) -> Float[Array, "K d d"]:
        """Covariance matrices Σ_k, shape (K, d, d), or (K, r, r) in coordinates of the space."""
        inside = self.inside.covariances
        if self.rotation is None:
            return inside
        basis, unit = self.rotation.basis, self.rotation.unit
        eye = jnp.eye(len(basis), dtype=basis.dtype)
        tau = jnp.broadcast_to(self.outside, inside.shape[:1])[:, None, None]
        rest = tau * (eye - matmul(basis, basis.T))[None]
        scaled = einsum("ia,kab,jb->kij", basis, inside, basis) + rest
        return scaled * (unit[:, None] * unit[None, :])[None]

    def _coordinates(self, x: Array) -> Array:
        return x if self.rotation is None else self.rotation.coordinates(x)

    def _log_norm(self) -> Float[Array, "one_or_K"]:
        """The log-density at the mean in the other directions, and the logarithm of the units."""
        others = self.width - self.inside.num_features
        units = 0.0 if self.rotation is None else jnp.log(self.rotation.unit).sum()
        return -0.5 * others * (jnp.log(self.outside) + LOG_2PI) - units

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log N(z; m_k, Σ'_k) - ½ |x - Vz|² / τ_k - ½ (d-r) log 2πτ_k`, z the coordinates."""
        score = self.inside.log_prob(self._coordinates(x))
        score = score + broadcast_rows(self._log_norm(), score)
        if self.rotation is None:
            return score
        rest = jnp.broadcast_to(self.rotation.squared_distance(x)[..., None], score.shape)
        return score - 0.5 * rest / broadcast_rows(self.outside, score)

    def discriminant(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log_prob` up to a common term; if Σ is shared, the discriminant in the space."""
        shared = self.inside.shared
        return self.inside.discriminant(self._coordinates(x)) if shared else self.log_prob(x)

    def terms(
        self, x: Shaped[Array, "*batch d"], y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """The terms of `GaussianParams` with one covariance."""
        return shared_terms(x, y, other, Means(self.mean), self.linear()[0])

    def linear(self) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
        """`V a_k / unit` and `b_k - a_kᵀ Vᵀ origin / unit`, a and b the form in the space."""
        coef, intercept = self.inside.linear()
        if self.rotation is None:
            return coef, intercept
        coef = matmul(coef, self.rotation.basis.T) / self.rotation.unit[None]
        return coef, intercept - matmul(coef, self.rotation.origin)

    def log_lik(self, stats: Moments) -> Float[Array, ""]:
        """`log_prob` summed over the rows, from their moments."""
        inside, norms = self.inside, (stats.count * self._log_norm()).sum()
        if self.rotation is None:
            return inside.log_lik(stats) + norms
        basis, unit = self.rotation.basis, self.rotation.unit
        mean = self.rotation.centred(stats.mean)
        z = matmul(mean, basis)
        scatter = stats.scatter / (unit[:, None] * unit[None, :])[None]
        turned = einsum("ia,kij,jb->kab", basis, scatter, basis)
        trace = lambda a: jnp.trace(a, axis1=-2, axis2=-1)  # noqa: E731
        off = ((mean - matmul(z, basis.T)) ** 2).sum(-1) * stats.count
        rest = (trace(scatter) - trace(turned)) / self.outside
        rest = rest.sum() + (off / self.outside).sum()
        return inside.log_lik(Moments(stats.count, z, turned)) + norms - 0.5 * rest

    @property
    def statistic(self) -> str:
        return describe_moments(self.num_features, SCALES["full"], self.inside.shared, False)

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Float[Array, "*shape d"]:
        """A draw in the space, and noise with variance τ_y in the other directions."""
        key_inside, key_outside = jax.random.split(key)
        z = self.inside.sample(key_inside, y)
        if self.rotation is None:
            return z
        basis = self.rotation.basis
        noise = jax.random.normal(key_outside, (*y.shape, self.num_features), z.dtype)
        tau = jnp.broadcast_to(self.outside, self.inside.mean.shape[:1])[y][..., None]
        noise = jnp.sqrt(tau) * (noise - matmul(matmul(noise, basis), basis.T))
        return self.rotation.back(z) + broadcast_rows(self.rotation.unit, noise) * noise


class RowSpaceGaussian(Wrapping):
    """A `Gaussian` of rows that are given by their coordinates in the space that they span.

    The shrinkage is at least ε^(2/3), ε the dtype's epsilon: with 0 there is no maximum.

    Args:
        family: a `Gaussian` with a shrinkage towards the identity.
        num_features: d, of the rows before the rotation.
        num_varying: for a diagonal target, the number of features that vary (the units are then
            their standard deviations); else None.
    """

    num_features: int = static()
    num_varying: Float[Array, ""] | None = None

    def estimate(self, stats: Moments) -> RowSpaceParams:
        """Densities in the space, and the variance that shrinkage gives other directions."""
        found = self._covariance(stats)
        inside = self.family.of_covariances(stats, found)
        return RowSpaceParams(inside, found.added[:, 0], found.shrinkage, None, self.num_features)

    def _covariance(self, stats: Moments) -> CovarianceEstimate:
        eps = float(jnp.finfo(stats.mean.dtype).eps)
        rule = self.family.regularisation()._replace(
            target="identity",
            num_features=self.num_features if self.num_varying is None else self.num_varying,
            least_shrinkage=eps ** (2 / 3),
        )
        found = estimate_covariance(stats, rule, spherical=False, shared=self.family.shared)
        # Test `scale`, the mean variance before shrinkage: with shrinkage 1 the matrix is 0.
        constant = found.scale[:, :1] * rule.num_features <= _rounding(found.square)
        least = self._substitute(stats) if self.num_varying is None else found.shrinkage[:, None]
        pick = lambda a: jnp.where(constant, least, a)  # noqa: E731
        return found._replace(variance=pick(found.variance), added=pick(found.added))

    def _substitute(self, stats: Moments) -> Float[Array, "one_or_K 1"]:
        """One variance for all features of a class in which none varies.

        It is v / (n_k + 1), v a mean over the features. If all rows are equal, it is 1 in every
        class, so that no feature is evidence.
        """
        size, n = Magnitudes(stats), stats.count.sum()
        within = divide(stats.diagonal.sum(0), n).sum(-1, keepdims=True)
        total = size.total.sum(-1, keepdims=True)
        typical = jnp.where(within > _rounding(size.square), within, total)
        rows = n[None] if self.family.shared else stats.count
        least = typical[None] / (self.num_features * (rows[:, None] + 1))
        return jnp.where(typical[None] > 0, least, 1)

    def diagnose(self, stats: Moments) -> GaussianDiagnosis:
        """As for rows before the rotation, with an entry per coordinate, not per feature."""
        of_each = _features_of(self.family).diagnose(stats.of_features())
        return _diagnosis(of_each, self.estimate(stats), self.num_features)

    def log_prior_density(self, params: Density, stats: Moments) -> Float[Array, ""]:
        raise ValueError("the penalty of a shrinkage is not known in the row space")

    def num_parameters(self, num_classes: int, d: int) -> int:
        return self.family.num_parameters(num_classes, self.num_features)


def _rounding(square: Float[Array, "*one_or_K r"]) -> Float[Array, "*one_or_K 1"]:
    """The total variance that equal rows get from rounding of their coordinates."""
    return 16 * jnp.finfo(square.dtype).eps ** 2 * square.sum(-1, keepdims=True)


def fit_in_row_space(family: Any, x: Shaped[Array, "n d"], w: ClassWeights) -> RowSpaceParams:
    """The fit of a `Gaussian` with a shrinkage, without a (d, d) array: O(n² d)."""
    d, weight = x.shape[1], row_weights(w)
    if family.target == "identity":
        unit = jnp.full(d, unit_of(x, weight))
        rotation, inside = rotation_of(x, weight, unit), RowSpaceGaussian(family, d)
    else:
        unit, shrinkage, num_varying = _in_units(family, x, w)
        rotation = rotation_of(x, weight, unit)
        inside = RowSpaceGaussian(replace(family, shrinkage=shrinkage), d, num_varying)
    found = inside.estimate(inside.stats(rotation.coordinates(x), w))
    return replace(found, rotation=rotation, of_correlations=family.target == "diagonal")


def diagnose_in_row_space(
    family: Any, x: Shaped[Array, "n d"], w: ClassWeights
) -> GaussianDiagnosis:
    """The diagnosis of `fit_in_row_space`; its condition is of covariances, not correlations."""
    features = _features_of(family)
    return _diagnosis(
        features.diagnose(features.stats(x, w)), fit_in_row_space(family, x, w), x.shape[1]
    )


def _features_of(family: Any) -> Any:
    """The family with a diagonal covariance and without shrinkage."""
    return replace(family, covariance="diag", shrinkage=None)


def _diagnosis(of_each: GaussianDiagnosis, params: RowSpaceParams, d: int) -> GaussianDiagnosis:
    """A diagnosis per feature, with the rank, condition and shrinkage of the covariances."""
    spread = singular_values(params.inside.scale) ** 2
    largest = jnp.maximum(spread.max(-1), params.outside)
    smallest = jnp.minimum(spread.min(-1), params.outside)
    of_class = lambda a: jnp.broadcast_to(a, of_each.condition.shape)  # noqa: E731
    return replace(
        of_each,
        too_few=jnp.ones_like(of_each.too_few),
        rank=jnp.full_like(of_each.rank, d),
        condition=of_class(largest / smallest),
        shrinkage=of_class(params.shrinkage),
    )


def _in_units(family: Any, x: Array, w: ClassWeights) -> tuple[Array, Array, Array]:
    """Three: units in which the target is the identity; the intensity; how many features vary."""
    stats = moments(x, w, full=False, pooled=True)
    rule = family.regularisation()._replace(shrinkage=None)
    found = estimate_covariance(stats, rule, spherical=False, shared=True)
    varies = ~found.is_singular[0]
    shrinkage = estimated(family.shrinkage)
    if isinstance(shrinkage, Estimated):
        shrinkage = intensity(shrinkage.method, shrinkage_terms(x, w, stats), x.shape[1])[0]
    shrinkage = jnp.asarray(shrinkage, stats.mean.dtype)
    # The target gives a feature intensity · unit². The squared unit of a constant feature is
    # divided by the intensity, so that its variance is its substitute.
    share = jnp.where(varies, 1, jnp.maximum(shrinkage, jnp.finfo(stats.mean.dtype).eps ** (2 / 3)))
    num_varying = jnp.maximum(varies.sum(), 1).astype(shrinkage.dtype)
    return jnp.sqrt(found.variance[0] / share), shrinkage, num_varying


@mode.register
def _(density: RowSpaceParams) -> Array:
    return density.mean
