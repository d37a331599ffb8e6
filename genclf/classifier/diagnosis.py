"""`diagnose`: numbers that show how far the estimate from given data can be trusted."""

from __future__ import annotations

from functools import partial, reduce

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree

from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier
from genclf.classifier.conversion import maybe_sparse
from genclf.classifier.estimation import summed
from genclf.classifier.labels import valid_labels, valid_weights
from genclf.classifier.rows import Rows
from genclf.covariance.estimate import GaussianDiagnosis
from genclf.families.capabilities import is_additive
from genclf.families.combined.combinator import any_prefers_rows
from genclf.families.structure import named_arrays, nodes_of
from genclf.families.support import Support
from genclf.families.tokens import is_dense
from genclf.numerics.namespace import Array
from genclf.sums.accumulate import dense_sums
from genclf.sums.blocks import ClassWeights, accumulate
from genclf.sums.statistics import Sums


class Diagnosis(ShowsNumbers):
    """The problems of a data set for a model, as `diagnose` returns them.

    Attributes:
        count: weight of each class, shape (K,); NaN if labels or weights are invalid.
        empty: classes without weight, shape (K,).
        undetermined: classes without weight whose density is not determined by a prior, shape (K,):
            they are never predicted, whatever the class prior.
        invalid_cells: number of cells of x outside the support; per part of a `Product`.
        invalid_labels: number of labels outside -1..K-1, or of responsibilities that are
            negative or not finite.
        invalid_weights: number of weights that are negative or not finite.
        unseen: features with no observed value in a class that has weight, shape (K, d); None if
            the density does not allow missing cells; per part of a `Product`.
        conditional: the diagnosis of the family: `GaussianDiagnosis` (too few rows, constant
            features, rank, condition number and rounding) for Gaussians, a dict for `Product`;
            None for other families, and for a model without sufficient statistics.
    """

    count: Float[Array, "K"]
    empty: Bool[Array, "K"]
    undetermined: Bool[Array, "K"]
    invalid_cells: PyTree[Int[Array, ""]]
    invalid_labels: Int[Array, ""]
    invalid_weights: Int[Array, ""]
    unseen: PyTree[Bool[Array, "K _"]]
    conditional: PyTree

    @property
    def degenerate(self) -> Bool[Array, "*batch"]:
        """Whether the maximum of the likelihood does not exist, or a class or value is missing.

        It is true for an invalid label, weight or cell, a class without weight, a feature without a
        value, or a correlation matrix without full rank.
        """
        batch = self.count.ndim - 1
        gaussians = nodes_of(self.conditional, GaussianDiagnosis)
        flags = [self.empty, self.invalid_labels > 0, self.invalid_weights > 0]
        flags += [cells > 0 for cells in jax.tree.leaves(self.invalid_cells)]
        flags += jax.tree.leaves(self.unseen)
        flags += [p.rank < p.constant.shape[-1] for p in gaussians]
        return reduce(jnp.logical_or, [flag.any(tuple(range(batch, flag.ndim))) for flag in flags])


@checked_arguments(labels="unread", x=maybe_sparse)
def diagnose(
    clf: Classifier, x: PyTree, y: ArrayLike, weights: ArrayLike | None = None
) -> Diagnosis:
    """Find, as arrays, what makes a fit of this model to these data invalid or doubtful.

    It runs under jit and vmap. It raises for shapes and dtypes of the data, never for their values.
    Ranks and condition numbers are those of correlation matrices, so they do not depend on the
    units of the features.

    Args:
        clf: the model.
        x: rows, as for `fit`.
        y: labels (n,) or responsibilities (n, K).
        weights: weight of each row, (n,).

    Returns:
        A `Diagnosis`.

    Raises:
        ValueError: a shape or dtype does not fit.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x = jnp.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [5.0, 1.0], [6.0, 3.0], [9.0, 2.0]])
        >>> found = gcf.diagnose(gcf.qda(2), x, jnp.array([0, 0, 0, 1, 1, 1]))
        >>> print(found.conditional.rank, found.conditional.condition.round())
        [1 2] [inf  3.]
    """
    return diagnosed(clf, x, y, weights)


@partial(compiled, fast_compile=2**14)
def diagnosed(clf: Classifier, x: PyTree, y: Array, weights: Array | None) -> Diagnosis:
    """`diagnose` of checked arguments."""
    rows = Rows.of(x, y, weights, clf.num_classes)
    count = jnp.where(rows.invalid, jnp.nan, rows.count)
    conditional, used = None, clf
    if is_additive(clf.family):
        used = clf.effective()
        if any_prefers_rows(used.family, x):
            conditional = used.family.diagnose_rows(x, rows.w)
        else:
            conditional = used.family.diagnose(summed(clf, rows).conditional)
    invalid_cells, unseen = {}, {}
    for name, _, support, block in named_arrays(clf.family.support, x):
        invalid_cells[name] = (~support.holds(block)).sum()
        unseen[name] = unseen_columns(support, block, rows.w)
    return Diagnosis(
        count=count,
        empty=count == 0,
        undetermined=(count == 0) & ~jnp.asarray(used.family.determined_by_prior),
        invalid_cells=invalid_cells.get("x", invalid_cells),
        invalid_labels=(~valid_labels(y, clf.num_classes)).sum(),
        invalid_weights=jnp.int32(0) if weights is None else (~valid_weights(weights)).sum(),
        unseen=unseen.get("x", unseen),
        conditional=conditional,
    )


def unseen_columns(support: Support, x: PyTree, w: ClassWeights) -> Bool[Array, "K d"] | None:
    """Columns with no observed value in a class that has weight; None if no cell may be missing."""
    missing = support.missing
    if missing is None or not is_dense(x):
        return None

    def block(x: Array, w: Array) -> Sums:
        return dense_sums((~missing(x)).astype(w.dtype), w)

    found = accumulate(block, x, w, 2 * x.shape[1])
    return (found.total == 0) & (found.count > 0)[:, None]
