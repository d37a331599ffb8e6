"""Categorical class densities: one table of probabilities per column and class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from genclf.arguments.domains import NON_NEGATIVE, one_of, several, whole
from genclf.arguments.hyperparameters import kind_of
from genclf.arguments.module import static
from genclf.families.base import Scalar, set_fields
from genclf.families.conjugate.dirichlet import (
    Dirichlet,
    DirichletDistribution,
    log_shares,
    pseudo_counts,
    smoothing,
)
from genclf.families.counts.categorical_params import (
    CategoricalParams,
    Columns,
    Unseen,
    describe_tables,
    values_support,
)
from genclf.families.counts.smoothed import Smoothed
from genclf.families.initial_clusters import hamming_distance
from genclf.families.missing import CODE, MISSING, Missing
from genclf.families.support import Support
from genclf.numerics.namespace import Array, namespace
from genclf.sums.blocks import ClassWeights, accumulate, host_labels
from genclf.sums.statistics import Sums

_SIZE = whole(1, 2**31 - 1)
_SIZES = several(">= 1, a whole number, or a tuple of them", _SIZE)
NUM_VALUES = replace(_SIZES, contains=lambda given: _SIZE.contains(given) or _SIZES.contains(given))


class Categorical(Smoothed):
    """Categorical columns, independent given the class: naive Bayes on tables.

    `p(x | y=k) = Π_j θ_kj[x_j]` with `θ_kj[v] = (Σ_n w_nk [x_nj = v] + α) / (n_kj + V_j α)`, n_kj
    the weight of the rows of the class with a value in column j. α is Dirichlet smoothing: the mode
    under a Dirichlet(α+1) prior, the mean under Dirichlet(α); 1 is Laplace's rule, 0 maximum
    likelihood.

    Values are codes 0..V_j - 1. A value that was declared but not seen in training has
    probability α / (n_kj + V_j α). A code of V_j or more was not declared. With unseen="error" it
    makes scores NaN, and `genclf.validate` raises; with "ignore" it is not evidence about the class
    and adds nothing to a fit. Negative and fractional codes are always invalid.

    Args:
        num_values: V_j of each column, or one number for all columns.
        alpha: α >= 0.
        unseen: "error" or "ignore".
        prior: a `Dirichlet`, instead of alpha; the estimate is then the posterior mode.
        missing: "marginalize" integrates missing cells out: scores leave out their factors, and
            fits leave out the cells; "error" makes a missing cell invalid.
        missing_code: a missing cell is NaN if x is floating, and this code if x is integer; it
            must not be a valid code.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Categorical(3, alpha=1.0), num_classes=2)
        >>> params = gcf.fit(clf, jnp.array([[0], [1]]), jnp.array([0, 1]))
        >>> print(jnp.exp(gcf.log_posterior(params, jnp.array([[0], [2]]))))
        [[0.667 0.333]
         [0.5   0.5  ]]

    References:
        Bishop (2006), Pattern Recognition and Machine Learning, §4.2.3.
    """

    domains: ClassVar = {
        "num_values": NUM_VALUES,
        "alpha": NON_NEGATIVE,
        "unseen": one_of("error", "ignore"),
        "prior": kind_of(Dirichlet, such_as="Dirichlet(2.0)", optional=True),
        "missing": MISSING,
        "missing_code": CODE,
    }

    num_values: int | tuple[int, ...] = static()
    alpha: Scalar = 1.0
    unseen: Unseen = static(default="error")
    prior: Dirichlet | None = None
    missing: Missing = static(default="error")
    missing_code: int = static(default=-1)

    def columns(self, d: int) -> Columns:
        """The layout for d columns; raise if num_values is for another number of columns."""
        sizes = self.num_values if isinstance(self.num_values, tuple) else (self.num_values,) * d
        if len(sizes) != d:
            raise ValueError(
                f"x has {d} columns, but Categorical was given num_values for {len(sizes)}: "
                f"{self.num_values}"
            )
        return Columns(sizes, self.unseen, self.missing, self.missing_code)

    @property
    def support(self) -> Support:
        return self.allowing(values_support(self.num_values, self.unseen))

    def stats(self, x: Array, w: ClassWeights) -> Sums:
        """`Sums` of the indicators of x, the columns side by side."""
        columns, valid = self.columns(x.shape[1]), self.support.valid
        if (rows := host_labels(w)) is not None:
            count: Any = rows.counts()
            return Sums(count, columns.tables_on_host(x, rows))
        size = sum(columns.num_values)

        def block(x: Array, w: Array) -> Sums:
            index, known = columns.indices(x)
            w_row = w.T[:, None, :]
            w_cell = jnp.where(known[..., None], w_row, 0)
            w_cell = jnp.where(valid(x)[..., None] | (w_row == 0), w_cell, jnp.nan)
            total = jnp.zeros((size, len(w)), w.dtype)
            return Sums(w.sum(1), total.at[index].add(w_cell).T)

        return accumulate(block, x, w, x.shape[1] * w.shape[1])

    def statistic(self, stats: Sums) -> str:
        return describe_tables(self._columns_of(stats))

    def estimate(self, stats: Sums) -> CategoricalParams:
        """Smoothed log θ of every column; uniform for a class without examples."""
        xp = namespace(stats.total)
        columns = self._columns_of(stats)
        count = stats.total + pseudo_counts(self.alpha, self.prior, stats.total)
        count = xp.where(columns.simplex.entry_sums(count) == 0, 1, count)
        return CategoricalParams(log_shares(count, columns.simplex.entry_sums(count)), columns)

    def _columns_of(self, stats: Sums) -> Columns:
        size, v = stats.total.shape[-1], self.num_values
        columns = self.columns(len(v) if isinstance(v, tuple) else size // v)
        if sum(columns.num_values) != size:
            raise ValueError(
                f"the statistics are of {size} values in all, but Categorical has num_values = {v}"
            )
        return columns

    def start(self, stats: Sums) -> CategoricalParams:
        """Uniform tables."""
        columns = self._columns_of(stats)
        sizes = jnp.asarray(np.repeat(columns.num_values, columns.num_values), stats.total.dtype)
        return CategoricalParams(jnp.broadcast_to(-jnp.log(sizes), stats.total.shape), columns)

    def prior_stats(self, stats: Sums) -> Sums:
        """α rows of every value of every column; or, with a prior, `a - 1` rows."""
        total = pseudo_counts(self.alpha, self.prior, stats.total)
        return Sums(jnp.zeros_like(stats.count), total)

    def conjugate_prior(self, stats: Sums) -> DirichletDistribution:
        """Dirichlet(α + 1) of every table, or the prior given."""
        sizes = self._columns_of(stats).num_values
        return self.given_prior.resolve(stats.total, "log_theta", sizes)

    @property
    def given_prior(self) -> Dirichlet:
        return smoothing(self.alpha, self.prior)

    def predictive(self, posterior: DirichletDistribution, stats: Sums) -> CategoricalParams:
        """Params with the expected tables, since the density is linear in them."""
        return set_fields(self.start(stats), "", posterior.expected())

    def distance(self, x: Array, seed: Array) -> Float[Array, "n"]:
        """The number of cells that differ."""
        return hamming_distance(x, seed)

    @property
    def num_codes(self) -> int | float:
        return int(np.max(self.num_values))
