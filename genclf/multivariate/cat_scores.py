"""Correlation-adjusted t scores: how far each class mean is from the overall mean, by feature."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import betainc
from jaxtyping import Array, Float, Shaped

from genclf.arguments.arrays import numbers
from genclf.arguments.domains import FINITES, shown
from genclf.arguments.hyperparameters import is_concrete
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.covariance.fourth import FourthMoments
from genclf.families.gaussian.params import GaussianParams
from genclf.families.gaussian.row_space import RowSpaceParams
from genclf.multivariate.one_covariance import (
    PARAMS_OR_STATISTICS,
    about_their_mean,
    with_one_covariance,
    with_scatters,
)
from genclf.numerics.batched import eigh
from genclf.numerics.namespace import matmul
from genclf.numerics.scores.means import Means
from genclf.sums.statistics import ClassifierStats, divide


class CatScores(ShowsNumbers):
    """Correlation-adjusted t scores, as `cat_scores` returns them.

    Attributes:
        score: the scores of each class, shape (K, d); NaN for classes without examples.
        overall: `Σ_k (1 - π_k) score_k²`, π_k the share of the class in all examples, shape (d,).
            Without correlations `overall / (K - 1)` is the F of one-way analysis of variance.
        p_value: the probability of a larger F with K - 1 and n - K degrees of freedom, shape (d,).
            They need variances with divisor n - K, as from params of `Gaussian(ddof=K)`. They
            are too small with divisor n, and slightly so with an estimated shrinkage.
    """

    score: Float[Array, "K d"]
    overall: Float[Array, "d"]
    p_value: Float[Array, "d"]


def _counts(count: Any, name: str) -> Any:
    return None if count is None else FINITES.checked(numbers(count), name)


@checked_arguments(source=PARAMS_OR_STATISTICS, count=_counts)
def cat_scores(
    source: ClassifierParams | ClassifierStats, count: Shaped[ArrayLike, "K"] | None = None
) -> CatScores:
    """Correlation-adjusted t scores, which rank features for linear discriminant analysis.

    ::

        score_k = √(n π_k / (1 - π_k)) R^(-1/2) V^(-1/2) (μ_k - μ)

    V holds the variances and R the correlations within classes, and μ is the mean of all examples.
    If R is the identity, these are t scores of a class against all. The squared scores of a group
    of correlated features add up to the importance of the group.

    Args:
        source: statistics with full scatters, whose variances get the divisor n - K; correlations
            are shrunk only if the statistics are of a `Gaussian` with `shrinkage="james-stein",
            target="diagonal"`. Or params of a `Gaussian(shared=True)`, with their own divisor and
            any shrinkage towards the diagonal: use these for more features than rows.
        count: the weight of each class, (K,), such as `stats.count`; with params only.

    Returns:
        `CatScores`, without derivatives.

    Raises:
        ValueError: the classes do not share a covariance, the statistics have no scatter matrix or
            too few examples, params of more features than rows are shrunk towards the identity, or
            `count` is invalid.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> clf = gcf.Classifier(
        ...     gcf.Gaussian(shared=True, shrinkage="james-stein", target="diagonal"), 11
        ... )
        >>> scores = gcf.cat_scores(gcf.stats(clf, vowel.x_train, vowel.y_train))
        >>> print(scores.overall.argsort()[::-1][:3])  # the most important features
        [1 0 4]

    References:
        Zuber & Strimmer (2009), "Gene ranking and biomarker discovery under correlation"; Ahdesmäki
        & Strimmer (2010), "Feature selection in omics prediction problems using cat scores and
        false nondiscovery rate control", eq. 2.5 and 2.10.
    """
    if isinstance(source, ClassifierStats):
        if count is not None:
            raise ValueError("count is given together with statistics, which have their own")
        return _scores(_estimate(source), source.count)
    inside = source.conditional
    if isinstance(inside, RowSpaceParams) and not inside.of_correlations:
        raise ValueError(
            "the params are shrunk towards the identity, with more features than rows; cat_scores "
            'needs correlations: fit with target="diagonal"'
        )
    params = with_one_covariance(source)
    num_classes = len(params.log_prior)
    count = None if count is None else jnp.asarray(count, params.log_prior.dtype)
    if count is None or count.shape != (num_classes,):
        given = "not given" if count is None else shown(count)
        raise ValueError(f"count is {given}, expected the weights of {num_classes} classes")
    if is_concrete(count) and float((count > 0).sum()) >= float(count.sum()):
        raise ValueError(
            f"count is {jnp.round(count, 3).tolist()}, expected the weight of the examples of each "
            "class, in total more than the number of classes: not shares"
        )
    return _scores(params, count)


def _estimate(source: ClassifierStats) -> ClassifierParams:
    moments = with_scatters(source)
    present = (source.count > 0).sum().astype(source.count.dtype)
    if not isinstance(moments, FourthMoments):
        d, n = moments.mean.shape[-1], source.count.sum()
        if is_concrete(n) and n - present < d:
            raise ValueError(
                f"the statistics are of {d} features and {n:g} examples of {present:g} classes, "
                "too few for unshrunk correlations: give params of a "
                'Gaussian(shared=True, shrinkage=..., target="diagonal") and count, or statistics '
                'of one with shrinkage="james-stein"'
            )
        return with_one_covariance(source, ddof=present)
    if not moments.of_each:
        raise ValueError(
            'the statistics are those of shrinkage="ledoit-wolf", expected "james-stein" or none'
        )
    return with_one_covariance(source, ddof=present, shrinkage="james-stein", target="diagonal")


@compiled
def _scores(params: ClassifierParams, count: Float[Array, "K"]) -> CatScores:
    n = count.sum()
    share = divide(count, jnp.broadcast_to(n, count.shape))
    given = params.conditional
    inside = given.inside if isinstance(given, RowSpaceParams) else given
    _, deviation = about_their_mean(Means(inside.mean, inside.rounding), share)
    if isinstance(given, RowSpaceParams):
        assert given.rotation is not None
        value, vector = eigh(inside.covariances[0])
        t = matmul(_inverse_root(value, vector, deviation), given.rotation.basis.T)
    else:
        t = _adjusted(given, deviation)
    others = 1 - share
    size = divide(n * share, others)[:, None]
    score = jnp.where((count > 0)[:, None], jnp.sqrt(size) * t, jnp.nan)
    overall = jnp.where((count > 0)[:, None], n * share[:, None] * t**2, 0).sum(0)
    between = (count > 0).sum().astype(n.dtype) - 1
    within = n - between - 1
    within = jnp.where(within > 0, within, jnp.nan)
    p_value = betainc(0.5 * within, 0.5 * between, within / (within + overall))
    return CatScores(score, overall, p_value)


def _adjusted(given: GaussianParams, deviation: Float[Array, "K d"]) -> Float[Array, "K d"]:
    if not given.arithmetic.is_full:
        return deviation / given.scale
    unit = given.arithmetic.deviations(given.scale)[0]
    root = given.arithmetic.triangular(given.scale, given.num_features)[0] / unit[:, None]
    value, vector = eigh(matmul(root, root.T))
    return _inverse_root(value, vector, deviation / unit[None])


def _inverse_root(value: Array, vector: Array, rows: Array) -> Array:
    """The rows times the inverse square root of a matrix of these eigenvalues and vectors."""
    return matmul(matmul(rows, vector) / jnp.sqrt(value)[None], vector.T)
