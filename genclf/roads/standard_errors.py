"""Standard errors of the parameters, from the curvature of the log-likelihood."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.roads.information import Curvature, LocalModel, scaled
from genclf.roads.problem import arrays, problem, require_roads


@checked_arguments(labels="supervised")
def standard_errors(
    clf: Classifier,
    params: ClassifierParams,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
) -> dict[str, Array]:
    """Standard errors of the parameters, from the observed information.

    They are the square roots of the diagonal of `Z (Zᵀ I Z)⁻¹ Zᵀ`. Here the information I is the
    negative Hessian of the log-likelihood at the params, and Z is a basis of the directions that
    keep the constraints. The errors are those of the arrays that the params hold: log π, log θ,
    logits, means and scales. (The standard error of θ is θ times that of log θ; that of p is
    p (1-p) times that of the logit.) A row of weight w counts as w examples. With smoothing the
    errors are the standard deviations of the normal approximation to the posterior.

    Args:
        clf: the model.
        params: params at a maximum, such as `fit(clf, x, y)`.
        x: rows, as for `fit`.
        y: labels (n,) or responsibilities (n, K).
        weights: weight of each row, (n,).

    Returns:
        Arrays by name, in the shapes of the parameters; infinite where the data hold no
        information (a class without examples, the logarithm of a probability 0). They are
        meaningless away from a maximum, which is not checked here: use `certify`.

    Raises:
        ValueError: the params are of another model, or a shape or dtype does not fit.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> errors = gcf.standard_errors(gcf.lda(2), gcf.fit(gcf.lda(2), x, y), x, y)
        >>> print(errors["mean"].ravel().round(3), errors["scale"].ravel().round(3))
        [0.707 0.707] [0.354]

    References:
        Efron & Hinkley (1978), "Assessing the accuracy of the maximum likelihood estimator".
    """
    require_roads(clf, "standard_errors")
    return _standard_errors(clf, params, x, y, weights)


@partial(compiled, fast_compile=2**16)
def _standard_errors(
    clf: Classifier, params: ClassifierParams, x: PyTree, y: Array, weights: Array | None
) -> dict[str, Array]:
    local = LocalModel(problem(clf, x, y, weights), params)
    variance = jnp.zeros_like(local.zero)
    unidentified = jnp.zeros(len(local.zero), bool)

    def moved(displacement: Array) -> Array:
        found = arrays(local.params_at(displacement))
        return ravel_pytree({name: found[name] for name in local.declared})[0]

    for part in local.curvatures():
        matrix, scale = scaled(part)
        size = part.layout.shape[1]
        # A root R of the inverse, R Rᵀ: its columns are displacements of one standard error.
        if size == 1:
            information = scale[:, 0] ** 2 * matrix[:, 0, 0]
            normal = local.normal[part.layout[:, 0]]
            table = local.table[part.layout[:, 0]]
            share = jnp.zeros(len(local.zero), information.dtype)
            share = share.at[table].add(normal**2 / information)[table]
            tied = normal**2 / information**2 / jnp.where(share == 0, 1, share)
            root = jnp.sqrt(jnp.maximum(1 / information - tied, 0))[:, None, None]
        else:
            eigenvalues, vectors = jnp.linalg.eigh(matrix)
            root = vectors / jnp.sqrt(eigenvalues)[:, None, :] / scale[:, :, None]
        unidentified = unidentified.at[part.layout].set(part.unidentified)
        root = jnp.where(part.unidentified[:, :, None], 0, root)

        def column(i: Array, part: Curvature = part, root: Array = root) -> Array:
            direction = local.zero.at[part.layout].set(root[:, :, i])
            return jax.jvp(moved, (local.zero,), (direction,))[1] ** 2

        variance = variance + lax.map(column, jnp.arange(size), batch_size=16).sum(0)
    found = local.by_name(jnp.where(unidentified, jnp.inf, jnp.sqrt(variance)))
    return {name: jnp.where(local.at_bound[name], jnp.inf, found[name]) for name in local.declared}
