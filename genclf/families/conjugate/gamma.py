"""Gamma distributions of rates that are stored as logarithms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from genclf.arguments.arrays import numbers
from genclf.arguments.domains import POSITIVES
from genclf.arguments.module import field
from genclf.families.conjugate.base import Conjugate, Interval, Prior, central, quantile
from genclf.numerics.logarithms import log_gamma_remainder, log_pochhammer_remainder
from genclf.numerics.namespace import Array
from genclf.sums.statistics import Sums


class Gamma(Prior):
    """A gamma prior of rates: `p(λ_kj) ∝ λ_kj^(shape - 1) exp(-rate λ_kj)`.

    With `total` events in `count` rows it gives the mode `(total + shape - 1) / (count + rate)`,
    which `fit` returns, and the mean `(total + shape) / (count + rate)`. The mean of the prior is
    `shape / rate`, and it weighs as much as `rate` rows.

    Args:
        shape: > 0, equivalent to shape - 1 extra events. A number, or an array of shape (d,) or
            (K, d).
        rate: > 0, equivalent to that many extra rows.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Poisson(prior=gcf.Gamma(3.0, 2.0)), num_classes=1)
        >>> params = gcf.fit(clf, jnp.array([[4], [6]]), jnp.array([0, 0]))
        >>> print(jnp.exp(params.conditional.log_rate))  # (10 + 2) / (2 + 2)
        [[3.]]

    References:
        Gelman et al. (2013), Bayesian Data Analysis, §2.6.
    """

    domains: ClassVar = {"shape": POSITIVES, "rate": POSITIVES}

    shape: Any = field(converter=numbers)
    rate: Any = field(converter=numbers)

    def resolve(self, like: Array) -> GammaDistribution:
        """The prior of rates in the shape of `like`."""
        return GammaDistribution(*self.in_shape_of(like))


class GammaDistribution(Conjugate):
    """Independent gamma distributions of rates, which the params class stores as logarithms.

    Attributes:
        shape: shape (K, d).
        rate: shape (K, d).
    """

    example: ClassVar = "Gamma(1.0, 1.0)"

    shape: Float[Array, "..."]
    rate: Float[Array, "..."]

    @property
    def proper(self) -> Bool[Array, "..."]:
        return ((self.shape > 0) & (self.rate > 0)).all(-1)

    def why_improper(self, k: int) -> str:
        return "the shape or the rate of the gamma distribution is not above 0"

    def update(self, stats: Sums) -> GammaDistribution:
        total, exposure, _ = split_events(stats)
        return GammaDistribution(self.shape + total, self.rate + exposure)

    def log_evidence(self, stats: Sums) -> Float[Array, ""]:
        """`Σ log Γ(a + total) / Γ(a) + a log b - (a + total) log (b + count) - Σ log x!`."""
        total, exposure, log_factorials = split_events(stats)
        after = self.rate + exposure
        some = total > 0
        per_row = jnp.log(jnp.where(some, total, 1) / after)
        terms = log_pochhammer_remainder(self.shape, total)
        terms = terms + jnp.where(some, total * (per_row - 1), 0)
        terms = terms - self.shape * jnp.log1p(exposure / self.rate)
        return terms.sum() - log_factorials.sum()

    def log_prob(self, arrays: Mapping[str, Array]) -> Float[Array, ""]:
        """`Σ a log b - log Γ(a) + (a - 1) log λ - b λ`."""
        log_rate, a, b = arrays["log_rate"], self.shape, self.rate
        share = b * jnp.exp(log_rate) / a
        # Combine a log λ with the largest part of log Γ(a): both are large and nearly cancel.
        main = a * (log_rate + jnp.log(b / a)) - log_rate + a * (1 - share)
        main = jnp.where(a == 1, jnp.log(b) + 1 - share, main)
        return (main - log_gamma_remainder(a)).sum()

    def expected(self) -> dict[str, Array]:
        """`log a / b`."""
        return {"log_rate": jnp.log(self.shape) - jnp.log(self.rate)}

    def sample(self, key: Array) -> dict[str, Array]:
        return {"log_rate": jax.random.loggamma(key, self.shape) - jnp.log(self.rate)}

    def interval(self, level: Array) -> dict[str, Interval]:
        """The central interval of each rate."""
        bound = lambda p: quantile("gammaincinv", self.shape, p) / self.rate  # noqa: E731
        return {"rate": central(level, bound)}


def split_events(stats: Sums) -> tuple[Array, Array, Array]:
    """Split statistics into events, exposure and `Σ log x!`, which is the last column of the total.

    Events are (K, d). The exposure is the weight of rows (K, 1), or of observed cells (K, d). The
    sums of `log x!` are (K,).
    """
    per_feature = stats.count.ndim == stats.total.ndim
    exposure = stats.count[..., :-1] if per_feature else stats.count[..., None]
    return stats.total[..., :-1], exposure, stats.total[..., -1]
