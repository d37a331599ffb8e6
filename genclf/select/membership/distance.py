"""How far rows are from each class."""

from __future__ import annotations

from functools import partial

from jaxtyping import Float, PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.families.mode import deviance
from genclf.numerics.namespace import Array
from genclf.select.membership.rows import by_rows_on_device


@checked_arguments(x=None)
def distance(params: ClassifierParams, x: PyTree) -> Float[Array, "*batch K"]:
    """Squared Mahalanobis distance of each row from each class, `(x - μ_k)ᵀ Σ_k⁻¹ (x - μ_k)`.

    For other densities it is the deviance from the mode, `2 (max log p(· | k) - log p(x | k))`,
    which is the same thing for a Gaussian. Those of the parts of a `Product`, and of the columns of
    `Independent`, add up. A missing cell adds nothing. Σ_k is as it was fitted, with the divisor
    n_k or n unless `ddof` says otherwise, and no class prior enters.

    Args:
        params: a fitted classifier.
        x: one example, or any leading batch axes.

    Returns:
        Squared distances >= 0, shape (..., K); NaN for an example outside the support.

    Raises:
        ValueError: a density has no mode in closed form: mixtures, kernel densities, and word
            counts, whose mode depends on the length of a row.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [8.0]]), jnp.array([0, 0, 1, 1])
        >>> params = gcf.fit(gcf.qda(2), x, y)  # means 1 and 6, standard deviations 1 and 2
        >>> print(gcf.distance(params, jnp.array([[3.0], [6.0]])))
        [[ 4.    2.25]
         [25.    0.  ]]

    References:
        Mahalanobis (1936), "On the generalised distance in statistics".
    """
    return by_rows_on_device(_distances, params, x)


@partial(compiled, batch_of=1)
def _distances(params: ClassifierParams, x: PyTree) -> Array:
    return deviance(params.conditional, x)
