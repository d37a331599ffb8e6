"""The classifier p(x, y) = p(y) p(x | y) and its verbs, free functions over pytrees.

Every verb is compiled at the entry, so that a call outside `jax.jit` is as fast as one inside.
What reaches the families is clean: labels that are no class carry no weight, and anything
invalid about labels or weights has turned the statistics into NaN.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from genclf.accumulate import class_counts
from genclf.arguments.arrays import numbers
from genclf.arguments.domains import FINITES, NON_NEGATIVE, one_of, whole
from genclf.arguments.sharding import compiled
from genclf.blocks import broadcast_rows
from genclf.class_prior import ClassPrior, log_fixed, prior_problem
from genclf.conjugate.dirichlet import Dirichlet
from genclf.entry.rows import check_labels, check_rows, float_dtype, own
from genclf.entry.verb import ArrayLike, verb
from genclf.families.base import FAMILY, Family, Params, Scalar
from genclf.families.priors import check_proper, posteriors, predictives
from genclf.families.support import Support
from genclf.model import Fitted, Model, check_hyperparameters, class_weights
from genclf.statistics import ClassifierStats, Sums, num_features

Inference = Literal["ml", "map", "predictive"]


class Classifier(Model):
    """A generative classifier: a class prior in front of class densities.

    `p(x, y=k) = π_k p(x | y=k)` with `π_k = (n_k + a) / (n + K a)`, n_k the weight of class k and
    a = `class_alpha`; a = 0 is maximum likelihood. `class_prior` fixes π instead.

    Hyper-parameters are a conjugate prior of the parameters (`alpha` is a `Dirichlet`), and
    `inference` says what to make of it with the data: "map", its mode; "ml", no use of it at
    all: maximum likelihood; "predictive", densities with the parameters integrated out.

    Args:
        family: what p(x | y) can be, e.g. `Gaussian()`.
        num_classes: K; always given, since shapes must be static under jit.
        class_alpha: Dirichlet smoothing of the class prior, >= 0.
        class_prior: fixed class probabilities, shape (K,), >= 0 with sum 1; or a `Dirichlet`,
            instead of class_alpha; None to learn them.
        inference: "ml", "map" or "predictive".

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Gaussian(covariance="diag"), num_classes=2)
        >>> params = gcf.fit(clf, jnp.array([[0.0], [1.0], [5.0]]), jnp.array([0, 0, 1]))
        >>> print(jnp.exp(params.log_prior))
        [0.667 0.333]
    """

    domains: ClassVar = {
        "family": FAMILY,
        "num_classes": whole(1),
        "class_alpha": NON_NEGATIVE,
        "class_prior": replace(
            FINITES,
            expected="class probabilities of shape (K,), a Dirichlet, or None",
            contains=lambda given: isinstance(given, Dirichlet) or FINITES.contains(given),
            optional=True,
        ),
        "inference": one_of("ml", "map", "predictive"),
    }

    family: Family
    num_classes: int = eqx.field(static=True)
    class_alpha: Scalar = 0.0
    class_prior: Float[ArrayLike, "K"] | Dirichlet | None = eqx.field(
        default=None, converter=numbers
    )
    inference: Inference = eqx.field(static=True, default="map")

    @property
    def support(self) -> PyTree[Support]:
        return self.family.support

    @property
    def label_prior(self) -> ClassPrior:
        """π, from `class_alpha` and `class_prior`."""
        return ClassPrior(self.num_classes, self.class_alpha, self.class_prior)

    def plain(self, stats: ClassifierStats) -> Classifier:
        """The same model by maximum likelihood."""
        family = self.family.map_families(lambda family, _: family.plain(), stats.conditional)
        return Classifier(family, self.num_classes, class_prior=self.label_prior.fixed)

    def invalid_hyperparameters(self, d: Any = None) -> list[str]:
        return [*self.family.invalid_hyperparameters(d), *self.label_prior.problems()]


class ClassifierParams(Fitted):
    """A fitted classifier, as `fit` and `estimate` return it.

    Attributes:
        log_prior: log class probabilities, shape (K,); -inf for a class that cannot occur.
        conditional: params of p(x | y), e.g. `GaussianParams`.
    """

    log_prior: Float[Array, "K"]
    conditional: Params

    @property
    def support(self) -> PyTree[Support]:
        return self.conditional.support

    @property
    def num_features(self) -> PyTree[int]:
        return self.conditional.num_features

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.log_prior.shape[:-1]

    def discriminant(self, x: PyTree) -> Float[Array, "*batch K"]:
        return self.with_log_prior(self.conditional.discriminant(x))

    def linear(self) -> tuple[PyTree, Float[Array, "K"]]:
        coef, intercept = self.conditional.linear()
        return coef, intercept + self.log_prior

    def quadratic(self) -> tuple[Array, Array, Array]:
        matrix, coef, intercept = self.conditional.quadratic()
        return matrix, coef, intercept + self.log_prior

    def with_log_prior(self, score: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        """The scores of the densities plus `log_prior`."""
        # An impossible class stays at -inf whatever its density, which may be +inf or NaN there.
        log_prior = broadcast_rows(self.log_prior, score)
        never = jnp.isneginf(log_prior)
        return jnp.where(never, -jnp.inf, score + jnp.where(never, 0, log_prior))


@verb
def stats(
    clf: Classifier, x: PyTree, y: ArrayLike, weights: ArrayLike | None = None
) -> ClassifierStats:
    """Sufficient statistics of labelled examples: all that `estimate` needs to know of them.

    They add up over examples: `merge`, `remove` and `pool` them. Arguments as for `fit`.

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
    check_labels(y, clf.num_classes)
    return _stats(clf, x, y, weights)


