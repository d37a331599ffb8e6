"""Typicality under normality: Hotelling's test of a row against the rows of each class."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from genclf.arguments.domains import FINITE_OR_NAN, NOT_NEGATIVE_OR_NAN
from genclf.arguments.hyperparameters import is_concrete
from genclf.arguments.sharding import compiled
from genclf.classifier.classifier import Classifier, ClassifierStats
from genclf.classifier.estimation import check_statistics
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.gaussian.params import GaussianParams
from genclf.families.gaussian.rules import rules_in_use
from genclf.families.mode import deviance
from genclf.numerics.beta_prime import upper_tail
from genclf.numerics.namespace import is_traced
from genclf.select.membership.rows import MembershipTest

_SINGULAR = 0.5  # features by which the mean squared distance of the rows themselves may fall short

_BY_FOLDS = (
    'use method="folds" with genclf.cross_validate(clf, x, y, folds, members=True), which takes any'
    " model"
)


class FTest(MembershipTest):
    """p-values under normality, as `typicality_test` returns it; call it with rows.

    Attributes:
        conditional: the Gaussian densities, by maximum likelihood.
        factor: by which a squared distance is multiplied to have a beta prime distribution with
            parameters d / 2 and `half_dof`, (K,); NaN for a class whose rows do not determine a
            covariance.
        half_dof: half of the second degrees of freedom of F, (K,), or (1,) if the classes share a
            covariance.
    """

    domains: ClassVar = {"factor": NOT_NEGATIVE_OR_NAN, "half_dof": FINITE_OR_NAN}

    conditional: GaussianParams
    factor: Float[Array, "K"]
    half_dof: Float[Array, "one_or_K"]

    @property
    def density(self) -> GaussianParams:
        return self.conditional

    @property
    def num_classes(self) -> int:
        return self.factor.shape[-1]

    def p_values(self, x: PyTree) -> Float[Array, "*batch K"]:
        squared = deviance(self.conditional, x)
        half_d = jnp.full_like(self.half_dof, 0.5 * self.conditional.num_features)
        tail = upper_tail(self.half_dof, half_d)
        return tail(squared * jnp.broadcast_to(self.factor, squared.shape))


def f_test(clf: Classifier, stats: ClassifierStats, instead: str = _BY_FOLDS) -> FTest:
    """The test; raise for a model without one, or for rows that do not determine it.

    Args:
        clf: the model.
        stats: its statistics.
        instead: what an error says to do.
    """
    family = clf.family
    if not isinstance(family, Gaussian):
        raise ValueError(
            f'typicality by "f" needs a Gaussian family, and this one is {type(family).__name__}: '
            f"{instead}"
        )
    rules = [name for name in rules_in_use(family) if name != "ddof"]
    if used := rules + ["prior"] * (family.prior is not None):
        raise ValueError(
            f"with {' and '.join(used)} the distances have no F distribution: {instead}"
        )
    if family.may_miss:
        raise ValueError(f"with missing cells the distances have no F distribution: {instead}")
    check_statistics(clf, stats)
    d = stats.conditional.mean.shape[-1]
    if family.arithmetic.is_product and not family.arithmetic.is_spherical and d > 1:
        raise ValueError(f'with covariance="diag" the distances have no F distribution: {instead}')
    found, is_singular = _f_test(clf, stats)
    _check_determined(found, stats, is_singular, d, family, instead)
    return found


@compiled
def _f_test(clf: Classifier, stats: ClassifierStats) -> tuple[FTest, Array]:
    family = clf.family
    params = family.plain().estimate(stats.conditional)
    arithmetic, d = family.arithmetic, params.num_features
    count = stats.count.astype(params.mean.dtype)
    classes = (count > 0).sum().astype(count.dtype)
    if family.shared:
        n, dof = jnp.broadcast_to(count.sum(), count.shape), count.sum() - classes
        dof = jnp.broadcast_to(dof, count.shape)
    else:
        n, dof = count, count - 1
    # The mean squared distance of the rows themselves is d, unless a direction has no variance.
    scatter = stats.conditional.scatter
    inside = arithmetic.traces(arithmetic.inverse(params.scale), scatter)
    weight = count.sum()[None] if family.shared else count
    inside = inside / jnp.where(weight > 0, weight, 1)
    short = jnp.broadcast_to(~(jnp.abs(inside - d) < _SINGULAR), count.shape)
    if arithmetic.is_spherical:
        a, factor = 0.5 * dof * d, count / (count + 1) / (n * d)
    else:
        a, factor = 0.5 * (dof - d + 1), count / (count + 1) / n
    is_singular = short | ~(a > 0) | (count == 0)
    ridge = family.ridge
    changed = False if is_concrete(ridge) else ridge != 0
    factor = jnp.where(is_singular | changed, jnp.nan, factor)
    return FTest(params, factor, a[:1] if family.shared else a), is_singular


def _check_determined(
    found: FTest, stats: ClassifierStats, is_singular: Array, d: int, family: Gaussian, instead: str
) -> None:
    """Raise if concrete rows of a class that has some do not determine its covariance."""
    if is_traced(found, stats):
        return
    count = np.asarray(stats.count)
    for k in np.flatnonzero(np.asarray(is_singular) & (count > 0))[:1]:
        of, have = f"class {k}", count[k]
        need = d + 1
        if family.shared:
            of, have = "the classes together", count.sum()
            need = d + int((count > 0).sum())
        raise ValueError(
            f"the rows of {of} do not determine a covariance of {d} features: they have the weight "
            f"{have:.6g}, where at least {need} is needed, or features that are constant or "
            f"linearly dependent; leave these out, or {instead}"
        )
