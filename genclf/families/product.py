"""Blocks of columns, each with a family of its own: mixed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
from jaxtyping import Array, Float, Int, PyTree

from genclf.arguments.domains import Domain
from genclf.families.base import FAMILY, Family, Init, Params
from genclf.families.combinator import Combinator
from genclf.families.support import Support
from genclf.sums.blocks import ClassWeights


class ProductParams(Params):
    """Densities of named blocks of features, as `Product.estimate` returns them.

    Attributes:
        parts: the params of each block.
    """

    parts: dict[str, Params]

    @property
    def support(self) -> PyTree[Support]:
        return {name: part.support for name, part in self.parts.items()}

    @property
    def num_features(self) -> dict[str, Any]:
        return {name: part.num_features for name, part in self.parts.items()}

    def log_prob(self, x: dict[str, Any]) -> Float[Array, "*batch K"]:
        """`Σ_blocks log p(x_block | y = k)`."""
        return _total(part.log_prob(x[name]) for name, part in self._parts(x))

    def discriminant(self, x: dict[str, Any]) -> Float[Array, "*batch K"]:
        """The sum of the blocks' discriminants."""
        return _total(part.discriminant(x[name]) for name, part in self._parts(x))

    def _parts(self, x: dict[str, Any]) -> list[tuple[str, Params]]:
        check_names(x, self.parts)
        return sorted(self.parts.items())

    def marginalized(self) -> ProductParams:
        return ProductParams({name: part.marginalized() for name, part in self.parts.items()})

    def condition(self, x: dict[str, Any], r: Float[Array, "*batch K"]) -> dict[str, PyTree]:
        """The blocks' own, by name."""
        return {name: part.condition(x[name], r) for name, part in self._parts(x)}

    def sample_missing(
        self, key: Array, x: dict[str, Any], y: Int[Array, "*shape"]
    ) -> dict[str, PyTree]:
        """Each block drawn on its own."""
        keys = jax.random.split(key, len(self.parts))
        parts = zip(self._parts(x), keys, strict=True)
        return {name: part.sample_missing(k, x[name], y) for (name, part), k in parts}

    @property
    def statistic(self) -> str | None:
        words = {name: part.statistic for name, part in self.parts.items()}
        known = [(name, each) for name, each in words.items() if each is not None]
        return _in_words(known) if len(known) == len(words) else None

    def log_lik(self, stats: dict[str, PyTree]) -> Float[Array, ""]:
        """The sum over the blocks."""
        return _total(part.log_lik(stats[name]) for name, part in sorted(self.parts.items()))

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> dict[str, PyTree]:
        """Each block drawn on its own."""
        keys = jax.random.split(key, len(self.parts))
        named = zip(sorted(self.parts), keys, strict=True)
        return {name: self.parts[name].sample(k, y) for name, k in named}

    def linear(self) -> tuple[dict[str, PyTree], Float[Array, "K"]]:
        """A dict of the blocks' coefficients; the sum of their intercepts."""
        forms = {name: part.linear() for name, part in sorted(self.parts.items())}
        coefs = {name: coef for name, (coef, _) in forms.items()}
        return coefs, _total(intercept for _, intercept in forms.values())


def _in_words(parts: Iterable[tuple[str, str]]) -> str:
    """What the statistics of named parts are of."""
    return "; ".join(f"{name}: {words}" for name, words in sorted(parts))


_PARTS = Domain(
    "a dict of families by name, such as {'size': Gaussian()}",
    lambda parts: (
        isinstance(parts, dict)
        and bool(parts)
        and all(isinstance(name, str) for name in parts)
        and all(map(FAMILY.contains, parts.values()))
    ),
)


