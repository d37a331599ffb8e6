"""Optional capabilities of families and densities, and how a function requires one.

A family that has a capability inherits from its class and implements the abstract methods.
`require` raises the error if one is lacking.
"""

from __future__ import annotations

import abc
import importlib
import inspect
import pkgutil
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, PyTree

from genclf.arguments.module import REGISTERED, Module
from genclf.families.base import AnyDensity, Condition, Density, Family, Parametric, Params
from genclf.families.conjugate.base import Conjugate, Prior
from genclf.families.parts import InParts
from genclf.numerics.namespace import Array
from genclf.sums.blocks import ClassWeights
from genclf.sums.statistics import divide

Init = Literal["k-means++", "random"]
"""How clusters are initialised: at examples drawn far from each other, or by random weights."""


class HasRoads(Parametric):
    """The estimate can be found and checked by optimisation: `fit_gradient`, `certify`, ..."""

    needs: ClassVar = "a starting point and a prior density (`start`, `prior_stats`)"
    instead: ClassVar = "use fit"

    @abc.abstractmethod
    def start(self, stats: PyTree) -> Params:
        """Where an iteration starts: params inside their sets, the same for all classes."""

    def prior_stats(self, stats: PyTree) -> PyTree:
        """Hyper-parameters as pseudo-statistics, with the shapes of the data's; 0 without a prior.

        Their `params.log_lik` is the log of the prior density up to a constant, so the estimate
        maximises `log_lik(stats) + log_lik(prior_stats)`.
        """
        return jax.tree.map(jnp.zeros_like, stats)

    def log_prior_density(self, params: AnyDensity, stats: PyTree) -> Float[Array, ""]:
        """`params.log_lik` of the pseudo-statistics."""
        return params.log_lik(self.prior_stats(stats))

    def unpenalised(self) -> list[str]:
        """Concrete hyper-parameters whose estimate does not maximise a penalised likelihood."""
        return []


class HasConjugatePrior(Parametric):
    """The parameters can be integrated out: `posterior`, `predictive`, `log_evidence`."""

    by_part: ClassVar = True
    needs: ClassVar = "a conjugate prior"
    instead: ClassVar = "use genclf.bayes.story, which takes any density"

    @property
    def given_prior(self: Any) -> Prior:
        """The prior that the hyper-parameters stand for, as a user gives it; the field `prior`."""
        return self.prior

    def with_prior(self: Any, prior: Any) -> Any:
        """This family with that prior in place of its own."""
        return replace(self, prior=prior)

    @abc.abstractmethod
    def conjugate_prior(self, stats: PyTree) -> Conjugate:
        """The prior as a distribution of the parameters of K classes.

        The statistics determine its shapes and, if it does not fix them, its units.
        """

    @abc.abstractmethod
    def predictive(self, posterior: PyTree[Conjugate], stats: PyTree) -> Density:
        """The density of one more example, the parameters integrated out."""


class Completed(Module):
    """Rows with the conditional distribution of their unobserved parts under params."""

    @property
    def has_blocks(self) -> bool:
        """Whether `stats` works in blocks of rows, so that it can take any number of rows."""
        return False

    @abc.abstractmethod
    def stats(self, w: ClassWeights) -> PyTree:
        """The expected statistics of the complete rows, under class weights w."""


class Observed(Completed):
    """Rows without unobserved parts."""

    family: Parametric
    x: PyTree

    def stats(self, w: ClassWeights) -> PyTree:
        return self.family.stats(self.x, w)


class Latent(Parametric):
    """EM can fit the family if labels or parts of the examples are unobserved."""

    needs: ClassVar = "a distance between rows, to initialise EM"
    instead: ClassVar = "use fit, with a label for each row"

    def distance(self, x: PyTree, seed: PyTree) -> Float[Array, "n"]:
        """Distance of rows from one example, >= 0 and 0 if equal, to initialise clusters.

        By default the sum of squared deviations over variances, in the cells that are observed.
        """
        x, seed = (a.astype(jnp.result_type(float, a.dtype)) for a in (x, seed))
        deviation = x - seed[None]
        variance = jnp.nanvar(x, 0)
        share = divide(deviation**2, jnp.broadcast_to(variance, deviation.shape))
        return jnp.where(jnp.isnan(share), 0, share).sum(-1)

    def heuristics(self) -> list[str]:
        """Names of hyper-parameters in use that are not a prior; with one, EM has no objective."""
        return []

    @property
    def hidden(self) -> bool:
        """Whether examples have unobserved parts, so that their statistics depend on params."""
        return False

    def complete(self, params: AnyDensity, x: PyTree) -> tuple[Float[Array, "n K"], Completed]:
        """`log_prob` of the rows, and the completed rows."""
        return params.log_prob(x), Observed(self, x)

    def initial_stats(self, key: Array, x: PyTree, w: ClassWeights, init: Init) -> PyTree:
        """Statistics to start EM from, without params."""
        return self.stats(x, w)

    def resolve_prior(self, x: PyTree, weight: Float[Array, "n"], num_classes: int) -> Parametric:
        """This family, with a prior that is complete; the observed cells set what it left open."""
        return self


