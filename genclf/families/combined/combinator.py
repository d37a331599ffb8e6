"""Base classes of families and densities made of parts: methods delegate to the parts."""

from __future__ import annotations

import abc
import functools
import operator

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree

from genclf.families.base import AnyDensity, Family, Parametric, Params
from genclf.families.capabilities import (
    Completed,
    HasConditionals,
    HasLinearForm,
    HasRoads,
    HasTerms,
    Init,
    Latent,
    has,
    is_hidden,
)
from genclf.families.parts import InParts
from genclf.numerics.namespace import Array
from genclf.sums.blocks import ClassWeights


class CombinedParams(InParts, HasConditionals, HasLinearForm, HasTerms, Params):
    """The density of independent parts, whose log-densities add up."""

    @property
    @abc.abstractmethod
    def inside(self) -> PyTree:
        """The densities of the parts."""

    def assemble(self, parts: PyTree) -> CombinedParams:
        return type(self)(parts)  # type: ignore[call-arg]

    def log_prob(self, x: PyTree) -> Float[Array, "*batch K"]:
        return self._sum("log_prob", x)

    def discriminant(self, x: PyTree) -> Float[Array, "*batch K"]:
        return self._sum("discriminant", x)

    def _sum(self, method: str, x: PyTree) -> Float[Array, "*batch K"]:
        return self.total(self.map(lambda part, x: getattr(part, method)(x), self.split(x)))

    def log_lik(self, stats: PyTree) -> Float[Array, ""]:
        return self.total(self.map(lambda part, s: part.log_lik(s), stats))

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> PyTree:
        keys = self.split_key(key, self.inside)
        return self.join(self.map(lambda part, key: part.sample(key, y), keys))

    def terms(
        self, x: PyTree, y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> PyTree[Float[Array, "*batch _"]]:
        """The terms of each part; the log-ratio itself for a part without terms."""
        return self.join(self.map(lambda part, x: _terms_of(part, x, y, other), self.split(x)))

    def constant(self, y: Int[Array, "*batch"], other: Int[Array, "*batch"]) -> Array:
        of = lambda part: part.constant(y, other) if has(part, HasTerms) else jnp.zeros(y.shape)  # noqa: E731
        return self.total(self.map(of))

    def marginalized(self) -> CombinedParams:
        return self.assemble(self.map(lambda part: part.marginalized()))

    def condition(self, x: PyTree, r: Float[Array, "*batch K"]) -> PyTree:
        return self.map(lambda part, x: part.condition(x, r), self.split(x))

    def sample_missing(self, key: Array, x: PyTree, y: Int[Array, "*shape"]) -> PyTree:
        keys = self.split_key(key, self.inside)
        draw = lambda part, key, x: part.sample_missing(key, x, y)  # noqa: E731
        return self.join(self.map(draw, keys, self.split(x)))


def _terms_of(part: AnyDensity, x: PyTree, y: Array, other: Array) -> PyTree:
    if has(part, HasTerms):
        return part.terms(x, y, other)
    score = part.discriminant(x)
    of, against = (jnp.take_along_axis(score, k[..., None], axis=-1) for k in (y, other))
    return of - against


class _CompletedParts(Completed):
    """Rows whose parts are completed, each by the params of that part."""

    family: Combinator
    parts: PyTree

    def stats(self, w: ClassWeights) -> PyTree:
        return self.family.map(lambda _, completed: completed.stats(w), self.parts)


class Combinator(InParts, HasRoads, Latent):
    """A family made of families; each is applied to its own part of x."""

    @abc.abstractmethod
    def children(self, *trees: PyTree) -> list[tuple]:
        """Each child family with its part of each tree; `Independent`: of the first column only."""

    def stats(self, x: PyTree, w: ClassWeights) -> PyTree:
        return self.map(lambda part, x: part.stats(x, w), self.split(x))

    def fit(self, x: PyTree, w: ClassWeights) -> AnyDensity:
        return self.assemble(self.map(lambda part, x: part.fit(x, w), self.split(x)))

    def estimate(self, stats: PyTree) -> AnyDensity:
        return self.assemble(self.map(lambda part, s: part.estimate(s), stats))

    def start(self, stats: PyTree) -> AnyDensity:
        return self.assemble(self.map(lambda part, s: part.start(s), stats))

    def prior_stats(self, stats: PyTree) -> PyTree:
        return self.map(lambda part, s: part.prior_stats(s), stats)

    def log_prior_density(self, params: CombinedParams, stats: PyTree) -> Float[Array, ""]:
        of_part = lambda part, params, s: part.log_prior_density(params, s)  # noqa: E731
        return self.total(self.map(of_part, params.inside, stats))

    def check_stats(self, stats: PyTree) -> None:
        self.map(lambda part, s: part.check_stats(s), stats)

    def diagnose(self, stats: PyTree) -> PyTree:
        return self.map(lambda part, s: part.diagnose(s), stats)

    def diagnose_rows(self, x: PyTree, w: ClassWeights) -> PyTree:
        return self.map(lambda part, x: part.diagnose_rows(x, w), self.split(x))

    @property
    def determined_by_prior(self) -> bool | Bool[Array, ""]:
        each = [part.determined_by_prior for (part,) in self.children()]
        return functools.reduce(operator.and_, each)

    @property
    def hidden(self) -> bool:
        return any(is_hidden(part) for (part,) in self.children())

    def complete(self, params: CombinedParams, x: PyTree) -> tuple[Float[Array, "n K"], Completed]:
        """The sum of the parts' log-densities, and the completed parts."""
        of_part = lambda part, params, x: part.complete(params, x)  # noqa: E731
        found = self.map(of_part, params.inside, self.split(x))
        is_pair = lambda node: isinstance(node, tuple)  # noqa: E731
        log_prob, completed = (
            jax.tree.map(operator.itemgetter(i), found, is_leaf=is_pair) for i in range(2)
        )
        return self.total(log_prob), _CompletedParts(self, completed)

    def initial_stats(self, key: Array, x: PyTree, w: ClassWeights, init: Init) -> PyTree:
        split = self.split(x)
        of_part = lambda part, key, x: part.initial_stats(key, x, w, init)  # noqa: E731
        return self.map(of_part, self.split_key(key, split), split)

    def distance(self, x: PyTree, seed: PyTree) -> Float[Array, "n"]:
        of_part = lambda part, x, seed: part.distance(x, seed)  # noqa: E731
        return self.total(self.map(of_part, self.split(x), self.split(seed)))


def leaf_families(family: Family, *trees: PyTree) -> list[tuple]:
    """Each leaf family, with its part of each tree, in pytree order."""
    if not isinstance(family, Combinator):
        return [(family, *trees)]
    return [found for child in family.children(*trees) for found in leaf_families(*child)]


def any_prefers_rows(family: Family, x: PyTree) -> bool:
    """Whether a leaf family fits its part of x from rows rather than from statistics."""
    parts = leaf_families(family, x)
    return any(isinstance(one, Parametric) and one.prefers_rows(part) for one, part in parts)


def with_leaf_families(family: Family, leaves: list[Family]) -> Family:
    """The same model with other leaf families, in the order of `leaf_families`."""
    is_leaf = lambda node: isinstance(node, Family) and not isinstance(node, Combinator)  # noqa: E731
    return jax.tree.unflatten(jax.tree.structure(family, is_leaf=is_leaf), leaves)
