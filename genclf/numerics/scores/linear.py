"""Scores that are linear in x and may be minus infinity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from genclf.numerics.namespace import Array, jnp, matmul, namespace, on_host
from genclf.numerics.row_blocks import broadcast_rows


@dataclass(frozen=True)
class LinearScore:
    """Scores `x · coef_k + intercept_k` whose coefficients may be -inf, with 0 · -inf = 0.

    An impossible value of x_j in class k is stored as a veto, not as an infinite coefficient: the
    score is -inf where `x · veto_k + veto_intercept_k > 0`.
    """

    coef: Float[Array, "K d"]
    intercept: Float[Array, "K"]
    veto: Float[Array, "K d"]
    veto_intercept: Float[Array, "K"]

    @classmethod
    def of_cells(cls, coef: Array, offset: Array, veto: Array, always: Array) -> LinearScore:
        """The score of x beside indicators of its observed cells: `Σ_j x_j coef_j + offset_j`.

        The sum is over the observed cells, and so is that of the vetoes.
        """
        xp = namespace(coef)
        zero = xp.zeros_like(coef[:, 0])
        both = xp.concatenate([coef, offset], 1), xp.concatenate([veto, always], 1)
        return cls(both[0], zero, both[1], zero)

    def centred(self) -> LinearScore:
        """The scores minus their mean over classes: the same differences with less rounding."""
        return LinearScore(
            self.coef - self.coef.mean(0, keepdims=True),
            self.intercept - self.intercept.mean(),
            self.veto,
            self.veto_intercept,
        )

    def shifted(self, base: Float[Array, ""]) -> LinearScore:
        """The scores of `x + base`."""
        shift = lambda coef, intercept: intercept + base * coef.sum(-1)  # noqa: E731
        return LinearScore(
            self.coef,
            shift(self.coef, self.intercept),
            self.veto,
            shift(self.veto, self.veto_intercept),
        )

    def __call__(self, x: Any) -> Any:
        """The scores of rows, (n, K): of dense arrays, and of sparse rows, which have a `dot`."""
        is_dense, of_jax = isinstance(x, Array), hasattr(x, "starts")  # `SparseRows`
        if not of_jax and (not is_dense or on_host(x, self.coef)):
            return self._on_host(x.__matmul__ if is_dense else x.dot)
        table = jnp.concatenate([self.coef, self.veto]).T
        both = matmul(x.astype(table.dtype), table) if is_dense else x.dot(table)
        score, vetoed = jnp.split(both, 2, axis=-1)
        impossible = vetoed + broadcast_rows(self.veto_intercept, score) > 0
        return jnp.where(impossible, -jnp.inf, score + broadcast_rows(self.intercept, score))

    def _on_host(self, dot: Callable[[np.ndarray], np.ndarray]) -> Float[np.ndarray, "*batch K"]:
        """The scores by NumPy, from the product of the rows with a matrix."""
        score = dot(np.asarray(self.coef).T) + np.asarray(self.intercept)
        veto, always = np.asarray(self.veto), np.asarray(self.veto_intercept)
        if veto.any() or always.any():
            score[dot(veto.T) + always > 0] = -np.inf
        return score
