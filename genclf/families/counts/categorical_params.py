"""Fitted categorical class densities, and their tables side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from genclf.arguments.domains import several, whole
from genclf.arguments.module import static
from genclf.arguments.parameters import Parameter
from genclf.arguments.sharding import compiled
from genclf.families.counts.smoothed import CountParams
from genclf.families.given import probabilities
from genclf.families.missing import MayMiss, Missing, is_missing
from genclf.families.mode import mode
from genclf.families.support import Support
from genclf.numerics.logarithms import safe_log, times_log
from genclf.numerics.namespace import Array, matmul, namespace, on_host
from genclf.numerics.row_blocks import over_rows
from genclf.sums.host import LabelledRows
from genclf.sums.statistics import Sums


def wide_codes(x: Array) -> Array:
    """Codes in a dtype of at least 32 bits, which can hold every num_values."""
    xp = namespace(x)
    if x.dtype.itemsize >= 4:
        return x
    return x.astype(xp.float32 if xp.issubdtype(x.dtype, xp.floating) else xp.int32)


def last_axis(sizes: int | tuple[int, ...] | np.ndarray, x: Array) -> Array:
    """Broadcast a number for each column over the leading axes of x."""
    xp = namespace(x)
    return xp.broadcast_to(xp.asarray(sizes, x.dtype), x.shape)


class Columns(MayMiss):
    """The layout of several columns, each with its number of values, in one flat table.

    Value v of column j has index `first[j] + v`, the same as its 0/1 indicator in
    `genclf.indicators`.

    Attributes:
        num_values: number of values of each column.
        unseen: "error" or "ignore"; see `Categorical`.
        missing: "error" or "marginalize".
        missing_code: the integer that marks a missing cell if x is integer.
    """

    domains: ClassVar = {"num_values": several("a size >= 1 of each column", whole(1))}

    num_values: tuple[int, ...] = static()
    unseen: Unseen = static()
    missing: Missing = static(default="error")
    missing_code: int = static(default=-1)

    @property
    def support(self) -> Support:
        return self.allowing(values_support(self.num_values, self.unseen))

    @property
    def first(self) -> np.ndarray:
        """The index at which each column starts in the table, shape (d,)."""
        return np.cumsum((0, *self.num_values[:-1]))

    @property
    def simplex(self) -> Parameter:
        """The set that the tables of probabilities are in."""
        return Parameter("simplex", "log", tables=self.num_values)

    def tables_on_host(self, x: Array, rows: LabelledRows) -> Any:
        """The weight of each value of each column in each class, by NumPy."""
        index, known = self.indices(x)
        first = [*self.first.tolist(), sum(self.num_values)]
        found = [
            rows.table(np.where(known[:, j], index[:, j] - first[j], -1), v)
            for j, v in enumerate(self.num_values)
        ]
        return np.concatenate(found, 1)

    def indices(self, x: Array) -> tuple[Int[Array, "*batch d"], Bool[Array, "*batch d"]]:
        """The index of each cell in the flat table, and whether it has one.

        A missing cell has no index, so it adds nothing to a score or to a table.
        """
        xp = namespace(x)
        wide = wide_codes(x)
        sizes = last_axis(self.num_values, wide)
        known = (wide >= 0) & (wide < sizes) & (wide == xp.floor(wide))
        code = xp.where(known, wide, 0).astype(xp.int32)
        return code + last_axis(self.first, code), known


def describe_tables(columns: Columns) -> str:
    """A description of what the `Sums` of these columns hold."""
    return f"rows with each value of columns of {columns.num_values} values"


class CategoricalParams(CountParams):
    """Fitted tables, as `Categorical.estimate` returns them.

    Attributes:
        log_theta: `log p(x_j = v | y = k)`, the columns' tables side by side, shape (K, Σ_j V_j);
            `table(j)` is that of column j. -inf at 0.
        columns: the layout.
    """

    log_theta: Float[Array, "K sum_V"]
    columns: Columns

    @classmethod
    def of(cls, tables: Iterable[ArrayLike]) -> CategoricalParams:
        """The densities of given tables, one per column.

        Args:
            tables: p(x_j = v | y = k) of each column j, a sequence of arrays of shape (K, V_j).

        Raises:
            ValueError: there is no table, the tables differ in the number of classes, or a row of
                a table is not V_j probabilities with sum 1.

        Example:
            >>> import jax.numpy as jnp, genclf as gcf
            >>> density = gcf.CategoricalParams.of([[[0.2, 0.8], [0.5, 0.5]]])
            >>> print(jnp.exp(density.log_prob(jnp.array([1]))).round(3))
            [0.8 0.5]
        """
        given = [probabilities(p, f"tables[{j}]", tables=True) for j, p in enumerate(tables)]
        if len({len(p) for p in given}) != 1:
            shapes = ", ".join(str(p.shape) for p in given) or "none"
            raise ValueError(f"tables have shapes {shapes}, expected (K, V_j) for each column j")
        sizes = tuple(p.shape[1] for p in given)
        return cls(safe_log(jnp.concatenate(given, 1)), Columns(sizes, "error"))

    @property
    def support(self) -> Support:
        return self.columns.support

    @property
    def num_features(self) -> int:
        return len(self.columns.num_values)

    @property
    def axes(self) -> dict[str, str]:
        return {"log_theta": f"K {sum(self.columns.num_values)}"}

    @property
    def parameters(self) -> dict[str, Parameter]:
        return {"log_theta": self.columns.simplex}

    def table(self, column: int) -> Float[Array, "*batch K V_j"]:
        """`log p(x_j = v | y = k)` of one column, shape (K, V_j)."""
        start = self.columns.first[column]
        return self.log_theta[..., start : start + self.columns.num_values[column]]

    def _look_up(self, table: Array, x: Array) -> Array:
        xp = namespace(x, self.log_theta)
        # The last rows are for cells without an entry, and for invalid ones.
        flipped = xp.concatenate(
            [table.T, xp.zeros_like(table.T[:1]), xp.full_like(table.T[:1], xp.nan)]
        )

        def rows(x: Array) -> Array:
            index, known = self.columns.indices(x)
            at = xp.where(known, index, len(flipped) - 2)
            at = xp.where(self.support.valid(x), at, len(flipped) - 1)
            if on_host(x, flipped):  # (n, d, K) numbers would not stay in the cache
                return sum(
                    (flipped[at[..., j]] for j in range(1, x.shape[-1])), flipped[at[..., 0]]
                )
            return flipped[at].sum(-2)

        return over_rows(rows, x, 1, x.shape[-1] * len(table))

    def log_prob(self, x: Array) -> Float[Array, "*batch K"]:
        """`Σ_j log p(x_j | y = k)`."""
        return self._look_up(self.log_theta, x)

    def discriminant(self, x: Array) -> Float[Array, "*batch K"]:
        """`log_prob` minus its mean over the classes."""
        xp = namespace(self.log_theta)
        common = xp.where(xp.isneginf(self.log_theta), 0, self.log_theta).mean(0, keepdims=True)
        return self._look_up(self.log_theta - common, x)

    def terms(
        self, x: Array, y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """`log p(x_j | y) - log p(x_j | other)`."""
        xp = namespace(x, self.log_theta)
        index, known = self.columns.indices(x)
        of, against = (self.log_theta[k[..., None], index] for k in (y, other))
        return xp.where(self.support.valid(x), xp.where(known, of - against, 0), xp.nan)

    @property
    def missing(self) -> Missing:
        return self.columns.missing

    @property
    def missing_code(self) -> int:
        return self.columns.missing_code

    def marginalized(self) -> CategoricalParams:
        return replace(self, columns=replace(self.columns, missing="marginalize"))

    def condition(self, x: Array, r: Float[Array, "*batch K"]) -> Float[Array, "*batch sum_V"]:
        """p(x_j = v | observed cells), columns side by side; for an observed cell 0 or 1."""
        column = self.columns.simplex.table_of(self.log_theta.shape[-1])
        missing = is_missing(x, self.columns.missing_code)[..., column]
        own = indicator_columns(x, self.columns.num_values).astype(r.dtype)
        return jnp.where(missing, matmul(r, jnp.exp(self.log_theta)), own)

    def linear(self) -> tuple[Float[Array, "K sum_V"], Float[Array, "K"]]:
        """The table and 0: linear in the `genclf.indicators` of x; -inf at probability 0."""
        xp = namespace(self.log_theta)
        return self.log_theta, xp.zeros_like(self.log_theta[:, 0])

    @property
    def statistic(self) -> str:
        return describe_tables(self.columns)

    def log_lik(self, stats: Sums) -> Float[Array, ""]:
        """`Σ_kjv total_kjv log p(x_j = v | k)`."""
        return times_log(stats.total, self.log_theta).sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Int[Array, "*shape d"]:
        """Independent draws from the tables of class y."""
        keys = jax.random.split(key, len(self.columns.num_values))
        draws = [jax.random.categorical(k, self.table(j)[y]) for j, k in enumerate(keys)]
        return jnp.stack(draws, axis=-1).astype(jnp.int32)


Unseen = Literal["error", "ignore"]


def values_support(num_values: int | tuple[int, ...], unseen: Unseen) -> Support:
    """Codes 0 ... V_j - 1; with unseen="ignore" also larger whole numbers."""

    def valid(x: Array) -> Array:
        xp = namespace(x)
        code = wide_codes(x)
        whole = (code >= 0) & (code == xp.floor(code)) & xp.isfinite(code)
        return whole if unseen == "ignore" else whole & (code < last_axis(num_values, code))

    return Support(valid, f"an integer code in 0..num_values-1, num_values = {num_values}")


@partial(compiled, static_argnums=1, batch_of=0)
def indicator_columns(x: Array, num_values: tuple[int, ...]) -> Float[Array, "*batch sum_V"]:
    """0/1 indicators of the values of each column, side by side."""
    column = np.repeat(np.arange(len(num_values)), num_values)
    code = wide_codes(x)[..., column]
    # An invalid code, such as NaN or a fraction, equals no value.
    value = np.concatenate([np.arange(v) for v in num_values])
    return (code == last_axis(value, code)).astype(jnp.result_type(float))


@mode.register
def _(density: CategoricalParams) -> Array:
    tables = [density.table(column) for column in range(density.num_features)]
    return jnp.stack([table.argmax(-1) for table in tables], -1).astype(jnp.int32)
