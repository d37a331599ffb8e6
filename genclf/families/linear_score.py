"""Scores that are linear in x, and may be minus infinity."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from genclf.arguments.domains import Scalar as Scalar
from genclf.sums.blocks import broadcast_rows
from genclf.sums.products import matmul


class LinearScore(eqx.Module):
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

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch K"]:
        x = x.astype(self.coef.dtype)
        both = matmul(x, jnp.concatenate([self.coef, self.veto]).T)
        score, vetoed = jnp.split(both, 2, axis=-1)
        impossible = vetoed + broadcast_rows(self.veto_intercept, score) > 0
        return jnp.where(impossible, -jnp.inf, score + broadcast_rows(self.intercept, score))
