"""Distances between classes whose noise differs from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from genclf.arguments.domains import shown
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.covariance.shrinkage import SHRINKAGE, Method
from genclf.families.base import Scalar
from genclf.families.gaussian.gaussian import Gaussian
from genclf.multivariate.one_covariance import with_scatters
from genclf.numerics.namespace import einsum, matmul
from genclf.numerics.scores.means import Means
from genclf.sums.statistics import ClassifierStats, Moments


def _runs(value: Any, name: str) -> Any:
    """Statistics with an axis of runs in front, from a list or a batch of them."""
    if isinstance(value, Sequence) and value and all(isinstance(s, ClassifierStats) for s in value):
        shapes = {tuple(jnp.shape(leaf) for leaf in jax.tree.leaves(s)) for s in value}
        if len(shapes) > 1:
            raise ValueError(f"{name} are of different models or shapes: make them with one model")
        value = jax.tree.map(lambda *a: jnp.stack(a), *value)
    if not isinstance(value, ClassifierStats) or jnp.ndim(value.count) != 2:
        raise ValueError(
            f"{name} is {shown(value)}, expected the statistics of several runs: a list of them, "
            "or a batch with the runs in front"
        )
    if len(value.count) < 2:
        raise ValueError(f"{name} has one run, expected at least 2")
    return value


@checked_arguments(stats_by_run=_runs, shrinkage=SHRINKAGE)
def crossnobis(
    stats_by_run: ClassifierStats | Sequence[ClassifierStats],
    *,
    shrinkage: Scalar | Method | None = None,
) -> Float[Array, "K K"]:
    """Squared Mahalanobis distances between class means, whose expectation is right.

    `D_ij = mean over pairs of runs a ≠ b of (μ_ai - μ_aj)ᵀ Σ⁻¹ (μ_bi - μ_bj)`. The noise of
    two runs is independent, so `E D_ij = (μ_i - μ_j)ᵀ Σ⁻¹ (μ_i - μ_j)` up to the error of Σ: 0 for
    equal means, where a distance within the same rows is always above 0. So an entry may be
    negative. Σ is the covariance within the classes of each run, pooled over classes and runs, with
    divisor n; it is not divided by the number of features, as in some toolboxes.

    Args:
        stats_by_run: the statistics of each run, of one model with full Gaussian covariances, such
            as `lda`: a list, or a batch with an axis of runs in front, as `jax.vmap` makes.
        shrinkage: of Σ: a number from 0 to 1, "oas", or, with statistics of a model that has it,
            "ledoit-wolf"; see `Gaussian`.

    Returns:
        shape (K, K), symmetric, with a diagonal of 0; NaN for a pair of classes that fewer than two
        runs have.

    Raises:
        ValueError: there is one run, or the statistics have no scatter matrix.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np, genclf as gcf
        >>> x = jax.random.normal(jax.random.key(0), (4, 60, 5))  # 4 runs of 60 rows
        >>> y = jnp.arange(60) % 3
        >>> x = x.at[:, y == 2, 0].add(2.0)  # one class is 2 from both others
        >>> stats = jax.vmap(gcf.stats, (None, 0, None))(gcf.lda(3), x, y)
        >>> print(np.asarray(gcf.crossnobis(stats)).round(1))
        [[ 0.  -0.   6.2]
         [-0.   0.   6. ]
         [ 6.2  6.   0. ]]

    References:
        Walther, Nili, Ejaz, Alink, Kriegeskorte & Diedrichsen (2016), "Reliability of dissimilarity
        measures for multi-voxel pattern analysis", eq. 5.
    """
    stats: Any = stats_by_run
    return _crossnobis(Gaussian(shared=True, shrinkage=shrinkage), with_scatters(stats))


@partial(compiled, fast_compile=2**14)
def _crossnobis(family: Gaussian, moments: Moments) -> Array:
    runs, num_classes = moments.count.shape
    family.check_stats(jax.tree.map(lambda a: a[0], family.pooled(moments)))
    # Each class of a run is a class of its own, so that means may differ between runs.
    joined = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), moments)
    if moments.is_pooled:  # a scatter for each run
        low = joined.rounding and (*joined.rounding[:2], joined.rounding[2].sum(0, keepdims=True))
        scatter = joined.scatter.sum(0, keepdims=True)
        joined = Moments(joined.count, joined.mean, scatter, low)
    params = family.estimate(family.pooled(joined))
    means = Means(params.mean, params.rounding)
    inverse = params.arithmetic.inverse(params.scale)[0]
    z = params.arithmetic.whiten(inverse, means.about(means.centre))
    gram = matmul(z, z.T).reshape(runs, num_classes, runs, num_classes).transpose(0, 2, 1, 3)
    has = (moments.count > 0).astype(z.dtype)
    both = has[:, :, None] * has[:, None, :]
    other = 1 - jnp.eye(runs, dtype=z.dtype)
    pairs = einsum("aij,bij,ab->ij", both, both, other)
    own = jnp.diagonal(gram, axis1=2, axis2=3)  # of class i in the runs a and b
    cross = gram + gram.mT
    parts = own[..., :, None] + own[..., None, :] - cross
    total = einsum("aij,bij,ab,abij->ij", both, both, other, parts)
    return jnp.where(pairs > 0, total / jnp.where(pairs > 0, pairs, 1), jnp.nan)
