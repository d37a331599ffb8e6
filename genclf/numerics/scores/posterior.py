"""Posteriors and classes from the scores of rows, by NumPy; and calibrated scores."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from genclf.numerics.namespace import Array, namespace
from genclf.numerics.row_blocks import broadcast_rows


def normalised(score: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n K"]:
    """`score - log Σ exp(score)` of each row; NaN if no class is possible."""
    top = score.max(1, keepdims=True)
    with np.errstate(all="ignore"):
        difference = np.where(np.isfinite(top), score - top, np.nan)
        return difference - np.log(np.exp(difference).sum(1, keepdims=True))


def most_probable(score: Float[np.ndarray, "n K"]) -> Int[np.ndarray, "n"]:
    """The most probable class, the lowest among ties; -1 where the posterior is NaN."""
    return np.where(np.isfinite(score.max(1)), score.argmax(1), -1)


def with_slope_and_bias(
    score: Float[Array, "*batch K"], slope: Float[Array, ""], bias: Float[Array, "K"]
) -> Float[Array, "*batch K"]:
    """`slope · score + bias`; -inf for a class that is impossible, by its score or its bias."""
    xp = namespace(score, slope, bias)
    bias = broadcast_rows(bias, score)
    never = xp.isneginf(score) | xp.isneginf(bias)
    return xp.where(never, -xp.inf, slope * xp.where(never, 0, score) + bias)
