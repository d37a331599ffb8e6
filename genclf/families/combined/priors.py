"""Priors, posteriors and predictives of a family, from those of its leaf families."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import TypeVar

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, PyTree

from genclf.arguments.sharding import compiled
from genclf.families.base import Density, Family, set_fields
from genclf.families.conjugate.base import Conjugate
from genclf.families.parts import assemble, over_parts

T = TypeVar("T")


def priors(family: Family, stats: PyTree) -> PyTree[Conjugate]:
    """The prior of each leaf family, in the structure of the parts."""
    return over_parts(family, lambda part, s: part.conjugate_prior(s), stats)


@compiled
def posteriors(family: Family, stats: PyTree) -> PyTree[Conjugate]:
    """The posterior of each leaf family, given the statistics."""
    return over_parts(family, lambda _, s, prior: prior.update(s), stats, priors(family, stats))


def predictives(family: Family, stats: PyTree, given: PyTree[Conjugate]) -> Density:
    """The density of one more example under these distributions of the parameters."""
    of_part = lambda part, s, conjugate: part.predictive(conjugate, s)  # noqa: E731
    return assemble(family, over_parts(family, of_part, stats, given))


def params_of(family: Family, stats: PyTree, arrays: PyTree) -> Density:
    """The density with these parameters; `arrays` has a dict of arrays per leaf family."""
    of_part = lambda part, s, own: set_fields(part.start(s), "", own)  # noqa: E731
    return assemble(family, over_parts(family, of_part, stats, arrays))


def over_columns(f: Callable[..., T], node: Conjugate, *others: PyTree) -> T:
    """`f(node, *others)`, mapped over the columns of `Independent` if there are any."""
    for _ in node.batch_shape:
        f = jax.vmap(f)
    return f(node, *others)


def named(parts: PyTree[Conjugate]) -> Iterator[tuple[str, Conjugate]]:
    """Each distribution with the prefix of its parameters' names: its part and a dot."""
    found = jax.tree_util.tree_flatten_with_path(parts, is_leaf=is_conjugate)[0]
    for path, node in found:
        yield "".join(f"{key.key}." for key in path), node


def is_conjugate(node: object) -> bool:
    """Whether a node of a pytree is a conjugate distribution."""
    return isinstance(node, Conjugate)


@partial(compiled, fast_compile=2**14)
def _are_proper(parts: PyTree[Conjugate]) -> list[Bool[Array, "..."]]:
    return [over_columns(lambda node: node.proper, node) for _, node in named(parts)]


def check_proper(parts: PyTree[Conjugate], stats: PyTree, what: str, function: str) -> None:
    """Raise if a concrete distribution is improper; the error names part, column and class."""
    more = "more examples, or " if what == "posterior" else ""
    leaves = [leaf for leaf in jax.tree.leaves(stats) if not isinstance(leaf, Tracer)]
    if any(np.isnan(leaf).any() for leaf in leaves):
        raise ValueError(
            "the statistics hold NaN: a label, weight or cell was invalid, and "
            "genclf.validate(clf, x, y) names it"
        )
    for (prefix, node), proper in zip(named(parts), _are_proper(parts), strict=True):
        if isinstance(proper, Tracer):
            return
        for index in np.argwhere(~np.asarray(proper)):
            *column, k = (int(i) for i in index)
            one = jax.tree.map(itemgetter(tuple(column)), node)
            where = f"{prefix.removesuffix('.')}: " if prefix else ""
            where += f"column {column}: " if column else ""
            raise ValueError(
                f"{function} needs a proper {what}, and the {what} of class {k} is improper: "
                f"{where}{one.why_improper(k)}; give {more}a proper prior, such as {node.example}"
            )
