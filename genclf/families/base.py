"""The contract of a density of x, and of a family that learns it.

A *family* says how to learn p(x | y) for K classes at once; its fields are hyper-parameters. What
it learns is a *density*, able to score and to sample with nothing else at hand; `Params` are one
of finitely many parameters. All are frozen pytrees. A plain family is one file with two classes,
side by side. What some can do and others cannot is in `capabilities`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Int, PyTree

from genclf.arguments.domains import Scalar as Scalar
from genclf.arguments.hyperparameters import Declared, kind_of
from genclf.families.support import Support
from genclf.parameters import Parameter
from genclf.sums.blocks import ClassWeights
from genclf.sums.statistics import Sums


class Density(eqx.Module):
    """p(x | y = k) of K classes; its arrays have a leading class axis."""

    @property
    @abc.abstractmethod
    def support(self) -> PyTree[Support]:
        """What one example may hold, in the structure of x."""

    @property
    @abc.abstractmethod
    def num_features(self) -> PyTree[int]:
        """Number of features of one example, in the structure of x."""

    @abc.abstractmethod
    def log_prob(self, x: PyTree) -> Float[Array, "*batch K"]:
        """`log p(x | y = k)` for every class; x is one example or has leading batch axes."""

    def discriminant(self, x: PyTree) -> Float[Array, "*batch K"]:
        """`log_prob` up to a term that all classes share, at the least cost and rounding."""
        return self.log_prob(x)

    @abc.abstractmethod
    def sample(self, key: Array, y: Int[Array, "*shape"]) -> PyTree:
        """One draw of x for each label in y; the shape of y leads."""


class Params(Density):
    """A density of finitely many parameters, whose likelihood sufficient statistics give."""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The set in which each array lives, by the name of its field; none of a combinator's."""
        return {}

    @property
    def coupled(self) -> bool:
        """Whether a second derivative of the log-likelihood may mix two features."""
        return True

    @property
    def statistic(self) -> str:
        """What `log_lik` takes sums of: the family's word for it."""
        return type(self).__name__.removesuffix("Params")

    @abc.abstractmethod
    def log_lik(self, stats: PyTree) -> Float[Array, ""]:
        """`Σ_nk w_nk log p(x_n | k)`, from the statistics alone."""


class Family(Declared):
    """How to learn p(x | y) for K classes; fields are hyper-parameters (floats are leaves)."""

    @property
    @abc.abstractmethod
    def support(self) -> PyTree[Support]:
        """What one example may hold, in the structure of x."""

    @abc.abstractmethod
    def fit(self, x: PyTree, w: ClassWeights) -> Density:
        """The density of rows x under class weights w."""

    def problems(self, d: Any = None) -> list[str]:
        """What is wrong with hyper-parameters of which each is in its domain, in words.

        Those that contradict each other, or d features, where d is known.
        """
        return []


class Parametric(Family):
    """A family whose estimate is made of sufficient statistics."""

    @abc.abstractmethod
    def stats(self, x: PyTree, w: ClassWeights) -> PyTree:
        """Sufficient statistics of rows x under class weights w."""

    @abc.abstractmethod
    def estimate(self, stats: PyTree) -> Params:
        """The closed-form estimate from the statistics."""

    @abc.abstractmethod
    def plain(self) -> Parametric:
        """This family without hyper-parameters that regularise: maximum likelihood."""

    @abc.abstractmethod
    def log_prior_density(self, params: Any, stats: PyTree) -> Float[Array, ""]:
        """Log-density of any params under the hyper-parameters, up to a constant; 0: no prior.

        The statistics are the units of what the hyper-parameters leave to the data.
        """

    @abc.abstractmethod
    def num_parameters(self, num_classes: int, d: Any) -> int:
        """Number of free parameters of p(x | y) for d features."""

    def fit(self, x: PyTree, w: ClassWeights) -> Params:
        return self.estimate(self.stats(x, w))

    def statistic(self, stats: PyTree) -> str:
        """What these are sums of, in words: statistics of other words do not go with them."""
        return type(self).__name__

    def check_stats(self, stats: PyTree) -> None:
        """Raise where the statistics are of a kind that this family does not estimate from."""
        if not isinstance(stats, Sums):
            raise ValueError(f"{type(self).__name__} estimates from Sums, got {stats!r}")

    def diagnose(self, stats: PyTree) -> PyTree:
        """What makes the estimate from these statistics doubtful; None where nothing can."""
        return None


def set_fields(params: Any, prefix: str, values: Mapping[str, Array]) -> Any:
    """Plain params with the parameters that `values` names, each after the prefix."""
    fields = [field for field in params.parameters if prefix + field in values]
    new = tuple(values[prefix + field] for field in fields)
    return eqx.tree_at(lambda p: tuple(getattr(p, field) for field in fields), params, new)


FAMILY = kind_of(Family, such_as="genclf.Gaussian()")
"""The domain of a family inside a model."""
