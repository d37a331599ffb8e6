"""The evidence (marginal likelihood) of the data, and the prior that maximises it."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from genclf.bayes.posterior import check_model
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams, ClassifierStats
from genclf.classifier.estimation import estimated
from genclf.classifier.model import Solution
from genclf.classifier.or_rows import or_rows
from genclf.families.base import Family
from genclf.families.combined.combinator import leaf_families, with_leaf_families
from genclf.families.combined.priors import check_proper, is_conjugate, priors
from genclf.families.conjugate.base import Conjugate
from genclf.families.conjugate.normal import NormalDistribution
from genclf.families.conjugate.two_covariance import TwoCovariance, check_within
from genclf.families.conjugate.two_covariance_em import EvidenceMaximum, of_highest_evidence
from genclf.families.parts import over_parts
from genclf.numerics.lbfgs import Minimiser
from genclf.numerics.logarithms import times_log
from genclf.numerics.namespace import is_traced
from genclf.sums.statistics import any_nan

_LONGEST_LAST_STEP = 0.1  # largest change of a log-strength by a Newton step at a maximum


class PriorSolution(Solution):
    """The prior of highest evidence, as `fit_prior` returns it.

    Attributes:
        classifier: the model with that prior.
        params: its estimate, as `estimate` returns it.
        log_evidence: log-evidence of the data under that prior; also called `objective`.
        gradient_norm: largest absolute derivative of the log-evidence per example, with respect to
            the logarithm of a strength, or of a covariance of `TwoCovariance`.
        steps: number of evaluations of the log-evidence and its gradient, and of steps of EM.
        converged: whether `gradient_norm` is within the tolerance (1e-9 in float64, 2e-5 in
            float32), a Newton step along the gradient would change no strength by more than 10%,
            and rounding does not hide the gradient: each strength and its inverse are below 2e9 in
            float64 and 1e4 in float32. If false, the evidence may have no maximum, and rise ever
            more slowly towards an infinite strength (all classes equal the prior mean) or towards
            strength 0 (each table has one value of probability 1).
    """

    classifier: Classifier
    params: ClassifierParams
    log_evidence: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    steps: Int[Array, ""]
    converged: Bool[Array, ""]

    @property
    def objective(self) -> Float[Array, "*batch"]:
        return self.log_evidence


@or_rows
@checked_arguments
def log_evidence(clf: Classifier, stats: ClassifierStats) -> Float[Array, ""]:
    """Marginal likelihood: `log p(x, y) = log ∫ p(x, y | θ) p(θ) dθ` of all examples together.

    Examples are a sequence (no multinomial coefficient): a table of counts c under Dirichlet(a) has
    `Γ(Σa) / Γ(Σa + Σc) Π_v Γ(a_v + c_v) / Γ(a_v)`. By the chain rule it is the product of the
    predictive probabilities of each example given those before it, exactly, unless the prior takes
    its units from the data. Unlabelled examples do not count.

    Args:
        clf: the model; with `Gaussian` densities it needs a prior.
        stats: statistics of the examples, from `genclf.stats`; or x, y and weights in their
            place, as for `fit`.

    Returns:
        A scalar, natural logarithm.

    Raises:
        ValueError: a prior is invalid or improper (outside traced code; inside it: NaN).

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.bernoulli_nb(1, alpha=0.0)  # a uniform prior
        >>> s = gcf.stats(clf, jnp.array([[1], [1], [0]]), jnp.zeros(3, int))
        >>> print(jnp.exp(gcf.log_evidence(clf, s)))  # ∫ p² (1-p) dp = 1/12
        0.0833

    References:
        Murphy (2012), Machine Learning: A Probabilistic Perspective, §5.3.2.
    """
    check_model(clf, stats, "log_evidence")
    check_proper(priors_of(clf, stats), stats, "prior", "log_evidence")
    return _log_evidence(clf, stats)


@or_rows
@checked_arguments
def fit_prior(clf: Classifier, stats: ClassifierStats) -> PriorSolution:
    """Empirical Bayes: the strengths of the priors that maximise the evidence.

    Maximises `log_evidence` by L-BFGS in the logarithms of the strengths: the concentration of a
    `Dirichlet` (all numbers of an array); a and b of a `Beta`; shape and rate of a `Gamma`; κ and
    ν - p + 1 of a `NormalInverseWishart`, whose mean and scale are kept. If these are None,
    they are taken from the statistics, with a scale that changes with ν, and the new prior holds
    their numbers, so that it is the same prior for other data. (In `Independent` None stays None,
    since one prior serves columns of different means.) Of a `TwoCovariance` all numbers are
    estimated, by EM; a singular `between` that is given keeps its rank. Each family in a combinator
    has its own strengths; `alpha` becomes a prior. The class prior is kept: one table of class
    counts has little information about its concentration.

    Args:
        clf: the model; the search starts from its priors.
        stats: statistics of the examples, from `genclf.stats`; or x, y and weights in their
            place, as for `fit`.

    Returns:
        A `PriorSolution`; `classifier` is the model with its new prior.

    Raises:
        ValueError: a prior is invalid or improper; a `TwoCovariance` is in `Independent`.

    Example:
        >>> import genclf as gcf
        >>> votes = gcf.datasets.load_house_votes()
        >>> clf = gcf.categorical_nb(2, 3)
        >>> found = gcf.fit_prior(clf, gcf.stats(clf, votes.x, votes.y))
        >>> print(found.converged, found.classifier.family.prior.concentration.round(2))
        True 0.63

    References:
        Minka (2000), "Estimating a Dirichlet distribution"; Murphy (2012), §5.6; Ioffe (2006),
        "Probabilistic linear discriminant analysis".
    """
    check_model(clf, stats, "fit_prior")
    given = priors_of(clf, stats)
    if any(isinstance(node, NormalDistribution) and node.batch_shape for node in _nodes(given)):
        raise ValueError(
            "one TwoCovariance in Independent serves columns of different units: use "
            'Gaussian("diag", shared=True, prior=TwoCovariance()), which has numbers for each'
        )
    check_proper(given, stats, "prior", "fit_prior")
    for part, s in leaf_families(clf.family, stats.conditional):
        if isinstance(part.given_prior, TwoCovariance) and not is_traced(s):
            check_within(s, part.arithmetic.is_spherical, "the evidence has no maximum")
    return _fit_prior(clf, stats)


@jax.jit
def priors_of(clf: Classifier, stats: ClassifierStats) -> PyTree:
    """The prior of each leaf family, in one program."""
    return priors(clf.family, stats.conditional)


@jax.jit
def _log_evidence(clf: Classifier, stats: ClassifierStats) -> Float[Array, ""]:
    labels = clf.label_prior.conjugate(stats.labels)
    if labels is None:
        found = times_log(stats.count, clf.label_prior.log_probs(stats.count)).sum()
    else:
        found = labels.log_evidence(stats.labels)
    of_part = lambda part, s: part.conjugate_prior(s).log_evidence(s)  # noqa: E731
    of_parts = over_parts(clf.family, of_part, stats.conditional)
    found = found + sum(leaf.sum() for leaf in jax.tree.leaves(of_parts))
    # Some terms treat a NaN count as 0.
    return jnp.where(any_nan(stats), jnp.nan, found)


def _with_numbers(family: Family, stats: PyTree) -> Family:
    """The family with priors that hold the numbers taken from the statistics."""
    used = _nodes(priors(family, stats))
    new = [
        part if node.batch_shape else part.with_prior(part.given_prior.with_numbers_of(node))
        for (part, _), node in zip(leaf_families(family, stats), used, strict=True)
    ]
    return with_leaf_families(family, new)


def _nodes(given: PyTree) -> list[Conjugate]:
    return jax.tree.leaves(given, is_leaf=is_conjugate)


@jax.jit
def _fit_prior(clf: Classifier, stats: ClassifierStats) -> PriorSolution:
    total = stats.count.sum()
    dtype = total.dtype
    tol = 1e-9 if dtype == jnp.float64 else 2e-5
    largest = -0.6 * math.log(jnp.finfo(dtype).eps)

    def with_prior(free: list[PyTree]) -> Classifier:
        given = zip(leaf_families(clf.family, stats.conditional), free, strict=True)
        new = [part.with_prior(part.given_prior.with_strength(z, s)) for (part, s), z in given]
        return replace(clf, family=with_leaf_families(clf.family, new))

    family, by_em = _by_em(clf.family, stats.conditional, tol)
    clf = replace(clf, family=family)
    em_norm = jnp.stack([jnp.zeros((), dtype), *(end.gradient_norm for end in by_em)]).max()
    em_steps = sum((end.steps for end in by_em), jnp.zeros((), jnp.int32))
    parts = leaf_families(clf.family, stats.conditional)
    start, unravel = ravel_pytree([part.given_prior.strength(s) for part, s in parts])
    if not start.size:
        value = _log_evidence(clf, stats)
        converged = (em_norm <= tol) & (total > 0) & jnp.isfinite(value)
        return PriorSolution(clf, estimated(clf, stats), value, em_norm, em_steps, converged)

    @jax.value_and_grad
    def value_and_grad(free: Array) -> Array:
        return -_log_evidence(with_prior(unravel(free)), stats) / total

    # A step changes no strength by more than a factor e: far away the evidence is flat.
    minimiser = Minimiser(value_and_grad, longest=1.0)
    far = lambda at: jnp.abs(at.grad).max() > 0.1 * tol  # noqa: E731
    end = minimiser.run(minimiser.start(start), far)
    free, slope, gradient_norm = end.at, end.grad, jnp.abs(end.grad).max()
    # As a → ∞, f ~ -c/a: the slope in log a vanishes, but the Newton step stays about 1.
    direction = jnp.where(gradient_norm > 0, slope / gradient_norm, 1)
    _, turn = jax.jvp(lambda free: value_and_grad(free)[1], (free,), (direction,))
    curvature = (direction * turn).sum()
    short = (curvature > 0) & ((direction * slope).sum() <= _LONGEST_LAST_STEP * curvature)
    inside = (jnp.abs(free) < largest).all()
    found = with_prior(unravel(free))
    found = replace(found, family=_with_numbers(found.family, stats.conditional))
    return PriorSolution(
        found,
        estimated(found, stats),
        -end.value * total,
        jnp.maximum(gradient_norm, em_norm),
        end.evaluations + em_steps,
        (jnp.maximum(gradient_norm, em_norm) <= tol) & short & inside & (total > 0),
    )


def _by_em(family: Family, stats: PyTree, tol: float) -> tuple[Family, list[EvidenceMaximum]]:
    """The family with each `TwoCovariance` at the highest evidence, and where EM ended."""
    leaves, found = [], []
    for part, s in leaf_families(family, stats):
        prior = part.given_prior
        if isinstance(prior, TwoCovariance):
            found.append(of_highest_evidence(prior, s, part.covariance, tol))
            part = part.with_prior(found[-1].prior)
        leaves.append(part)
    return with_leaf_families(family, leaves), found
