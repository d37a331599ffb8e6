"""Activation patterns: what linear weights stand for in the features."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from genclf.arguments.domains import Domain
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.forms import linear_form
from genclf.classifier.model import Fitted
from genclf.families.gaussian.row_space import RowSpaceParams
from genclf.multivariate.one_covariance import about_their_mean, with_one_covariance, with_scatters
from genclf.numerics.namespace import einsum, matmul
from genclf.numerics.scores.means import Means
from genclf.sums.merging import over_classes
from genclf.sums.statistics import ClassifierStats, Moments

_SOURCE = Domain(
    "params with a linear form, or statistics of a model with full Gaussian covariances",
    lambda value: isinstance(value, Fitted | ClassifierStats),
)
_STATS = Domain(
    "the statistics of the rows, or None",
    lambda value: value is None or isinstance(value, ClassifierStats),
)


@checked_arguments(source=_SOURCE, stats=_STATS)
def patterns(
    source: Fitted | ClassifierStats, stats: ClassifierStats | None = None
) -> Float[Array, "K d"]:
    """The activation pattern of each class: how its score is seen in the features.

    Weights of a linear model say how to extract a class, and are also large where they cancel
    noise. Patterns say where it is: `A = Σ_x W Σ_s⁺`, W the columns of weights less their mean over
    the classes, Σ_x the covariance of all rows, and `Σ_s = Wᵀ Σ_x W` that of the scores, whose
    pseudoinverse is taken, since scores sum to 0. `x ≈ mean + A s` in the sense of least squares.
    For two classes, row 1 is `Σ_x w / (wᵀ Σ_x w)`, w the weights of their log-odds, and row 0 is
    its negative. A does not change if Σ_x is multiplied by a number.

    Args:
        source: params whose scores are linear in x, as of LDA, naive Bayes or softmax regression;
            or statistics of a full Gaussian: the weights are then those of LDA.
        stats: statistics of the rows whose covariance is Σ_x, of a full Gaussian such as `lda`.
            None: `source` is these statistics, or params of a `Gaussian(shared=True)`, whose own
            Σ_x is taken: the covariance within classes, shrunken if it is, plus that of the means.

    Returns:
        shape (K, d), in units of the features per nat.

    Raises:
        ValueError: scores are not linear in an array x; `stats` is needed and not given, or has no
            scatter matrix or another number of features.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np, genclf as gcf
        >>> noise = jax.random.normal(jax.random.key(0), (9999, 1))
        >>> y = jnp.arange(9999.0) % 2
        >>> other = 0.3 * jax.random.normal(jax.random.key(1), (9999, 2))
        >>> x = jnp.concatenate([y[:, None] + noise, noise], 1) + other  # one has the class
        >>> params = gcf.fit(gcf.lda(2), x, y.astype(jnp.int32))
        >>> for found in (gcf.linear_form(params)[0][1], gcf.patterns(params)[1]):
        ...     print((np.asarray(found) / found[0].item()).round(1))
        [ 1.  -0.9]
        [ 1. -0.]

    References:
        Haufe, Meinecke, Görgen, Dähne, Haynes, Blankertz & Biessmann (2014), "On the interpretation
        of weight vectors of linear models in multivariate neuroimaging", eq. 6.
    """
    if stats is None:
        if not isinstance(source, ClassifierStats | ClassifierParams):
            raise ValueError(
                f"{type(source).__name__} has no covariance of x: give the statistics of the rows "
                "as stats, patterns(params, gcf.stats(gcf.lda(K), x, y))"
            )
        return _of_params(with_one_covariance(source))
    params: Any = with_one_covariance(source) if isinstance(source, ClassifierStats) else source
    coef = linear_form(params)[0]
    moments = with_scatters(stats)
    d = moments.mean.shape[-1]
    if not hasattr(coef, "shape") or coef.shape[-1] != d:
        features = f"{coef.shape[-1]} features" if hasattr(coef, "shape") else "a dict of features"
        raise ValueError(f"source has {features}, and stats have {d}")
    return _of_statistics(coef, moments)


@partial(compiled, fast_compile=2**14)
def _of_statistics(coef: Float[Array, "K d"], moments: Moments) -> Float[Array, "K d"]:
    total = over_classes(moments)
    return _patterns(coef, total.scatter / jnp.where(total.count > 0, total.count, 1))


@partial(compiled, fast_compile=2**14)
def _of_params(params: ClassifierParams) -> Array:
    given = params.conditional
    if isinstance(given, RowSpaceParams):
        inside = _of_params(replace(params, conditional=given.inside))
        if given.rotation is None:
            return inside
        return matmul(inside, given.rotation.basis.T) * given.rotation.unit[None]
    share = jnp.exp(params.log_prior)
    _, deviation = about_their_mean(Means(given.mean, given.rounding), share)
    total = given.covariances[0] + einsum("k,ki,kj->ij", share, deviation, deviation)
    return _patterns(params.linear()[0], total)


def _patterns(coef: Float[Array, "K d"], total: Float[Array, "d d"]) -> Float[Array, "K d"]:
    """`Σ_s⁺ Wᵀ Σ_x`."""
    weights = coef - coef.mean(0, keepdims=True)
    seen = matmul(weights, total)
    of_scores = matmul(seen, weights.T)
    return matmul(jnp.linalg.pinv(of_scores, hermitian=True), seen)
