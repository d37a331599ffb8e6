"""Fits and scores by NumPy at once, for rows in its arrays: nothing is compiled.

The formulas are those of the families; only rows are summed in another way. So NumPy and JAX agree
to the last digits. docs/design/by-numpy.md has the measurements.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, PyTree

from genclf.classifier.calibrated import uncalibrated
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.estimation import estimate_of
from genclf.classifier.model import Fitted
from genclf.families.capabilities import HasTerms, has
from genclf.families.combined.product import Product, ProductParams
from genclf.families.counts.bernoulli import Bernoulli
from genclf.families.counts.bernoulli_params import BernoulliParams
from genclf.families.counts.categorical import Categorical
from genclf.families.counts.categorical_params import CategoricalParams
from genclf.families.counts.multinomial import Multinomial
from genclf.families.counts.multinomial_params import MultinomialParams
from genclf.families.counts.poisson import Poisson, PoissonParams
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.gaussian.params import GaussianParams
from genclf.numerics.logarithms import logsumexp
from genclf.numerics.scores.posterior import normalised
from genclf.sums.blocks import Hard
from genclf.sums.merging import merged, removed
from genclf.sums.sparse import is_sparse, sparse_rows
from genclf.sums.statistics import ClassifierStats

_OF_COUNTS = Bernoulli, BernoulliParams, Categorical, CategoricalParams, Poisson, PoissonParams
_MOST = 2**21  # numbers of dense rows, above which compiled sums are faster


def sums_by_numpy(clf: Any, x: PyTree) -> bool:
    """Whether NumPy sums these rows, and estimates the model from the sums."""
    own = isinstance(clf, Classifier) and not clf.is_predictive and by_numpy(clf.family)
    return own and _size(x) <= _MOST


def scores_by_numpy(params: Any, x: PyTree) -> bool:
    """Whether NumPy scores these rows."""
    own = uncalibrated(params)
    is_own = isinstance(own, ClassifierParams) and by_numpy(own.conditional)
    return is_own and _size(x) <= _MOST


def by_numpy(of: Any) -> bool:
    """Whether the formulas of a family, or of a density, take arrays of NumPy."""
    if isinstance(of, Product | ProductParams):
        return all(map(by_numpy, of.parts.values()))
    if isinstance(of, Gaussian | GaussianParams):
        marginal = of.arithmetic.is_full and of.may_miss
        structure = getattr(of, "structure", None)
        own = structure is not None and not structure.takes_numpy
        return not marginal and not own and getattr(of, "prior", None) is None
    if isinstance(of, Multinomial | MultinomialParams):
        return not of.may_miss
    return isinstance(of, _OF_COUNTS)


def _size(x: PyTree) -> int:
    """How many numbers dense rows hold."""
    leaves = jax.tree.leaves(x, is_leaf=is_sparse)
    return sum(0 if is_sparse(leaf) else leaf.size for leaf in leaves)


def statistics_by_numpy(
    clf: Classifier, x: PyTree, y: Int[np.ndarray, "n"], w: Float[np.ndarray, "n"]
) -> ClassifierStats:
    """The statistics of rows that have labels 0..K-1."""
    count: Any = np.bincount(y, w, clf.num_classes)
    own = Hard.of_fields(label=y, weight=w, num_classes=clf.num_classes)
    with np.errstate(all="ignore"):
        return clf.statistics(count, clf.family.stats(_rows(x), own))


def estimate_by_numpy(
    clf: Classifier,
    stats: ClassifierStats,
    before: ClassifierStats | None = None,
    peak: ClassifierStats | None = None,
) -> tuple[ClassifierStats, ClassifierParams]:
    """The statistics, merged with earlier ones or, with a peak, removed; and the estimate."""
    with np.errstate(all="ignore"):
        if before is not None:
            stats = merged(before, stats) if peak is None else removed(before, stats, peak)
        return stats, jax.tree.map(np.asarray, estimate_of(clf, stats))


def fit_by_numpy(
    clf: Classifier,
    x: PyTree,
    y: Int[np.ndarray, "n"],
    w: Float[np.ndarray, "n"],
    before: ClassifierStats | None = None,
    peak: ClassifierStats | None = None,
) -> tuple[ClassifierStats, ClassifierParams]:
    """`estimate_by_numpy` of the statistics of rows."""
    return estimate_by_numpy(clf, statistics_by_numpy(clf, x, y, w), before, peak)


def discriminant_by_numpy(params: Fitted, x: PyTree) -> Float[np.ndarray, "n K"]:
    """`genclf.discriminant` of rows."""
    with np.errstate(all="ignore"):
        return np.asarray(params.discriminant(_rows(x)))


def linear_by_numpy(
    x: Float[np.ndarray, "n d"] | Any, coef: Float[np.ndarray, "K d"]
) -> Float[np.ndarray, "n K"]:
    """`x @ coef.T`; that of sparse rows runs in threads."""
    table: Any = coef.T
    found: Any = sparse_rows(x, "X").dot(table) if is_sparse(x) else x @ table
    return found


def log_posterior_by_numpy(params: Fitted, x: PyTree) -> Float[np.ndarray, "n K"]:
    """`genclf.log_posterior` of rows."""
    return normalised(discriminant_by_numpy(params, x))


def densities_by_numpy(params: ClassifierParams, x: PyTree) -> Float[np.ndarray, "n K"]:
    """`log p(x | y=k)` of rows."""
    with np.errstate(all="ignore"):
        return np.asarray(params.conditional.log_prob(_rows(x)))


def log_marginal_by_numpy(params: ClassifierParams, x: PyTree) -> Float[np.ndarray, "n"]:
    """`genclf.log_marginal` of rows."""
    density: Any = densities_by_numpy(params, x)
    with np.errstate(all="ignore"):
        return np.asarray(logsumexp(params.with_log_prior(density)))


def _rows(x: PyTree) -> PyTree:
    """The rows as families take them."""
    convert = lambda a: sparse_rows(a, "X") if is_sparse(a) else a  # noqa: E731
    return jax.tree.map(convert, x, is_leaf=is_sparse)


def terms_by_numpy(params: ClassifierParams, x: PyTree) -> Float[np.ndarray, "n p"]:
    """`log p(x_j | k) - log p(x_j | 0)` of each class k > 0 and column j; of a text as a whole."""
    whole = params.conditional
    parts = whole.parts.items() if isinstance(whole, ProductParams) else [(None, whole)]
    found = []
    with np.errstate(all="ignore"):
        for name, part in parts:
            rows = _rows(x if name is None else x[name])
            n = rows.shape[0]
            if is_sparse(rows) or not has(part, HasTerms):
                score = np.asarray(part.discriminant(rows))
                found += [(score[:, 1:] - score[:, :1])]
            else:
                of = [np.full(n, k) for k in range(params.num_classes)]
                found += [part.terms(rows, k, of[0]) for k in of[1:]]
    return np.nan_to_num(np.hstack(found))