class Product(Combinator):
    """Mixed columns: `p(x | y=k) = Π_blocks p(x_block | y=k)`, blocks independent given the class.

    x is a dict of arrays with the same keys and the same number of rows. Blocks are taken in the
    sorted order of their names.

    Args:
        parts: the family of each named block of features.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> family = gcf.Product({"size": gcf.Gaussian(), "colour": gcf.Categorical(2)})
        >>> size, colour = jnp.array([[1.0], [2.0], [7.0], [8.0]]), jnp.array([[0], [0], [1], [0]])
        >>> x = {"size": size, "colour": colour}
        >>> params = gcf.fit(gcf.Classifier(family, num_classes=2), x, jnp.array([0, 0, 1, 1]))
        >>> print(gcf.predict(params, x))
        [0 0 1 1]
    """

    parts: dict[str, Family]

    def __init__(self, parts: dict[str, Family]):
        """Raise at once on keys that are no names: JAX sorts them before any verb is called."""
        self.parts = _PARTS.checked(parts, "parts")

    @property
    def support(self) -> PyTree[Support]:
        return {name: part.support for name, part in self.parts.items()}

    @property
    def keeps_examples(self) -> bool:
        return any(part.keeps_examples for part in self.parts.values())

    @property
    def hidden(self) -> bool:
        return any(part.hidden for part in self.parts.values())

    def stats(self, x: dict[str, Any], w: ClassWeights) -> dict[str, PyTree]:
        """The statistics of each block, by name."""
        check_names(x, self.parts)
        return {name: part.stats(x[name], w) for name, part in sorted(self.parts.items())}

    def statistic(self, stats: dict[str, PyTree]) -> str:
        return _in_words((name, part.statistic(stats[name])) for name, part in self.parts.items())

    def complete(
        self, params: Params, x: dict[str, Any]
    ) -> tuple[Float[Array, "n K"], dict[str, PyTree]]:
        """The sum of the scores of the blocks, and the completion of each, by name."""
        check_names(x, self.parts)
        assert isinstance(params, ProductParams)
        found = {
            name: part.complete(params.parts[name], x[name])
            for name, part in sorted(self.parts.items())
        }
        completions = {name: completion for name, (_, completion) in found.items()}
        return _total(score for score, _ in found.values()), completions

    def expected_stats(
        self, params: Params, completion: dict[str, PyTree], x: dict[str, Any], w: ClassWeights
    ) -> dict[str, PyTree]:
        """Those of each block, by name."""
        assert isinstance(params, ProductParams)
        return {
            name: part.expected_stats(params.parts[name], completion[name], x[name], w)
            for name, part in self.parts.items()
        }

    def initial_stats(
        self, key: Array, x: dict[str, Any], w: ClassWeights, init: Init
    ) -> dict[str, PyTree]:
        """Those of each block, by name."""
        keys = dict(zip(sorted(self.parts), jax.random.split(key, len(self.parts)), strict=True))
        return {
            name: part.initial_stats(keys[name], x[name], w, init)
            for name, part in self.parts.items()
        }

    def settle(self, x: dict[str, Any], weight: Float[Array, "n"], num_classes: int) -> Product:
        """Each block by itself."""
        parts = self.parts.items()
        return Product({name: part.settle(x[name], weight, num_classes) for name, part in parts})

    def not_monotone(self) -> list[str]:
        return [
            f"{name}: {rule}" for name, part in self.parts.items() for rule in part.not_monotone()
        ]

    def log_prior(self, params: Params, stats: dict[str, PyTree]) -> Float[Array, ""]:
        """The sum over the blocks."""
        assert isinstance(params, ProductParams)
        named = sorted(self.parts.items())
        return _total(part.log_prior(params.parts[name], stats[name]) for name, part in named)

    def dissimilarity(self, x: dict[str, Any], seed: dict[str, Any]) -> Float[Array, "n"]:
        """The sum over the blocks."""
        return _total(
            part.dissimilarity(x[name], seed[name]) for name, part in sorted(self.parts.items())
        )

    def fit(self, x: dict[str, Any], w: ClassWeights) -> ProductParams:
        """The params of each block, by name."""
        check_names(x, self.parts)
        return ProductParams({name: part.fit(x[name], w) for name, part in self.parts.items()})

    def over_parts(self, f: Callable[..., Any], *trees: PyTree) -> dict[str, PyTree]:
        """F for each block, by name."""
        for tree in trees:
            check_names(tree, self.parts, "stats.conditional")
        return {
            name: part.over_parts(f, *(tree[name] for tree in trees))
            for name, part in sorted(self.parts.items())
        }

    def assemble(self, parts: dict[str, PyTree]) -> ProductParams:
        return ProductParams(
            {name: part.assemble(parts[name]) for name, part in sorted(self.parts.items())}
        )

    def num_parameters(self, num_classes: int, d: dict[str, int]) -> int:
        """The sum over the blocks; d is a dict of their numbers of features."""
        check_names(d, self.parts, "d")
        return sum(part.num_parameters(num_classes, d[name]) for name, part in self.parts.items())

    def map_families(self, f: Callable[[Any, PyTree], Any], stats: dict[str, PyTree]) -> Product:
        """The same for the family of each block."""
        named = self.parts.items()
        return Product({name: part.map_families(f, stats[name]) for name, part in named})

    def invalid_hyperparameters(self, d: Any = None) -> list[str]:
        known = d if isinstance(d, dict) else {}
        return [
            f"{name}: {wrong}"
            for name, part in sorted(self.parts.items())
            for wrong in part.invalid_hyperparameters(known.get(name))
        ]


def check_names(x: Any, parts: dict, argument: str = "x") -> None:
    """Raise unless x is a dict with the keys of the parts."""
    if not isinstance(x, dict) or x.keys() != parts.keys():
        given = sorted(x) if isinstance(x, dict) else f"a {type(x).__name__}"
        raise ValueError(
            f"{argument} is {given}, but the model is a Product: expected a dict with the keys "
            f"{sorted(parts)}"
        )


def _total(terms: Any) -> Array:
    first, *rest = terms
    return sum(rest, first)
