"""Statistics, models and params of other classes: merged, reordered, left out, or added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from genclf.arguments.arrays import refuse_mask
from genclf.arguments.calls import checked_call
from genclf.arguments.domains import shown, whole
from genclf.classifier.calibrated import CalibratedParams
from genclf.classifier.checked_arguments import ArrayLike
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.model import Fitted, Model
from genclf.families.conjugate.base import Prior
from genclf.families.conjugate.dirichlet import Dirichlet
from genclf.families.of_classes import of_classes
from genclf.families.structure import nodes_of
from genclf.numerics.logarithms import logsumexp
from genclf.numerics.namespace import Array, is_traced, namespace
from genclf.sums.merging import check_statistics
from genclf.sums.relabelling import ClassMap, is_injective, lost_classes, relabelled
from genclf.sums.statistics import ClassifierStats, Moments, is_statistic, nan_if

T = TypeVar("T")
# Fields of priors, and the number of axes from which one of them is that of classes.
_PER_CLASS = {"mean": 2, "kappa": 1, "concentration": 2, "a": 2, "b": 2, "shape": 2, "rate": 2}


@checked_call
def relabel(stats: T, to: ArrayLike | Sequence[int], num_classes: int | None = None) -> T:
    """Statistics of the same examples under other labels: class k becomes class `to[k]`.

    A sum over examples is linear in the labels, so classes can be merged, reordered, left out and
    added after the fact, without the rows. Where several classes become one,

        n' = Σ_k n_k,   m' = Σ_k n_k m_k / n',   S' = Σ_k [S_k + n_k (m_k - m')(m_k - m')ᵀ].

    A pooled scatter S gains `Σ_k n_k (m_k - m'_to(k))(m_k - m'_to(k))ᵀ`. Sums add up.

    Args:
        stats: statistics, as `genclf.stats` returns them; or a model, whose class prior changes in
            the same way, and whose other priors hold for every class; or fitted params, whose
            classes can be reordered and left out.
        to: the new class of each of the K classes, (K,); -1 leaves it out.
        num_classes: the number of new classes; None for `max(to) + 1`, and for K if `to` is traced.
            New classes without an old one are empty.

    Returns:
        The same kind of object. `log_prior` of params is that of a row of one of the classes kept.
        If `to` is traced and holds another number, everything is NaN; if `to` or the statistics
        are traced and a class with rows is left out of a pooled scatter, `conditional` is.

    Raises:
        ValueError: `to` has another length than K or a number outside -1..num_classes - 1; a class
            with rows is left out of a pooled scatter, in which they cannot be told apart; classes
            of params are merged or added; a class that is added has no class prior, or all that
            are kept have the probability 0; or a prior of a model has numbers for each class.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [9.0]]), jnp.array([0, 0, 1, 2])
        >>> s = gcf.stats(gcf.qda(3), x, y)
        >>> both = gcf.relabel(s, [0, 0, 1], num_classes=3)
        >>> print(both.count, both.conditional.mean.ravel(), both.conditional.scatter.ravel())
        [3. 1. 0.] [2. 9. 0.] [8. 0. 0.]

    References:
        Chan, Golub & LeVeque (1983), "Algorithms for computing the sample variance".
    """
    before = _num_classes(stats)
    given = _class_map(to, before)
    num = _num_new(given, num_classes)
    if isinstance(stats, Fitted):
        return _params(stats, given, num)
    if isinstance(stats, Model):
        return _model(stats, given, num)
    _check_pooled(stats, given)
    found = relabelled(stats, given, num)
    if not is_traced(given):
        return found
    invalid: Any = ((given < -1) | (given >= num)).any()
    return jax.tree.map(lambda s: nan_if(invalid, s), found, is_leaf=is_statistic)


def _num_classes(given: Any) -> int:
    if isinstance(given, Model | Fitted):
        return given.num_classes
    check_statistics(given, "stats")
    if isinstance(given, ClassifierStats):
        return given.count.shape[-1]
    first = jax.tree.leaves(given, is_leaf=is_statistic)[0]
    return first.count.shape[first.class_axes().count]


def _class_map(to: ArrayLike | Sequence[int], before: int) -> ClassMap:
    refuse_mask(to, "to")
    found: Any = to if is_traced(to) else np.asarray(to)
    if found.dtype.kind == "u":
        found = found.astype(np.int32)  # -1 stands for no class
    if found.shape != (before,) or not jnp.issubdtype(found.dtype, jnp.integer):
        raise ValueError(
            f"to is {shown(to)}, expected {before} whole numbers: the new class of each of the "
            f"{before} classes, or -1 to leave it out"
        )
    return found


def _num_new(to: ClassMap, num_classes: int | None) -> int:
    last = len(to) - 1 if is_traced(to) else int(to.max(initial=-1))
    if num_classes is None and last < 0:
        raise ValueError("to leaves out every class, expected a new class for one at least")
    found = last + 1 if num_classes is None else whole(1).checked(num_classes, "num_classes")
    if is_traced(to):
        return found
    wrong = np.flatnonzero((to < -1) | (to >= found))
    if len(wrong):
        raise ValueError(
            f"to[{wrong[0]}] is {to[wrong[0]]}, expected a class in 0..{found - 1} (num_classes = "
            f"{found}), or -1 to leave class {wrong[0]} out"
        )
    return found


def _check_pooled(stats: Any, to: ClassMap) -> None:
    """Raise if a class that has rows is left out of a pooled scatter."""
    for s in jax.tree.leaves(stats, is_leaf=is_statistic):
        if not (isinstance(s, Moments) and s.is_pooled) or is_traced(to, s.count):
            continue
        lost = np.asarray(lost_classes(s, to)).reshape(-1, len(to)).any(0)
        if lost.any():
            raise ValueError(
                f"to[{lost.argmax()}] is -1, but the classes have one pooled scatter, in which the "
                "rows of a class cannot be told apart: take the statistics of a model with "
                "shared=False, relabel them, and pool them by genclf.pool_classes"
            )


def _params(params: Any, to: ClassMap, num_classes: int) -> Any:
    if is_traced(to):
        raise ValueError("to is traced, but params have as many classes as it keeps: give numbers")
    kept, merges = np.asarray(to)[np.asarray(to) >= 0], not is_injective(to)
    if merges or len(kept) < num_classes:
        empty = sorted({*range(num_classes)} - {*kept.tolist()})
        problem = "merges classes" if merges else f"gives the new class {empty[0]} no old one"
        raise ValueError(
            f"to {problem}, and fitted params can only be reordered and left out: relabel the "
            "statistics, and estimate from them"
        )
    index = np.empty(num_classes, int)
    index[kept] = np.flatnonzero(np.asarray(to) >= 0)
    if isinstance(params, CalibratedParams):
        inner = _params(params.params, to, num_classes)
        bias, log_prior = params.bias[..., index], params.log_prior[..., index]
        return CalibratedParams(inner, params.slope, bias, _of_sum_one(log_prior))
    found = of_classes(params, index)
    if not isinstance(found, ClassifierParams) or len(kept) == len(to):
        return found
    return replace(found, log_prior=_of_sum_one(found.log_prior))


def _of_sum_one(log_prior: Array) -> Array:
    """The prior of a row of one of the classes kept; raise if all have the probability 0."""
    total = logsumexp(log_prior)
    if not is_traced(total) and np.isneginf(total).any():
        raise ValueError("to leaves out every class that has a probability above 0")
    return log_prior - total[..., None]


def _model(clf: Any, to: ClassMap, num_classes: int) -> Any:
    per_class = [
        f"{name} of {type(prior).__name__}"
        for prior in nodes_of(clf, Prior)
        for name in _PER_CLASS
        if np.ndim(getattr(prior, name, 0)) >= _PER_CLASS[name]
        and prior is not getattr(clf, "class_prior", None)
    ]
    if per_class:
        raise ValueError(
            f"{per_class[0]} has numbers for each class: give the model of the new classes its own "
            "prior"
        )
    prior: Any = getattr(clf, "class_prior", None)
    is_dirichlet = isinstance(prior, Dirichlet)
    numbers_of = prior.concentration if is_dirichlet else prior
    if numbers_of is None or jnp.ndim(numbers_of) == 0:
        return replace(clf, num_classes=num_classes)
    if is_traced(to) or len(np.unique(np.asarray(to)[np.asarray(to) >= 0])) < num_classes:
        raise ValueError(
            "class_prior has a number for each class, and some new class has none: give the model "
            "of the new classes its own class_prior"
        )
    own = np.asarray(to)
    xp = namespace(numbers_of)
    moves = (own[:, None] == np.arange(num_classes)).astype(numbers_of.dtype)
    found = xp.asarray(numbers_of) @ moves
    if not is_traced(found) and not found.sum() > 0:
        raise ValueError("to leaves out every class that has a probability above 0")
    new = Dirichlet(found) if is_dirichlet else found / found.sum()
    return replace(clf, num_classes=num_classes, class_prior=new)
