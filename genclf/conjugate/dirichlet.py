"""Dirichlet and beta distributions: of tables of probabilities, and of single ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float

from genclf.conjugate.base import (
    Conjugate,
    Interval,
    central,
    log_rising,
    quantile,
    spread_to,
)
from genclf.parameters import Parameter
from genclf.statistics import Sums


class Dirichlet(eqx.Module):
    """A Dirichlet prior of tables of probabilities: `p(θ) ∝ Π_v θ_v^(a_v - 1)`.

    With counts c it gives the mode `θ_v ∝ c_v + a_v - 1`, which `fit` returns, and the mean
    `θ_v ∝ c_v + a_v`, which is what `predictive` makes of the next draw. So smoothing by α
    examples of every value is the mode under a = α + 1 (the prior that `alpha=α` stands for), and
    the mean under a = α: Laplace's rule, α = 1, is the mode under a = 2 or the mean under the
    uniform prior a = 1. Where a < 1 the mode has zeros, wherever `c_v + a_v <= 1`; `posterior`
    reports them as `on_boundary`.

    Args:
        concentration: a > 0, one number for all values, or an array of shape (V,) or (K, V).
            `Categorical` has the tables of its columns side by side; a class prior has (K,).

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Multinomial(prior=gcf.Dirichlet(3.0)), num_classes=1)
        >>> params = gcf.fit(clf, jnp.array([[4, 0]]), jnp.array([0]))
        >>> print(jnp.exp(params.conditional.log_theta))  # (4 + 2) / 8 and 2 / 8
        [[0.75 0.25]]

    References:
        Murphy (2012), Machine Learning: A Probabilistic Perspective, §3.4.
    """

    concentration: Any

    def problems(self) -> list[str]:
        """What is wrong with the concrete numbers, in words."""
        return positive("concentration", self.concentration)

    def pseudo_counts(self, total: Array) -> Array:
        """`a - 1`, or as much less than nothing as there is to take: `-total`."""
        a = positive_or_nan(spread_to(self.concentration, total.shape, total.dtype, _CONCENTRATION))
        return jnp.maximum(a - 1, -total)

    def strength(self, stats: Sums) -> dict[str, Array]:
        """Free coordinates: the logarithm of the concentration."""
        return {"concentration": jnp.log(jnp.asarray(self.concentration, stats.count.dtype))}

    def with_strength(self, free: dict[str, Array], stats: Sums) -> Dirichlet:
        """The prior of these coordinates."""
        return Dirichlet(jnp.exp(free["concentration"]))

    def tables(self, total: Array, field: str, sizes: tuple[int, ...] = ()) -> Dirichlets:
        """The prior of tables of the shape of `total`."""
        a = spread_to(self.concentration, total.shape, total.dtype, _CONCENTRATION)
        return Dirichlets(positive_or_nan(a), field, sizes)


_CONCENTRATION = "the concentration of a Dirichlet"


class Dirichlets(Conjugate):
    """Independent Dirichlet distributions of tables.

    Attributes:
        concentration: shape (K, V), or (V,).
        field: what the params class calls the logarithm of the tables.
        sizes: of the tables that stand side by side; () for one.
    """

    concentration: Float[Array, "..."]
    field: str = eqx.field(static=True)
    sizes: tuple[int, ...] = eqx.field(static=True)

    @property
    def _simplex(self) -> Parameter:
        return Parameter("simplex", "log", tables=self.sizes)

    @property
    def value(self) -> str:
        """What the tables themselves are called."""
        return "class_prior" if self.field == "log_prior" else self.field.removeprefix("log_")

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.concentration.shape[:-2]

    @property
    def proper(self) -> Bool[Array, "..."]:
        return (self.concentration > 0).all(-1)

    def improper(self, k: int) -> str:
        return f"the concentration of {self.value} is not above 0 everywhere: give Dirichlet(a > 0)"

    def update(self, stats: Sums) -> Dirichlets:
        return Dirichlets(self.concentration + stats.total, self.field, self.sizes)

    def _log_beta(self) -> Float[Array, ""]:
        """Log of the multivariate beta functions, summed over the tables."""
        sums = self._simplex.table_sums(self.concentration)
        return gammaln(self.concentration).sum() - gammaln(sums).sum()

    def log_evidence(self, stats: Sums) -> Float[Array, ""]:
        """`Σ log B(a + c) - log B(a)`: the values in their order, so without a coefficient."""
        sums = self._simplex.table_sums
        whole = log_rising(sums(self.concentration), sums(stats.total))
        return log_rising(self.concentration, stats.total).sum() - whole.sum()

    def log_prob(self, arrays: Mapping[str, Array]) -> Float[Array, ""]:
        """`Σ (a_v - 1) log θ_v - log B(a)`."""
        power, log_theta = self.concentration - 1, arrays[self.field]
        return (power * jnp.where(power == 0, 0, log_theta)).sum() - self._log_beta()

    def _sums(self) -> Float[Array, "..."]:
        """The concentration of the whole table, at each of its entries."""
        table = self._simplex.table_of(self.concentration.shape[-1])
        return self._simplex.table_sums(self.concentration)[..., table]

    def expected(self) -> dict[str, Array]:
        """`log a_v / Σ a_v`."""
        return {self.field: jnp.log(self.concentration) - jnp.log(self._sums())}

    def sample(self, key: Array) -> dict[str, Array]:
        """Gamma variables over their sum, in logarithms: of small concentrations many underflow."""
        log_gamma = jax.random.loggamma(key, self.concentration)
        table = self._simplex.table_of(log_gamma.shape[-1])
        largest = jnp.full((*log_gamma.shape[:-1], table[-1] + 1), -jnp.inf, log_gamma.dtype)
        log_gamma = log_gamma - largest.at[..., table].max(log_gamma)[..., table]
        log_sums = jnp.log(self._simplex.table_sums(jnp.exp(log_gamma)))
        return {self.field: log_gamma - log_sums[..., table]}

    def interval(self, level: Array) -> dict[str, Interval]:
        """Of each probability: that of Beta(a_v, Σ a - a_v)."""
        a = self.concentration
        rest = self._sums() - a
        return {self.value: central(level, lambda p: quantile("betaincinv", a, rest, p))}


class Beta(eqx.Module):
    """A beta prior of probabilities: `p(p_kj) ∝ p_kj^(a-1) (1 - p_kj)^(b-1)`.

    With `total` ones among `count` it gives the mode `(total + a - 1) / (count + a + b - 2)`, which
    `fit` returns, and the mean `(total + a) / (count + a + b)`, which `predictive` uses. Smoothing
    by `alpha` is the mode under a = b = alpha + 1, and the mean under a = b = alpha.

    Args:
        a: > 0; a - 1 ones are imagined. A number, or an array of shape (d,) or (K, d).
        b: > 0; b - 1 zeros are imagined.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Bernoulli(prior=gcf.Beta(2.0, 4.0)), num_classes=1)
        >>> params = gcf.fit(clf, jnp.array([[1], [1]]), jnp.array([0, 0]))
        >>> print(params.conditional.probs)  # (2 + 1) / (2 + 4)
        [[0.5]]

    References:
        Murphy (2012), Machine Learning: A Probabilistic Perspective, §3.3.
    """

    a: Any
    b: Any

    def problems(self) -> list[str]:
        """What is wrong with the concrete numbers, in words."""
        return positive("a", self.a) + positive("b", self.b)

    def pseudo_counts(self, ones: Array, zeros: Array) -> tuple[Array, Array]:
        """`a - 1` and `b - 1`, or as much less than nothing as there is to take."""
        prior = self.chances(ones)
        return jnp.maximum(prior.a - 1, -ones), jnp.maximum(prior.b - 1, -zeros)

    def strength(self, stats: Sums) -> dict[str, Array]:
        """Free coordinates: the logarithms of a and b."""
        dtype = stats.count.dtype
        return {"a": jnp.log(jnp.asarray(self.a, dtype)), "b": jnp.log(jnp.asarray(self.b, dtype))}

    def with_strength(self, free: dict[str, Array], stats: Sums) -> Beta:
        """The prior of these coordinates."""
        return Beta(jnp.exp(free["a"]), jnp.exp(free["b"]))

    def chances(self, like: Array) -> Betas:
        """The prior of probabilities of that shape."""
        a, b = (
            spread_to(v, like.shape, like.dtype, "a parameter of Beta") for v in (self.a, self.b)
        )
        return Betas(positive_or_nan(a), positive_or_nan(b))


class Betas(Conjugate):
    """Independent beta distributions of probabilities, which the params class keeps as logits.

    Attributes:
        a: shape (K, d).
        b: shape (K, d).
    """

    a: Float[Array, "..."]
    b: Float[Array, "..."]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.a.shape[:-2]

    @property
    def proper(self) -> Bool[Array, "..."]:
        return ((self.a > 0) & (self.b > 0)).all(-1)

    def improper(self, k: int) -> str:
        return "a parameter of the beta distribution is not above 0: give Beta(a > 0, b > 0)"

    def update(self, stats: Sums) -> Betas:
        return Betas(self.a + stats.total, self.b + (stats.count[..., None] - stats.total))

    def _log_beta(self) -> Float[Array, ""]:
        return (gammaln(self.a) + gammaln(self.b) - gammaln(self.a + self.b)).sum()

    def log_evidence(self, stats: Sums) -> Float[Array, ""]:
        """`Σ log B(a + ones, b + zeros) - log B(a, b)`."""
        zeros = stats.count[..., None] - stats.total
        found = log_rising(self.a, stats.total) + log_rising(self.b, zeros)
        return (found - log_rising(self.a + self.b, stats.total + zeros)).sum()

    def log_prob(self, arrays: Mapping[str, Array]) -> Float[Array, ""]:
        """`Σ (a-1) log p + (b-1) log (1-p) - log B(a, b)`."""
        logits = arrays["logits"]
        for_ones, for_zeros = jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)
        power, other = self.a - 1, self.b - 1
        terms = power * jnp.where(power == 0, 0, for_ones)
        terms = terms + other * jnp.where(other == 0, 0, for_zeros)
        return terms.sum() - self._log_beta()

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
        """Of each probability."""
        return {"probs": central(level, lambda p: quantile("betaincinv", self.a, self.b, p))}


def positive_or_nan(a: Array) -> Array:
    """NaN where a parameter that must be above 0 is not."""
    return jnp.where(a > 0, a, jnp.nan)


def positive(name: str, value: Any) -> list[str]:
    """The complaint about a concrete parameter that is not above 0 everywhere."""
    if np.all(np.asarray(value) > 0):
        return []
    return [f"{name} of the prior is {value}, expected > 0"]


def smoothing(alpha: Any, prior: Dirichlet | None) -> Dirichlet:
    """The prior that the hyper-parameters of a family of tables stand for."""
    return Dirichlet(alpha + 1.0) if prior is None else prior


def pseudo_counts(alpha: Any, prior: Dirichlet | None, total: Array) -> Array:
    """What it adds to the counts."""
    return jnp.full_like(total, alpha) if prior is None else prior.pseudo_counts(total)


def smoothing_problems(
    alpha: Any, prior: Dirichlet | Beta | None, name: str = "alpha", usual: float = 1.0
) -> list[str]:
    """What is wrong with them as far as they are concrete, in words."""
    if prior is None:
        return [] if alpha >= 0 else [f"{name} is {alpha}, expected >= 0"]
    both = [f"{name} and a prior are given, expected one of them"] if alpha != usual else []
    return prior.problems() + both