@verb(x=None)
def empty(clf: Classifier, x: PyTree) -> ClassifierStats:
    """Statistics of no examples: what a stream begins with, the identity of `merge`.

    Args:
        clf: the model.
        x: rows of any number, or their `jax.ShapeDtypeStruct`: only their structure, number of
            features and dtype are read.

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
    rows = jax.tree.map(_no_rows, x if _is_abstract(x) else own(x, "x"))
    made = jax.eval_shape(_stats, clf, rows, jax.ShapeDtypeStruct((0,), jnp.int32), None)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), made)


def _is_abstract(x: PyTree) -> bool:
    leaves = jax.tree.leaves(x)
    return bool(leaves) and all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)


def _no_rows(x: Array | jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((0, *x.shape[1:]) if x.ndim else (), x.dtype)


@verb
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
    check_hyperparameters(clf, num_features(stats.conditional))
    if clf.inference == "predictive":
        check_proper(_posteriors(clf, stats), stats, "posterior", "the predictive")
    return _estimate(clf, stats)


@verb
def with_prior(params: ClassifierParams, class_prior: Float[ArrayLike, "K"]) -> ClassifierParams:
    """The same class densities under another class prior, e.g. of another population.

    Args:
        params: a fitted classifier.
        class_prior: class probabilities, shape (K,), >= 0 with sum 1.

    Returns:
        `ClassifierParams`; in traced code an invalid prior becomes NaN.

    Raises:
        ValueError: not K numbers; or, outside traced code, negative or not summing to 1.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 0, 0, 1])
        >>> params = gcf.fit(gcf.lda(2), x, y)
        >>> print(jnp.exp(gcf.with_prior(params, jnp.array([0.5, 0.5])).log_prior))
        [0.5 0.5]
    """
    class_prior = numbers(class_prior)
    num_classes = len(params.log_prior)
    problem = FINITES.problem(class_prior, "class_prior")
    problem = problem or prior_problem(class_prior, num_classes, "class_prior")
    if problem:
        raise ValueError(problem)
    log_prior = log_fixed(jnp.asarray(class_prior, params.log_prior.dtype))
    return eqx.tree_at(lambda p: p.log_prior, params, log_prior)


@compiled
def _stats(clf: Classifier, x: PyTree, y: Array, weights: Array | None) -> ClassifierStats:
    check_rows(clf.support, x, y, weights, clf.num_classes)
    if not clf.family.additive:
        if clf.family.keeps_examples:
            raise ValueError(
                f"{clf.family} keeps the examples and has no statistics of them: use genclf.fit"
            )
        raise ValueError(
            f"{clf.family} has no statistics of examples, of which parts are not seen: use "
            'genclf.fit or genclf.em, with inference "map" or "ml"'
        )
    w, invalid = class_weights(y, weights, clf.num_classes, float_dtype(x))
    count = class_counts(w)
    summed = clf.family.stats(x, w)
    found = ClassifierStats(Sums(count, count), summed, clf.family.statistic(summed))
    # An invalid row could belong anywhere, so every number of the statistics is in doubt.
    return jax.tree.map(lambda leaf: jnp.where(invalid, jnp.nan, leaf), found)


def fit_examples(clf: Classifier, x: PyTree, y: Array, weights: Array | None) -> ClassifierParams:
    """What `fit` is of a family that keeps the examples."""
    check_rows(clf.support, x, y, weights, clf.num_classes)
    w, invalid = class_weights(y, weights, clf.num_classes, float_dtype(x))
    w = jax.tree.map(
        lambda a: jnp.where(invalid, jnp.nan, a) if jnp.issubdtype(a.dtype, jnp.floating) else a, w
    )
    count = class_counts(w)
    return ClassifierParams(clf.label_prior.log_probs(count), clf.family.fit(x, w))


def log_prior_density(
    clf: Classifier, params: ClassifierParams, stats: ClassifierStats
) -> Float[Array, ""]:
    """Log-density of the parameters under the hyper-parameters, up to a constant; 0: none.

    The statistics are the units of what a prior leaves to the data.
    """
    found = clf.family.log_prior(params.conditional, stats.conditional)
    return found + clf.label_prior.log_density(params.log_prior, stats.count)


def check_statistics(clf: Classifier, stats: ClassifierStats) -> None:
    """Raise where statistics are not of this model: of other classes, or of another kind."""
    if stats.count.shape != (clf.num_classes,):
        raise ValueError(
            f"stats.count has shape {stats.count.shape}, expected ({clf.num_classes},): one number "
            "per class of the model"
        )
    clf.family.check_stats(stats.conditional)
    expected = clf.family.statistic(stats.conditional)
    if stats.statistic not in (None, expected):
        raise ValueError(
            f"stats are of another model: of {stats.statistic}; this one takes {expected}"
        )


@compiled
def _estimate(clf: Classifier, stats: ClassifierStats) -> ClassifierParams:
    check_statistics(clf, stats)
    if clf.inference == "predictive":
        return _predictive(clf, stats)
    if clf.inference == "ml":
        clf = clf.plain(stats)
    log_prior = clf.label_prior.log_probs(stats.count)
    return ClassifierParams(log_prior, clf.family.estimate(stats.conditional))


def _predictive(clf: Classifier, stats: ClassifierStats) -> ClassifierParams:
    labels = clf.label_prior.posterior(stats.labels)
    log_prior = (
        clf.label_prior.log_probs(stats.count) if labels is None else labels.expected()["log_prior"]
    )
    given = posteriors(clf.family, stats.conditional)
    return ClassifierParams(log_prior, predictives(clf.family, stats.conditional, given))


@compiled
def _posteriors(clf: Classifier, stats: ClassifierStats) -> PyTree:
    return posteriors(clf.family, stats.conditional)
