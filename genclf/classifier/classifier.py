"""The classifier p(x, y) = p(y) p(x | y): the model and its fitted params.

The functions that use them (`fit`, `predict`, ...) are compiled, so that a call outside `jax.jit`
is as fast as one inside. Families see valid labels only: a row without a label has weight 0, and an
invalid label or weight makes all statistics NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Float, PyTree

from genclf.arguments.arrays import numbers
from genclf.arguments.domains import LOGARITHMS, NON_NEGATIVE, one_of, shown, whole
from genclf.arguments.module import field, static
from genclf.classifier.checked_arguments import ArrayLike
from genclf.classifier.model import Fitted, Model
from genclf.families.base import FAMILY, AnyDensity, Density, Scalar
from genclf.families.capabilities import HasLinearForm, HasQuadraticForm, HasTerms, require
from genclf.families.conjugate.class_prior import (
    PROBABILITIES,
    ClassPrior,
    log_fixed,
    prior_problem,
)
from genclf.families.conjugate.dirichlet import Dirichlet
from genclf.families.support import Support
from genclf.numerics.logarithms import logsumexp
from genclf.numerics.namespace import Array, namespace, on_host
from genclf.numerics.row_blocks import broadcast_rows
from genclf.sums.statistics import ClassifierStats, Sums

Inference = Literal["ml", "map", "predictive"]


class Classifier(Model):
    """A generative classifier: a class prior times class densities.

    `p(x, y=k) = π_k p(x | y=k)` with `π_k = (n_k + a) / (n + K a)`, n_k the weight of class k and
    a = `class_alpha`; a = 0 is maximum likelihood. `class_prior` fixes π instead. A class without
    rows is never predicted, whatever π, unless a prior of the family (`prior`, or `alpha` > 0)
    determines its density. The other classes share its probability.

    Hyper-parameters state a conjugate prior of the parameters (`alpha` stands for a `Dirichlet`).
    `inference` says how to use it: "map" takes the posterior mode, "ml" ignores the prior (maximum
    likelihood), and "predictive" gives densities with the parameters integrated out, and the
    expected class probabilities, `(n_k + a + 1) / (n + K (a + 1))`.

    Args:
        family: the family of p(x | y), e.g. `Gaussian()`.
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
            PROBABILITIES,
            expected=f"{PROBABILITIES.expected}, a Dirichlet, or None",
            contains=lambda given: isinstance(given, Dirichlet) or PROBABILITIES.contains(given),
            optional=True,
        ),
        "inference": one_of("ml", "map", "predictive"),
    }

    family: Any
    num_classes: int = static()
    class_alpha: Scalar = 0.0
    class_prior: Float[ArrayLike, "K"] | Dirichlet | None = field(default=None, converter=numbers)
    inference: Inference = static(default="map")

    @property
    def support(self) -> PyTree[Support]:
        return self.family.support

    @property
    def label_prior(self) -> ClassPrior:
        """π, from `class_alpha` and `class_prior`."""
        return ClassPrior.of_fields(
            num_classes=self.num_classes, alpha=self.class_alpha, given=self.class_prior
        )

    def statistics(self, count: Float[Array, "K"], conditional: PyTree) -> ClassifierStats:
        """Statistics of classes with these counts, from the statistics of the family."""
        labels, statistic = Sums.quick(count, count), self.family.statistic(conditional)
        return ClassifierStats.of_fields(
            labels=labels, conditional=conditional, statistic=statistic
        )

    def log_prior(self, count: Float[Array, "K"]) -> Float[Array, "K"]:
        """`log π` for classes with these counts, -inf if no density is determined."""
        return self.of_determined(self.label_prior.log_probs(count), count)

    def expected_log_prior(self, labels: Sums) -> Float[Array, "K"]:
        """`log E[π]` under the posterior of π; `log_prior` if π is fixed."""
        posterior = self.label_prior.posterior(labels)
        if posterior is None:
            return self.log_prior(labels.count)
        return posterior.expected()["log_prior"]

    def of_determined(
        self, log_prior: Float[Array, "K"], count: Float[Array, "K"]
    ) -> Float[Array, "K"]:
        """The log prior, -inf for a class whose density neither rows nor a prior determine.

        The other classes share its probability. If no density is determined, nothing changes.
        """
        if on_host(count) and count.all():
            return log_prior
        xp = namespace(log_prior)
        determined = (count != 0) | xp.asarray(self.family.determined_by_prior)
        determined = determined | ~determined.any()
        kept = xp.where(determined, log_prior, -xp.inf)
        changed = (kept != log_prior).any() & (kept > -xp.inf).any()
        share = logsumexp(xp.where(changed, kept, 0))
        return kept - xp.where(changed, share, 0)

    @property
    def is_predictive(self) -> bool:
        """Whether the parameters are integrated out, so that a fit has none."""
        return self.inference == "predictive"

    def effective(self) -> Classifier:
        """The same model without the hyper-parameters that `inference` ignores."""
        return self.plain() if self.inference == "ml" else self

    def plain(self) -> Classifier:
        """The same model by maximum likelihood."""
        return Classifier(self.family.plain(), self.num_classes, class_prior=self.label_prior.fixed)

    def problems(self, d: object = None) -> list[str]:
        found = list(self.family.problems(d))
        return found if self.class_prior is None else found + self.label_prior.problems()


