"""Cross-validation of linear discriminants for many labellings of the same rows.

The scatter T of a fold's training rows about their mean does not depend on the labels. The scatter
within classes is `W = T - BᵀB`, where row k of B is `√n_k` times the mean of class k. In the
eigenvectors of T the covariance is a diagonal minus a matrix of rank K, so its inverse needs only
that of a K × K matrix. If the covariance is shrunk towards its own diagonal, that matrix is only
near to the covariance, and conjugate gradients solve for the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Bool, Float, Int, PyTree

from genclf.classifier.classifier import Classifier
from genclf.classifier.model import Model
from genclf.covariance.shrinkage import Estimated
from genclf.families.gaussian.gaussian import Gaussian
from genclf.numerics.batched import cholesky, eigh, inverse_lower
from genclf.numerics.namespace import einsum, matmul
from genclf.select.downdates import gaussian_of, unpenalised_gaussian
from genclf.select.permuted_moments import (
    Labelled,
    Rotated,
    estimated_shrinkage,
    labelled,
    variances,
)

_STEPS = 100


def share_scatters(clf: Model, x: PyTree) -> bool:
    """Whether `posteriors` applies: one covariance, shrunk, if at all, to the identity or diagonal.

    With more features than rows, a shrinkage to the diagonal needs arrays (d, d), and refits do
    not.
    """
    family = unpenalised_gaussian(clf, "identity", "diagonal")
    if family is None or not family.shared:
        return False
    return not (has_own_target(family) and family.prefers_rows(x))


def has_own_target(family: Gaussian) -> bool:
    """Whether the covariance is shrunk to a target that is not a multiple of the identity."""
    return family.shrinkage is not None and family.target != "identity"


def rotated(clf: Classifier, x: Float[Array, "n d"], weight: Float[Array, "n"]) -> Rotated:
    """All rows for a fold whose training rows have the given weights, 0 for others.

    Without a shrinkage to the identity, features are first divided by their standard deviations.
    """
    family, width = gaussian_of(clf)
    assert family is not None
    n, eps, own = weight.sum(), jnp.finfo(x.dtype).eps, has_own_target(family)
    origin = matmul(weight, x) / n
    z = x - origin[None]
    z = z - (matmul(weight, z) / n)[None]
    if family.shrinkage is None or own:
        variance = matmul(weight, z**2) / n
        z = z / jnp.sqrt(jnp.where(variance > 0, variance, 1))[None]
    eigenvalues, vector = eigh(matmul((weight[:, None] * z).T, z))
    least = 100 * len(x) * eps * eigenvalues[-1]
    r = len(eigenvalues)
    smallest = eigenvalues[jnp.maximum(0, r - (r if width is None else width))]
    return Rotated(
        matmul(z, vector),
        jnp.maximum(eigenvalues, 0),
        weight,
        smallest > least,
        vector if own else None,
    )


def posteriors(
    clf: Classifier, fold: Rotated, test: Int[Array, "m"], y: Int[Array, "P n"]
) -> tuple[Float[Array, "P m K"], Bool[Array, "P"]]:
    """Log-posteriors of the test rows for each labelling, and whether they are accurate."""
    family, width = gaussian_of(clf)
    assert family is not None
    width = jnp.asarray(fold.rows.shape[1] if width is None else width, fold.rows.dtype)
    at = labelled(fold, y, clf.num_classes)
    divisor = fold.weight.sum() - family.ddof
    given: Any = 0.0 if family.shrinkage is None else family.shrinkage
    if isinstance(given, Estimated):
        shrinkage = estimated_shrinkage(given.method, fold, at, width)
    else:
        shrinkage = jnp.full_like(at.within, given)
    if fold.vector is None:
        covariance = _covariance(fold, at, shrinkage, divisor, at.within / width)
        coef, solved = covariance.over, covariance.exact
    else:
        coef, solved = _towards_diagonal(fold, at, shrinkage, divisor)
    coef = coef / at.root[..., None]
    norm = 0.5 * (coef * at.between).sum(-1) / at.root
    log_prior = jax.vmap(clf.log_prior)(at.counts)
    scores = einsum("md,pkd->pmk", fold.rows.at[test].get(mode="clip"), coef)
    scores = scores + (log_prior - norm)[:, None]
    exact = solved & (fold.regular | (shrinkage > 0.01))
    return jax.nn.log_softmax(scores), exact


class _Covariance(NamedTuple):
    """Covariances `diag(D) - share BᵀB` of labellings, in the eigenvectors of T.

    Attributes:
        diagonal: D, (P, r).
        share: the number that multiplies BᵀB, (P,).
        between: B, (P, K, r).
        over: B times the inverse: `S⁻¹ B D⁻¹` with `S = I - share B D⁻¹ Bᵀ`, (P, K, r).
        exact: whether S is far from singular, (P,).
    """

    diagonal: Float[Array, "P r"]
    share: Float[Array, "P"]
    between: Float[Array, "P K r"]
    over: Float[Array, "P K r"]
    exact: Bool[Array, "P"]

    def times(self, row: Float[Array, "r"]) -> Float[Array, "r"]:
        """The product of one covariance and a row."""
        return self.diagonal * row - self.share * matmul(matmul(self.between, row), self.between)

    def solve(self, row: Float[Array, "r"]) -> Float[Array, "r"]:
        """The inverse of one covariance, times a row."""
        row = row / self.diagonal
        return row + self.share * matmul(matmul(self.between, row), self.over)


def _covariance(
    fold: Rotated, at: Labelled, shrinkage: Array, divisor: Array, target: Array
) -> _Covariance:
    """`(1 - shrinkage) W / divisor + shrinkage · target / divisor · I`."""
    added, share = shrinkage * target / divisor, (1 - shrinkage) / divisor
    diagonal = share[:, None] * fold.eigenvalues[None] + added[:, None]
    diagonal = jnp.where(diagonal > 0, diagonal, 1)
    over = at.between / diagonal[:, None]
    eye = jnp.eye(over.shape[1], dtype=over.dtype)[None]
    factor = cholesky(eye - share[:, None, None] * einsum("pkd,pld->pkl", at.between, over))
    inverse = inverse_lower(factor)
    exact = (jnp.diagonal(factor, axis1=-2, axis2=-1) ** 2 > 1e-4).all(-1)
    solved = matmul(inverse.mT, matmul(inverse, over))
    return _Covariance(diagonal, share, at.between, solved, exact)


def _towards_diagonal(
    fold: Rotated, at: Labelled, shrinkage: Array, divisor: Array
) -> tuple[Float[Array, "P K r"], Bool[Array, "P"]]:
    """`B Σ⁻¹` with a shrinkage to the diagonal, and whether it is accurate.

    The target is `target · I` and a diagonal of differences that are small if the labels explain
    little of each feature: the covariance with the first alone is the preconditioner.
    """
    vector = fold.vector
    assert vector is not None
    n, within = fold.weight.sum(), variances(fold, matmul(at.between, vector.T))
    target = n * within.mean(-1)
    near = _covariance(fold, at, shrinkage, divisor, target)
    differs = (shrinkage / divisor)[:, None] * (n * within - target[:, None])

    def times(row: Array, near: _Covariance, differs: Array) -> Array:
        return near.times(row) + matmul(matmul(vector, row) * differs, vector)

    def solve(near: _Covariance, differs: Array, row: Array, first: Array) -> tuple[Array, Array]:
        of = lambda row: times(row, near, differs)  # noqa: E731
        eps = jnp.finfo(row.dtype).eps
        found, _ = cg(of, row, first, tol=16 * eps, maxiter=_STEPS, M=near.solve)
        left = ((row - of(found)) ** 2).sum()
        return found, left <= eps * (row**2).sum()

    each = jax.vmap(jax.vmap(solve, (None, None, 0, 0)))
    found, solved = each(near, differs, at.between, near.over)
    return found, near.exact & solved.all(-1)
