"""The linear trace of the classes in the features, and rows without it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.covariance.regularise import Regularisation, estimate_covariance
from genclf.covariance.scales import SCALES
from genclf.multivariate.one_covariance import about_their_mean, with_scatters
from genclf.numerics.namespace import matmul
from genclf.numerics.row_blocks import broadcast_rows
from genclf.numerics.scores.means import Means
from genclf.sums.merging import over_classes
from genclf.sums.statistics import ClassifierStats, Moments, divide


class Eraser(ShowsNumbers):
    """The map `x - removed coefficientᵀ (x - centre)`, as `eraser` returns it.

    Attributes:
        coefficient: the directions C that see the classes, shape (d, m) with m = min(K - 1, d).
            Scores `Cᵀ (x - centre)` are uncorrelated with variance 1; a column is 0 if fewer
            directions see the classes.
        removed: what a score of 1 adds to the features, `Σ C`, shape (d, m).
        centre: the mean of all rows, shape (d,).
    """

    coefficient: Float[Array, "d m"]
    removed: Float[Array, "d m"]
    centre: Float[Array, "d"]

    def erased(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Rows without the trace."""
        for _ in range(2):  # the second time, what rounding has left: a model would find it
            scores = matmul(x - broadcast_rows(self.centre, x), self.coefficient)
            x = x - matmul(scores, self.removed.T)
        return x


@checked_arguments
def eraser(stats: ClassifierStats) -> Eraser:
    """The affine map that removes every linear trace of the classes and changes rows least.

    `r(x) = x - Σ^½ P Σ^-½ (x - μ)`, with Σ and μ the covariance and the mean of all rows, and P the
    orthogonal projection onto the span of `Σ^-½ (μ_k - μ)` (least-squares concept erasure, LEACE).
    In the rows that the statistics are of, all classes then have the mean μ. So no linear model of
    r(x) is better than the class prior, whatever its loss; of all affine maps with this property, r
    has the least mean of `(r(x) - x)ᵀ M (r(x) - x)`, for each positive semidefinite M. The
    covariances of the classes still differ: a quadratic model may see the classes.

    Args:
        stats: statistics of a model with full Gaussian covariances, such as `lda` or `qda`, also
            merged or streamed ones.

    Returns:
        `Eraser`: `genclf.transform(eraser(stats), x)` are the rows without the trace, (..., d).

    Raises:
        ValueError: the statistics have no scatter matrix.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> x, y = vowel.x_train, vowel.y_train
        >>> clf = gcf.lda(11)
        >>> erased = gcf.transform(gcf.eraser(gcf.stats(clf, x, y)), x)
        >>> for rows in (x, erased):
        ...     print(f"{(gcf.predict(gcf.fit(clf, rows, y), rows) == y).mean():.3f}")
        0.684
        0.091

    References:
        Belrose, Schneider-Joseph, Ravfogel, Cotterell, Raff & Biderman (2023), "LEACE: perfect
        linear concept erasure in closed form", theorem 4.3.
    """
    return _eraser(stats.count, with_scatters(stats))


@compiled
def _eraser(count: Array, moments: Moments) -> Eraser:
    low = moments.rounding and moments.rounding[:3]
    moments = Moments(moments.count, moments.mean, moments.scatter, low)
    together = jax.tree.map(lambda a: a[None], over_classes(moments))
    found = estimate_covariance(together, Regularisation(), spherical=False, shared=True)
    total, triangular = found.square_root(), SCALES["full"]
    means = Means(moments.mean, None if low is None else low[1])
    share = divide(count, jnp.broadcast_to(count.sum(), count.shape))
    centre, deviation = about_their_mean(means, share)
    deviation = jnp.where(share[:, None] > 0, jnp.sqrt(share)[:, None] * deviation, 0)
    inverse = triangular.inverse(total)[0]
    # P is the projection onto the same span, whatever the square root of Σ: here a triangular one.
    z = triangular.whiten(inverse, deviation)
    _, size, direction = jnp.linalg.svd(z, full_matrices=False)
    most = min(len(z) - 1, z.shape[1])
    seen = size[:most] > 64 * jnp.finfo(z.dtype).eps  # correlations with the classes
    direction = jnp.where(seen[:, None], direction[:most], 0)
    # Rounding errors of a feature that does not vary would be all that varies in it.
    varies = ~found.is_singular[0][:, None]
    return Eraser(
        jnp.where(varies, triangular.weights(inverse, direction).T, 0),
        jnp.where(varies, matmul(total[0], direction.T), 0),
        centre,
    )
