"""The distribution of missing features given the observed ones, under a fitted classifier."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, Int, PyTree

from genclf.arguments.domains import draw_shape, random_key
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments, optional
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.conversion import as_arrays, widen
from genclf.classifier.labels import check_labels
from genclf.classifier.scores import log_posteriors
from genclf.families.capabilities import HasConditionals, require
from genclf.numerics.namespace import Array


class Conditional(ShowsNumbers):
    """Distribution of the label and of the missing cells of examples, as `condition` returns it.

    Attributes:
        log_posterior: log p(y | observed cells), shape (..., K); 0 and -inf if y was given.
        features: for a Gaussian, `GaussianFeatures` with mean (..., d) and covariance
            (..., d, d); for Bernoulli features, the probability of 1, (..., d); for categorical
            columns, the probabilities of all values, columns side by side, (..., Σ_j V_j); for
            counts, the expected counts; `Tokens` are returned as they are. An observed cell has
            its own value, with covariance 0 or probability 1. A dict for a `Product`; for
            `Independent`, the arrays have a leading column axis.
        params: the classifier, with missing cells integrated out.
        x: the examples.
    """

    log_posterior: Float[Array, "*batch K"]
    features: PyTree
    params: ClassifierParams
    x: PyTree

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> tuple[PyTree, Int[Array, "..."]]:
        """Joint draws of the label and the missing cells: multiple imputation.

        Args:
            key: a `jax.random` key.
            shape: shape of the draws, in front of the batch axes; () for one.

        Returns:
            (x, y): x without missing cells, and the label. If the posterior is NaN, the label is -1
            and the drawn cells are meaningless.
        """
        return _sample(self, random_key(key, "key"), draw_shape(shape, "shape"))


@checked_arguments(y=optional(as_arrays))
def condition(params: ClassifierParams, x: PyTree, y: ArrayLike | None = None) -> Conditional:
    """Impute: the distribution of the missing cells of x, given the observed ones and y if known.

    A missing cell is NaN, or among integers the family's `missing_code` (-1). Without a label the
    features are those of the mixture over classes, `p(x_m | x_o) = Σ_k p(y=k | x_o) p(x_m | x_o,
    k)`: the mean minimises the expected squared error, and the covariance includes the variation
    within the classes and between them. For a Gaussian class, with m missing and o observed,
    `E[x_m | x_o, k] = μ_m + Σ_mo Σ_oo⁻¹ (x_o - μ_o)`, covariance `Σ_mm - Σ_mo Σ_oo⁻¹ Σ_om`.

    Args:
        params: a fitted classifier; it may have been fitted to complete data.
        x: one example, or any leading batch axes.
        y: labels of the batch shape, -1 if unknown; None: all unknown.

    Returns:
        A `Conditional`.

    Raises:
        ValueError: a shape or dtype does not fit, a label is neither a class nor -1 (in traced code
            the result is NaN), or the density has no conditional densities.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x = jnp.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 7.0]])
        >>> params = gcf.fit(gcf.qda(1), x, jnp.zeros(4, int))
        >>> found = gcf.condition(params, jnp.array([2.0, jnp.nan]))
        >>> print(found.features.mean, found.features.covariance)
        [2.   4.4] [[0.    0.   ]
         [0.    0.075]]

    References:
        Little & Rubin (2019), Statistical Analysis with Missing Data, §7.4 and §11.2.
    """
    if y is not None:
        check_labels(y.reshape(-1), params.num_classes)
    return _condition(params, x, y)


@partial(compiled, batch_of=1)
def _condition(params: ClassifierParams, x: PyTree, y: Array | None) -> Conditional:
    require(params.conditional, HasConditionals, "condition")
    params = ClassifierParams(params.log_prior, params.conditional.marginalized())
    log_p = log_posteriors(params, x)
    if y is not None:
        if y.shape != log_p.shape[:-1] or not jnp.issubdtype(y.dtype, jnp.integer):
            raise ValueError(
                f"y has shape {y.shape} and dtype {y.dtype}, expected integer labels of shape "
                f"{log_p.shape[:-1]}, -1 where unknown"
            )
        y = widen(y)[..., None]
        hot = y == lax.broadcasted_iota(y.dtype, log_p.shape, log_p.ndim - 1)
        given = jnp.where(hot, jnp.zeros_like(log_p), -jnp.inf)
        given = jnp.where((y >= 0) & (y < log_p.shape[-1]), given, jnp.nan)
        log_p = jnp.where(y == -1, log_p, given)
    return Conditional(log_p, params.conditional.condition(x, jnp.exp(log_p)), params, x)


@partial(compiled, static_argnums=2)
def _sample(given: Conditional, key: Array, shape: tuple[int, ...]) -> tuple[PyTree, Array]:
    def one(key: Array) -> tuple[PyTree, Array]:
        key_y, key_x = jax.random.split(key)
        y = jax.random.categorical(key_y, given.log_posterior).astype(jnp.int32)
        # A posterior that is NaN selects no class.
        y = jnp.where(jnp.isnan(given.log_posterior).any(-1), -1, y)
        return given.params.conditional.sample_missing(key_x, given.x, y), y

    for _ in shape:
        one = jax.vmap(one)
    return one(jax.random.split(key, shape) if shape else key)
