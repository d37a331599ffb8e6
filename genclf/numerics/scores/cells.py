"""Gaussian scores of the observed cells of rows, for independent features."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float, Int, Shaped

from genclf.covariance.scale import Scale, finite, squares
from genclf.numerics import loops
from genclf.numerics.logarithms import LOG_2PI
from genclf.numerics.namespace import Array, einsum, matmul, namespace
from genclf.numerics.scores.means import Means, from_one, over_classes


class Densities(NamedTuple):
    """Gaussians of K classes; `unit` is a typical deviation of each feature.

    Attributes:
        means: (K, d).
        matrix: covariances over `unit unitᵀ`, (K or 1, d, d).
        unit: (d,).
    """

    means: Means
    matrix: Float[Array, "one_or_K d d"]
    unit: Float[Array, "d"]


def in_units(means: Means, scale: Array, arithmetic: Scale) -> Densities:
    """The densities of these means and scales."""
    d = means.high.shape[-1]
    unit = unit_of(scale, arithmetic, d)
    root = arithmetic.triangular(scale, d) / unit[None, :, None]
    return Densities(means, einsum("kij,klj->kil", root, root), unit)


def unit_of(scale: Array, arithmetic: Scale, d: int) -> Float[Array, "d"]:
    """A typical deviation of each of d features: the mean over the classes."""
    each = arithmetic.deviations(scale)
    return namespace(each).broadcast_to(each, (len(each), d)).mean(0)


def cell_scores(
    x: Shaped[Array, "n d"], means: Means, scale: Array, unit: Float[Array, "d"]
) -> Float[Array, "n K"]:
    """`marginal_scores` for independent features: a sum over the observed cells."""
    xp = namespace(x, scale)
    seen = ~xp.isnan(x)
    x = xp.where(seen, x, 0).astype(unit.dtype)
    scale = xp.broadcast_to(scale, means.high.shape)

    def distance(mean: Means, inverse: Array) -> Array:
        return squares(finite(xp.where(seen, from_one(x, mean) * inverse[None], 0)))

    norms = matmul(seen.astype(unit.dtype), xp.log(scale / unit[None]).T)
    return -0.5 * over_classes(distance, means, 1 / scale, x=x) - norms


def common_norms(x: Shaped[Array, "n d"], unit: Float[Array, "d"]) -> Float[Array, "n"]:
    """`-Σ log (unit_j √2π)` over the observed cells."""
    xp = namespace(x, unit)
    norm = -xp.log(unit) - 0.5 * LOG_2PI
    return matmul((~xp.isnan(x)).astype(norm.dtype), norm)


def of_far_rows(
    x: Shaped[Array, "*batch d"],
    scores: Float[Array, "*batch K"],
    far: Bool[Array, "*batch"],
    again: Callable[[], Array],
) -> Float[Array, "*batch K"]:
    """The scores, replaced by those of `again` for far rows without infinite cells."""
    xp = namespace(scores)

    def replaced() -> Array:
        mask = far & ~xp.isinf(x).any(-1)
        return xp.where(mask[..., None], again(), scores)

    return loops.unlikely(far.any(), replaced, lambda: scores)


def linear_cell_scores(
    x: Shaped[Array, "n d"], means: Means, scale: Array, label: Int[Array, "n"]
) -> Float[Array, "n K"]:
    """`(x-c)ᵀ Σ⁻¹ (μ_k-c) - ½ |μ_k-c|²_Σ` of the observed cells; c is a class mean per row."""
    xp = namespace(x, scale)
    seen = ~xp.isnan(x)
    own = means.of_rows(label)
    z = xp.where(seen, own.subtracted_from(x.astype(scale.dtype)) / scale[:1], 0)
    between = own.at((slice(None), None)).subtracted_from(means.high[None])
    between = between if means.low is None else between + means.low[None]
    between = xp.where(seen[:, None], between / scale[None, :1], 0)
    return einsum("nd,nkd->nk", z, between) - 0.5 * (between * between).sum(-1)
