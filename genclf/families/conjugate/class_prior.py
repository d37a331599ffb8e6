"""Probabilities of classes or components: fixed, smoothed, or with a Dirichlet prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from genclf.arguments.domains import FINITES, Scalar
from genclf.arguments.module import Module, static
from genclf.families.conjugate.dirichlet import (
    Dirichlet,
    DirichletDistribution,
    log_shares,
    pseudo_counts,
    smoothing,
    smoothing_problems,
)
from genclf.numerics.logarithms import safe_log, times_log
from genclf.numerics.namespace import Array, namespace
from genclf.sums.statistics import Sums

PROBABILITIES = replace(
    FINITES,
    expected="class probabilities of shape (K,), in the order of the classes 0..K-1 (the labels of "
    "a dict or a Series are not read: give an array)",
    contains=lambda given: (
        not (isinstance(given, Mapping) or hasattr(given, "iloc")) and FINITES.contains(given)
    ),
)
"""The domain of fixed class probabilities."""


class ClassPrior(Module):
    """Probabilities π of K classes, and their prior.

    `π_k = (n_k + a) / (n + K a)`, a = `alpha`; or the mode under a Dirichlet; or fixed numbers.

    Attributes:
        num_classes: K.
        alpha: pseudo-count of each class.
        given: probabilities of shape (K,), or a `Dirichlet` instead of alpha, or None.
    """

    num_classes: int = static()
    alpha: Scalar = 0.0
    given: Any = None

    @property
    def dirichlet(self) -> Dirichlet | None:
        """The prior that is given instead of alpha."""
        return self.given if isinstance(self.given, Dirichlet) else None

    @property
    def fixed(self) -> Any:
        """The probabilities if they are fixed, else None."""
        return None if self.dirichlet else self.given

    @property
    def num_parameters(self) -> int:
        """K - 1; 0 if the probabilities are fixed."""
        return self.num_classes - 1 if self.fixed is None else 0

    def plain(self) -> ClassPrior:
        """The class prior without smoothing: fixed, or by maximum likelihood."""
        return ClassPrior(self.num_classes, given=self.fixed)

    def pseudo_counts(self, count: Float[Array, "K"]) -> Float[Array, "K"]:
        """The pseudo-counts that smoothing, or the prior, adds to the count of each class."""
        return pseudo_counts(self.alpha, self.dirichlet, count)

    def log_probs(self, count: Float[Array, "K"]) -> Float[Array, "K"]:
        """`log π`, fixed or estimated from counts; uniform if there are no counts at all."""
        xp = namespace(count)
        if self.fixed is not None:
            if problem := prior_problem(self.fixed, self.num_classes, "class_prior"):
                raise ValueError(problem)
            return log_fixed(xp.asarray(self.fixed, count.dtype))
        count = count + self.pseudo_counts(count)
        count = xp.where(count.sum() == 0, 1, count)
        return log_shares(count, count.sum())

    def log_density(
        self, log_prior: Float[Array, "K"], count: Float[Array, "K"]
    ) -> Float[Array, ""]:
        """Prior log-density of π, up to a constant; 0 if π is fixed."""
        if self.fixed is not None:
            return jnp.zeros((), count.dtype)
        return times_log(self.pseudo_counts(count), log_prior).sum()

    def conjugate(self, labels: Sums) -> DirichletDistribution | None:
        """The prior distribution of π, in the shape of `labels`; None if π is fixed."""
        if self.fixed is not None:
            return None
        return smoothing(self.alpha, self.dirichlet).resolve(labels.total, "log_prior")

    def posterior(self, labels: Sums) -> DirichletDistribution | None:
        """The posterior distribution of π, given the labels; None if π is fixed."""
        before = self.conjugate(labels)
        return None if before is None else before.update(labels)

    def problems(self) -> list[str]:
        """Error messages for the concrete numbers."""
        found = smoothing_problems(self.alpha, self.dirichlet, "class_alpha", 0.0)
        if self.fixed is None:
            return found
        problem = prior_problem(self.fixed, self.num_classes, "class_prior")
        return [*found, problem] if problem else found


def prior_problem(prior: Any, num_classes: int, name: str) -> str | None:
    """The error message for class probabilities; traced values are not checked."""
    if (shape := jnp.shape(prior)) != (num_classes,):
        of_rows = len(shape) == 2 and shape[1] == num_classes
        hint = "; genclf.log_posterior(params, x, log_prior) takes one for each row"
        return (
            f"{name} has shape {shape}, expected ({num_classes},): one per class"
            f"{hint if of_rows else ''}"
        )
    if isinstance(prior, Tracer):
        return None
    values = np.asarray(prior, np.float64)
    for k in np.flatnonzero(~(values >= 0)):
        return f"{name}[{k}] is {values[k]}, expected a probability >= 0"
    if abs(values.sum() - 1) > 1e-5:
        return f"{name} {values} sums to {values.sum():.6g}, expected 1; divide it by its sum"
    return None


def log_fixed(prior: Array) -> Array:
    """Logarithms of fixed probabilities; NaN unless they are >= 0 with sum 1."""
    xp = namespace(prior)
    valid = (prior >= 0).all() & (xp.abs(prior.sum() - 1) < 1e-5)
    return safe_log(xp.where(valid, prior, xp.nan))
