"""The objective that every iterative method maximises, and a classifier's parameters by name.

No closed form is used here: the objective is the log-joint of the rows, and the params classes
declare their parameters.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from genclf.arguments.module import Module, pformat
from genclf.arguments.parameters import Parameter
from genclf.classifier.classifier import (
    Classifier,
    ClassifierParams,
    ClassifierStats,
    log_prior_density,
)
from genclf.classifier.estimation import summed
from genclf.classifier.rows import Rows
from genclf.families.base import Params, set_fields
from genclf.families.capabilities import HasRoads, require
from genclf.families.combined.combinator import leaf_families
from genclf.roads.reference import standardise, transform

PRIOR = "log_prior"
CLASS_PRIOR = Parameter("simplex", "log")


class Problem(Module):
    """Weighted rows, and the log-joint that parameters give them.

    Attributes:
        x: rows; a copy of a row with weight replaces each row without weight.
        w: class weights, (n, K); NaN where labels or weights were invalid.
        stats: statistics of the rows, for the start and for the scale of a ridge.
    """

    clf: Classifier
    x: PyTree
    w: Float[Array, "n K"]
    stats: ClassifierStats

    @property
    def total(self) -> Float[Array, ""]:
        """Total weight."""
        return self.w.sum()

    def objective(self, params: ClassifierParams) -> Float[Array, ""]:
        """The log-likelihood plus the log of the prior density of the parameters."""
        return weighted_log_joint(params, self.x, self.w) + self.log_prior_density(params)

    def log_prior_density(self, params: ClassifierParams) -> Float[Array, ""]:
        """Log-density of the parameters under the prior, up to a constant; 0 without a prior."""
        return log_prior_density(self.clf, params, self.stats)


def require_roads(clf: Classifier, function: str) -> None:
    """Raise unless the estimate maximises a likelihood, possibly penalised."""
    require(clf.family, HasRoads, function)
    for (family,) in leaf_families(clf.effective().family):
        if rules := family.unpenalised():
            raise ValueError(
                f"{function}: {' and '.join(rules)}, and such an estimate does not maximise a "
                "penalised likelihood; use fit"
            )


def weighted_log_joint(params: ClassifierParams, x: PyTree, w: Array) -> Float[Array, ""]:
    """`Σ_nk w_nk log p(x_n, y=k)` with 0 · -inf = 0."""
    used = w != 0
    score = params.with_log_prior(params.conditional.log_prob(x))
    return jnp.where(used, w * jnp.where(used, score, 0), 0).sum()


def of_parameters(clf: Classifier) -> Classifier:
    """The model whose posterior mode is the estimate; raise if `inference` is "predictive"."""
    if clf.is_predictive:
        raise ValueError(
            'inference is "predictive", which integrates the parameters out, so that none can be '
            'estimated or certified; expected "map" or "ml"'
        )
    return clf.effective()


def problem(clf: Classifier, x: PyTree, y: Array, weights: Array | None) -> Problem:
    """The problem of fitting this model to these rows."""
    rows = Rows.of(x, y, weights, clf.num_classes)
    found = summed(clf, rows)
    w = rows.nan_if_invalid(rows.responsibilities)
    return Problem(of_parameters(clf), rows.filled, w, found)


def start(clf: Classifier, stats: ClassifierStats) -> ClassifierParams:
    """Params that are the same for all classes; a fixed class prior has its final value."""
    if clf.label_prior.fixed is None:
        log_prior = jnp.full_like(stats.count, -jnp.log(float(clf.num_classes)))
    else:
        log_prior = clf.log_prior(stats.count)
    return ClassifierParams(log_prior, clf.family.start(stats.conditional))


def of_determined(
    clf: Classifier, params: ClassifierParams, stats: ClassifierStats
) -> ClassifierParams:
    """The params, with prior 0 for a class whose density neither rows nor a prior determine."""
    log_prior = clf.of_determined(params.log_prior, stats.count)
    return ClassifierParams(log_prior, params.conditional)


def check_same_model(rows: Problem, params: ClassifierParams) -> None:
    """Raise unless the arrays of the params are those of the model."""

    def outline(tree: PyTree) -> tuple:
        return jax.tree.structure(tree), [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)]

    expected = jax.eval_shape(start, rows.clf, rows.stats)
    if outline(params) != outline(expected):
        raise ValueError(f"params are {pformat(params)}, but the model has {pformat(expected)}")


def leaf_params(params: Params) -> tuple[list[tuple[str, Params]], Callable[[list], Params]]:
    """The params of each leaf family with the prefix of their names; a function to rejoin them.

    The prefix is the name of each enclosing part of a `Product`, followed by a dot.
    """
    nodes, structure = jax.tree_util.tree_flatten_with_path(
        params, is_leaf=lambda node: isinstance(node, Params) and bool(node.parameters)
    )
    named = []
    for path, node in nodes:
        if not isinstance(node, Params):
            raise ValueError(
                f"{jax.tree_util.keystr(path)} of {type(params).__name__} is a parameter without a "
                "declared constraint; add the property `parameters` to its params class"
            )
        keys = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
        named.append(("".join(f"{key}." for key in keys), node))
    return named, lambda values: jax.tree.unflatten(structure, values)


def declared(clf: Classifier, params: ClassifierParams) -> dict[str, Parameter]:
    """The parameters to estimate, by name."""
    found = {} if clf.label_prior.fixed is not None else {PRIOR: CLASS_PRIOR}
    for prefix, node in leaf_params(params.conditional)[0]:
        found |= {prefix + field: p for field, p in node.parameters.items()}
    return found


def arrays(params: ClassifierParams) -> dict[str, Array]:
    """The stored array of every parameter, by name."""
    found = {PRIOR: params.log_prior}
    for prefix, node in leaf_params(params.conditional)[0]:
        found |= {prefix + field: getattr(node, field) for field in node.parameters}
    return found


def standard_arrays(reference: ClassifierParams) -> dict[str, Array]:
    """The arrays for which `with_arrays` returns the reference: mean 0, scale 1, same tables."""
    found = {PRIOR: reference.log_prior}
    for prefix, node in leaf_params(reference.conditional)[0]:
        standard = _over_columns(standardise, node)
        found |= {prefix + field: getattr(standard, field) for field in node.parameters}
    return found


def set_arrays(params: ClassifierParams, values: dict[str, Array]) -> ClassifierParams:
    """The params with these arrays; arrays that `values` does not name are unchanged."""
    nodes, rebuild = leaf_params(params.conditional)
    new = [set_fields(node, prefix, values) for prefix, node in nodes]
    return ClassifierParams(values.get(PRIOR, params.log_prior), rebuild(new))


def with_arrays(reference: ClassifierParams, values: dict[str, Array]) -> ClassifierParams:
    """Params from the arrays `values`, which are relative to the reference."""
    nodes, rebuild = leaf_params(reference.conditional)
    new = [_over_columns(transform, set_fields(n, prefix, values), n) for prefix, n in nodes]
    return ClassifierParams(values.get(PRIOR, reference.log_prior), rebuild(new))


def _over_columns(f: Callable[..., Params], node: Params, *others: Params) -> Params:
    """`f(node, *others)`, for each column where the arrays have a column axis in front."""
    field, parameter = next(iter(node.parameters.items()))
    for _ in range(getattr(node, field).ndim - 1 - parameter.event_ndim):
        f = jax.vmap(f)
    return f(node, *others)
