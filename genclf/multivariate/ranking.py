"""Features that differ between classes: rankings, false discovery rates, paths of thresholds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genclf.arguments.domains import shown, whole_number
from genclf.arguments.extras import imported
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.estimation import estimated
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.gaussian.shrunken_centroids import deviations
from genclf.multivariate.cat_scores import CatScores
from genclf.sums.statistics import ClassifierStats

_LEAST_P_VALUE = 1e-15  # smaller ones would only widen the bins of the histogram


class FeatureRanking(ShowsNumbers):
    """Features by importance, as `rank_features` returns them; NumPy arrays.

    Attributes:
        order: indices of the features, the most important first, shape (d,).
        tail_rate: the false discovery rate among this feature and those ranked before it, indexed
            by feature (not by rank), shape (d,): Benjamini and Hochberg's adjusted p-value.
        local_rate: the probability that this feature is null, given its score, shape (d,).
    """

    order: Int[np.ndarray, "d"]
    tail_rate: Float[np.ndarray, "d"]
    local_rate: Float[np.ndarray, "d"]


@checked_arguments(scores=None)
def rank_features(scores: CatScores) -> FeatureRanking:
    """Features in the order of their scores, with false discovery rates.

    Both rates are computed from the p-values: by SciPy's `false_discovery_control`, and by
    statsmodels' `local_fdr` of `Φ⁻¹(1 - p)` with the standard normal density for null features.

    Args:
        scores: from `cat_scores`, of many features, as local rates use a histogram of all features.

    Returns:
        `FeatureRanking`.

    Raises:
        ImportError: statsmodels is not installed.
        ValueError: `scores` are not cat scores, or some are NaN.

    Example:
        >>> import jax, numpy as np, genclf as gcf
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(60) % 3
        >>> x = rng.normal(size=(60, 500))
        >>> x[:, :10] += y[:, None]  # ten informative features
        >>> clf = gcf.Classifier(
        ...     gcf.Gaussian(shared=True, shrinkage="james-stein", target="diagonal"), 3
        ... )
        >>> scores = gcf.cat_scores(gcf.fit(clf, x, y), np.bincount(y))
        >>> ranking = gcf.rank_features(scores)
        >>> print(sorted(ranking.order[:10].tolist()), (ranking.tail_rate < 0.01).sum())
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] 10

    References:
        Benjamini & Hochberg (1995), "Controlling the false discovery rate"; Efron (2008),
        "Microarrays, empirical Bayes and the two-groups model".
    """
    if not isinstance(scores, CatScores):
        raise ValueError(f"scores is {shown(scores)}, expected the result of cat_scores")
    from scipy.stats import false_discovery_control, norm  # slow to import

    multitest = imported("statsmodels.stats.multitest", "ranking", "genclf.rank_features needs")
    overall, p_value = np.asarray(scores.overall, float), np.asarray(scores.p_value, float)
    if np.isnan(p_value).any():
        feature = int(np.isnan(p_value).argmax())
        raise ValueError(
            f"the p-value of feature {feature} is NaN: cat scores need more examples than classes, "
            "and variation within classes"
        )
    z = norm.isf(np.clip(p_value, _LEAST_P_VALUE, 1 - _LEAST_P_VALUE))
    return FeatureRanking(
        np.argsort(-overall, kind="stable"),
        false_discovery_control(p_value),
        np.minimum(multitest.local_fdr(z), 1),
    )


class ThresholdPath(ShowsNumbers):
    """Nearest shrunken centroids by threshold, as `threshold_path` returns them.

    Attributes:
        threshold: from 0 to the smallest at which all class means are equal, shape (m,).
        num_features: the number of features that affect the posterior, shape (m,).
        largest: the threshold above which a feature has no effect, `max_k |d_kj|`, shape (d,):
            larger for more important features.
        params: the params at each threshold, all leaves with a first axis of length m.
    """

    threshold: Float[Array, "m"]
    num_features: Int[Array, "m"]
    largest: Float[Array, "d"]
    params: ClassifierParams


@checked_arguments
def threshold_path(
    clf: Classifier, stats: ClassifierStats, num_thresholds: int = 30
) -> ThresholdPath:
    """Nearest shrunken centroids at evenly spaced thresholds, from one set of statistics.

    Args:
        clf: a `nearest_shrunken_centroids`; its own threshold is not used.
        stats: statistics of that model.
        num_thresholds: m, at least 2.

    Returns:
        `ThresholdPath`; `jax.vmap(genclf.predict, (0, None))(path.params, x)` are the predictions.

    Raises:
        ValueError: the model has no soft threshold, or the statistics are of another model.

    Example:
        >>> import jax, genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> clf = gcf.nearest_shrunken_centroids(11, soft_threshold=0.0)
        >>> stats = gcf.stats(clf, vowel.x_train, vowel.y_train)
        >>> path = gcf.threshold_path(clf, stats, num_thresholds=6)
        >>> found = jax.vmap(gcf.predict, (0, None))(path.params, vowel.x_test)
        >>> errors = found != vowel.y_test[None]
        >>> for count, share in zip(path.num_features, errors.mean(1)):
        ...     print(count, f"{share:.2f}")
        10 0.52
        9 0.58
        4 0.68
        2 0.79
        2 0.81
        0 0.91

    References:
        Tibshirani, Hastie, Narasimhan & Chu (2002), "Diagnosis of multiple cancer types by shrunken
        centroids of gene expression", figure 1.
    """
    family = clf.family
    if not isinstance(family, Gaussian) or family.soft_threshold is None:
        raise ValueError(
            f"clf is {shown(clf)}, expected a model with a soft_threshold, such as "
            "nearest_shrunken_centroids"
        )
    return _path(clf, stats, whole_number(num_thresholds, "num_thresholds", 2))


@partial(compiled, static_argnums=2, fast_compile=2**14)
def _path(clf: Classifier, stats: ClassifierStats, m: int) -> ThresholdPath:
    with_threshold = lambda value: replace(clf, family=replace(clf.family, soft_threshold=value))  # noqa: E731
    plain = estimated(with_threshold(None), stats).conditional
    largest = jnp.abs(deviations(plain, stats.conditional.count)).max(0)
    threshold = jnp.linspace(0, largest.max(), m, dtype=largest.dtype)
    params = jax.vmap(lambda value: estimated(with_threshold(value), stats))(threshold)
    num_features = (largest[None] > threshold[:, None]).sum(1)
    return ThresholdPath(threshold, num_features, largest, params)
