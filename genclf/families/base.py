"""Base classes of a density of x, and of a family that fits it.

A *family* fits p(x | y) for K classes at once; its fields are hyper-parameters. The result is a
*density*, which can score and sample on its own. `Params` is a density with finitely many
parameters. All are frozen pytrees. The abilities of some families and densities only are in
`capabilities`.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree

from genclf.arguments.domains import Domain, Scalar as Scalar
from genclf.arguments.hyperparameters import Declared, kind_of
from genclf.arguments.module import Registered
from genclf.arguments.parameters import Parameter
from genclf.arguments.reprs import ShowsNumbers
from genclf.families.support import Support
from genclf.numerics.namespace import Array
from genclf.numerics.row_blocks import MANY_CLASSES, reduce_scores
from genclf.sums.blocks import ClassWeights
from genclf.sums.statistics import Sums


class Condition(NamedTuple):
    """When a density has a capability of its class.

    Attributes:
        words: the text after the name of the class in a message, such as "with shared=True".
        holds: whether a density of the class has it.
        instead: what to do with a density that does not.
    """

    words: str
    holds: Callable[[Any], bool]
    instead: str


class Density(ShowsNumbers, Registered):
    """p(x | y = k) of K classes; its arrays have a leading class axis.

    Attributes:
        domains: the sets of fields that `parameters` does not name; an array that neither names
            holds finite numbers.
        conditions: when a density of the class has a capability that the class inherits from;
            always, if the capability is not named.
    """

    domains: ClassVar[Mapping[str, Domain]] = {}
    conditions: ClassVar[Mapping[type, Condition]] = {}

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The set that each array is in, by the name of its field; empty for a combinator."""
        return {}

    @property
    def axes(self) -> dict[str, str]:
        """The axes of arrays whose annotation does not name them, such as "K d d"."""
        return {}

    def _problems(self) -> list[str]:
        """Error messages for values that do not fit each other."""
        return []

    @property
    @abc.abstractmethod
    def support(self) -> PyTree[Support]:
        """What one example may hold, in the structure of x."""

    @property
    def num_features(self) -> PyTree[int]:
        """Number of features of one example, in the structure of x.

        By default it is the length of the last axis of the first field.
        """
        return getattr(self, dataclasses.fields(self)[0].name).shape[-1]

    @abc.abstractmethod
    def log_prob(self, x: PyTree) -> Float[Array, "*batch K"]:
        """`log p(x | y = k)` for every class; x is one example or has leading batch axes."""

    def discriminant(self, x: PyTree) -> Float[Array, "*batch K"]:
        """`log_prob` up to a term that all classes share, at the least cost and rounding."""
        return self.log_prob(x)

    def reduced(
        self, x: PyTree, reduce: Callable[[Array], Array], *, normalised: bool, num_classes: int
    ) -> Array:
        """`reduce` of the scores of each row: `log_prob` if `normalised`, else `discriminant`.

        If scores are many, they are computed in blocks of rows.
        """
        score = self.log_prob if normalised else self.discriminant
        return reduce_scores(lambda x: reduce(score(x)), x, num_classes, MANY_CLASSES)

    @abc.abstractmethod
    def sample(self, key: Array, y: Int[Array, "*shape"]) -> PyTree:
        """One draw of x for each label in y; its first axes have the shape of y."""


if TYPE_CHECKING:  # its class depends on the family
    AnyDensity = Any
else:
    AnyDensity = Density

D = TypeVar("D", bound=Density)


class Params(Density):
    """A density of finitely many parameters, with a likelihood from sufficient statistics."""

    @property
    def coupled(self) -> bool:
        """Whether a second derivative of the log-likelihood may mix two features."""
        return True

    @property
    def statistic(self) -> str:
        """A description of the sums that `log_lik` takes, the same as `Family.statistic`."""
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

    def plain(self) -> Family:
        """This family without hyper-parameters that regularise: maximum likelihood."""
        return self

    @property
    def determined_by_prior(self) -> bool | Bool[Array, ""]:
        """Whether a prior determines the density of a class that has no rows."""
        return False

    def problems(self, d: PyTree[int] | None = None) -> list[str]:
        """Error messages for hyper-parameters that are valid separately, but not together.

        They contradict each other, or the number of features d if that is known.
        """
        return []


