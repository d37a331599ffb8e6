"""Bernoulli class densities: a word is present or not."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Float

from genclf.arguments.domains import NON_NEGATIVE, OPTIONAL_FINITE
from genclf.arguments.hyperparameters import kind_of
from genclf.arguments.module import static
from genclf.families.base import Scalar, set_fields
from genclf.families.conjugate.beta import Beta, BetaDistribution, zeros_of
from genclf.families.counts.bernoulli_params import (
    BernoulliParams,
    binary,
    bits_support,
    describe_bits,
    seen_bits,
    sparse_binary,
)
from genclf.families.counts.smoothed import Smoothed
from genclf.families.initial_clusters import hamming_distance
from genclf.families.missing import CODE, MISSING, Missing
from genclf.families.support import Support
from genclf.numerics.logarithms import safe_log
from genclf.numerics.namespace import Array, namespace
from genclf.sums.accumulate import dense_sums
from genclf.sums.blocks import ClassWeights, accumulate
from genclf.sums.class_sums import class_counts
from genclf.sums.sparse import Sparse, SparseRows
from genclf.sums.statistics import Sums


class Bernoulli(Smoothed):
    """Independent 0/1 features: multivariate Bernoulli naive Bayes.

    `p(x | y=k) = Π_j p_kj^x_j (1-p_kj)^(1-x_j)` with `p_kj = (Σ_n w_nk x_nj + α) / (n_k + 2α)`,
    n_k the weight of the class. α is Dirichlet smoothing: the mode under a Beta(α+1, α+1) prior,
    the mean under Beta(α, α); 1 is Laplace's rule, 0 maximum likelihood. Absent words count as
    evidence, unlike in `Multinomial`.

    Args:
        alpha: α >= 0.
        threshold: if given, x is first turned into `x > threshold`; otherwise x must be 0 or 1.
        prior: a `Beta`, instead of alpha; the estimate is then the posterior mode.
        missing: "marginalize" integrates missing cells out: scores leave out their factors, and
            fits leave out the cells; "error" makes a missing cell invalid.
        missing_code: a missing cell is NaN if x is floating, and this code if x is integer.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.Classifier(gcf.Bernoulli(alpha=1.0), num_classes=2)
        >>> x, y = jnp.array([[1, 0], [1, 1], [0, 0]]), jnp.array([0, 0, 1])
        >>> print(gcf.fit(clf, x, y).conditional.probs)
        [[0.75  0.5  ]
         [0.333 0.333]]

    References:
        McCallum & Nigam (1998), "A comparison of event models for naive Bayes text
        classification", eqs. 1 and 3.
    """

    domains: ClassVar = {
        "alpha": NON_NEGATIVE,
        "threshold": OPTIONAL_FINITE,
        "prior": kind_of(Beta, such_as="Beta(2.0, 2.0)", optional=True),
        "missing": MISSING,
        "missing_code": CODE,
    }
    num_codes: ClassVar = 2

    alpha: Scalar = 1.0
    threshold: Scalar | None = None
    prior: Beta | None = None
    missing: Missing = static(default="error")
    missing_code: int = static(default=-1)

    @property
    def support(self) -> Support:
        return self.allowing(bits_support(self.threshold))

    def stats(self, x: Array | Sparse, w: ClassWeights) -> Sums:
        """`Sums` of x: the count of each class, and the count of its ones in each feature.

        If cells may be missing, the count is that of the observed cells, (K, d).
        """
        d = x.shape[1]
        if isinstance(x, Sparse):
            ones, base = sparse_binary(x, self.threshold)
            count = class_counts(w)
            return Sums(count, ones.sums(w) + (base.astype(count.dtype) * count)[:, None])

        def block(x: Array, w: ClassWeights) -> Sums:
            if not self.may_miss:
                return dense_sums(binary(x, self.threshold), w)
            both = dense_sums(seen_bits(x, self.threshold, self.missing_code), w).total
            return Sums(both[:, d:], both[:, :d])

        return accumulate(block, x, w, d)

    def statistic(self, stats: Sums) -> str:
        return describe_bits(stats.total.shape[-1], self.threshold, self.may_miss)

    def estimate(self, stats: Sums) -> BernoulliParams:
        """Smoothed logits, `log (total + α) - log (count - total + α)`; 0 for an empty class."""
        xp = namespace(stats.total)
        added = self._pseudo_counts(stats)
        present, absent = stats.total + added[0], zeros_of(stats) + added[1]
        unknown = (present == 0) & (absent == 0)
        present, absent = xp.where(unknown, 1, present), xp.where(unknown, 1, absent)
        return self._params(safe_log(present) - safe_log(absent))

    def _params(self, logits: Array) -> BernoulliParams:
        return BernoulliParams(logits, self.threshold, self.missing, self.missing_code)

    def start(self, stats: Sums) -> BernoulliParams:
        """Every probability ½."""
        return self._params(jnp.zeros_like(stats.total))

    def _pseudo_counts(self, stats: Sums) -> tuple[Array, Array]:
        """The pseudo-counts of ones and of zeros."""
        xp = namespace(stats.total)
        if self.prior is not None:
            return self.prior.pseudo_counts(stats.total, zeros_of(stats))
        alpha = xp.full_like(stats.total, self.alpha)
        return alpha, alpha

    def prior_stats(self, stats: Sums) -> Sums:
        """α ones and α zeros; or, with a prior, `a - 1` and `b - 1`, and a count per feature."""
        ones, zeros = self._pseudo_counts(stats)
        count = jnp.full_like(stats.count, 2 * self.alpha) if self.prior is None else ones + zeros
        return Sums(count, ones)

    def conjugate_prior(self, stats: Sums) -> BetaDistribution:
        """Beta(α + 1, α + 1), or the prior given."""
        return self.given_prior.resolve(stats.total)

    @property
    def given_prior(self) -> Beta:
        return Beta(self.alpha + 1.0, self.alpha + 1.0) if self.prior is None else self.prior

    def predictive(self, posterior: BetaDistribution, stats: Sums) -> BernoulliParams:
        """Params with the expected probabilities, since the density is linear in them."""
        return set_fields(self.start(stats), "", posterior.expected())

    def distance(self, x: Array | SparseRows, seed: Array) -> Float[Array, "n"]:
        """The number of cells that differ."""
        return hamming_distance(x, seed)
