"""One family for each column by itself: naive Bayes of any density."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from genclf.families.base import FAMILY, Family, Init, Params
from genclf.families.combinator import Combinator
from genclf.families.support import Support
from genclf.sums.blocks import ClassWeights, over_rows


class IndependentParams(Params):
    """One density per column, as `Independent.estimate` returns them.

    Attributes:
        columns: the params of all columns, every array with a leading column axis (d, K, ...).
    """

    columns: Params

    @property
    def support(self) -> PyTree[Support]:
        return self.columns.support

    @property
    def num_features(self) -> int:
        return jax.tree.leaves(self.columns)[0].shape[0]

    def _sum(self, method: str, x: Array) -> Array:
        def rows(x: Array) -> Array:
            score = lambda params, column: getattr(params, method)(column[:, None])  # noqa: E731
            return jax.vmap(score, (0, 1))(self.columns, x).sum(0)

        one_row = jax.eval_shape(rows, jax.ShapeDtypeStruct((1, x.shape[-1]), x.dtype))
        return over_rows(rows, x, 1, x.shape[-1] * one_row.shape[-1])

    def log_prob(self, x: Array) -> Float[Array, "*batch K"]:
        """`Σ_j log p_j(x_j | y = k)`."""
        return self._sum("log_prob", x)

    def discriminant(self, x: Array) -> Float[Array, "*batch K"]:
        """The sum of the columns' discriminants."""
        return self._sum("discriminant", x)

    def marginalized(self) -> IndependentParams:
        return IndependentParams(jax.vmap(lambda params: params.marginalized())(self.columns))

    def condition(self, x: Array, r: Float[Array, "*batch K"]) -> PyTree:
        """The columns' own, with a leading column axis."""
        of_column = lambda params, column: params.condition(column[..., None], r)  # noqa: E731
        return jax.vmap(of_column, (0, -1))(self.columns, x)

    def sample_missing(self, key: Array, x: Array, y: Int[Array, "*shape"]) -> Array:
        """Each column drawn on its own."""
        keys = jax.random.split(key, self.num_features)
        return jax.vmap(
            lambda params, k, column: params.sample_missing(k, column[..., None], y)[..., 0],
            (0, 0, -1),
            -1,
        )(self.columns, keys, x)

    @property
    def statistic(self) -> str | None:
        each = self.columns.statistic
        return each and _in_words(self.num_features, each)

    def log_lik(self, stats: PyTree) -> Float[Array, ""]:
        """The sum over the columns."""
        return jax.vmap(lambda params, s: params.log_lik(s))(self.columns, stats).sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> PyTree:
        """Each column drawn on its own."""
        keys = jax.random.split(key, self.num_features)
        return jax.vmap(lambda params, k: params.sample(k, y)[..., 0], out_axes=-1)(
            self.columns, keys
        )

    def linear(self) -> tuple[Array, Float[Array, "K"]]:
        """The columns' coefficients side by side; the sum of their intercepts."""
        coef, intercept = jax.vmap(lambda params: params.linear())(self.columns)
        return jnp.moveaxis(coef, 0, 1).reshape(coef.shape[1], -1), intercept.sum(0)


def _in_words(num_columns: int, each: str) -> str:
    """What the statistics of so many columns are of."""
    return f"{num_columns} columns, each: {each}"


class Independent(Combinator):
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

    family: Family

    @property
    def support(self) -> PyTree[Support]:
        return self.family.support

    @property
    def keeps_examples(self) -> bool:
        return self.family.keeps_examples

    @property
    def hidden(self) -> bool:
        return self.family.hidden

    def stats(self, x: Array, w: ClassWeights) -> PyTree:
        """The family's statistics of each column, with a leading column axis."""
        return jax.vmap(lambda column: self.family.stats(column[:, None], w), in_axes=1)(x)

    def statistic(self, stats: PyTree) -> str:
        one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), stats)
        num_columns = len(jax.tree.leaves(stats)[0])
        return _in_words(num_columns, self.family.statistic(one))

    def check_stats(self, stats: PyTree) -> None:
        sizes = {a.shape[:1] for a in jax.tree.leaves(stats)}
        if len(sizes) != 1:
            raise ValueError(
                "Independent estimates from statistics whose arrays have one leading column axis, "
                f"got axes of sizes {sorted(sizes)}"
            )
        super().check_stats(stats)

    def complete(self, params: Params, x: Array) -> tuple[Float[Array, "n K"], PyTree]:
        """The family's of each column."""
        assert isinstance(params, IndependentParams)
        of_column = lambda params, column: self.family.complete(params, column[:, None])[1]  # noqa: E731
        return params.log_prob(x), jax.vmap(of_column, (0, 1))(params.columns, x)

    def expected_stats(
        self, params: Params, completion: PyTree, x: Array, w: ClassWeights
    ) -> PyTree:
        """The family's of each column."""
        assert isinstance(params, IndependentParams)

        def of_column(params: Params, completion: PyTree, column: Array) -> PyTree:
            return self.family.expected_stats(params, completion, column[:, None], w)

        return jax.vmap(of_column, (0, 0, 1))(params.columns, completion, x)

    def initial_stats(self, key: Array, x: Array, w: ClassWeights, init: Init) -> PyTree:
        """The family's of each column."""
        of_column = lambda key, column: self.family.initial_stats(key, column[:, None], w, init)  # noqa: E731
        return jax.vmap(of_column, (0, 1))(jax.random.split(key, x.shape[1]), x)

    def not_monotone(self) -> list[str]:
        return self.family.not_monotone()

    def log_prior(self, params: Params, stats: PyTree) -> Float[Array, ""]:
        """The sum over the columns."""
        assert isinstance(params, IndependentParams)
        return jax.vmap(self.family.log_prior)(params.columns, stats).sum()

    def dissimilarity(self, x: Array, seed: Array) -> Float[Array, "n"]:
        """The sum over the columns."""
        of_column = lambda x, seed: self.family.dissimilarity(x[:, None], seed[None])  # noqa: E731
        return jax.vmap(of_column, (1, 0))(x, seed).sum(0)

    def fit(self, x: Array, w: ClassWeights) -> IndependentParams:
        """The family's params of each column."""
        return IndependentParams(
            jax.vmap(lambda column: self.family.fit(column[:, None], w), in_axes=1)(x)
        )

    def over_parts(self, f: Callable[..., Any], *trees: PyTree) -> PyTree:
        """F for all columns at once; every array has a leading column axis."""
        return jax.vmap(lambda *columns: self.family.over_parts(f, *columns))(*trees)

    def assemble(self, parts: PyTree) -> IndependentParams:
        return IndependentParams(self.family.assemble(parts))

    def num_parameters(self, num_classes: int, d: int) -> int:
        """D times those of one column."""
        return d * self.family.num_parameters(num_classes, 1)

    def map_families(self, f: Callable[[Any, PyTree], Any], stats: PyTree) -> Independent:
        """The same for the one family, given the statistics of the first column."""
        return Independent(self.family.map_families(f, jax.tree.map(lambda a: a[0], stats)))

    def invalid_hyperparameters(self, d: Any = None) -> list[str]:
        return self.family.invalid_hyperparameters(None if d is None else 1)
