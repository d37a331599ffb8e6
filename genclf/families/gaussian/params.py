"""Fitted Gaussian densities: scores, forms, likelihoods and draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree, Shaped
from numpy.typing import ArrayLike

from genclf.arguments.module import static
from genclf.arguments.parameters import Parameter
from genclf.covariance.scale import Scale
from genclf.covariance.scales import Form, OfForm
from genclf.families.base import Condition, Params
from genclf.families.capabilities import HasConditionals, HasLinearForm, HasQuadraticForm, HasTerms
from genclf.families.gaussian.marginal import (
    Completion,
    GaussianFeatures,
    completed,
    expected_features,
    missing_given_seen,
    trivial_completion,
)
from genclf.families.gaussian.terms import independent_terms, shared_terms, terms_of_seen
from genclf.families.given import mean_and_factor
from genclf.families.missing import MayMiss, Missing
from genclf.families.mode import deviance, mode
from genclf.families.support import FINITE, Support
from genclf.numerics import loops
from genclf.numerics.compensated import zero_low
from genclf.numerics.logarithms import LOG_2PI
from genclf.numerics.namespace import Array, constant, einsum, namespace
from genclf.numerics.scores.cells import common_norms
from genclf.numerics.scores.distances import distances
from genclf.numerics.scores.gaussian import GaussianScores
from genclf.numerics.scores.means import Means
from genclf.numerics.scores.shared_scale import linear_form
from genclf.sums.statistics import Moments

Scores = Callable[[Array], Array]


def describe_moments(d: int, arithmetic: Scale, shared: bool, may_miss: bool) -> str:
    """A description of what the `Moments` of a Gaussian of d features hold."""
    spread = f"pooled {arithmetic.spread}" if shared else arithmetic.spread
    by_cell = may_miss and not arithmetic.is_full
    return f"mean and {spread} of {d} real features" + (", by cell" if by_cell else "")


class GaussianParams(
    OfForm, MayMiss, HasConditionals, HasLinearForm, HasQuadraticForm, HasTerms, Params
):
    """Fitted Gaussian densities `N(x; mean_k, Σ_k)`, as `Gaussian.estimate` returns them.

    Attributes:
        mean: class means, shape (K, d).
        scale: a square root of the covariance, with a class axis of length 1 if the classes
            share it. "full": lower Cholesky factor L, Σ = L Lᵀ, shape (K or 1, d, d); "diag":
            standard deviations, (K or 1, d); "spherical": one standard deviation, (K or 1, 1);
            "low-rank": deviations s and loadings G as columns, Σ = diag(s²) + G Gᵀ,
            (K or 1, d, 1 + r).
        covariance: "full", "diag", "spherical" or "low-rank", the form of the covariances.
        shared: whether all classes have one covariance.
        missing: "marginalize" if NaN is a missing cell, else "error".
        rounding: the rounding errors of the means, shape (K, d): scores are those of
            `mean + rounding`, so that in float32 a common offset of all rows costs no precision.
            None in float64.
    """

    conditions: ClassVar = {
        HasLinearForm: Condition(
            "with shared=True",
            lambda self: self.shared,
            "use quadratic_form, or fit Gaussian(shared=True)",
        ),
        HasTerms: Condition(
            "with shared=True or independent features",
            lambda self: self.shared or not self.arithmetic.is_full or self.num_features == 1,
            'fit Gaussian(shared=True) or Gaussian("diag")',
        ),
    }

    mean: Float[Array, "K d"]
    scale: Float[Array, "..."]
    covariance: Form = static()
    shared: bool = static()
    missing: Missing = static()
    rounding: Float[Array, "K d"] | None

    def __init__(
        self,
        mean: Array,
        scale: Array,
        covariance: Form,
        shared: bool,
        missing: Missing = "error",
        rounding: Array | None = None,
    ):
        """By default the means are exact."""
        self.mean, self.scale = mean, scale
        self.covariance, self.shared, self.missing = covariance, shared, missing
        self.rounding = next(iter(zero_low(mean) or ()), None) if rounding is None else rounding

    @classmethod
    def of(cls, mean: ArrayLike, covariance: ArrayLike) -> GaussianParams:
        """The Gaussian densities of given means and covariance matrices.

        Args:
            mean: class means, shape (K, d).
            covariance: one matrix for all classes, shape (d, d), or one per class, (K, d, d).

        Returns:
            Params with `covariance="full"`, shared if there is one matrix. All NaN if traced
            arguments are invalid.

        Raises:
            ValueError: a shape does not fit, a number is not finite, or a matrix is not symmetric
                and positive definite.

        Example:
            >>> import jax.numpy as jnp, genclf as gcf
            >>> density = gcf.GaussianParams.of([[0.0, 0.0], [1.0, 2.0]], [[1.0, 0.5], [0.5, 1.0]])
            >>> print(density.log_prob(jnp.zeros(2)))
            [-1.694 -3.694]
        """
        mean, factor = mean_and_factor(mean, covariance)
        return cls(mean, factor, "full", shared=np.ndim(covariance) == 2)

    @property
    def support(self) -> Support:
        return self.allowing(FINITE)

    @property
    def parameters(self) -> dict[str, Parameter]:
        scale = Parameter(self.arithmetic.of_scale, event_ndim=self.arithmetic.event_ndim)
        return {"mean": Parameter("real"), "scale": scale}

    @property
    def axes(self) -> dict[str, str]:
        return {"scale": self.arithmetic.axes(self.shared)}

    def _problems(self) -> list[str]:
        mean, low = np.abs(self.mean), 0 if self.rounding is None else np.abs(self.rounding)
        is_rounding = np.all(low <= 1e-3 * mean.max(initial=0))
        is_positive = self.covariance != "low-rank" or np.all(self.scale[..., 0] > 0)
        wrong = [] if is_rounding else ["rounding is larger than any rounding of mean"]
        return wrong if is_positive else [*wrong, "scale has a deviation that is not positive"]

    @property
    def coupled(self) -> bool:
        return not self.arithmetic.is_product

    @property
    def covariances(self) -> Float[Array, "*batch K d d"]:
        """Covariance matrices Σ_k, shape (K, d, d), also of diagonals and spheres."""
        xp = namespace(self.mean)
        d = self.mean.shape[-1]
        each = self.arithmetic.matrices(xp.asarray(self.scale), d)  # of NumPy in an estimator
        return xp.broadcast_to(each, (*self.mean.shape, d))

    @property
    def scores(self) -> GaussianScores:
        """The log-densities as functions of rows."""
        means = Means(self.mean, constant(self.rounding))
        return GaussianScores(means, self.scale, self.arithmetic, self.shared, self.may_miss)

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log N(x; μ_k, Σ_k) = -½ (x-μ_k)ᵀ Σ_k⁻¹ (x-μ_k) - ½ log |2π Σ_k|`."""
        return self.scores.log_prob(x)

    def discriminant(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log_prob` up to a common term; if Σ is shared, `(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ`."""
        return self.scores.discriminant(x)

    def reduced(self, x: PyTree, reduce: Scores, *, normalised: bool, num_classes: int) -> Array:
        """As in `Density`, but without the scores of all branches in memory."""
        if self.may_miss:
            return super().reduced(x, reduce, normalised=normalised, num_classes=num_classes)
        return self.scores.reduced(x, reduce, normalised=normalised)

    def terms(
        self, x: Shaped[Array, "*batch d"], y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """Terms that depend neither on the origin nor on the units of x; see `terms.py`."""
        if not self.arithmetic.is_full or self.num_features == 1:
            scale = self.arithmetic.diagonal(self.scale)
            return independent_terms(x, y, other, self.scores.means, scale, self.may_miss)
        if self.may_miss:
            return terms_of_seen(x, y, other, self.scores.means, self.covariances[0])
        return shared_terms(x, y, other, self.scores.means, self.linear()[0])

    def complete(self, x: Shaped[Array, "n d"]) -> tuple[Float[Array, "n K"], Completion]:
        """`log_prob` of rows with missing cells, and their conditional means and covariances."""
        given = self.scores.in_units()

        def without_missing() -> tuple[Array, Completion]:
            return self.scores.of_complete(x), trivial_completion(x, given)

        def with_missing() -> tuple[Array, Completion]:
            score, completion = completed(x, given)
            return score + common_norms(x, given.unit)[:, None], completion

        return loops.cond(jnp.isnan(x).any(), with_missing, without_missing)

    def condition(self, x: Array, r: Float[Array, "*batch K"]) -> GaussianFeatures:
        """Mean and covariance of the features, for examples with class probabilities r."""
        batch, d = x.shape[:-1], x.shape[-1]
        rows = x.reshape(-1, d), r.reshape(-1, r.shape[-1])
        found = expected_features(*rows, self.scores.in_units())
        return jax.tree.map(lambda a: a.reshape(*batch, *a.shape[1:]), found)

    def sample_missing(self, key: Array, x: Array, y: Int[Array, "*shape"]) -> Array:
        """Draw each missing cell of x, given y and the observed cells."""
        drawn, d = self.sample(key, y), x.shape[-1]
        # For a complete draw x, x_m + Σ_mo Σ_oo⁻¹ (seen - x_o) has that distribution.
        difference = (x.astype(drawn.dtype) - drawn).reshape(-1, d)
        more = missing_given_seen(difference, y.reshape(-1), self.scores.in_units())
        return jnp.where(jnp.isnan(x), drawn + more.reshape(drawn.shape), x.astype(drawn.dtype))

    def linear(self) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
        """`Σ⁻¹ (μ_k - m)` and `-½ (μ_k - m)ᵀ Σ⁻¹ (μ_k + m)`, m the mean of the class means."""
        centre = self.mean.mean(0, keepdims=True)
        inverse = self.arithmetic.inverse(self.scale)[0]
        coef, _ = linear_form(self.scores.means, inverse, self.arithmetic, centre)
        return coef, -0.5 * (coef * (self.mean + centre)).sum(-1)

    def quadratic(self) -> tuple[Float[Array, "K d d"], Float[Array, "K d"], Float[Array, "K"]]:
        """`-½ Σ_k⁻¹`, `Σ_k⁻¹ μ_k` and `-½ μ_kᵀ Σ_k⁻¹ μ_k - ½ log |2π Σ_k|`."""
        xp = namespace(self.mean)
        num_classes, d = self.mean.shape
        precision = self.arithmetic.precisions(self.arithmetic.inverse(self.scale), d)
        precision = xp.broadcast_to(precision, (num_classes, d, d))
        coef = einsum("kij,kj->ki", precision, self.mean)
        intercept = -0.5 * einsum("ki,ki->k", coef, self.mean) + sum(self.scores.log_norms())
        return -0.5 * precision, coef, intercept

    @property
    def statistic(self) -> str:
        return describe_moments(self.num_features, self.arithmetic, self.shared, self.may_miss)

    def log_lik(self, stats: Moments) -> Float[Array, ""]:
        """`Σ_k count_k (-½ log |2π Σ_k|) - ½ tr Σ_k⁻¹ T_k`, T_k the scatter about mean_k."""
        xp = namespace(stats.mean)
        inverse = self.arithmetic.inverse(self.scale)
        if stats.of_cells:
            scale = xp.broadcast_to(self.scale, stats.mean.shape)
            norms = stats.count * (-xp.log(scale) - 0.5 * LOG_2PI)
        else:
            norms = stats.count * sum(self.scores.log_norms())
        centred = self.scores.means.subtracted_from(stats.mean)
        if stats.rounding is not None:
            centred = centred + stats.rounding[1]
        about_mean = stats.scatter + stats.outer(stats.count, centred)
        return norms.sum() - 0.5 * self.arithmetic.traces(inverse, about_mean).sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Float[Array, "*shape d"]:
        """`mean_y + L_y ε` with standard normal ε."""
        noise = jax.random.normal(key, (*y.shape, self.mean.shape[-1]), self.mean.dtype)
        return self.mean[y] + self.arithmetic.noise(noise, self.scale, y)


@mode.register
def _(density: GaussianParams) -> Array:
    return density.mean


@deviance.register
def _(density: GaussianParams, x: PyTree) -> Float[Array, "*batch K"]:
    """`(x-μ_k)ᵀ Σ_k⁻¹ (x-μ_k)`, of the observed cells."""
    if density.may_miss:
        return deviance.dispatch(object)(density, x)
    given = density.scores
    found = distances(x, given.means, given.scale, given.inverse, given.arithmetic)
    return jnp.maximum(found, 0)
