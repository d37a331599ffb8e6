"""The contract of a family, and what families share.

A *family* says how to learn p(x | y) for K classes at once; its fields are hyper-parameters. Its
*params* are what was learned, able to score and to sample with nothing else at hand. Both are
frozen pytrees. A plain family is one file with two classes, side by side.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from genclf.arguments.domains import Scalar as Scalar
from genclf.arguments.hyperparameters import Declared, kind_of
from genclf.conjugate.base import Conjugate
from genclf.families.support import Support
from genclf.parameters import Parameter
from genclf.sums.blocks import ClassWeights
from genclf.sums.statistics import Sums


class Params(eqx.Module):
    """p(x | y = k) with its parameters; arrays have a leading class axis."""

    @property
    @abc.abstractmethod
    def support(self) -> PyTree[Support]:
        """What one example may hold, in the structure of x."""

    @property
    @abc.abstractmethod
    def num_features(self) -> PyTree[int]:
        """Number of features of one example, in the structure of x."""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The set in which each array lives, by the name of its field; none of a combinator's."""
        return {}

    @property
    def elementwise(self) -> bool:
        """Whether no second derivative of the log-likelihood mixes two features."""
        return True

    def standard(self) -> Params:
        """These params in their own units: `standard().affine(self)` is `self`."""
        return self

    def affine(self, units: Any) -> Params:
        """The params of `units`' location and scale applied to draws of these; a Gaussian's."""
        return self

    @abc.abstractmethod
    def log_prob(self, x: PyTree) -> Float[Array, "*batch K"]:
        """`log p(x | y = k)` for every class; x is one example or has leading batch axes."""

    def discriminant(self, x: PyTree) -> Float[Array, "*batch K"]:
        """`log_prob` up to a term that all classes share, at the least cost and rounding."""
        return self.log_prob(x)

    @property
    def statistic(self) -> str | None:
        """What `log_lik` takes sums of: the family's word for it; None where there is none."""
        return type(self).__name__.removesuffix("Params")

    @abc.abstractmethod
    def log_lik(self, stats: PyTree) -> Float[Array, ""]:
        """`Σ_nk w_nk log p(x_n | k)`, from the statistics alone."""

    @abc.abstractmethod
    def sample(self, key: Array, y: Int[Array, "*shape"]) -> PyTree:
        """One draw of x for each label in y; the shape of y leads."""

    def marginalized(self) -> Params:
        """These params, with missing cells integrated out."""
        raise ValueError(f"{type(self).__name__} has no marginal densities of some of its features")

    def condition(self, x: PyTree, r: Float[Array, "*batch K"]) -> PyTree:
        """What is known of the features of x, given those that are seen, and p(y | x) = r."""
        raise ValueError(f"{type(self).__name__} has no conditional densities of its features")

    def sample_missing(self, key: Array, x: PyTree, y: Int[Array, "*shape"]) -> PyTree:
        """X with each missing cell drawn given the label y and the cells that are seen."""
        raise ValueError(f"{type(self).__name__} has no conditional densities of its features")

    def linear(self) -> tuple[PyTree, Float[Array, "K"]]:
        """(coef, intercept) of the discriminant where it is linear in x."""
        raise ValueError(f"{type(self).__name__} has no linear discriminant; {_LINEAR}")

    def quadratic(self) -> tuple[Array, Array, Array]:
        """(matrix, coef, intercept) of the discriminant where it is quadratic in x."""
        raise ValueError(
            f"{type(self).__name__} has no quadratic discriminant; only Gaussian densities have one"
        )


Init = Literal["k-means++", "random"]
"""How clusters begin: about examples drawn far from each other, or from random weights."""

_LINEAR = "linear are shared-covariance Gaussian, Bernoulli, categorical and multinomial models"


