"""Naive Bayes with any density: a copy of one family for each column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Float, PyTree

from genclf.families.base import FAMILY, AnyDensity
from genclf.families.combined.combinator import Combinator, CombinedParams
from genclf.families.parts import InParts
from genclf.families.support import Support
from genclf.numerics.namespace import Array
from genclf.numerics.row_blocks import over_rows


class _Columns(InParts):
    """A part for each column of x; arrays of parts have a leading column axis."""

    def split(self, x: Array) -> Array:
        return jnp.moveaxis(x, -1, 0)[..., None]

    def join(self, parts: Array) -> Array:
        return jnp.moveaxis(parts[..., 0], 0, -1)

    def split_key(self, key: Array, parts: PyTree) -> Array:
        return jax.random.split(key, len(jax.tree.leaves(parts)[0]))

    def total(self, parts: Array) -> Array:
        return parts.sum(0)


class IndependentParams(_Columns, CombinedParams):
    """One density per column, as `Independent.estimate` returns them.

    Attributes:
        columns: the params of all columns, every array with a leading column axis (d, K, ...).
    """

    columns: AnyDensity

    @property
    def inside(self) -> AnyDensity:
        return self.columns

    def map(self, f: Callable[..., PyTree], *trees: PyTree) -> PyTree:
        return jax.vmap(f)(self.columns, *trees)

    @property
    def support(self) -> PyTree[Support]:
        return replace(self.columns.support, sparse=False)

    @property
    def num_features(self) -> int:
        return jax.tree.leaves(self.columns)[0].shape[0]

    def _sum(self, method: str, x: Array) -> Array:
        rows = lambda x: super(IndependentParams, self)._sum(method, x)  # noqa: E731
        one_row = jax.eval_shape(rows, jax.ShapeDtypeStruct((1, x.shape[-1]), x.dtype))
        return over_rows(rows, x, 1, x.shape[-1] * one_row.shape[-1])

    @property
    def statistic(self) -> str:
        return _describe(self.num_features, self.columns.statistic)

    def linear(self) -> tuple[Array, Float[Array, "K"]]:
        """The coefficients of all columns side by side, and the sum of their intercepts."""
        coef, intercept = self.map(lambda params: params.linear())
        return jnp.moveaxis(coef, 0, 1).reshape(coef.shape[1], -1), intercept.sum(0)


def _describe(num_columns: int, each: str) -> str:
    """A description of what the statistics of the columns hold."""
    return f"{num_columns} columns, each: {each}"


class Independent(_Columns, Combinator):
    """Naive Bayes over columns of one kind: `p(x | y=k) = Π_j p_j(x_j | y=k)`.

    Every column gets its own copy of the family, fitted to that column alone.

    Args:
        family: the density of a single column.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Independent(gcf.Gaussian()), num_classes=2)
        >>> x = jnp.array([[0.0, 1.0], [2.0, 3.0], [4.0, 8.0], [6.0, 6.0]])
        >>> params = gcf.fit(clf, x, jnp.array([0, 0, 1, 1]))
        >>> print(gcf.predict(params, x))
        [0 0 1 1]
    """

    domains: ClassVar = {"family": FAMILY}

    family: Any

    def map(self, f: Callable[..., PyTree], *trees: PyTree) -> PyTree:
        return jax.vmap(partial(f, self.family))(*trees)

    def assemble(self, parts: PyTree) -> IndependentParams:
        return IndependentParams(parts)

    def children(self, *trees: PyTree) -> list[tuple]:
        return [(self.family, *jax.tree.map(lambda a: a[0], trees))]

    @property
    def support(self) -> PyTree[Support]:
        return replace(self.family.support, sparse=False)

    def statistic(self, stats: PyTree) -> str:
        one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), stats)
        return _describe(len(jax.tree.leaves(stats)[0]), self.family.statistic(one))

    def check_stats(self, stats: PyTree) -> None:
        sizes = {a.shape[:1] for a in jax.tree.leaves(stats)}
        if len(sizes) != 1:
            raise ValueError(
                "Independent estimates from statistics whose arrays have one leading column axis, "
                f"got axes of sizes {sorted(sizes)}"
            )
        super().check_stats(stats)

    def plain(self) -> Independent:
        return Independent(self.family.plain())

    def heuristics(self) -> list[str]:
        return self.family.heuristics()

    def num_parameters(self, num_classes: int, d: int) -> int:
        """The number for one column, times d."""
        return d * self.family.num_parameters(num_classes, 1)

    def problems(self, d: PyTree[int] | None = None) -> list[str]:
        return self.family.problems(None if d is None else 1)
