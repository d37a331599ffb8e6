"""The conjugate distributions of a whole classifier: its class prior, and each family inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import PyTree

from genclf.conjugate.base import Conjugate
from genclf.conjugate.dirichlet import Dirichlets, smoothing
from genclf.families.base import set_fields

if TYPE_CHECKING:
    from genclf.classifier import Classifier, ClassifierStats
    from genclf.families.base import Params


def class_prior(clf: Classifier, stats: ClassifierStats) -> Dirichlets | None:
    """The prior of the class probabilities; None where they are fixed."""
    if clf.fixed_prior is not None:
        return None
    return smoothing(clf.class_alpha, clf.class_dirichlet).tables(stats.labels.total, "log_prior")


def class_posterior(clf: Classifier, stats: ClassifierStats) -> Dirichlets | None:
    """The same, given the labels."""
    prior = class_prior(clf, stats)
    return None if prior is None else prior.update(stats.labels)


def priors(clf: Classifier, stats: ClassifierStats) -> PyTree[Conjugate]:
    """The prior of each family inside, in the structure of its parts."""
    family = clf.family
    return family.over_parts(lambda part, s: part.conjugate_prior(s), stats.conditional)


def posteriors(clf: Classifier, stats: ClassifierStats) -> PyTree[Conjugate]:
    """The same, given the statistics."""
    found = priors(clf, stats)
    return clf.family.over_parts(lambda _, s, prior: prior.update(s), stats.conditional, found)


def predictives(clf: Classifier, stats: ClassifierStats, given: PyTree[Conjugate]) -> Params:
    """The density of one more example under these distributions of the parameters."""
    parts = clf.family.over_parts(
        lambda part, s, conjugate: part.predictive(conjugate, s), stats.conditional, given
    )
    return clf.family.assemble(parts)


def params_of(clf: Classifier, stats: ClassifierStats, arrays: PyTree) -> Params:
    """The densities of the parameters `arrays`, a dict of them for each family inside."""
    parts = clf.family.over_parts(
        lambda part, s, own: set_fields(part.start(s), "", own), stats.conditional, arrays
    )
    return clf.family.assemble(parts)


def over_columns(f: Callable[..., Any], node: Conjugate, *others: PyTree) -> Any:
    """`f(node, *others)`, for each column where there are any."""
    for _ in node.batch_shape:
        f = jax.vmap(f)
    return f(node, *others)


def named(parts: PyTree[Conjugate]) -> Iterator[tuple[str, Conjugate]]:
    """Each distribution with what precedes the names of its parameters: a block and a dot."""
    found = jax.tree_util.tree_flatten_with_path(parts, is_leaf=is_conjugate)[0]
    for path, node in found:
        yield "".join(f"{key.key}." for key in path), node


def is_conjugate(node: Any) -> bool:
    """Whether a node of a pytree is one of them."""
    return isinstance(node, Conjugate)


def check_proper(parts: PyTree[Conjugate], stats: ClassifierStats, what: str, verb: str) -> None:
    """Raise where a concrete distribution is improper, naming block, column and class."""
    more = "more examples, or " if what == "posterior" else ""
    leaves = [leaf for leaf in jax.tree.leaves(stats) if not isinstance(leaf, Tracer)]
    if any(np.isnan(leaf).any() for leaf in leaves):
        raise ValueError(
            "the statistics hold NaN: a label, weight or cell was invalid, and "
            "genclf.validate(clf, x, y) names it"
        )
    for prefix, node in named(parts):
        proper = over_columns(lambda node: node.proper, node)
        if isinstance(proper, Tracer):
            return
        for place in np.argwhere(~np.asarray(proper)):
            *column, k = (int(i) for i in place)
            one = jax.tree.map(itemgetter(tuple(column)), node)
            where = f"{prefix.removesuffix('.')}: " if prefix else ""
            where += f"column {column}: " if column else ""
            raise ValueError(
                f"{verb} needs a proper {what}, and that of class {k} is not: {where}"
                f"{one.improper(k)}; give {more}a proper prior, such as {node.example}"
            )
