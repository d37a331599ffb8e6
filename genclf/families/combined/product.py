"""Mixed columns: named parts of x, each with its own family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
from jaxtyping import Float, PyTree

from genclf.arguments.domains import Domain
from genclf.families.base import FAMILY, AnyDensity, Family
from genclf.families.combined.combinator import Combinator, CombinedParams
from genclf.families.parts import InParts
from genclf.families.structure import check_names
from genclf.families.support import Support
from genclf.numerics.namespace import Array


class _Named(InParts):
    """Parts by name; x is a dict with an entry for each part."""

    parts: dict[str, Any]

    @property
    def support(self) -> PyTree[Support]:
        return self.map(lambda part: part.support)

    def map(self, f: Callable[..., PyTree], *trees: PyTree) -> dict[str, PyTree]:
        return {name: f(*own) for name, own in self._each(*trees)}

    def _each(self, *trees: PyTree) -> list[tuple[str, tuple]]:
        """Each name with its part and its entry in each tree, in sorted order of names."""
        for tree in trees:
            check_names(tree, self.parts, "stats.conditional")
        named = sorted(self.parts.items())
        return [(name, (part, *(tree[name] for tree in trees))) for name, part in named]

    def split(self, x: dict[str, PyTree]) -> dict[str, PyTree]:
        check_names(x, self.parts)
        return x

    def join(self, parts: dict[str, PyTree]) -> dict[str, PyTree]:
        return parts

    def split_key(self, key: Array, parts: dict[str, PyTree]) -> dict[str, Array]:
        return dict(zip(sorted(parts), jax.random.split(key, len(parts)), strict=True))

    def total(self, parts: dict[str, Array]) -> Array:
        first, *rest = parts.values()
        return sum(rest, first)


class ProductParams(_Named, CombinedParams):
    """Densities of named parts of x, as `Product.estimate` returns them.

    Attributes:
        parts: the density of each part.
    """

    parts: dict[str, AnyDensity]

    @property
    def inside(self) -> dict[str, AnyDensity]:
        return self.parts

    @property
    def num_features(self) -> dict[str, PyTree[int]]:
        return self.map(lambda part: part.num_features)

    @property
    def statistic(self) -> str:
        return _describe(self.map(lambda part: part.statistic))

    def linear(self) -> tuple[dict[str, PyTree], Float[Array, "K"]]:
        """A dict of the parts' coefficients, and the sum of their intercepts."""
        forms = self.map(lambda part: part.linear())
        coefs = {name: coef for name, (coef, _) in forms.items()}
        return coefs, self.total({name: intercept for name, (_, intercept) in forms.items()})


def _describe(parts: dict[str, str]) -> str:
    """A description of what the statistics of named parts hold."""
    return "; ".join(f"{name}: {statistic}" for name, statistic in parts.items())


_PARTS = Domain(
    "a dict of families by name, such as {'size': Gaussian()}",
    lambda parts: (
        isinstance(parts, dict)
        and bool(parts)
        and all(isinstance(name, str) for name in parts)
        and all(map(FAMILY.contains, parts.values()))
    ),
)


class Product(_Named, Combinator):
    """Mixed columns: `p(x | y=k) = Π_parts p(x_part | y=k)`, parts independent given the class.

    x is a dict of arrays with the same keys and the same number of rows. Parts are taken in the
    sorted order of their names.

    Args:
        parts: the family of each named part of x.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> family = gcf.Product({"size": gcf.Gaussian(), "colour": gcf.Categorical(2)})
        >>> size, colour = jnp.array([[1.0], [2.0], [7.0], [8.0]]), jnp.array([[0], [0], [1], [0]])
        >>> x = {"size": size, "colour": colour}
        >>> params = gcf.fit(gcf.Classifier(family, num_classes=2), x, jnp.array([0, 0, 1, 1]))
        >>> print(gcf.predict(params, x))
        [0 0 1 1]
    """

    domains: ClassVar = {"parts": _PARTS}

    parts: dict[str, Any]

    def __init__(self, parts: dict[str, Family]):
        """Raise at once for keys that are not str: JAX sorts keys before a function is called."""
        self.parts = _PARTS.checked(parts, "parts")

    def assemble(self, parts: dict[str, AnyDensity]) -> ProductParams:
        return ProductParams(parts)

    def children(self, *trees: PyTree) -> list[tuple]:
        return [own for _, own in self._each(*trees)]

    def statistic(self, stats: dict[str, PyTree]) -> str:
        return _describe(self.map(lambda part, s: part.statistic(s), stats))

    def plain(self) -> Product:
        return Product(self.map(lambda part: part.plain()))

    def heuristics(self) -> list[str]:
        named = self.map(lambda part: part.heuristics())
        return [f"{name}: {rule}" for name, rules in named.items() for rule in rules]

    def resolve_prior(
        self, x: dict[str, PyTree], weight: Float[Array, "n"], num_classes: int
    ) -> Product:
        """Resolve the prior of each part separately."""
        resolved = lambda part, x: part.resolve_prior(x, weight, num_classes)  # noqa: E731
        return Product(self.map(resolved, self.split(x)))

    def num_parameters(self, num_classes: int, d: dict[str, int]) -> int:
        """The sum over the parts; d is a dict of their numbers of features."""
        check_names(d, self.parts, "d")
        return sum(self.map(lambda part, d: part.num_parameters(num_classes, d), d).values())

    def problems(self, d: PyTree[int] | None = None) -> list[str]:
        known = {name: d.get(name) if isinstance(d, dict) else None for name in self.parts}
        named = self.map(lambda part, d: part.problems(d), known)
        return [f"{name}: {wrong}" for name, found in named.items() for wrong in found]
