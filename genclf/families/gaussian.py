"""Gaussian class densities: full, diagonal or spherical covariance, per class or shared."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree, Shaped

from genclf.accumulate import ClassWeights, einsum, matmul, moments
from genclf.conjugate.base import Conjugate
from genclf.conjugate.gaussian import NormalInverseWisharts, flat_prior
from genclf.conjugate.normal_inverse_wishart import NormalInverseWishart
from genclf.families.base import Family, Params, Scalar, Support, over_rows, spread
from genclf.families.covariance import (
    CovarianceEstimate,
    GaussianDiagnosis,
    estimate_covariance,
    regularisation,
    root_of_total,
)
from genclf.families.ellipsoid import (
    Covariance,
    fold_distances,
    inverse_scale,
    log_determinants,
    scaled_noise,
    squares,
    whiten,
)
from genclf.families.student_t import FINITE, StudentTParams
from genclf.parameters import Parameter
from genclf.statistics import Moments, merge, pool

_LOG_2PI = 1.8378770664093453


class GaussianParams(Params):
    """Fitted Gaussian densities `N(x; mean_k, Σ_k)`, as `Gaussian.estimate` returns them.

    Attributes:
        mean: class means, shape (K, d).
        scale: a square root of the covariance, with a class axis of length 1 where the classes
            share it. "full": lower Cholesky factor L, Σ = L Lᵀ, shape (K or 1, d, d); "diag":
            standard deviations, (K or 1, d); "spherical": one standard deviation, (K or 1, 1).
        covariance: "full", "diag" or "spherical".
        shared: whether all classes have one covariance.
    """

    mean: Float[Array, "K d"]
    scale: Float[Array, "..."]
    covariance: Covariance = eqx.field(static=True)
    shared: bool = eqx.field(static=True)

    @property
    def support(self) -> Support:
        return FINITE

    @property
    def num_features(self) -> int:
        return self.mean.shape[-1]

    @property
    def parameters(self) -> dict[str, Parameter]:
        scale = ("lower_cholesky", 2) if self.covariance == "full" else ("positive", 1)
        return {"mean": Parameter("real"), "scale": Parameter(scale[0], event_ndim=scale[1])}

    @property
    def elementwise(self) -> bool:
        return self.covariance == "diag"

    def standard(self) -> GaussianParams:
        """Mean 0 and scale 1."""
        one = jnp.ones_like(self.scale)
        if self.covariance == "full":
            one = jnp.tril(jnp.triu(one))
        return self._replace(jnp.zeros_like(self.mean), one)

    def affine(self, units: GaussianParams) -> GaussianParams:
        """Of `m + L z`: mean `m + L mean` and scale `L scale`."""
        if self.covariance == "full":
            root = jnp.broadcast_to(units.scale, (len(self.mean), *units.scale.shape[1:]))
            mean, scale = einsum("kij,kj->ki", root, self.mean), matmul(units.scale, self.scale)
        else:
            mean = jnp.broadcast_to(units.scale, self.mean.shape) * self.mean
            scale = units.scale * self.scale
        return self._replace(units.mean + mean, scale)

    def _replace(self, mean: Array, scale: Array) -> GaussianParams:
        return GaussianParams(mean, scale, self.covariance, self.shared)

    @property
    def covariances(self) -> Float[Array, "*batch K d d"]:
        """Covariance matrices Σ_k, shape (K, d, d), whatever the structure."""
        d = self.mean.shape[-1]
        if self.covariance == "full":
            matrices = einsum("...ij,...lj->...il", self.scale, self.scale)
        else:
            eye = jnp.eye(d, dtype=self.scale.dtype)
            variances = jnp.broadcast_to(self.scale**2, (*self.scale.shape[:-1], d))
            matrices = variances[..., None] * jnp.broadcast_to(eye, (*variances.shape, d))
        return jnp.broadcast_to(matrices, (*self.mean.shape, d))

    def _inverse_scale(self) -> Array:
        return inverse_scale(self.scale, self.covariance)

    def _log_norms(self) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        """`-½ log |2π Σ_k|` in two terms: the class's own, free of units, and what all share."""
        own, common = log_determinants(self.scale, self.covariance, self.mean.shape[-1])
        return -own, -common - 0.5 * self.mean.shape[-1] * _LOG_2PI

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log N(x; μ_k, Σ_k) = -½ (x-μ_k)ᵀ Σ_k⁻¹ (x-μ_k) - ½ log |2π Σ_k|`."""
        return self._log_prob_less_common(x) + self._log_norms()[1]

    def _log_prob_less_common(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        half = -0.5 * fold_distances(
            x, self.mean, self.scale, self.covariance, lambda z, _: squares(z), self.mean
        )
        return half + spread(self._log_norms()[0], half)

    def discriminant(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """Up to a common term; linear, `(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ`, where Σ is shared."""
        if not self.shared:
            return self._log_prob_less_common(x)
        centre = self.mean.mean(0, keepdims=True)
        coef, intercept = self._linear_about(centre)
        return over_rows(
            lambda rows: matmul(rows.astype(self.mean.dtype) - centre, coef.T) + intercept[None],
            x,
            1,
            self.mean.shape[-1],
        )

    def _linear_about(self, centre: Float[Array, "1 d"]) -> tuple[Array, Array]:
        inverse = self._inverse_scale()[0]
        z = whiten(inverse, self.mean - centre, self.covariance)
        coef = matmul(z, inverse) if self.covariance == "full" else z * inverse[None]
        return coef, -0.5 * squares(z)

    def linear(self) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
        """`Σ⁻¹ μ_k` and `-½ μ_kᵀ Σ⁻¹ μ_k`, for a shared covariance."""
        if not self.shared:
            raise ValueError(
                "the boundary between Gaussians with a covariance of their own is quadratic; "
                "use quadratic_form, or fit Gaussian(shared=True)"
            )
        return self._linear_about(jnp.zeros_like(self.mean[:1]))

    def quadratic(self) -> tuple[Float[Array, "K d d"], Float[Array, "K d"], Float[Array, "K"]]:
        """`-½ Σ_k⁻¹`, `Σ_k⁻¹ μ_k` and `-½ μ_kᵀ Σ_k⁻¹ μ_k - ½ log |2π Σ_k|`."""
        num_classes, d = self.mean.shape
        inverse = self._inverse_scale()
        if self.covariance == "full":
            precision = einsum("kji,kjl->kil", inverse, inverse)
        else:
            precision = (inverse**2)[..., None] * jnp.eye(d, dtype=inverse.dtype)[None]
        precision = jnp.broadcast_to(precision, (num_classes, d, d))
        coef = einsum("kij,kj->ki", precision, self.mean)
        intercept = -0.5 * einsum("ki,ki->k", coef, self.mean) + sum(self._log_norms())
        return -0.5 * precision, coef, intercept

    def log_lik(self, stats: Moments) -> Float[Array, ""]:
        """`Σ_k count_k (-½ log |2π Σ_k|) - ½ tr Σ_k⁻¹ T_k`, T_k the scatter about mean_k."""
        inverse = self._inverse_scale()
        about_mean = stats.scatter + stats.outer(stats.count, stats.mean - self.mean)
        if self.covariance == "full":
            inverse = jnp.broadcast_to(inverse, about_mean.shape)
            trace = einsum("kij,kil,kjl->k", inverse, inverse, about_mean)
        else:
            trace = (about_mean * inverse**2).sum(-1)
        return (stats.count * sum(self._log_norms())).sum() - 0.5 * trace.sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Float[Array, "*shape d"]:
        """`mean_y + L_y ε` with standard normal ε."""
        noise = jax.random.normal(key, (*y.shape, self.mean.shape[-1]), self.mean.dtype)
        return self.mean[y] + scaled_noise(noise, self.scale, self.covariance, y)


class Gaussian(Family):
    """Gaussian class densities: discriminant analysis and Gaussian naive Bayes.

    `p(x | y=k) = N(x; μ_k, Σ_k)` with `μ_k = Σ_n w_nk x_n / n_k` and, by maximum likelihood,
    `Σ_k = Σ_n w_nk (x_n-μ_k)(x_n-μ_k)ᵀ / n_k`, n_k the weight of the class; `shared=True` pools
    the scatters, `Σ = Σ_k scatter_k / n`. The divisor is the count unless `ddof` says otherwise.

    ::

        covariance   per class                 shared
        full         QDA                       LDA
        diag         Gaussian naive Bayes      diagonal LDA
        spherical    spheres of their own      nearest centroid

    All rules of rank and regularisation are relative to the data's own scale, so x and 1000 x
    give the same posterior. A variance below the rounding of the feature, (ε · root mean square)²
    with ε the dtype's epsilon, is raised to it; a correlation matrix that is numerically
    singular gets 10 d ε on its diagonal. Both give the limit of a density that is
    infinitely thin there; `genclf.diagnose` reports them, `genclf.validate` raises.

    Args:
        covariance: "full", "diag" or "spherical" (one variance, the mean over the features).
        shared: one covariance for all classes.
        ridge: added to each variance, as a share of that feature's pooled within-class variance
            (of its total variance, where it is constant within every class). 0: none.
        ddof: subtracted from the divisor, n_k - ddof, or n - ddof where shared: 1 gives the
            unbiased class covariance; K the unbiased pooled one. 0: maximum likelihood.
        prior: a `NormalInverseWishart`, instead of ridge and ddof; the estimate is then its mode.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Gaussian(shared=True), num_classes=2)
        >>> x = jnp.array([[0.0], [2.0], [4.0], [6.0]])
        >>> params = gcf.fit(clf, x, jnp.array([0, 0, 1, 1]))
        >>> print(params.conditional.mean.ravel(), params.conditional.covariances.ravel())
        [1. 5.] [1. 1.]

    References:
        Hastie, Tibshirani & Friedman (2009), The Elements of Statistical Learning, §4.3.
    """

    covariance: Covariance = eqx.field(static=True, default="full")
    shared: bool = eqx.field(static=True, default=False)
    ridge: Scalar = 0.0
    ddof: Scalar = 0.0
    prior: NormalInverseWishart | None = None

    @property
    def support(self) -> Support:
        return FINITE

    def stats(self, x: Shaped[Array, "n d"], w: ClassWeights) -> Moments:
        """`Moments`: count, mean and scatter (its diagonal, unless the covariance is full)."""
        return moments(x, w, full=self.covariance == "full")

    def estimate(self, stats: Moments) -> GaussianParams:
        """Means and square roots of the covariances.

        A class without weight takes the mean and the covariance of all classes together: its
        prior is zero, so they only have to be finite.
        """
        stats, ddof = self._with_prior(stats)
        found = self._covariance(stats, ddof)
        mean = jnp.where(stats.count[:, None] == 0, found.overall_mean[None], stats.mean)
        return GaussianParams(mean, found.square_root(), self.covariance, self.shared)

    def _with_prior(self, stats: Moments) -> tuple[Moments, Scalar | Array]:
        """The statistics merged with the prior's, and what to take from their count."""
        if self.prior is None:
            return stats, self.ddof
        pseudo, ddof = self.conjugate_prior(stats).pseudo_moments()
        return merge(stats, pseudo), ddof

    def start(self, stats: Moments) -> GaussianParams:
        """The mean and the covariance of all examples together, in every class."""
        overall = pool(stats)
        root = root_of_total(overall, spherical=self.covariance == "spherical")
        copies = 1 if self.shared else len(stats.count)
        return GaussianParams(
            jnp.broadcast_to(overall.mean, stats.mean.shape),
            jnp.broadcast_to(root, (copies, *root.shape)),
            self.covariance,
            self.shared,
        )

    def prior_stats(self, stats: Moments) -> Moments:
        """The prior as examples; or `-ddof` examples, and the scatter that the ridge adds.

        What the divisor takes besides the prior's κ stands at the mode, where it moves no mean.
        """
        if self.prior is None:
            return regularisation(stats, shared=self.shared, ridge=self.ridge, ddof=self.ddof)
        pseudo, ddof = self.conjugate_prior(stats).pseudo_moments()
        others = jnp.full_like(stats.count, -ddof / len(stats.count) if self.shared else -ddof)
        at_mode = merge(stats, pseudo).mean
        return merge(pseudo, Moments(others, at_mode, jnp.zeros_like(stats.scatter)))

    def plain(self) -> Gaussian:
        return Gaussian(self.covariance, self.shared)

    def conjugate_prior(self, stats: Moments) -> NormalInverseWisharts:
        """The prior given; without one it is flat, or what ridge and ddof make of that."""
        if self.prior is not None:
            return self.prior.resolve(stats, self.covariance, self.shared)
        return flat_prior(
            stats, self.prior_stats(stats).scatter, self.ddof, self.covariance, self.shared
        )

    def _given_prior(self) -> NormalInverseWishart:
        if self.prior is None:
            raise ValueError("Gaussian has no proper prior: give prior=NormalInverseWishart()")
        return self.prior

    def prior_strength(self, stats: Any) -> dict[str, Array]:
        return self._given_prior().strength(stats)

    def with_prior_strength(self, free: dict[str, Array], stats: Any) -> Gaussian:
        prior = self._given_prior().with_strength(free, stats)
        return Gaussian(self.covariance, self.shared, prior=prior)

    def predictive(self, posterior: Conjugate, stats: Moments) -> StudentTParams:
        """Student-t densities; see `StudentTParams`."""
        assert isinstance(posterior, NormalInverseWisharts)
        dof = posterior.predictive_dof
        copies = jnp.expand_dims(dof, tuple(range(1, posterior.scale.ndim)))
        return StudentTParams(
            posterior.mean,
            posterior.root() / jnp.sqrt(copies),
            dof,
            1 + 1 / jnp.where(posterior.kappa > 0, posterior.kappa, jnp.nan),
            self.covariance,
            self.shared,
        )

    def _covariance(self, stats: Moments, ddof: Scalar | Array) -> CovarianceEstimate:
        return estimate_covariance(
            stats,
            shared=self.shared,
            spherical=self.covariance == "spherical",
            ridge=self.ridge,
            ddof=ddof,
        )

    def check_stats(self, stats: PyTree) -> None:
        if not isinstance(stats, Moments) or stats.is_full != (self.covariance == "full"):
            form = "whole" if self.covariance == "full" else "diagonal"
            raise ValueError(
                f"Gaussian({self.covariance!r}) estimates from Moments with {form} scatters, "
                f"got {stats!r}"
            )

    def num_parameters(self, num_classes: int, d: int) -> int:
        """Means, plus d(d+1)/2, d or 1 numbers for each covariance."""
        one = {"full": d * (d + 1) // 2, "diag": d, "spherical": 1}[self.covariance]
        return num_classes * d + one * (1 if self.shared else num_classes)

    def diagnose(self, stats: Moments) -> GaussianDiagnosis:
        """Rank and condition of each class' covariance, ridge included; see GaussianDiagnosis."""
        return self._covariance(*self._with_prior(stats)).diagnose(stats.count, self.shared)

    def invalid_hyperparameters(self, d: Any = None) -> list[str]:
        rules = [("ridge", self.ridge), ("ddof", self.ddof)]
        wrong = [f"{name} is {value}, expected >= 0" for name, value in rules if not value >= 0]
        if self.covariance not in ("full", "diag", "spherical"):
            wrong.append(f"covariance is {self.covariance!r}, expected full, diag or spherical")
        if self.prior is not None and not isinstance(self.prior, NormalInverseWishart):
            wrong.append(f"prior is {self.prior!r}, expected a NormalInverseWishart")
        elif self.prior is not None:
            wrong += self.prior.problems(1 if self.covariance != "full" else d)
            given = [name for name, value in rules if value != 0]
            wrong += [f"{name} and a prior are given, expected one of them" for name in given]
        return wrong
