"""Exact prior and posterior distributions of a classifier's parameters, and the predictive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from genclf.arguments.domains import PROBABILITY, draw_shape, random_key
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.estimation import check_statistics, estimated, proper_estimate
from genclf.classifier.or_rows import or_rows
from genclf.families.capabilities import HasConjugatePrior, require
from genclf.families.combined.priors import (
    check_proper,
    is_conjugate,
    named,
    over_columns,
    params_of,
    posteriors,
    priors,
)
from genclf.families.conjugate.base import Conjugate, Interval
from genclf.families.conjugate.dirichlet import DirichletDistribution
from genclf.families.parts import over_parts
from genclf.roads.problem import CLASS_PRIOR, PRIOR, arrays, declared
from genclf.sums.statistics import ClassifierStats


class Posterior(ShowsNumbers):
    """The exact distribution of a classifier's parameters, as `posterior` returns it.

    The class prior, the families and, without a shared covariance, the classes are independent.

    Attributes:
        clf: the model.
        stats: statistics of the examples; zero for a prior.
        labels: distribution of the class probabilities; None where they are fixed.
        conditional: distribution of the parameters of the class densities: a dict of them for
            `Product`, with a leading column axis for `Independent`.
        like: statistics that give params their shapes, and numbers that are not parameters, such
            as the mean length of a document.
    """

    clf: Classifier
    stats: ClassifierStats
    labels: DirichletDistribution | None
    conditional: PyTree[Conjugate]
    like: ClassifierStats

    @property
    def mode(self) -> ClassifierParams:
        """The params of highest joint density, which `fit` returns with inference="map"."""
        return estimated(replace(self.clf, inference="map"), self.stats)

    @property
    def on_boundary(self) -> dict[str, Bool[Array, "..."]]:
        """Which probabilities and rates are 0 (or probabilities 1) at the mode, by name.

        See `Dirichlet` on a < 1; a rate is 0 if its `Gamma` has shape <= 1 and there are no events.
        """
        mode = self.mode
        found, named = arrays(mode), {PRIOR: CLASS_PRIOR} | declared(self.clf, mode)
        return {name: jnp.isinf(found[name]) for name, p in named.items() if p.link != "identity"}

    @property
    def mean(self) -> ClassifierParams:
        """Params with the expected probabilities, means and covariances.

        NaN for a covariance that has no mean, ν <= p + 1.
        """
        return _mean(self)

    @property
    def predictive(self) -> ClassifierParams:
        """Params whose densities have the parameters integrated out; see `predictive`."""
        return predictive(self.clf, self.stats)

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> ClassifierParams:
        """Draws of the parameters.

        Args:
            key: a `jax.random` key.
            shape: shape of the draws, in front of the axes of every array; () for one draw.
        """
        return _sample(self, random_key(key, "key"), draw_shape(shape, "shape"))

    def interval(self, level: float | Array = 0.95) -> dict[str, Interval]:
        """Central credible intervals of the marginal of each parameter, computed on the host.

        Args:
            level: the probability of each interval.

        Returns:
            (lower, upper) of the values by name: "class_prior", "theta", "probs", "rate", "mean",
            "variance" (the diagonal of Σ); in a `Product`, after the block and a dot.
        """
        level = jnp.asarray(PROBABILITY.checked(level, "level"), self.stats.count.dtype)
        found = {} if self.labels is None else self.labels.interval(level)
        for prefix, node in named(self.conditional):
            found |= {prefix + name: bounds for name, bounds in node.interval(level).items()}
        return found

    def log_prob(self, params: ClassifierParams) -> Float[Array, ""]:
        """Log-density of parameters, in the coordinates π, θ, p, μ and Σ (or variances)."""
        return _log_prob(self, params)


@or_rows
@checked_arguments
def posterior(clf: Classifier, stats: ClassifierStats) -> Posterior:
    """The exact posterior distribution of the parameters: the conjugate prior and the data.

    Class probabilities and tables are Dirichlet, Bernoulli probabilities beta, Poisson rates gamma,
    the means and covariances of Gaussians normal-inverse-Wishart, their means normal if the
    covariance is known; see `Dirichlet`, `Beta`, `Gamma`, `NormalInverseWishart` and
    `TwoCovariance` for the priors that the hyper-parameters of the model stand for. A
    Gaussian without a prior has the flat prior, whose posterior is proper for more than 2d + 1
    examples in each class ("full"; 4 or more for "diag"). `posterior`, `predictive` and `prior` use
    the prior whatever `inference` is.

    Args:
        clf: the model.
        stats: statistics of the examples, from `genclf.stats`; or x, y and weights in their
            place, as for `fit`.

    Returns:
        A `Posterior`, with `mode`, `mean`, `sample(key)`, `interval(level)`, `predictive`.

    Raises:
        ValueError: a prior is invalid, or the posterior of a class is improper (outside traced
            code; inside it, what depends on that is NaN).

    Example:
        >>> import jax, jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.bernoulli_nb(1, alpha=0.0)  # a uniform prior
        >>> post = gcf.posterior(clf, gcf.stats(clf, jnp.array([[1], [1], [0]]), jnp.zeros(3, int)))
        >>> print(post.mode.conditional.probs, post.mean.conditional.probs)  # 2/3 and 3/5
        [[0.667]] [[0.6]]
        >>> print(post.sample(jax.random.key(0), (1000,)).conditional.probs.mean().round(1))
        0.6

    References:
        Gelman et al. (2013), Bayesian Data Analysis, §2.4, §3.4 and §3.6.
    """
    check_model(clf, stats, "posterior")
    found = _posterior(clf, stats)
    check_proper(found.conditional, stats, "posterior", "posterior")
    return found


@or_rows
@checked_arguments
def prior(clf: Classifier, stats: ClassifierStats) -> Posterior:
    """The prior distribution of the parameters: the posterior given no examples.

    Args:
        clf: the model.
        stats: statistics of any examples. They give the number of features, the mean length of a
            document, and the units of a `NormalInverseWishart` without numbers of its own.

    Returns:
        A `Posterior`.

    Raises:
        ValueError: a prior is invalid or improper; a Gaussian without a prior has an improper one.

    Example:
        >>> import jax, jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.multinomial_nb(2, alpha=0.5)
        >>> before = gcf.bayes.prior(clf, gcf.stats(clf, jnp.ones((1, 3)), jnp.zeros(1, int)))
        >>> print(before.conditional.concentration)
        [[1.5 1.5 1.5]
         [1.5 1.5 1.5]]
    """
    check_model(clf, stats, "prior")
    found = _prior(clf, stats)
    check_proper(found.conditional, stats, "prior", "prior")
    return found


@or_rows
@checked_arguments
def predictive(clf: Classifier, stats: ClassifierStats) -> ClassifierParams:
    """Params whose densities have the parameters integrated out: p(x, y | data).

    The densities are Student-t for Gaussians, Gaussian under `TwoCovariance`,
    Dirichlet-multinomial for words, negative binomial for Poisson counts. Those of Bernoulli and
    categorical features are linear in the parameters, so they are taken at the expected parameters.
    A value or word that never occurred has its share of the prior's mass. The result is `estimate`
    of the model with `inference="predictive"`; every function that needs no sufficient statistics
    accepts it.

    Args:
        clf: the model.
        stats: statistics of the examples, from `genclf.stats`; or x, y and weights in their
            place, as for `fit`.

    Returns:
        `ClassifierParams`.

    Raises:
        ValueError: a prior is invalid, or the posterior of a class is improper (outside traced
            code; inside it, the scores of that class are NaN).

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.multinomial_nb(1, alpha=0.0)  # a uniform prior
        >>> s = gcf.stats(clf, jnp.array([[2, 0]]), jnp.array([0]))
        >>> joint = jnp.exp(gcf.log_joint(gcf.predictive(clf, s), jnp.array([[2, 0], [0, 2]])))
        >>> print(joint.round(3))
        [[0.6]
         [0.1]]

    References:
        Murphy (2012), Machine Learning: A Probabilistic Perspective, §3.4.4 and §4.6.3.6.
    """
    check_model(clf, stats, "predictive")
    return proper_estimate(replace(clf, inference="predictive"), stats)


def check_model(clf: Classifier, stats: ClassifierStats, function: str) -> None:
    """Raise unless the statistics are of this model, and it has a conjugate prior."""
    require(clf.family, HasConjugatePrior, function)
    check_statistics(clf, stats)


@partial(compiled, fast_compile=2**14)
def _posterior(clf: Classifier, stats: ClassifierStats) -> Posterior:
    given = posteriors(clf.family, stats.conditional)
    return Posterior(clf, stats, clf.label_prior.posterior(stats.labels), given, stats)


@partial(compiled, fast_compile=2**14)
def _prior(clf: Classifier, stats: ClassifierStats) -> Posterior:
    zero = jax.tree.map(jnp.zeros_like, stats)
    given = priors(clf.family, stats.conditional)
    return Posterior(clf, zero, clf.label_prior.conjugate(stats.labels), given, stats)


def _params(
    post: Posterior, log_prior: Array | None, arrays_of: Callable, *trees: PyTree
) -> ClassifierParams:
    """Params from the arrays that `arrays_of(conjugate, *trees)` returns for each leaf family."""
    family = post.clf.family
    arrays = over_parts(family, lambda _, *of: arrays_of(*of), post.conditional, *trees)
    if log_prior is None:
        log_prior = post.clf.label_prior.log_probs(post.like.count)
    log_prior = post.clf.of_determined(log_prior, post.like.count)
    return ClassifierParams(log_prior, params_of(family, post.like.conditional, arrays))


@partial(compiled, fast_compile=2**14)
def _mean(post: Posterior) -> ClassifierParams:
    log_prior = None if post.labels is None else post.labels.expected()[PRIOR]
    return _params(post, log_prior, lambda node: node.expected())


@partial(jax.jit, static_argnums=2)
def _sample(post: Posterior, key: Array, shape: tuple[int, ...]) -> ClassifierParams:
    def one(key: Array) -> ClassifierParams:
        key_labels, key_parts = jax.random.split(key)
        log_prior = None if post.labels is None else post.labels.sample(key_labels)[PRIOR]
        nodes, structure = jax.tree.flatten(post.conditional, is_leaf=is_conjugate)
        pairs = zip(jax.random.split(key_parts, len(nodes)), nodes, strict=True)
        keys = [jax.random.split(key, node.batch_shape) for key, node in pairs]
        tree = jax.tree.unflatten(structure, keys)
        return _params(post, log_prior, lambda node, key: node.sample(key), tree)

    for _ in shape:
        one = jax.vmap(one)
    return one(jax.random.split(key, shape) if shape else key)


@partial(compiled, fast_compile=2**14)
def _log_prob(post: Posterior, params: ClassifierParams) -> Float[Array, ""]:
    given = arrays(params)
    found = jnp.zeros((), params.log_prior.dtype)
    if post.labels is not None:
        found = post.labels.log_prob({PRIOR: given[PRIOR]})
    for prefix, node in named(post.conditional):
        own = {k.removeprefix(prefix): a for k, a in given.items() if k.startswith(prefix)}
        own.pop(PRIOR, None)
        found = found + over_columns(lambda node, own: node.log_prob(own), node, own).sum()
    return found