class Parametric(Family):
    """A family whose estimate is a function of sufficient statistics."""

    @abc.abstractmethod
    def stats(self, x: PyTree, w: ClassWeights) -> PyTree:
        """Sufficient statistics of rows x under class weights w."""

    @abc.abstractmethod
    def estimate(self, stats: PyTree) -> Params:
        """The closed-form estimate from the statistics."""

    def log_prior_density(self, params: AnyDensity, stats: PyTree) -> Float[Array, ""]:
        """Prior log-density of any params, up to a constant; 0 for a family without a prior.

        The statistics set what the hyper-parameters leave open, such as the scale of a relative
        ridge.
        """
        return jnp.zeros((), jnp.result_type(*jax.tree.leaves(stats)))

    def num_parameters(self, num_classes: int, d: PyTree[int]) -> int:
        """Number of free parameters of p(x | y) for d features.

        `parameters` of the params says which are free; if it names no array, all are.
        """
        of_rows = lambda x, w: self.estimate(self.stats(x, w))  # noqa: E731
        x, w = (jax.ShapeDtypeStruct((1, m), jnp.result_type(float)) for m in (d, num_classes))
        params = jax.eval_shape(of_rows, x, w)
        named = [(of, getattr(params, name).shape) for name, of in params.parameters.items()]
        if not named:
            return sum(a.size for a in jax.tree.leaves(params))
        return sum(of.num_free(shape) for of, shape in named)

    def fit(self, x: PyTree, w: ClassWeights) -> Params:
        return self.estimate(self.stats(x, w))

    def prefers_rows(self, x: PyTree) -> bool:
        """Whether `fit` finds the estimate from the rows at less cost than from statistics."""
        return False

    def statistic(self, stats: PyTree) -> str:
        """A description of what is summed; statistics with different ones cannot be combined."""
        return type(self).__name__

    def check_stats(self, stats: PyTree) -> None:
        """Raise unless this family can make an estimate from statistics of this kind."""
        if not isinstance(stats, Sums):
            raise ValueError(
                f"{type(self).__name__} estimates from Sums, and stats are "
                f"{type(stats).__name__}: make them with this model"
            )

    def diagnose(self, stats: PyTree) -> PyTree:
        """Reasons to distrust the estimate from these statistics; None for most families."""
        return None

    def diagnose_rows(self, x: PyTree, w: ClassWeights) -> PyTree:
        """`diagnose` for a fit to rows."""
        return self.diagnose(self.stats(x, w))


class Wrapping(Parametric):
    """A family that has the statistics of another one, `family`, and an estimate of its own."""

    family: Any

    @property
    def support(self) -> PyTree[Support]:
        return self.family.support

    def stats(self, x: PyTree, w: ClassWeights) -> PyTree:
        return self.family.stats(x, w)

    def plain(self) -> Family:
        return dataclasses.replace(self, family=self.family.plain())

    def num_parameters(self, num_classes: int, d: PyTree[int]) -> int:
        return self.family.num_parameters(num_classes, d)

    def statistic(self, stats: PyTree) -> str:
        return self.family.statistic(stats)

    def check_stats(self, stats: PyTree) -> None:
        self.family.check_stats(stats)


def set_fields(params: D, prefix: str, values: Mapping[str, Array]) -> D:
    """The params with new values for fields; `values` has the prefix before their names."""
    new = {name: values[prefix + name] for name in params.parameters if prefix + name in values}
    return replace(params, **new)


FAMILY = kind_of(Family, such_as="genclf.Gaussian()")
"""The domain of a family inside a model."""
