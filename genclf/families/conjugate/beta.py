"""Beta distributions of probabilities that are stored as logits."""

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
from genclf.numerics.logarithms import (
    log_gamma_remainder,
    log_pochhammer_remainder,
    weighted_log_shares,
)
from genclf.numerics.namespace import Array, namespace
from genclf.sums.statistics import Sums


class Beta(Prior):
    """A beta prior of probabilities: `p(p_kj) ∝ p_kj^(a-1) (1 - p_kj)^(b-1)`.

    With `total` ones among `count` it gives the mode `(total + a - 1) / (count + a + b - 2)`, which
    `fit` returns, and the mean `(total + a) / (count + a + b)`, which `predictive` uses. Smoothing
    by `alpha` is the mode under a = b = alpha + 1, and the mean under a = b = alpha.

    Args:
        a: > 0, equivalent to a - 1 extra ones. A number, or an array of shape (d,) or (K, d).
        b: > 0, equivalent to b - 1 extra zeros.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Bernoulli(prior=gcf.Beta(2.0, 4.0)), num_classes=1)
        >>> params = gcf.fit(clf, jnp.array([[1], [1]]), jnp.array([0, 0]))
        >>> print(params.conditional.probs)  # (2 + 1) / (2 + 4)
        [[0.5]]

    References:
        Murphy (2012), Machine Learning: A Probabilistic Perspective, §3.3.
    """

    domains: ClassVar = {"a": POSITIVES, "b": POSITIVES}

    a: Any = field(converter=numbers)
    b: Any = field(converter=numbers)

    def pseudo_counts(self, ones: Array, zeros: Array) -> tuple[Array, Array]:
        """`a - 1` and `b - 1`, but not below `-ones` and `-zeros`: no sum becomes negative."""
        xp = namespace(ones)
        prior = self.resolve(ones)
        return xp.maximum(prior.a - 1, -ones), xp.maximum(prior.b - 1, -zeros)

    def resolve(self, like: Array) -> BetaDistribution:
        """The prior of probabilities in the shape of `like`."""
        return BetaDistribution(*self.in_shape_of(like))


class BetaDistribution(Conjugate):
    """Independent beta distributions of probabilities, which the params class stores as logits.

    Attributes:
        a: shape (K, d).
        b: shape (K, d).
    """

    example: ClassVar = "Beta(1.0, 1.0)"

    a: Float[Array, "..."]
    b: Float[Array, "..."]

    @property
    def proper(self) -> Bool[Array, "..."]:
        return ((self.a > 0) & (self.b > 0)).all(-1)

    def why_improper(self, k: int) -> str:
        return "a parameter of the beta distribution is not above 0"

    def update(self, stats: Sums) -> BetaDistribution:
        return BetaDistribution(self.a + stats.total, self.b + zeros_of(stats))

    def log_evidence(self, stats: Sums) -> Float[Array, ""]:
        """`Σ log B(a + ones, b + zeros) - log B(a, b)`."""
        ones, zeros = stats.total, zeros_of(stats)
        rest = log_pochhammer_remainder(self.a, ones) + log_pochhammer_remainder(self.b, zeros)
        rest = rest - log_pochhammer_remainder(self.a + self.b, ones + zeros)
        return (
            rest.sum()
            + weighted_log_shares(ones, ones + zeros)
            + weighted_log_shares(zeros, ones + zeros)
        )

    def log_prob(self, arrays: Mapping[str, Array]) -> Float[Array, ""]:
        """`Σ (a-1) log p + (b-1) log (1-p) - log B(a, b)`."""
        logits, a, b = arrays["logits"], self.a, self.b
        total, at_end = a + b, jnp.isinf(logits)
        logits = jnp.where(at_end, 0, logits)
        # The maximum of a log p + b log (1-p) is the large part of log B(a, b), so the two cancel.
        # What is left is -total KL(a / total ‖ p), from the distance of the logit to its maximum.
        deviation = logits - (jnp.log(a) - jnp.log(b))
        above = deviation > 0
        distance, weight = jnp.where(above, deviation, -deviation), jnp.where(above, b, a)
        divergence = weight * distance + total * jnp.log1p(weight / total * jnp.expm1(-distance))
        rest = log_gamma_remainder(a) + log_gamma_remainder(b) - log_gamma_remainder(total)
        inside = -divergence - jax.nn.log_sigmoid(logits) - jax.nn.log_sigmoid(-logits) - rest
        # p^(a-1) at p = 0 is 1 if a is 1, where B(1, b) = 1 / b; and so at p = 1.
        low = arrays["logits"] < 0
        power, other = jnp.where(low, a, b), jnp.where(low, b, a)
        end = jnp.where(power == 1, jnp.log(other), jnp.where(power > 1, -jnp.inf, jnp.inf))
        return jnp.where(at_end, end, inside).sum()

    def expected(self) -> dict[str, Array]:
        """The logit of `a / (a + b)`."""
        return {"logits": jnp.log(self.a) - jnp.log(self.b)}

    def sample(self, key: Array) -> dict[str, Array]:
        """The difference of the logarithms of two gamma variables."""
        keys = jax.random.split(key)
        return {
            "logits": jax.random.loggamma(keys[0], self.a) - jax.random.loggamma(keys[1], self.b)
        }

    def interval(self, level: Array) -> dict[str, Interval]:
        """The central interval of each probability."""
        return {"probs": central(level, lambda p: quantile("betaincinv", self.a, self.b, p))}


def zeros_of(stats: Sums) -> Float[Array, "*batch K d"]:
    """Weight of the zeros, `count - total`; a difference within rounding is 0."""
    xp = namespace(stats.total)
    # Pseudo-counts of a prior have a count for each feature.
    per_feature = stats.count.ndim == stats.total.ndim
    count = stats.count if per_feature else stats.count[..., None]
    zeros = count - stats.total
    rounding = 8 * xp.finfo(zeros.dtype).eps * count
    zeros = xp.where(xp.abs(zeros) <= rounding, 0, zeros)
    return xp.where(zeros < 0, xp.nan, zeros)  # not statistics of 0/1 data
