"""Dirichlet distributions of tables of probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from genclf.arguments.arrays import numbers
from genclf.arguments.domains import POSITIVES
from genclf.arguments.hyperparameters import is_concrete
from genclf.arguments.module import field, static
from genclf.arguments.parameters import Parameter
from genclf.families.conjugate.base import (
    Conjugate,
    Interval,
    Prior,
    broadcast_to_last_axes,
    central,
    positive_or_nan,
    quantile,
)
from genclf.numerics.logarithms import (
    log_gamma_remainder,
    log_pochhammer_remainder,
    weighted_log_shares,
)
from genclf.numerics.namespace import Array, namespace, on_host
from genclf.sums.statistics import Sums


class Dirichlet(Prior):
    """A Dirichlet prior of tables of probabilities: `p(θ) ∝ Π_v θ_v^(a_v - 1)`.

    With counts c it gives the mode `θ_v ∝ c_v + a_v - 1`, which `fit` returns, and the mean
    `θ_v ∝ c_v + a_v`, the predictive probability of the next draw. So smoothing by α
    examples of every value is the mode under a = α + 1 (the prior that `alpha=α` stands for), and
    the mean under a = α: Laplace's rule, α = 1, is the mode under a = 2 or the mean under the
    uniform prior a = 1. If a < 1, the mode is 0 wherever `c_v + a_v <= 1`; `posterior` reports this
    as `on_boundary`.

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

    domains: ClassVar = {"concentration": POSITIVES}

    concentration: Any = field(converter=numbers)

    def pseudo_counts(self, total: Array) -> Array:
        """`a - 1`, but not below `-total`: no sum becomes negative."""
        xp = namespace(total)
        return xp.maximum(self.resolve(total, "").concentration - 1, -total)

    def resolve(
        self, total: Array, field: str, sizes: tuple[int, ...] = ()
    ) -> DirichletDistribution:
        """The prior of tables of the shape of `total`."""
        what, xp = "the concentration of a Dirichlet", namespace(total)
        a = broadcast_to_last_axes(self.concentration, total.shape, total.dtype, what, xp)
        return DirichletDistribution(positive_or_nan(a), field, sizes)


class DirichletDistribution(Conjugate):
    """Independent Dirichlet distributions of tables.

    Attributes:
        concentration: shape (K, V), or (V,).
        field: the name of the log-probabilities in the params class.
        sizes: the sizes of tables that are side by side; () for one table.
    """

    example: ClassVar = "Dirichlet(1.0)"

    concentration: Float[Array, "..."]
    field: str = static()
    sizes: tuple[int, ...] = static()

    @property
    def simplex(self) -> Parameter:
        """The set that the tables are in."""
        return Parameter("simplex", "log", tables=self.sizes)

    @property
    def value(self) -> str:
        """The name of the probabilities, as opposed to their logarithms."""
        return "class_prior" if self.field == "log_prior" else self.field.removeprefix("log_")

    @property
    def proper(self) -> Bool[Array, "..."]:
        return (self.concentration > 0).all(-1)

    def why_improper(self, k: int) -> str:
        return f"the concentration of {self.value} is not above 0 everywhere"

    def update(self, stats: Sums) -> DirichletDistribution:
        return DirichletDistribution(self.concentration + stats.total, self.field, self.sizes)

    def log_evidence(self, stats: Sums) -> Float[Array, ""]:
        """`Σ log B(a + c) - log B(a)`: of a sequence of values, so without multinomial terms."""
        simplex, counts = self.simplex, stats.total
        whole = simplex.table_sums(counts)
        rest = log_pochhammer_remainder(self.concentration, counts).sum()
        rest = rest - log_pochhammer_remainder(simplex.table_sums(self.concentration), whole).sum()
        return rest + weighted_log_shares(counts, whole[..., simplex.table_of(counts.shape[-1])])

    def log_prob(self, arrays: Mapping[str, Array]) -> Float[Array, ""]:
        """`Σ (a_v - 1) log θ_v - log B(a)`."""
        a, log_theta = self.concentration, arrays[self.field]
        sums, whole = self.simplex.table_sums(a), self.simplex.entry_sums(a)
        # Combine a log θ with the largest part of log B(a), for each entry: both are large.
        main = a * (log_theta + jnp.log(whole / a)) - log_theta
        main = jnp.where(a == 1, jnp.log(whole), main)
        return main.sum() - log_gamma_remainder(a).sum() + log_gamma_remainder(sums).sum()

    def expected(self) -> dict[str, Array]:
        """`log a_v / Σ a_v`."""
        whole = self.simplex.entry_sums(self.concentration)
        return {self.field: log_shares(self.concentration, whole)}

    def sample(self, key: Array) -> dict[str, Array]:
        """Gamma variables over their sum, in logs: at small concentrations many underflow."""
        log_gamma = jax.random.loggamma(key, self.concentration)
        table = self.simplex.table_of(log_gamma.shape[-1])
        largest = jnp.full((*log_gamma.shape[:-1], table[-1] + 1), -jnp.inf, log_gamma.dtype)
        log_gamma = log_gamma - largest.at[..., table].max(log_gamma)[..., table]
        log_sums = jnp.log(self.simplex.table_sums(jnp.exp(log_gamma)))
        return {self.field: log_gamma - log_sums[..., table]}

    def interval(self, level: Array) -> dict[str, Interval]:
        """The central interval of each probability, which is Beta(a_v, Σ a - a_v)."""
        a = self.concentration
        rest = self.simplex.entry_sums(a) - a

        def bound(p: Array) -> Array:
            # The only value of a table has probability 1.
            return jnp.where(rest <= 0, 1, quantile("betaincinv", a, jnp.maximum(rest, 1e-30), p))

        return {self.value: central(level, bound)}


def smoothing(alpha: Any, prior: Dirichlet | None) -> Dirichlet:
    """The prior itself, or the Dirichlet prior that smoothing by alpha stands for."""
    return Dirichlet(alpha + 1.0) if prior is None else prior


def pseudo_counts(alpha: Any, prior: Dirichlet | None, total: Array) -> Array:
    """The pseudo-counts that smoothing, or the prior, adds to the counts."""
    xp = namespace(total)
    return xp.full_like(total, alpha) if prior is None else prior.pseudo_counts(total)


def log_shares(counts: Array, whole: Array) -> Array:
    """`log (count / whole)`, with -inf and gradient 0 at 0.

    Each quotient is rounded separately. In `log count - log whole` every entry of a table would
    have the rounding error of `log whole`, and the score of a million words a million times that.
    """
    xp = namespace(counts, whole)
    some = counts != 0
    share = xp.where(some, counts, 1) / whole
    # A quotient that underflows still has a finite logarithm.
    small = share < xp.finfo(share.dtype).tiny
    found = xp.log(xp.where(small, 1, share))
    if not (on_host(small) and not small.any()):
        difference = xp.log(xp.where(some & small, counts, 1)) - xp.log(whole)
        found = xp.where(small, difference, found)
    return xp.where(some, found, -xp.inf)


def smoothing_problems(
    alpha: Any, prior: Any, name: str = "alpha", usual: float = 1.0
) -> list[str]:
    """The error message if both a prior and a concrete, non-default smoothing are given."""
    both = prior is not None and is_concrete(alpha) and alpha != usual
    return [f"{name} and a prior are given, expected one of them"] if both else []
