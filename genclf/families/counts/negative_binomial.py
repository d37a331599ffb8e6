"""Negative binomial class densities: counts whose rates are uncertain."""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, Int, Shaped

from genclf.arguments.module import static
from genclf.arguments.parameters import Parameter
from genclf.families.capabilities import HasTerms
from genclf.families.counts.smoothed import EVENTS, counted
from genclf.families.missing import MayMiss, Missing
from genclf.families.mode import mode
from genclf.families.support import Support
from genclf.numerics import loops
from genclf.numerics.log_pochhammer import log_rising_sums, rising_table
from genclf.numerics.logarithms import log_factorial_remainder, log_pochhammer_remainder
from genclf.numerics.namespace import Array, matmul
from genclf.numerics.row_blocks import over_rows

_LARGE = 64  # a count above which the term common to all classes dominates the score


class NegativeBinomialParams(MayMiss, HasTerms):
    """The density of counts whose rates have gamma distributions: the predictive of `Poisson`.

    `p(x | k) = Π_j Γ(a_kj + x_j) / (Γ(a_kj) x_j!) (b_kj / (b_kj + 1))^a_kj / (b_kj + 1)^x_j`, with
    `λ_kj ~ Gamma(a_kj, b_kj)` integrated out.

    Attributes:
        shape: a, shape (K, d).
        rate: b, shape (K, d).
        missing: "marginalize" if missing cells are integrated out, else "error".
        missing_code: the integer that marks a missing cell if x is integer.

    References:
        Gelman et al. (2013), Bayesian Data Analysis, §2.6.
    """

    parameters: ClassVar = dict.fromkeys(("shape", "rate"), Parameter("positive"))

    shape: Float[Array, "K d"]
    rate: Float[Array, "K d"]
    missing: Missing = static(default="error")
    missing_code: int = static(default=-1)

    @property
    def support(self) -> Support:
        return self.allowing(EVENTS)

    def log_prob(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`Σ_j log (a_kj)_x_j - log x_j! - a_kj log (1 + 1 / b_kj) - x_j log (b_kj + 1)`."""

        def rows(x: Array) -> Array:
            counts, seen = self._counted(x)
            common = log_factorial_remainder(counts).sum(-1, keepdims=True)
            return self._minus_common(counts, seen) - common

        return over_rows(rows, x, 1, 4 * self.num_features)

    def discriminant(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        """`log_prob` without a term that all classes share, such as `log x!`."""
        table = rising_table(self.shape, math.prod(x.shape[:-1]))

        def rows(x: Array) -> Array:
            counts, seen = self._counted(x)

            def small() -> Array:
                linear = matmul(counts, jnp.log1p(self.rate).T)
                return log_rising_sums(counts, self.shape, table) - linear + self._empty(seen)

            return loops.cond(
                (counts > _LARGE).any(), lambda: self._minus_common(counts, seen), small
            )

        return over_rows(rows, x, 1, self.num_features)

    def terms(
        self, x: Shaped[Array, "*batch d"], y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """The difference of the log-densities of each count."""
        counts, seen = self._counted(x)

        def each(k: Array) -> Array:
            a, b = self.shape[k], self.rate[k]
            return (
                log_pochhammer_remainder(a, counts) - counts * jnp.log1p(b) - a * jnp.log1p(1 / b)
            )

        return jnp.where(seen, each(y) - each(other), 0)

    def _minus_common(self, counts: Array, seen: Array) -> Float[Array, "n K"]:
        """The scores minus `Σ_j x_j log x_j - x_j`, which hides their differences in float32."""

        def of_class(of: tuple[Array, Array]) -> Array:
            a = jnp.broadcast_to(of[0][None], counts.shape)
            return log_pochhammer_remainder(a, counts).sum(-1) - matmul(counts, jnp.log1p(of[1]))

        found = lax.map(of_class, (self.shape, self.rate)).T
        invalid = jnp.isnan(counts).any(-1, keepdims=True)
        return jnp.where(invalid, jnp.nan, found + self._empty(seen))

    def _empty(self, seen: Array) -> Float[Array, "n K"]:
        """The log-probability that all observed cells are 0."""
        each = -self.shape * jnp.log1p(1 / self.rate)
        return matmul(seen.astype(each.dtype), each.T)

    def _counted(self, x: Array) -> tuple[Float[Array, "n d"], Array]:
        counts, seen = counted(x, self)
        return counts.astype(self.shape.dtype), seen

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Int[Array, "*shape d"]:
        """Poisson draws, each with its own rate."""
        key_rate, key_count = jax.random.split(key)
        log_rate = jax.random.loggamma(key_rate, self.shape[y]) - jnp.log(self.rate[y])
        return jax.random.poisson(key_count, jnp.exp(log_rate))


@mode.register
def _(density: NegativeBinomialParams) -> Array:
    return jnp.floor(jnp.maximum(density.shape - 1, 0) / density.rate)
