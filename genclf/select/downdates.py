"""Leave-one-out of Gaussian classes in closed form: each row is a rank-one downdate.

Let n be the divisor of the covariance, the weight minus ddof, and L Lᵀ the covariance of all rows.
For a row of class c with weight w, let `r = x - μ_c` and `v = L⁻¹ r`. Without that row, the
covariance is `L (n I - f v vᵀ) Lᵀ / (n - w)`, with `f = n_c w / (n_c - w)`, and the mean of class c
moves by `-r w / (n_c - w)`. For a shrinkage γ towards the identity, leaving out the row lowers the
trace of the unshrunk covariance by `f |r|² / n`, before the division by `(n - w) / n`, and the
shrunk covariance is `L (I - (1-γ) f v vᵀ / n - β L⁻¹L⁻ᵀ) Lᵀ n / (n - w)`, with
`β = γ f |r|² / (n d)`. In the eigenvectors of `L⁻¹L⁻ᵀ` the last term is diagonal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from genclf.arguments.hyperparameters import is_concrete
from genclf.classifier.classifier import Classifier, ClassifierStats
from genclf.classifier.model import Model
from genclf.covariance.estimate import CovarianceEstimate
from genclf.covariance.scales import SCALES
from genclf.covariance.shrinkage import Estimated, Target
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.gaussian.padded import PaddedGaussian
from genclf.families.gaussian.params import GaussianParams
from genclf.families.gaussian.row_space import RowSpaceGaussian
from genclf.families.gaussian.rules import given_of
from genclf.numerics import loops
from genclf.numerics.batched import eigh
from genclf.numerics.namespace import matmul
from genclf.numerics.scores.means import Means
from genclf.sums.statistics import Moments


def has_downdates(clf: Model, y: Array) -> bool:
    """Whether `without_each` applies to the model.

    Its covariances must be full, and unshrunk or shrunk towards the identity by a given intensity.
    A ridge is relative to the d variances, as are the other targets, and leaving out a row changes
    them all.
    """
    family = unpenalised_gaussian(clf, "identity")
    if family is None or y.ndim != 1:
        return False
    given = not isinstance(family.shrinkage, Estimated) and family.pooling is None
    inside = isinstance(clf.family, RowSpaceGaussian) and family.shared
    return given and (inside or isinstance(clf.family, Gaussian))


def unpenalised_gaussian(clf: Model, *targets: Target) -> Gaussian | None:
    """The Gaussian of a model with full covariances that are shrunk, if at all, to these targets.

    None for other models, also for those with a prior, a ridge, a structure or missing cells.
    """
    if not isinstance(clf, Classifier) or clf.is_predictive:
        return None
    family, _ = gaussian_of(clf)
    if family is None or not family.arithmetic.is_full or family.may_miss:
        return None
    no_ridge = is_concrete(family.ridge) and bool(family.ridge == 0)
    is_known = family.shrinkage is None or family.target in targets
    return family if no_ridge and is_known and not given_of(family, "prior", "structure") else None


def gaussian_of(clf: Classifier) -> tuple[Gaussian | None, int | Array | None]:
    """The Gaussian (None if the model has none), and its number of features.

    The number is None if it equals the number of columns of x.
    """
    if isinstance(clf.family, RowSpaceGaussian | PaddedGaussian):
        return clf.family.family, clf.family.num_features
    return (clf.family if isinstance(clf.family, Gaussian) else None), None


def without_each(
    clf: Classifier,
    stats: ClassifierStats,
    x: Float[Array, "n d"],
    y: Int[Array, "n"],
    w: Float[Array, "n"],
) -> tuple[Float[Array, "n K"], Bool[Array, "n"]]:
    """Log-posterior of each row by the fit to all others, and whether it is accurate."""
    moments: Moments = stats.conditional
    family, found, num_features = _covariance(clf.family, moments)
    params = family.of_covariances(moments, found)
    x, label = x.astype(w.dtype), jnp.maximum(y, 0)
    w = jnp.where(y >= 0, w, 0)
    own = moments.count[label] - w
    only_row = own <= 1e-6 * moments.count[label]
    own, removed = jnp.where(only_row, 1, own), jnp.where(only_row, 0, w)
    total = moments.count.sum() if family.shared else moments.count[label]
    n = total - family.ddof
    rest = n - w
    distance_factor = 1 + removed / own  # of the row from the mean of its class
    change = removed * distance_factor / n
    means = Means(params.mean, params.rounding)
    deviation = jax.tree.map(lambda a: a[label], means).subtracted_from(x)
    root = SCALES["full"].inverse(params.scale).mT
    extra = None
    if family.shrinkage is not None:
        eigenvalues, vector = eigh(matmul(root.mT, root))
        root = matmul(root, vector)
        shrinkage: Any = family.shrinkage
        lost = shrinkage * change * (deviation**2).sum(1) / num_features
        extra = lost[:, None] * (eigenvalues if family.shared else eigenvalues[label])
        change = change * (1 - shrinkage)
    v = _whitened(deviation, label, root)
    weighted = v if extra is None else v / (1 - extra)
    determinant = 1 - change * (weighted * v).sum(1)
    factors = _Factors(change, distance_factor, rest / n, extra, determinant)
    if family.shared:
        centre = matmul(means.about(means.centre), root[0])
        score = _shared(v, weighted, centre, label, factors)
    else:
        score = _own(params, x, v, weighted, label, factors)
    count = stats.count[None] - jax.nn.one_hot(label, clf.num_classes, dtype=w.dtype) * w[:, None]
    log_prior = jax.vmap(clf.log_prior)(jnp.maximum(count, 0))
    least = 4 * float(jnp.finfo(determinant.dtype).eps) ** 0.25
    exact = (determinant > least) & (rest > 0) & _regular(params)
    exact &= n > x.shape[1] if extra is None else (1 - extra > least).all(1)
    exact &= ~found.constant.any() & ~found.is_singular.any()
    exact &= ~only_row | (y < 0)
    return jax.nn.log_softmax(score + log_prior), exact


class _Factors(NamedTuple):
    """The effects of leaving out each row.

    Attributes:
        change: `(1 - γ) f / n`, the factor of the rank-one downdate, (n,).
        distance_factor: the factor by which the row is further from the mean of its class, (n,).
        weight_ratio: (n - w) / n, (n,).
        extra: the diagonal of `β L⁻¹L⁻ᵀ` in its eigenbasis, the effect of the smaller trace,
            (n, d); None without a shrinkage.
        determinant: that of `I - change v vᵀ (I - extra)⁻¹`, (n,).
    """

    change: Float[Array, "n"]
    distance_factor: Float[Array, "n"]
    weight_ratio: Float[Array, "n"]
    extra: Float[Array, "n d"] | None
    determinant: Float[Array, "n"]

    @property
    def safe_determinant(self) -> Float[Array, "n"]:
        """The determinant, 1 where it is not positive."""
        return jnp.where(self.determinant > 0, self.determinant, 1)


def _covariance(
    family: Gaussian | RowSpaceGaussian, stats: Moments
) -> tuple[Gaussian, CovarianceEstimate, int]:
    """The Gaussian, its covariances, and its number of features.

    The columns may be row-space coordinates, so their number may differ.
    """
    if isinstance(family, RowSpaceGaussian):
        return family.family, family._covariance(stats), family.num_features
    return family, family._covariance(stats, family.ddof), stats.mean.shape[1]


def _whitened(
    deviation: Float[Array, "n d"], label: Int[Array, "n"], root: Float[Array, "one_or_K d d"]
) -> Float[Array, "n d"]:
    """Each row times the root of its class."""
    if len(root) == 1:
        return matmul(deviation, root[0])

    def add(v: Array, of_class: tuple[Array, Array]) -> tuple[Array, None]:
        k, root = of_class
        return jnp.where((label == k)[:, None], matmul(deviation, root), v), None

    return loops.scan(add, deviation, (jnp.arange(len(root), dtype=label.dtype), root))[0]


def _shared(
    v: Float[Array, "n d"],
    weighted: Float[Array, "n d"],
    centre: Float[Array, "K d"],
    label: Int[Array, "n"],
    by: _Factors,
) -> Float[Array, "n K"]:
    """Scores from the whitened deviations `e_k = v + δ_k` of a row from the mean of class k.

    δ_k is a difference of means; weighted is `(I - extra)⁻¹ v`.
    """
    squared = (weighted * v).sum(1)
    to_means = matmul(weighted, centre.T)
    along = jnp.take_along_axis(to_means, label[:, None], 1) - to_means + squared[:, None]
    between = ((centre[:, None] - centre[None]) ** 2).sum(-1)[label]
    if by.extra is not None:
        more = by.extra / (1 - by.extra)
        each, own = matmul(more, (centre**2).T), centre[label]
        cross = matmul(more * own, centre.T)
        between = between + (more * own**2).sum(1)[:, None] - 2 * cross + each
    distance = 2 * along - squared[:, None] + between
    is_own = label[:, None] == jnp.arange(len(centre), dtype=label.dtype)[None]
    factor = jnp.where(is_own, by.distance_factor[:, None] ** 2, 1)
    product = (by.change / by.safe_determinant)[:, None] * along**2
    return -0.5 * by.weight_ratio[:, None] * factor * (distance + product)


def _own(
    params: GaussianParams,
    x: Float[Array, "n d"],
    v: Float[Array, "n d"],
    weighted: Float[Array, "n d"],
    label: Int[Array, "n"],
    by: _Factors,
) -> Float[Array, "n K"]:
    """`log_prob`, with the covariance and mean of the row's class computed without the row."""
    without = by.distance_factor**2 * by.weight_ratio * (weighted * v).sum(1) / by.safe_determinant
    log_det = jnp.log(by.safe_determinant) - x.shape[1] * jnp.log(by.weight_ratio)
    if by.extra is not None:
        log_det = log_det + jnp.log(1 - by.extra).sum(1)
    moved = 0.5 * ((v**2).sum(1) - without - log_det)
    is_own = label[:, None] == jnp.arange(len(params.mean), dtype=label.dtype)[None]
    return params.log_prob(x) + jnp.where(is_own, moved[:, None], 0)


def _regular(params: GaussianParams) -> Array:
    """Whether no correlation matrix is near singular."""
    deviation = jnp.sqrt((params.scale**2).sum(-1))
    pivots = jnp.diagonal(params.scale, axis1=-2, axis2=-1) / deviation
    return (pivots**2 > 1e-5).all()
