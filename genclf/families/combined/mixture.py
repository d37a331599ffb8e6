"""Several components within a class: mixture discriminant analysis, topics within a category."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from genclf.arguments.domains import LOGARITHMS, NON_NEGATIVE, whole
from genclf.arguments.module import static
from genclf.families.base import FAMILY, AnyDensity, Family, Params, Scalar
from genclf.families.capabilities import Completed, HasConditionals, Init, Latent, lacking
from genclf.families.conjugate.class_prior import ClassPrior
from genclf.families.initial_clusters import initial_weights
from genclf.families.of_classes import of_classes
from genclf.families.structure import nodes_of
from genclf.families.support import Support
from genclf.numerics.logarithms import drop_underflowing, times_log
from genclf.numerics.namespace import Array
from genclf.sums.blocks import ClassWeights, class_rows
from genclf.sums.statistics import ClassifierStats, Sums


class MixtureParams(HasConditionals, Params):
    """Fitted mixtures, as `fit` and `em` of a `Mixture` return them.

    Attributes:
        log_weight: log p(component | class), shape (K, J); -inf for an impossible component.
        components: the params of all components as if they were K J classes; component j of class
            k is number k J + j.
    """

    domains: ClassVar = {"log_weight": LOGARITHMS}

    log_weight: Float[Array, "K J"]
    components: AnyDensity

    def _problems(self) -> list[str]:
        error = np.abs(np.exp(np.asarray(self.log_weight, float)).sum(-1) - 1)
        return [] if (error < 1e-3).all() else ["log_weight has a sum other than 1 over components"]

    @property
    def support(self) -> PyTree[Support]:
        return self.components.support

    @property
    def num_features(self) -> PyTree[int]:
        return self.components.num_features

    def log_prob(self, x: PyTree) -> Float[Array, "*batch K"]:
        """`log Σ_j p(j | k) p(x | k, j)`."""
        return jax.nn.logsumexp(self.scores(self.components.log_prob(x)), axis=-1)

    def discriminant(self, x: PyTree) -> Float[Array, "*batch K"]:
        """`log_prob` up to a common term, from the discriminants of the components."""
        return jax.nn.logsumexp(self.scores(self.components.discriminant(x)), axis=-1)

    def scores(self, each: Float[Array, "*batch KJ"]) -> Float[Array, "*batch K J"]:
        """`log p(j | k)` plus a score of each component."""
        each = each.reshape(*each.shape[:-1], *self.log_weight.shape)
        weight = jnp.broadcast_to(self.log_weight, each.shape)
        never = jnp.isneginf(weight)
        return jnp.where(never, -jnp.inf, each + jnp.where(never, 0, weight))

    def responsibilities(self, x: PyTree) -> Float[Array, "*batch K J"]:
        """p(component | x, class); p(component | class) if x is impossible in the class."""
        return self.shares(self.scores(self.components.log_prob(x)))

    def shares(self, score: Float[Array, "*batch K J"]) -> Float[Array, "*batch K J"]:
        """The `responsibilities`, computed from `scores`."""
        impossible = jnp.isneginf(score).all(-1, keepdims=True)
        weight = jnp.broadcast_to(self.log_weight, score.shape)
        return jax.nn.softmax(jnp.where(impossible, weight, score), axis=-1)

    @property
    def statistic(self) -> str:
        return _describe(self.log_weight.shape[-1], self.components.statistic)

    def log_lik(self, stats: ClassifierStats) -> Float[Array, ""]:
        """`Σ_kj count_kj log p(j | k)`, plus the log-likelihood of the components."""
        count = stats.count.reshape(self.log_weight.shape)
        own = times_log(count, self.log_weight).sum()
        return own + self.components.log_lik(stats.conditional)

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> PyTree:
        """Draw a component of class y, and x from it."""
        key_component, key_x = jax.random.split(key)
        component = jax.random.categorical(key_component, self.log_weight[y])
        return self.components.sample(key_x, self._number(y, component))

    def _number(self, y: Int[Array, "*shape"], component: Array) -> Int[Array, "*shape"]:
        return y * self.log_weight.shape[-1] + component.astype(y.dtype)

    def marginalized(self) -> MixtureParams:
        return replace(self, components=self.components.marginalized())

    def condition(self, x: PyTree, r: Float[Array, "*batch K"]) -> PyTree:
        """`condition` of the components, with the probability of each component given x."""
        each = r[..., None] * self.responsibilities(x)
        return self.components.condition(x, each.reshape(*r.shape[:-1], -1))

    def sample_missing(self, key: Array, x: PyTree, y: Int[Array, "*shape"]) -> PyTree:
        key_component, key_x = jax.random.split(key)
        score = self.scores(self.components.log_prob(x))
        of_class = jnp.take_along_axis(score, y[..., None, None], axis=-2)[..., 0, :]
        component = jax.random.categorical(key_component, of_class)
        return self.components.sample_missing(key_x, x, self._number(y, component))


@of_classes.register
def _(given: MixtureParams, index: Int[np.ndarray, "_"]) -> MixtureParams:
    num = given.log_weight.shape[-1]
    each = (num * index[:, None] + np.arange(num)).ravel()
    return MixtureParams.of_fields(
        log_weight=jnp.take(given.log_weight, index, axis=-2),
        components=of_classes(given.components, each),
    )


def _describe(num_components: int, each: str) -> str:
    """A description of what the statistics of the components hold."""
    return f"{num_components} components of each class, each: {each}"


class _CompletedMixture(Completed):
    """Rows with the probabilities of their components, completed under each component.

    Attributes:
        shares: p(component | x, class).
        inside: the rows completed under each component, as if the components were classes.
    """

    shares: Float[Array, "n K J"]
    inside: Completed

    def stats(self, w: ClassWeights) -> ClassifierStats:
        """Statistics of a classifier of K J classes, weighted by component probabilities."""
        weight = class_rows(w).T[..., None]
        # A row without weight may hold anything.
        each = jnp.where(weight > 0, weight * drop_underflowing(self.shares), 0)
        each = each.reshape(each.shape[0], -1)
        count = each.sum(0)
        return ClassifierStats(Sums(count, count), self.inside.stats(each))


def most_components(family: Family) -> int:
    """The largest number of components per class among the mixtures in a model; 1 without any."""
    mixtures = nodes_of(family, Mixture)
    return max((m.num_components * most_components(m.family) for m in mixtures), default=1)


class Mixture(Latent):
    """A mixture of J components within each class: `p(x | y=k) = Σ_j p(j | k) p(x | k, j)`.

    Each component is a density of the family. Parameters that the family shares are shared by the
    components of all classes: `Mixture(Gaussian(shared=True), 3)` is mixture discriminant analysis.
    There is no closed form: `em` maximises the likelihood, and so does `fit`, with the key
    `jax.random.key(0)`. A Gaussian component can shrink onto a row, which makes the likelihood
    infinite; with `prior=NormalInverseWishart()` it cannot.

    An EM step costs as much as scoring all rows in all K J components, whatever their labels. `fit`
    takes up to 1,000 steps, with `tol=1e-8`. With many classes and components use
    `em(clf, x, y, key=..., tol=1e-4)`, or fit class by class.

    Args:
        family: the family of each component.
        num_components: J, in each class.
        alpha: Dirichlet smoothing of the weights, `p(j | k) = (n_kj + α) / (n_k + J α)`.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x = jnp.array([[0.0], [0.2], [8.0], [8.2], [4.0], [4.2]])
        >>> clf = gcf.Classifier(gcf.Mixture(gcf.Gaussian(shared=True), 2), num_classes=2)
        >>> params = gcf.fit(clf, x, jnp.array([0, 0, 0, 0, 1, 1]))
        >>> print(gcf.predict(params, x))
        [0 0 0 0 1 1]

    References:
        Hastie & Tibshirani (1996), "Discriminant analysis by Gaussian mixtures"; Nigam et al.
        (2000), §6.2.
    """

    domains: ClassVar = {"family": FAMILY, "num_components": whole(1), "alpha": NON_NEGATIVE}
    hidden: ClassVar = True

    family: Any
    num_components: int = static()
    alpha: Scalar = 0.0

    @property
    def support(self) -> PyTree[Support]:
        return self.family.support

    @property
    def weight_prior(self) -> ClassPrior:
        """The prior of the component probabilities, in each class."""
        return ClassPrior(self.num_components, self.alpha)

    @property
    def determined_by_prior(self) -> bool | Bool[Array, ""]:
        return self.family.determined_by_prior

    def stats(self, x: PyTree, w: ClassWeights) -> PyTree:
        raise ValueError("a Mixture has no statistics without params: components are not observed")

    def complete(
        self, params: MixtureParams, x: PyTree
    ) -> tuple[Float[Array, "n K"], _CompletedMixture]:
        """`log_prob` of rows, and the rows completed with component probabilities."""
        each, inside = self.family.complete(params.components, x)
        score = params.scores(each)
        log_prob = jax.nn.logsumexp(score, axis=-1)
        return log_prob, _CompletedMixture(params.shares(score), inside)

    def initial_stats(self, key: Array, x: PyTree, w: ClassWeights, init: Init) -> ClassifierStats:
        """Statistics after each class is split into J clusters separately."""
        key_seeds, key_parts = jax.random.split(key)
        rows = class_rows(w)
        unknown = jnp.full(rows.shape[1], -1, jnp.int32)

        def of_class(key: Array, w_k: Array) -> Array:
            distance = self.family.distance
            return initial_weights(key, distance, x, unknown, w_k, self.num_components, init)

        shares = jax.vmap(of_class)(jax.random.split(key_seeds, len(rows)), rows)
        each = jnp.moveaxis(shares * rows[..., None], 0, 1).reshape(rows.shape[1], -1)
        count = each.sum(0)
        found = self.family.initial_stats(key_parts, x, each, init)
        return ClassifierStats(Sums(count, count), found)

    def resolve_prior(self, x: PyTree, weight: Float[Array, "n"], num_classes: int) -> Mixture:
        family = self.family.resolve_prior(x, weight, num_classes * self.num_components)
        return replace(self, family=family)

    def statistic(self, stats: ClassifierStats) -> str:
        return _describe(self.num_components, self.family.statistic(stats.conditional))

    def estimate(self, stats: ClassifierStats) -> MixtureParams:
        """Weights of the components, and their params; equal weights in a class without rows."""
        count = stats.count.reshape(-1, self.num_components)
        log_weight = jax.vmap(self.weight_prior.log_probs)(count)
        return MixtureParams(log_weight, self.family.estimate(stats.conditional))

    def log_prior_density(self, params: MixtureParams, stats: ClassifierStats) -> Float[Array, ""]:
        """The prior log-density of the weights plus that of the components."""
        count = stats.count.reshape(-1, self.num_components)
        own = jax.vmap(self.weight_prior.log_density)(params.log_weight, count).sum()
        return own + self.family.log_prior_density(params.components, stats.conditional)

    def plain(self) -> Mixture:
        return replace(self, family=self.family.plain(), alpha=0.0)

    def heuristics(self) -> list[str]:
        return self.family.heuristics()

    def distance(self, x: PyTree, seed: PyTree) -> Float[Array, "n"]:
        return self.family.distance(x, seed)

    def num_parameters(self, num_classes: int, d: PyTree[int]) -> int:
        """J - 1 weights per class, plus the parameters of K J components."""
        each = self.family.num_parameters(num_classes * self.num_components, d)
        return num_classes * (self.num_components - 1) + each

    def check_stats(self, stats: PyTree) -> None:
        if not isinstance(stats, ClassifierStats):
            raise ValueError(
                "Mixture estimates from ClassifierStats, and stats are "
                f"{type(stats).__name__}: make them with this model"
            )
        self.family.check_stats(stats.conditional)

    def problems(self, d: PyTree[int] | None = None) -> list[str]:
        found = lacking(self.family, Latent)
        if found is not None:
            return [f"a Mixture of {found}, expected a family that EM can fit, such as Gaussian()"]
        return self.family.problems(d)
