"""Nearest shrunken centroids: class means that differ in few features, by a soft threshold."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float

from genclf.families.base import Scalar
from genclf.families.gaussian.params import GaussianParams
from genclf.numerics.namespace import Array, namespace
from genclf.numerics.scores.means import Means
from genclf.sums.statistics import divide


def shrink_centroids(
    params: GaussianParams, count: Float[Array, "K"], threshold: Scalar
) -> GaussianParams:
    """Means `μ_j + m_k (s_j + s_0) sign(d_kj) max(|d_kj| - Δ, 0)` and deviations `s_j + s_0`."""
    xp = namespace(params.mean)
    found = deviations(params, count)
    kept = xp.sign(found) * xp.maximum(xp.abs(found) - threshold, 0)
    centre, overall, _ = _about_centre(params, count)
    deviation = overall + kept * _standard_errors(params, count)
    mean = centre + deviation
    # A feature with one mean for all classes does not affect the posterior, however far a row is.
    matters = (kept != 0).any(0, keepdims=True)
    low = xp.where(matters, (centre - mean) + deviation, 0)
    rounding = None if params.rounding is None else low
    return replace(params, mean=mean, scale=_widened(params.scale), rounding=rounding)


def deviations(params: GaussianParams, count: Float[Array, "K"]) -> Float[Array, "K d"]:
    """`d_kj = (μ_kj - μ_j) / (m_k (s_j + s_0))`, μ_j the mean of all; 0 for a class without rows.

    `m_k = √(1/n_k - 1/n)`, and s_0 is the median of the standard deviations s.
    """
    _, overall, deviation = _about_centre(params, count)
    return divide(deviation - overall, _standard_errors(params, count))


def _about_centre(
    params: GaussianParams, count: Float[Array, "K"]
) -> tuple[Float[Array, "1 d"], Float[Array, "1 d"], Float[Array, "K d"]]:
    """A point; and the mean of all rows and the class means, relative to it."""
    xp = namespace(params.mean)
    means = Means(params.mean, params.rounding)
    deviation = means.about(means.centre)
    share = divide(count, xp.broadcast_to(count.sum(), count.shape))
    return means.centre, (share[:, None] * deviation).sum(0, keepdims=True), deviation


def _standard_errors(params: GaussianParams, count: Float[Array, "K"]) -> Float[Array, "K d"]:
    xp = namespace(count)
    n = count.sum(keepdims=True)
    squared = divide(n - count, n * count)
    root = xp.where(squared > 0, xp.sqrt(xp.where(squared > 0, squared, 1)), 0)
    return root[:, None] * _widened(params.scale)


def _widened(deviation: Float[Array, "1 d"]) -> Float[Array, "1 d"]:
    xp = namespace(deviation)
    return deviation + xp.median(deviation, axis=-1, keepdims=True)
