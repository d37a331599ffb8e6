"""Leave-one-out of Gaussian classes in closed form: without a row a covariance has a product less.

With n the weight behind a scatter less its ddof, `r = x - μ_c` for a row of class c with weight w,
and `v = L⁻¹ r`, L Lᵀ the covariance with that row, the one without it is
`L (n I - f v vᵀ) Lᵀ / (n - w)`, `f = n_c w / (n_c - w)`. The mean of class c moves by
`-r w / (n_c - w)`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from genclf.arguments.hyperparameters import is_concrete
from genclf.classifier import Classifier, ClassifierStats
from genclf.families.gaussian import Gaussian
from genclf.families.gaussian_params import GaussianParams
from genclf.families.mahalanobis import Means, distances, inverse_scale
from genclf.model import Model
from genclf.sums.products import matmul


def has_downdates(clf: Model, y: Array) -> bool:
    """Whether `without_each` is the leave-one-out of the model: full covariances, no penalty."""
    if not isinstance(clf, Classifier) or clf.inference == "predictive" or y.ndim != 1:
        return False
    family = clf.family
    if not isinstance(family, Gaussian) or family.covariance != "full" or family.prior is not None:
        return False
    plain = is_concrete(family.ridge) and bool(family.ridge == 0)
    rules = family.pooling is None and family.shrinkage is None
    return plain and rules and family.missing == "error"


def without_each(
    clf: Classifier,
    stats: ClassifierStats,
    x: Float[Array, "n d"],
    y: Int[Array, "n"],
    w: Float[Array, "n"],
) -> tuple[Float[Array, "n K"], Bool[Array, "n"]]:
    """Log-posterior of each row by the fit to all others, and whether it has its digits."""
    family, moments = clf.family, stats.conditional
    found = family._covariance(moments, family.ddof)
    params = family.of_covariances(moments, found)
    x, label = x.astype(w.dtype), jnp.maximum(y, 0)
    w = jnp.where(y >= 0, w, 0)
    own = moments.count[label] - w
    alone = own <= 1e-6 * moments.count[label]
    own, moves = jnp.where(alone, 1, own), jnp.where(alone, 0, w)
    behind = moments.count.sum() if family.shared else moments.count[label]
    n = behind - family.ddof
    rest = n - w
    stretch = 1 + moves / own  # of the row's distance from the mean of its class
    means = Means(params.mean, params.rounding)
    scores = _shared if family.shared else _own
    score, left = scores(params, means, x, label, moves * stretch / n, stretch, rest / n)
    count = stats.count[None] - jax.nn.one_hot(label, clf.num_classes, dtype=w.dtype) * w[:, None]
    log_prior = jax.vmap(clf.label_prior.log_probs)(jnp.maximum(count, 0))
    exact = (
        (left > 4 * float(jnp.finfo(left.dtype).eps) ** 0.25)
        & (rest > 0)
        & (n > x.shape[1])
        & _regular(params)
    )
    exact &= ~found.constant.any() & ~found.is_singular.any()
    exact &= ~alone | (y < 0)
    return jax.nn.log_softmax(score + log_prior), exact


def _shared(
    params: GaussianParams,
    means: Means,
    x: Array,
    label: Array,
    change: Array,
    stretch: Array,
    shrink: Array,
) -> tuple[Array, Array]:
    """Scores of rows `e_k = v + δ_k`, δ from mean to mean, and `1 - f |v|² / n`."""
    inverse = inverse_scale(params.scale, "full")[0]
    low = None if means.low is None else means.low[label]
    v = matmul(Means(means.high[label], low).subtracted_from(x), inverse.T)
    centre = matmul(means.about(means.centre), inverse.T)
    squared = (v**2).sum(1)
    to_means = matmul(v, centre.T)
    along = jnp.take_along_axis(to_means, label[:, None], 1) - to_means + squared[:, None]
    between = ((centre[:, None] - centre[None]) ** 2).sum(-1)
    distance = 2 * along - squared[:, None] + between[label]
    left = 1 - change * squared
    is_own = label[:, None] == jnp.arange(len(centre), dtype=label.dtype)[None]
    factor = jnp.where(is_own, stretch[:, None] ** 2, 1)
    more = (change / jnp.where(left > 0, left, 1))[:, None] * along**2
    return -0.5 * shrink[:, None] * factor * (distance + more), left


def _own(
    params: GaussianParams,
    means: Means,
    x: Array,
    label: Array,
    change: Array,
    stretch: Array,
    shrink: Array,
) -> tuple[Array, Array]:
    """`log_prob`, in which the row's own class has the covariance and the mean without it."""
    squared = distances(x, means, params.scale, "full")
    squared = jnp.take_along_axis(squared, label[:, None], 1)[:, 0]
    left = 1 - change * squared
    safe = jnp.where(left > 0, left, 1)
    without = stretch**2 * shrink * squared / safe
    log_det = jnp.log(safe) - x.shape[1] * jnp.log(shrink)
    moved = 0.5 * (squared - without - log_det)
    is_own = label[:, None] == jnp.arange(len(params.mean), dtype=label.dtype)[None]
    return params.log_prob(x) + jnp.where(is_own, moved[:, None], 0), left


def _regular(params: GaussianParams) -> Array:
    """Whether no correlation matrix is near singular."""
    deviation = jnp.sqrt((params.scale**2).sum(-1))
    pivots = jnp.diagonal(params.scale, axis1=-2, axis2=-1) / deviation
    return (pivots**2 > 1e-5).all()
