"""Whether two sets of rows are of one class that nobody has seen: the ratio of the evidences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from genclf.bayes.evidence import priors_of
from genclf.bayes.posterior import check_model
from genclf.classifier.checked_arguments import checked_arguments, statistics
from genclf.classifier.classifier import Classifier, ClassifierStats
from genclf.families.base import Family
from genclf.families.combined.combinator import leaf_families
from genclf.families.combined.priors import check_proper
from genclf.families.conjugate.normal import NormalDistribution, mean_deviations
from genclf.families.conjugate.two_covariance import TwoCovariance
from genclf.families.parts import over_parts
from genclf.sums.relabelling import relabelled
from genclf.sums.statistics import Moments


@checked_arguments(first=statistics, second=statistics)
def same_class(
    clf: Classifier, first: ClassifierStats, second: ClassifierStats
) -> Float[Array, "S T"]:
    """Log-likelihood ratio of "one class" to "two classes", for each pair of two sets of rows.

    `log p(a, b | one class) - log p(a) - log p(b)`, the parameters of a class integrated out under
    the prior: for verification, and for sets of rows whose classes are new. Under `TwoCovariance`
    it is the score of PLDA. With two classes of equal prior probability, the sigmoid of the ratio
    is the posterior probability that the classes are the same. Natural logarithm; labels say which
    set a row is in, and the class prior does not matter.

    Args:
        clf: the model, with a prior that leaves no number to the data, such as that of `fit_prior`.
            Its number of classes does not matter.
        first: statistics of S sets, from `genclf.stats` of the model with `num_classes=S`.
        second: statistics of T sets.

    Returns:
        Shape (S, T).

    Raises:
        ValueError: the prior leaves a number to the data, or is improper; classes share a
            covariance that is not known, so that other sets tell about it too.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> prior = gcf.TwoCovariance(mean=0.0, between=4.0, within=1.0)
        >>> clf = gcf.Classifier(gcf.Gaussian(shared=True, prior=prior), num_classes=2)
        >>> sets = gcf.stats(clf, jnp.array([[3.0], [-3.0]]), jnp.array([0, 1]))
        >>> print(gcf.bayes.same_class(clf, sets, sets).round(2))
        [[ 1.31 -6.69]
         [-6.69  1.31]]

    References:
        Ioffe (2006), "Probabilistic linear discriminant analysis"; Brümmer & de Villiers (2010),
        "The speaker partitioning problem".
    """
    for sets in (first, second):
        model = replace(clf, num_classes=len(sets.count))
        check_model(model, sets, "same_class")
        for part, _ in leaf_families(clf.family, sets.conditional):
            _check_prior(part)
        check_proper(priors_of(model, sets), sets, "prior", "same_class")
    return _same_class(clf.family, first.conditional, second.conditional)


def _check_prior(part: Any) -> None:
    prior = part.given_prior
    if not prior.is_complete:
        name = type(prior).__name__
        raise ValueError(
            f"{name} leaves numbers to the data, and two sets do not tell them: give all its "
            "numbers, such as those of fit_prior(clf, x, y).classifier"
        )
    if getattr(part, "shared", False) and not isinstance(prior, TwoCovariance):
        raise ValueError(
            "the classes share a covariance that is not known, so that a pair of sets has no "
            "likelihood of its own: give prior=TwoCovariance(...), or shared=False"
        )


@jax.jit
def _same_class(family: Family, first: PyTree, second: PyTree) -> Float[Array, "S T"]:
    ratios = over_parts(family, _log_ratios, first, second)
    return sum(a.sum(tuple(range(a.ndim - 2))) for a in jax.tree.leaves(ratios))


def _log_ratios(part: Any, first: Any, second: Any) -> Float[Array, "S T"]:
    if isinstance(part.given_prior, TwoCovariance):
        return _of_known_covariance(part.conjugate_prior(first), first, second)
    axes = first.class_axes()
    one = lambda s, k: jax.tree.map(lambda a, axis: jnp.take(a, k[None], axis), s, axes)  # noqa: E731

    def of_pair(i: Array, j: Array) -> Array:
        join = lambda a, b, axis: jnp.concatenate([a, b], axis)  # noqa: E731
        apart = jax.tree.map(join, one(first, i), one(second, j), axes)
        together = relabelled(apart, np.zeros(2, int), 2)
        evidence = part.conjugate_prior(apart).log_evidence
        return evidence(together) - evidence(apart)

    of_first = lambda i: jax.vmap(lambda j: of_pair(i, j))(_places(second, axes))  # noqa: E731
    return jax.lax.map(of_first, _places(first, axes))


def _places(s: Any, axes: Any) -> Array:
    return jnp.arange(s.count.shape[axes.count])


def _of_known_covariance(
    prior: NormalDistribution, first: Moments, second: Moments
) -> Float[Array, "S T"]:
    """`log N(m_b; E[μ | a], V_a + W / n_b) - log N(m_b; mean, B + W / n_b)`, by coordinates.

    m_b is the mean of set b, and V_a the covariance of μ given set a. Given W, the scatter within
    sets does not matter.
    """

    def coordinates(s: Moments) -> tuple[Array, Array]:
        z = prior.pencil.coordinates(mean_deviations(s, prior.mean[0]))
        return z, jnp.broadcast_to(s.per_feature(s.count), z.shape)

    (of_first, size), (z, count) = coordinates(first), coordinates(second)
    ratio = jnp.broadcast_to(prior.pencil.ratio, z.shape)
    alone = count * z**2 / (1 + count * ratio) + jnp.log1p(count * ratio)

    def of_set(one: tuple[Array, Array]) -> Array:
        own, n = one
        known = ratio / (1 + n[None] * ratio)
        inflation = count * known
        squared = count * (z - (n * own)[None] * known) ** 2 / (1 + inflation)
        return 0.5 * (alone - squared - jnp.log1p(inflation)).sum(-1)

    return jax.lax.map(of_set, (of_first, size))
