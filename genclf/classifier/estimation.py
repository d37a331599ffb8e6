"""From labelled rows to statistics, and from statistics to params, in closed form."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.conversion import host_or_device
from genclf.classifier.labels import AnyArray
from genclf.classifier.rows import Rows, check_rows
from genclf.families.base import Parametric
from genclf.families.capabilities import HasConjugatePrior, SharesScatter, is_hidden, require
from genclf.families.combined.combinator import leaf_families, with_leaf_families
from genclf.families.combined.priors import check_proper, posteriors, predictives
from genclf.families.parts import over_parts
from genclf.numerics.either import by_either
from genclf.numerics.members import in_cache
from genclf.numerics.namespace import Array, is_traced
from genclf.sums.sparse import HostRows, Sparse, SparseRows
from genclf.sums.statistics import ClassifierStats


@checked_arguments(x=host_or_device)
def stats(
    clf: Classifier, x: PyTree, y: ArrayLike, weights: ArrayLike | None = None
) -> ClassifierStats:
    """Sufficient statistics of labelled examples: all that `estimate` needs.

    They add up over examples: `merge`, `remove` and `pool` them. The arguments are as for `fit`.

    Args:
        clf: the model.
        x: rows.
        y: labels (n,) or responsibilities (n, K).
        weights: weight of each row, (n,).

    Returns:
        `ClassifierStats`, with `count` the weight of each class, shape (K,).

    Raises:
        ValueError: a shape or dtype does not fit.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> s = gcf.stats(gcf.lda(3), jnp.array([[0.0], [1.0], [9.0]]), jnp.array([0, 2, -1]))
        >>> print(s.count)
        [1. 0. 1.]
    """
    return sums(clf, x, y, weights)


def sums(clf: Classifier, x: PyTree, y: AnyArray, weights: AnyArray | None) -> ClassifierStats:
    """The statistics of checked arguments; sparse rows on the host are summed there."""
    if not isinstance(x, HostRows):
        return _sums(clf, x, y, weights)
    if is_traced(clf, y, weights):
        return _sums(clf, x.on_device(), y, weights)
    of_rows = None if weights is None else jnp.asarray(weights)
    return summed(clf, Rows.of(x, jnp.asarray(y), of_rows, clf.num_classes))


@partial(compiled, fast_compile=2**14)
def _sums(clf: Classifier, x: PyTree, y: Array, weights: Array | None) -> ClassifierStats:
    return summed(clf, Rows.of(x, y, weights, clf.num_classes))


def summed(clf: Classifier, rows: Rows) -> ClassifierStats:
    """The statistics of rows."""
    require(clf.family, Parametric, "stats")
    if is_hidden(clf.family):
        raise ValueError(
            f"{clf.family} has no statistics without params, since parts of x are unobserved: use "
            'genclf.fit or genclf.em, with inference "map" or "ml"'
        )
    return rows.nan_if_invalid(clf.statistics(rows.count, clf.family.stats(rows.x, rows.w)))


@checked_arguments(x=None)
def empty(clf: Classifier, x: PyTree) -> ClassifierStats:
    """Statistics of no examples: the start of a stream, and the identity of `merge`.

    Args:
        clf: the model.
        x: any number of rows, as for `fit`, or the `jax.ShapeDtypeStruct` of dense rows: only the
            structure, the number of features and the dtype are read.

    Returns:
        `ClassifierStats` that are 0 throughout.

    Raises:
        ValueError: a shape or dtype does not fit, or the model has no statistics.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf, x = gcf.gaussian_nb(2), jnp.array([[0.0], [2.0], [5.0]])
        >>> s = gcf.empty(clf, x)
        >>> for row, label in zip(x, [0, 0, 1]):
        ...     s = gcf.merge(s, gcf.stats(clf, row[None], jnp.array([label])))
        >>> print(s.count, s.conditional.mean.ravel())
        [2. 1.] [1. 5.]
    """
    leaves = jax.tree.leaves(x)
    is_abstract = leaves and all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)
    given = x if is_abstract else host_or_device(x, "x")
    rows = jax.tree.map(_no_rows, given, is_leaf=lambda a: isinstance(a, Sparse))
    y = jax.ShapeDtypeStruct((0,), jnp.int32)
    check_rows(clf, rows, y, None)
    made = jax.eval_shape(_sums, clf, rows, y, None)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), made)


def _no_rows(x: Array | Sparse | jax.ShapeDtypeStruct) -> SparseRows | jax.ShapeDtypeStruct:
    if isinstance(x, Sparse):
        none, start = jnp.zeros(0, jnp.int32), jnp.zeros(1, jnp.int32)
        return SparseRows(jnp.zeros(0, x.dtype), none, none, start, x.shape[1])
    return jax.ShapeDtypeStruct((0, *x.shape[1:]) if x.ndim else (), x.dtype)


@checked_arguments
def estimate(clf: Classifier, stats: ClassifierStats) -> ClassifierParams:
    """The closed-form estimate from statistics.

    Args:
        clf: the model; its hyper-parameters may differ from those the statistics were made with.
        stats: from `genclf.stats`, `merge`, `remove` or `pool`.

    Returns:
        `ClassifierParams`.

    Raises:
        ValueError: a hyper-parameter is invalid, or the statistics are of another kind of model.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.gaussian_nb(num_classes=2)
        >>> s = gcf.stats(clf, jnp.array([[0.0], [2.0], [5.0]]), jnp.array([0, 0, 1]))
        >>> print(gcf.estimate(clf, s).conditional.mean.ravel())
        [1. 5.]
    """
    check_statistics(clf, stats)
    return proper_estimate(clf, stats)


def proper_estimate(clf: Classifier, stats: ClassifierStats) -> ClassifierParams:
    """`estimated`; for a predictive, outside traced code, raise if the posterior is improper."""
    if clf.is_predictive:
        check_posterior(clf, stats)
    return estimated(clf, stats)


def check_posterior(clf: Classifier, stats: ClassifierStats) -> None:
    """Raise for a family without a posterior or, outside traced code, an improper one."""
    require(clf.family, HasConjugatePrior, "predictive")
    check_proper(posteriors(clf.family, stats.conditional), stats, "posterior", "the predictive")


def fit_closed(clf: Classifier, x: PyTree, y: Array, weights: Array | None) -> ClassifierParams:
    """`fit` in closed form."""
    if not (clf.is_predictive or isinstance(x, HostRows)):
        return _fit_closed(clf, x, y, weights)
    return proper_estimate(clf, sums(clf, x, y, weights))


@partial(compiled, fast_compile=2**14)
@in_cache
def _fit_closed(clf: Classifier, x: PyTree, y: Array, weights: Array | None) -> ClassifierParams:
    rows, used = Rows.of(x, y, weights, clf.num_classes), clf.effective()
    found = ClassifierParams(used.log_prior(rows.count), used.family.fit(x, rows.w))
    return rows.nan_if_invalid(found)


@checked_arguments
def pool_classes(clf: Classifier, stats: ClassifierStats) -> ClassifierStats:
    """Statistics for a shared covariance, from those made for a covariance per class.

    The scatters add up, `S = Σ_k S_k`, which cannot be undone.

    Args:
        clf: a model whose classes share covariances.
        stats: statistics of the same model with `shared=False`.

    Returns:
        The statistics that `genclf.stats(clf, ...)` makes of the same examples.

    Raises:
        ValueError: the statistics are not of such a model.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [3.0], [7.0]]), jnp.array([0, 0, 1, 1])
        >>> s = gcf.stats(gcf.qda(2), x, y)
        >>> print(s.conditional.scatter.ravel())
        [2. 8.]
        >>> print(gcf.pool_classes(gcf.lda(2), s).conditional.scatter.ravel())
        [10.]
    """
    check_statistics(with_own_covariances(clf), stats)
    return _pooled(clf, stats)


@by_either
def _pooled(clf: Classifier, stats: ClassifierStats) -> ClassifierStats:
    pooled = over_parts(
        clf.family,
        lambda family, s: family.pooled(s) if isinstance(family, SharesScatter) else s,
        stats.conditional,
    )
    return ClassifierStats(stats.labels, pooled, clf.family.statistic(pooled))


def with_own_covariances(clf: Classifier) -> Classifier:
    """The same model with a covariance for each class."""
    own = [
        family.per_class() if isinstance(family, SharesScatter) else family
        for (family,) in leaf_families(clf.family)
    ]
    return replace(clf, family=with_leaf_families(clf.family, own))


def check_statistics(clf: Classifier, stats: ClassifierStats) -> None:
    """Raise if the statistics do not fit the model: another number of classes or another family."""
    if stats.count.shape != (clf.num_classes,):
        raise ValueError(
            f"stats.count has shape {stats.count.shape}, expected ({clf.num_classes},): one number "
            "per class of the model"
        )
    require(clf.family, Parametric, "an estimate from statistics")
    clf.family.check_stats(stats.conditional)
    expected = clf.family.statistic(stats.conditional)
    if stats.statistic not in (None, expected):
        raise ValueError(
            f"stats are of another model: {stats.statistic}; this one takes {expected}"
        )


def estimate_of(clf: Classifier, stats: ClassifierStats) -> ClassifierParams:
    """`estimate` of statistics of this model; at once, if they are arrays of NumPy."""
    if clf.is_predictive:
        log_prior = clf.expected_log_prior(stats.labels)
        given = posteriors(clf.family, stats.conditional)
        return ClassifierParams(log_prior, predictives(clf.family, stats.conditional, given))
    clf = clf.effective()
    return ClassifierParams.of_fields(
        log_prior=clf.log_prior(stats.count), conditional=clf.family.estimate(stats.conditional)
    )


estimated = compiled(estimate_of, fast_compile=2**12)
"""`estimate_of`, compiled."""