class ClassifierParams(Fitted):
    """A fitted classifier, as `fit` and `estimate` return it.

    Attributes:
        log_prior: log class probabilities, shape (K,); -inf for a class that cannot occur, or
            whose density neither rows nor a prior determine.
        conditional: params of p(x | y), e.g. `GaussianParams`.
    """

    domains: ClassVar = {"log_prior": LOGARITHMS}

    log_prior: Float[Array, "K"]
    conditional: AnyDensity

    @classmethod
    def of(cls, prior: object, conditional: Any) -> ClassifierParams:
        """The classifier of given class probabilities and class densities.

        Args:
            prior: class probabilities, shape (K,), >= 0 with sum 1.
            conditional: params of p(x | y) of K classes, as `GaussianParams.of` returns them.

        Returns:
            The params; `log_prior` is NaN for traced numbers that are not probabilities.

        Raises:
            ValueError: prior is not K probabilities, or conditional is not params of K densities.

        Example:
            >>> import jax.numpy as jnp, genclf as gcf
            >>> density = gcf.GaussianParams.of([[0.0], [2.0]], [[1.0]])
            >>> params = gcf.ClassifierParams.of([0.5, 0.5], density)
            >>> print(jnp.exp(gcf.log_posterior(params, jnp.array([[1.0], [2.0]]))).round(3))
            [[0.5   0.5  ]
             [0.119 0.881]]
        """
        if not isinstance(conditional, Density):
            raise ValueError(
                f"conditional is {shown(conditional)}, expected params of class densities, such as "
                "GaussianParams"
            )
        rows = jax.tree.map(lambda d: jnp.zeros((1, d)), conditional.num_features)
        scores = jax.eval_shape(conditional.log_prob, rows)
        prior = PROBABILITIES.checked(numbers(prior), "prior")
        if problem := prior_problem(prior, scores.shape[-1], "prior"):
            raise ValueError(problem)
        return cls(log_fixed(jnp.asarray(prior, scores.dtype)), conditional)

    @property
    def num_classes(self) -> int:
        return self.log_prior.shape[-1]

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

    def under(self, log_prior: Float[Array, "K"]) -> ClassifierParams:
        return replace(self, log_prior=log_prior)

    def reduced(
        self, x: PyTree, reduce: Callable[[Array], Array], normalised: bool = False
    ) -> Array:
        """`reduce` of `log p(x, y)` if `normalised`, else of the discriminants, row by row."""
        whole = lambda score: reduce(self.with_log_prior(score))  # noqa: E731
        own = {"normalised": normalised, "num_classes": self.num_classes}
        return self.conditional.reduced(x, whole, **own)

    def linear(self) -> tuple[PyTree, Float[Array, "K"]]:
        require(self.conditional, HasLinearForm, "linear_form")
        coef, intercept = self.conditional.linear()
        return coef, intercept + self.log_prior

    def quadratic(self) -> tuple[Array, Array, Array]:
        require(self.conditional, HasQuadraticForm, "quadratic_form")
        matrix, coef, intercept = self.conditional.quadratic()
        return matrix, coef, intercept + self.log_prior

    def terms(self, x: PyTree, y: Array, other: Array) -> tuple[PyTree, Array]:
        require(self.conditional, HasTerms, "explain")
        constant = self.log_prior[y] - self.log_prior[other] + self.conditional.constant(y, other)
        return self.conditional.terms(x, y, other), constant

    def with_log_prior(self, score: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        """The scores of the densities plus `log_prior`."""
        xp = namespace(score, self.log_prior)
        # An impossible class stays at -inf, even if its density is +inf or NaN.
        log_prior = broadcast_rows(self.log_prior, score)
        never = xp.isneginf(log_prior)
        return xp.where(never, -xp.inf, score + xp.where(never, 0, log_prior))


def log_prior_density(
    clf: Classifier, params: ClassifierParams, stats: ClassifierStats
) -> Float[Array, ""]:
    """Prior log-density of the parameters, up to a constant; 0 if there is no prior.

    The statistics determine what a prior leaves open, such as the scale of a relative ridge.
    """
    found = clf.family.log_prior_density(params.conditional, stats.conditional)
    return found + clf.label_prior.log_density(params.log_prior, stats.count)