class SharesScatter(Parametric):
    """The classes may share a covariance; statistics with a scatter per class serve it too."""

    def per_class(self: Any) -> Any:
        """The same family with a covariance for each class: its field `shared` is False."""
        return replace(self, shared=False)

    @abc.abstractmethod
    def pooled(self, stats: PyTree) -> PyTree:
        """Statistics of this family, from those of `per_class()`."""


class HasConditionals(Density):
    """The distribution of some features given others is known: `condition`."""

    needs: ClassVar = "conditional densities of its features"

    def marginalized(self: Any) -> Any:
        """The same density, with missing cells integrated out, by its field `missing`."""
        return replace(self, missing="marginalize")

    @abc.abstractmethod
    def condition(self, x: PyTree, r: Float[Array, "*batch K"]) -> PyTree:
        """Expected features of x, given the observed ones and p(y | x) = r."""

    @abc.abstractmethod
    def sample_missing(self, key: Array, x: PyTree, y: Int[Array, "*shape"]) -> PyTree:
        """Draw each missing cell of x, given the label y and the observed cells."""


class HasLinearForm(Density):
    """The discriminant is linear in x: `linear_form`."""

    needs: ClassVar = "a discriminant that is linear in x"

    @abc.abstractmethod
    def linear(self) -> tuple[PyTree, Float[Array, "K"]]:
        """(coef, intercept) of the discriminant."""


class HasQuadraticForm(Density):
    """The discriminant is quadratic in x: `quadratic_form`."""

    needs: ClassVar = "a discriminant that is quadratic in x"

    @abc.abstractmethod
    def quadratic(self) -> tuple[Array, Array, Array]:
        """(matrix, coef, intercept) of the discriminant."""


class HasTerms(Density):
    """The log-ratio of the densities of two classes is a sum over the features: `explain`.

    A part of a combinator that has no such sum counts as a single term.
    """

    needs: ClassVar = "a log-density ratio that is a sum over the features"

    @abc.abstractmethod
    def terms(
        self, x: PyTree, y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> PyTree[Float[Array, "*batch _"]]:
        """Terms of `log p(x | y) - log p(x | other)`, in the structure of x.

        There is one per feature, 0 where the cell is missing; `constant` is left out.
        """

    def constant(self, y: Int[Array, "*batch"], other: Int[Array, "*batch"]) -> Array:
        """The part of the log-ratio that does not depend on x; 0 for most densities."""
        return jnp.zeros(y.shape)


def lacking(node: Family | Density, capability: type) -> Family | Density | None:
    """The first family or density, among `node` and its parts, without the capability.

    A capability that is `by_part` is not required of a combinator, only of its parts.
    """
    by_part = isinstance(node, InParts) and getattr(capability, "by_part", False)
    if not (by_part or isinstance(node, capability)):
        return node
    if (condition := _condition(node, capability)) and not condition.holds(node):
        return node
    if capability is HasTerms:
        return None
    nested = lambda a: a is not node and isinstance(a, Family | Density)  # noqa: E731
    inside = [a for a in jax.tree.leaves(node, is_leaf=nested) if nested(a)]
    return next((found for a in inside if (found := lacking(a, capability))), None)


def has(node: Family | Density, capability: type) -> bool:
    """Whether a family or density, with its hyper-parameters, has the capability."""
    return lacking(node, capability) is None


def require(node: Family | Density, capability: Any, function: str) -> None:
    """Raise if the node, or one of its parts, lacks the capability that `function` needs."""
    if (found := lacking(node, capability)) is None:
        return
    needs, instead = "sufficient statistics", "use fit, and sum log_joint over examples"
    if capability not in (Parametric, Params):
        needs = f"{capability.needs} (`{capability.__name__}`)"
        instead = getattr(capability, "instead", None) or having(capability)
    name, condition = type(found).__name__, _condition(found, capability)
    if condition is None:
        raise ValueError(f"{function} needs {needs}, and {name} does not have that: {instead}")
    raise ValueError(
        f"{function} needs {needs}, and {name} has that only {condition.words}: {condition.instead}"
    )


def _condition(node: object, capability: type) -> Condition | None:
    return node.conditions.get(capability) if isinstance(node, Density) else None


def having(capability: type) -> str:
    """The public densities with a capability, and when, in words; combinators are left out."""
    import genclf

    for module in pkgutil.walk_packages([str(Path(__file__).parent)], "genclf.families."):
        importlib.import_module(module.name)  # which registers its classes
    found = []
    for kind in REGISTERED.values():
        is_public = kind.__name__ in dir(genclf) or not kind.__module__.startswith("genclf.")
        is_concrete = is_public and issubclass(kind, capability) and not inspect.isabstract(kind)
        if is_concrete and not issubclass(kind, InParts):
            condition = kind.conditions.get(capability)  # type: ignore[attr-defined]
            found.append(f"{kind.__name__} {condition.words}" if condition else kind.__name__)
    *others, last = sorted(found)
    return f"{', '.join(others)} and {last} have it" if others else f"{last} has it"


def is_hidden(family: Family) -> bool:
    """Whether examples have unobserved parts, so that their statistics are expectations."""
    return isinstance(family, Latent) and family.hidden


def is_additive(family: Family) -> bool:
    """Whether the estimate is a function of sums over examples that need no params."""
    return has(family, Parametric) and not is_hidden(family)
