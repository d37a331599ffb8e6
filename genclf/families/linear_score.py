"""Scores that are linear in x and may be minus infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from genclf.arguments.domains import Scalar as Scalar
from genclf.arguments.module import Module
from genclf.numerics.namespace import Array, namespace
from genclf.numerics.products import matmul
from genclf.sums.blocks import broadcast_rows
from genclf.sums.sparse import HostRows, Sparse, SparseRows


class LinearScore(Module):
    """Scores `x · coef_k + intercept_k` whose coefficients may be -inf, with 0 · -inf = 0.

    An impossible value of x_j in class k is stored as a veto, not as an infinite coefficient: the
    score is -inf where `x · veto_k + veto_intercept_k > 0`.
    """

    coef: Float[Array, "K d"]
    intercept: Float[Array, "K"]
    veto: Float[Array, "K d"]
    veto_intercept: Float[Array, "K"]

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

    def __call__(self, x: Float[Array, "*batch d"] | Sparse) -> Any:
        xp = namespace(x, self.coef)
        if isinstance(x, HostRows):
            return self._on_host(x)
        table = xp.concatenate([self.coef, self.veto]).T
        both = x.dot(table) if isinstance(x, SparseRows) else matmul(x.astype(table.dtype), table)
        score, vetoed = xp.split(both, 2, axis=-1)
        impossible = vetoed + broadcast_rows(self.veto_intercept, score) > 0
        return xp.where(impossible, -xp.inf, score + broadcast_rows(self.intercept, score))

    def _on_host(self, x: HostRows) -> Float[np.ndarray, "n K"]:
        score = x.dot(np.asarray(self.coef.T)) + np.asarray(self.intercept)
        veto, always = np.asarray(self.veto), np.asarray(self.veto_intercept)
        if veto.any() or always.any():
            score[x.dot(veto.T) + always > 0] = -np.inf
        return score
