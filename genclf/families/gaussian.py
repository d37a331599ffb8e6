"""Gaussian class densities: full, diagonal or spherical covariance, per class or shared."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Shaped

from genclf.accumulate import ClassWeights, einsum, matmul, moments
from genclf.families.base import Family, Params, Scalar, Support, over_rows, spread
from genclf.families.covariance import (
    CovarianceEstimate,
    GaussianDiagnosis,
    estimate_covariance,
    inverse_lower,
    regularisation,
    root_of_total,
)
from genclf.parameters import Parameter
from genclf.statistics import Moments, pool

FINITE = Support(jnp.isfinite, "a finite number")

Covariance = Literal["full", "diag", "spherical"]

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
    def covariances(self) -> Float[Array, "K d d"]:
        """Covariance matrices Σ_k, shape (K, d, d), whatever the structure."""
        num_classes, d = self.mean.shape
        if self.covariance == "full":
            matrices = einsum("kij,klj->kil", self.scale, self.scale)
        else:
            matrices = (self.scale**2)[..., None] * jnp.eye(d, dtype=self.scale.dtype)[None]
        return jnp.broadcast_to(matrices, (num_classes, d, d))

    def _inverse_scale(self) -> Array:
        if self.covariance != "full":
            return 1 / self.scale
        return inverse_lower(self.scale)

    def _whiten(self, inverse: Array, deviation: Array) -> Array:
        """Z with |z|² = deviationᵀ Σ⁻¹ deviation, for the inverse scale of one class."""
        if self.covariance == "full":
            return matmul(deviation, inverse.T)
        return deviation * jnp.broadcast_to(inverse, deviation.shape)

    def _log_norms(self) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        """`-½ log |2π Σ_k|` in two terms: the class's own, free of units, and what all share."""
        d, full = self.mean.shape[-1], self.covariance == "full"
        diagonal = jnp.diagonal(self.scale, axis1=-2, axis2=-1) if full else self.scale
        diagonal = jnp.broadcast_to(diagonal, (len(diagonal), d))
        common = diagonal.mean(0, keepdims=True)
        return -jnp.log(diagonal / common).sum(-1), -jnp.log(common).sum() - 0.5 * d * _LOG_2PI

    def _map_classes(self, f, *leaves: Array, x: Array) -> Array:
        """F over the class axis: all at once for few rows, in turn where (n, K, d) would be big."""
        if x.size * len(self.mean) <= 2**16:
            return jnp.moveaxis(jax.vmap(f)(*leaves), 0, -1)
        return jnp.moveaxis(lax.map(lambda leaf: f(*leaf), leaves), 0, -1)

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log N(x; μ_k, Σ_k) = -½ (x-μ_k)ᵀ Σ_k⁻¹ (x-μ_k) - ½ log |2π Σ_k|`."""
        return self._log_prob_less_common(x) + self._log_norms()[1]

    def _log_prob_less_common(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        inverse, d = self._inverse_scale(), self.mean.shape[-1]

        def per_class(rows: Array) -> Array:
            def distance(mean: Array, inverse: Array) -> Array:
                return _squares(self._whiten(inverse, rows.astype(self.mean.dtype) - mean[None]))

            return self._map_classes(distance, self.mean, inverse, x=rows)

        def shared(rows: Array) -> Array:
            # Whiten once, about the centre of the means; classes then differ by a shift.
            centre = self.mean.mean(0, keepdims=True)
            z = self._whiten(inverse[0], rows.astype(self.mean.dtype) - centre)
            shift = self._whiten(inverse[0], self.mean - centre)
            return self._map_classes(lambda s: _squares(z - s[None]), shift, x=rows)

        distance = shared if self.shared else per_class
        half = -0.5 * over_rows(distance, x, 1, 2 * d)
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
        z = self._whiten(inverse, self.mean - centre)
        coef = matmul(z, inverse) if self.covariance == "full" else z * inverse[None]
        return coef, -0.5 * _squares(z)

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
        if self.covariance != "full":
            return self.mean[y] + jnp.broadcast_to(self.scale, self.mean.shape)[y] * noise
        if self.shared:
            return self.mean[y] + matmul(noise, self.scale[0].T)

        def add_class(k: Array, out: Array) -> Array:
            return jnp.where((y == k)[..., None], matmul(noise, self.scale[k].T), out)

        return self.mean[y] + lax.fori_loop(0, len(self.mean), add_class, noise)


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
        found = self._covariance(stats)
        mean = jnp.where(stats.count[:, None] == 0, found.overall_mean[None], stats.mean)
        return GaussianParams(mean, found.square_root(), self.covariance, self.shared)

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
        """`-ddof` examples, and the scatter that the ridge adds."""
        return regularisation(stats, shared=self.shared, ridge=self.ridge, ddof=self.ddof)

    def _covariance(self, stats: Moments) -> CovarianceEstimate:
        return estimate_covariance(
            stats,
            shared=self.shared,
            spherical=self.covariance == "spherical",
            ridge=self.ridge,
            ddof=self.ddof,
        )

    def check_stats(self, stats: Moments) -> None:
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
        return self._covariance(stats).diagnose(stats.count, self.shared)

    def invalid_hyperparameters(self) -> list[str]:
        rules = [("ridge", self.ridge, 0 <= self.ridge), ("ddof", self.ddof, self.ddof >= 0)]
        wrong = [f"{name} is {value}, expected >= 0" for name, value, ok in rules if not ok]
        if self.covariance not in ("full", "diag", "spherical"):
            wrong.append(f"covariance is {self.covariance!r}, expected full, diag or spherical")
        return wrong


def _squares(z: Array) -> Array:
    """|z|² over the last axis."""
    return (z * z).sum(-1)