class Family(Declared):
    """How to learn p(x | y) for K classes; fields are hyper-parameters (floats are leaves)."""

    @property
    @abc.abstractmethod
    def support(self) -> PyTree[Support]:
        """What one example may hold, in the structure of x."""

    @abc.abstractmethod
    def stats(self, x: PyTree, w: ClassWeights) -> PyTree:
        """Sufficient statistics of rows x under class weights w."""

    def statistic(self, stats: PyTree) -> str:
        """What these are sums of, in words: statistics of other words do not go with them."""
        return type(self).__name__

    @abc.abstractmethod
    def estimate(self, stats: PyTree) -> Params:
        """The closed-form estimate from the statistics."""

    @property
    def hidden(self) -> bool:
        """Whether an example has unseen parts, so that its statistics are expected ones."""
        return False

    def complete(self, params: Params, x: PyTree) -> tuple[Float[Array, "n K"], PyTree]:
        """`log_prob` of rows, and what the params say of their unseen parts, row by row."""
        return params.log_prob(x), None

    def expected_stats(
        self, params: Params, completion: PyTree, x: PyTree, w: ClassWeights
    ) -> PyTree:
        """The statistics that complete examples have on average: see `complete`."""
        return self.stats(x, w)

    def initial_stats(self, key: Array, x: PyTree, w: ClassWeights, init: Init) -> PyTree:
        """Statistics to start EM from, where there are no params yet."""
        return self.stats(x, w)

    def settle(self, x: PyTree, weight: Float[Array, "n"], num_classes: int) -> Family:
        """This family, where its prior takes numbers from unseen parts with those of the seen."""
        return self

    def not_monotone(self) -> list[str]:
        """Hyper-parameters that are no prior, so that EM has no objective to increase."""
        return []

    def dissimilarity(self, x: PyTree, seed: PyTree) -> Float[Array, "n"]:
        """How far rows are from one example, >= 0 and 0 at the same: where to begin a cluster."""
        return (x != seed[None]).sum(-1).astype(jnp.result_type(float))

    @property
    def keeps_examples(self) -> bool:
        """Whether the params are the examples themselves, which no statistics stand for."""
        return False

    @property
    def additive(self) -> bool:
        """Whether examples enter the estimate as a sum that needs no params."""
        return not (self.hidden or self.keeps_examples)

    def fit(self, x: PyTree, w: ClassWeights) -> Params:
        """The params of rows x under class weights w."""
        return self.estimate(self.stats(x, w))

    def start(self, stats: PyTree) -> Params:
        """Params inside their sets with which all classes are alike: where an iteration begins."""
        raise ValueError(f"{type(self).__name__} has no `start`; fit_gradient and others need it")

    def prior_stats(self, stats: PyTree) -> PyTree:
        """Hyper-parameters as pseudo-statistics, in the form of the data's; zero: no prior.

        `params.log_lik` of them is the log of the prior density up to a constant, so the estimate
        maximises `log_lik(stats) + log_lik(prior_stats)`.
        """
        return jax.tree.map(jnp.zeros_like, stats)

    def log_prior(self, params: Params, stats: PyTree) -> Float[Array, ""]:
        """Log-density of any params under the hyper-parameters, up to a constant."""
        return params.log_lik(self.prior_stats(stats))

    def plain(self) -> Family:
        """This family without hyper-parameters that regularise: maximum likelihood."""
        return self

    def conjugate_prior(self, stats: PyTree) -> Conjugate:
        """The hyper-parameters as a conjugate distribution of the parameters.

        The statistics give it shapes and, where it has none of its own, units.
        """
        raise ValueError(f"{type(self).__name__} has no conjugate prior")

    def predictive(self, posterior: Conjugate, stats: PyTree) -> Params:
        """The density of one more example, the parameters integrated out.

        Params with the expected values, where the density is linear in each parameter.
        """
        return set_fields(self.start(stats), "", posterior.expected())

    def prior_strength(self, stats: PyTree) -> PyTree:
        """Unconstrained coordinates of how strong the prior is, for `fit_prior` to choose."""
        raise ValueError(f"{type(self).__name__} has no conjugate prior")

    def with_prior_strength(self, free: PyTree, stats: PyTree) -> Family:
        """This family with the prior of those coordinates."""
        raise ValueError(f"{type(self).__name__} has no conjugate prior")

    def map_families(self, f: Callable[[Any, PyTree], Any], stats: PyTree) -> Family:
        """This model with each plain family inside, and its statistics, turned into another."""
        return f(self, stats)

    def over_parts(self, f: Callable[..., Any], *trees: PyTree) -> PyTree:
        """`f(family, *trees)`; a combinator calls f for each family inside, with its trees."""
        return f(self, *trees)

    def assemble(self, parts: PyTree) -> Params:
        """The params of this family out of those that `over_parts` has for the families inside."""
        return parts

    @abc.abstractmethod
    def num_parameters(self, num_classes: int, d: Any) -> int:
        """Number of free parameters of p(x | y) for d features."""

    def check_stats(self, stats: PyTree) -> None:
        """Raise where the statistics are of a kind that this family does not estimate from."""
        if not isinstance(stats, Sums):
            raise ValueError(f"{type(self).__name__} estimates from Sums, got {stats!r}")

    def diagnose(self, stats: PyTree) -> PyTree:
        """What makes the estimate from these statistics doubtful; None where nothing can."""
        return None

    def invalid_hyperparameters(self, d: Any = None) -> list[str]:
        """What is wrong with hyper-parameters of which each is in its domain, in words.

        Those that contradict each other, or d features, where d is known.
        """
        return []


def set_fields(params: Params, prefix: str, values: Mapping[str, Array]) -> Params:
    """Plain params with the parameters that `values` names, each after the prefix."""
    fields = [field for field in params.parameters if prefix + field in values]
    new = tuple(values[prefix + field] for field in fields)
    return eqx.tree_at(lambda p: tuple(getattr(p, field) for field in fields), params, new)


FAMILY = kind_of(Family, such_as="genclf.Gaussian()")
"""The domain of a family inside a model."""
