"""Quality of the probabilities of a classifier: proper scores and calibration error."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float

from genclf.arguments.domains import whole
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.conversion import as_arrays, float_dtype, widen
from genclf.classifier.labels import check_labels, valid_weights
from genclf.select.score import brier, log_loss

_TOLERANCE = 1e-3  # tolerance of the sum of a row's probabilities


class Calibration(ShowsNumbers):
    """Scores of posterior probabilities against labels, as `calibration` returns them.

    Attributes:
        log_loss: mean of `-log p(y_n | x_n)` in nats; inf if a true class had probability 0.
        brier: mean squared distance between the posterior and the one-hot label, 0..2.
        expected_error: expected calibration error, 0..1.
        error: share of rows whose most probable class is not their label.
    """

    log_loss: Float[Array, ""]
    brier: Float[Array, ""]
    expected_error: Float[Array, ""]
    error: Float[Array, ""]


@checked_arguments(log_posterior=as_arrays, num_bins=whole(1))
def calibration(
    log_posterior: ArrayLike, y: ArrayLike, *, num_bins: int = 10, weights: ArrayLike | None = None
) -> Calibration:
    """Log-loss, Brier score, calibration error and error of posterior probabilities.

    With `p_nk = exp(log_posterior[n, k])`, W the sum of the weights, `c_n = max_k p_nk` the
    confidence, and `h_n` 1 if the most probable class (the lowest one of a tie) is y_n, else 0:

    ::

        log_loss = -Σ_n w_n log p_n,y_n / W
        brier = Σ_n w_n Σ_k (p_nk - [y_n = k])² / W
        expected_error = Σ_b |Σ_{n in b} w_n (h_n - c_n)| / W
        error = Σ_n w_n (1 - h_n) / W

    Bin b = 1..B of B = `num_bins` holds the rows with `(b-1)/B < c_n <= b/B`. The first two are
    proper scores: no probabilities score better in expectation than the true ones. The third is
    neither proper nor unbiased (with few rows in a bin it is above 0 for true probabilities too),
    and it uses the most probable class alone.

    A row of weight 0 is ignored, whatever it holds. In any other row, a posterior that is NaN
    or does not sum to 1, a label outside 0..K-1 (such as -1), or an invalid weight makes all four
    NaN. So does W = 0.

    Args:
        log_posterior: as `genclf.log_posterior` returns it, shape (n, K).
        y: labels, integers 0..K-1, shape (n,).
        num_bins: B >= 1.
        weights: weight of each row, >= 0, shape (n,); None for ones.

    Returns:
        A `Calibration`.

    Raises:
        ValueError: a shape or dtype does not fit, or num_bins is below 1; outside traced code,
            also a label outside 0..K-1, or probabilities that do not sum to 1.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> p = jnp.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
        >>> found = gcf.calibration(jnp.log(p), jnp.array([0, 1, 0]))
        >>> print(found.log_loss.round(3), found.brier.round(2), found.error.round(3))
        0.69 0.49 0.333
        >>> print(found.expected_error.round(3))  # (|1 - 0.9| + |0 - 0.8| + |1 - 0.7|) / 3
        0.4

    References:
        Brier (1950), "Verification of forecasts expressed in terms of probability"; Guo, Pleiss,
        Sun & Weinberger (2017), "On calibration of modern neural networks", eq. 3.
    """
    _check(log_posterior, y, weights)
    return _calibration(log_posterior, y, weights, num_bins)


def _check(log_p: Array, y: Array, weights: Array | None) -> None:
    """Raise if shapes or dtypes are wrong, or concrete numbers cannot be scored."""
    if log_p.ndim != 2 or not jnp.issubdtype(log_p.dtype, jnp.floating):
        raise ValueError(
            f"log_posterior has shape {log_p.shape} and dtype {log_p.dtype}, expected (n, K) "
            "logarithms of probabilities, as genclf.log_posterior returns them"
        )
    n, num_classes = log_p.shape
    if y.shape != (n,) or not jnp.issubdtype(y.dtype, jnp.integer):
        raise ValueError(
            f"y has shape {y.shape} and dtype {y.dtype}, expected ({n},) integer labels "
            f"0..{num_classes - 1}"
        )
    if weights is not None and weights.shape != (n,):
        raise ValueError(f"weights has shape {weights.shape}, expected ({n},): one per row")
    if any(isinstance(a, Tracer) for a in (log_p, y, weights)):
        return
    counts = np.ones(n) if weights is None else np.asarray(weights)
    check_labels(y, num_classes, unlabelled=False, used=counts != 0)
    check_probabilities(np.asarray(log_p), counts != 0)


def check_probabilities(log_p: Float[np.ndarray, "n K"], used: Bool[np.ndarray, "n"]) -> None:
    """Raise for a row in use whose probabilities do not sum to 1."""
    with np.errstate(over="ignore"):
        sums = np.exp(np.asarray(log_p, np.float64)).sum(1)
    for row in np.flatnonzero((np.abs(sums - 1) > _TOLERANCE) & used)[:1]:
        raise ValueError(
            f"log_posterior[{row}] has probabilities that sum to {sums[row]:.4g}, expected 1: give "
            "logarithms of probabilities, as genclf.log_posterior returns them"
        )


def sums_to_one(log_p: Float[Array, "n K"]) -> Bool[Array, "n"]:
    """Which rows are logarithms of probabilities."""
    return jnp.abs(jnp.exp(log_p).sum(1) - 1) <= _TOLERANCE


@partial(compiled, static_argnums=3)
def _calibration(log_p: Array, y: Array, weights: Array | None, num_bins: int) -> Calibration:
    dtype = float_dtype(log_p)
    log_p, y = log_p.astype(dtype), widen(y)
    n, num_classes = log_p.shape
    weight = jnp.ones(n, dtype) if weights is None else weights.astype(dtype)
    # The contents of a row of weight 0 must not reach the sums or their derivatives.
    counts = weight != 0
    log_p = jnp.where(counts[:, None], log_p, -jnp.log(jnp.asarray(num_classes, dtype)))
    p = jnp.exp(log_p)
    known = (y >= 0) & (y < num_classes)
    valid = known & sums_to_one(log_p) & valid_weights(weight)
    weight = jnp.where(jnp.where(counts, valid, True).all(), weight, jnp.nan)
    total = weight.sum()

    label = jnp.where(known, y, 0).astype(jnp.int32)
    confidence, hit = p.max(1), (p.argmax(1).astype(jnp.int32) == label).astype(dtype)
    edges = jnp.arange(1, num_bins, dtype=dtype) / num_bins
    of_bin = jax.nn.one_hot(jnp.searchsorted(edges, confidence), num_bins, dtype=dtype)
    gap = jnp.matmul(weight * (hit - confidence), of_bin, precision="highest")
    return Calibration(
        log_loss(log_p, label, weight),
        brier(log_p, label, weight),
        jnp.abs(gap).sum() / total,
        (weight * (1 - hit)).sum() / total,
    )
