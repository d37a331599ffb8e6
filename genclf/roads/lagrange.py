"""The estimate as the solution of a constrained problem, with its Lagrange multipliers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams, log_prior_density
from genclf.classifier.estimation import check_statistics, with_own_covariances
from genclf.classifier.model import Solution
from genclf.classifier.or_rows import or_rows
from genclf.classifier.scores import log_likelihood
from genclf.families.base import Params, set_fields
from genclf.families.capabilities import HasRoads, SharesScatter
from genclf.families.gaussian.params import GaussianParams
from genclf.families.parts import assemble, over_parts
from genclf.numerics.logarithms import times_log
from genclf.roads.constrained import ConstrainedSolution, solve_constrained
from genclf.roads.natural import solve_gaussian
from genclf.roads.problem import (
    CLASS_PRIOR,
    PRIOR,
    of_determined,
    of_parameters,
    require_roads,
    start,
)
from genclf.sums.statistics import ClassifierStats, Moments, any_nan, is_statistic, nan_if


class LagrangeSolution(Solution):
    """A solution of the KKT conditions, as `fit_lagrange` returns it.

    Attributes:
        params: as `fit` returns them.
        multipliers: of the equality constraints, by the name of the parameter (`log_prior`,
            `log_theta`, `scale`; in a `Product` prefixed by the name of the part and a dot).
            A sum-to-one constraint has one number per class and table. A shared covariance has,
            for each class but the first, the multipliers of `Σ_k⁻¹ = Σ_0⁻¹`: they are
            `½ n_k (Σ - Σ̂_k)`, where Σ̂_k is the covariance estimated from class k alone.
        bound_multipliers: of `probability >= 0` and, for a Bernoulli, of `probability <= 1` (with
            a minus sign); by name, in the shape of the parameter; 0 off the bound.
        objective: log-likelihood, plus the log of the prior density, at `params`.
        residual: largest violation of a condition, relative to the gradient at the start.
        steps: largest number of Newton steps of any part.
        converged: whether all conditions hold within the tolerance.
    """

    params: ClassifierParams
    multipliers: dict[str, Array]
    bound_multipliers: dict[str, Array]
    objective: Float[Array, ""]
    residual: Float[Array, ""]
    steps: Int[Array, ""]
    converged: Bool[Array, ""]


@partial(or_rows, own_covariances=True)
@checked_arguments
def fit_lagrange(clf: Classifier, stats: ClassifierStats) -> LagrangeSolution:
    """The estimate and its multipliers, from the KKT conditions of the constrained problem.

    Maximises `log_lik` of the statistics (plus the log-density of the parameters, where there is
    smoothing or a ridge) by Newton's method on the conditions, without the closed form:

    ::

        class prior, tables    Σ_v θ_v = 1, θ_v >= 0      λ, and a multiplier of each bound
        Bernoulli              0 <= p <= 1                a multiplier of each bound
        Gaussian               concave in (Σ⁻¹ μ, Σ⁻¹)    shared: Σ_k⁻¹ = Σ_0⁻¹ for every k

    At the solution the multiplier of the class prior is the number of examples (their total
    weight, smoothing included), and that of a table its total count: λ = Σ_v c_v, since
    c_v / θ_v = λ. A value with count 0 is on its bound, with multiplier λ.

    The result is NaN if the statistics hold NaN. It has forward-mode derivatives only; `fit` has
    both kinds.

    Args:
        clf: the model.
        stats: from `genclf.stats`; or x, y and weights in their place, as for `fit`. For a
            shared covariance, statistics of the same model with `shared=False` are accepted too,
            and are computed from rows. Only they have the scatter of each class, from which the
            multipliers of `scale` follow. With pooled statistics each class is assumed to have its
            share of the pooled scatter, so these multipliers are 0.

    Returns:
        `LagrangeSolution`.

    Raises:
        ValueError: a hyper-parameter is invalid, the statistics are of another model, or the
            linear system would be too large: full covariances of many features.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> clf = gcf.multinomial_nb(2, alpha=0.0)
        >>> s = gcf.stats(clf, jnp.array([[3, 1], [0, 2], [0, 5]]), jnp.array([0, 1, 1]))
        >>> found = gcf.fit_lagrange(clf, s)
        >>> print(found.multipliers["log_prior"], found.multipliers["log_theta"].ravel())
        3.0 [4. 7.]
        >>> print(jnp.exp(found.params.conditional.log_theta))
        [[0.75 0.25]
         [0.   1.  ]]

    References:
        Nocedal & Wright (2006), Numerical Optimization, §12.3.
        Bishop (2006), Pattern Recognition and Machine Learning, §2.2 and appendix E.
    """
    require_roads(clf, "fit_lagrange")
    check_statistics(clf if _is_pooled(stats) else with_own_covariances(clf), stats)
    return _fit_lagrange(clf, stats)


def _is_pooled(stats: ClassifierStats) -> bool:
    nodes = jax.tree.leaves(stats, is_leaf=is_statistic)
    return len(stats.count) == 1 or any(isinstance(s, Moments) and s.is_pooled for s in nodes)


@partial(compiled, fast_compile=2**16)
def _fit_lagrange(clf: Classifier, stats: ClassifierStats) -> LagrangeSolution:
    clf = of_parameters(clf)
    parts = over_parts(clf.family, _solve, stats.conditional)
    is_part = lambda node: isinstance(node, ConstrainedSolution)  # noqa: E731
    found = jax.tree_util.tree_flatten_with_path(parts, is_leaf=is_part)[0]
    params = jax.tree.map(lambda part: part.params, parts, is_leaf=is_part)
    result = replace(start(clf, stats), conditional=assemble(clf.family, params))
    multipliers: dict[str, Array] = {}
    bounds: dict[str, Array] = {}
    solved = [part for _, part in found]
    for path, part in found:
        prefix = "".join(f"{key.key}." for key in path)
        multipliers |= {prefix + name: value for name, value in part.multipliers.items()}
        bounds |= {prefix + name: value for name, value in part.lower_multipliers.items()}
    if clf.label_prior.fixed is None:
        prior = _solve_prior(clf, stats)
        result = replace(result, log_prior=CLASS_PRIOR.stored(prior.params))
        multipliers[PRIOR], bounds[PRIOR] = prior.multipliers, prior.lower_multipliers
        solved.append(prior)
    converged = jnp.stack([part.converged.all() for part in solved]).all()
    result = of_determined(clf, result, stats)
    solution = LagrangeSolution(
        result,
        multipliers,
        bounds,
        log_likelihood(result, stats) + log_prior_density(clf, result, stats),
        jnp.stack([part.residual.max() for part in solved]).max(),
        jnp.stack([part.steps.max() for part in solved]).max(),
        converged & (stats.count.sum() > 0),
    )
    # Statistics of invalid rows are NaN; then so is the whole solution.
    return nan_if(any_nan(stats), solution)


def _solve_prior(clf: Classifier, stats: ClassifierStats) -> ConstrainedSolution:
    count = stats.count + clf.label_prior.pseudo_counts(stats.count)

    def objective(prior: Array) -> Array:
        return times_log(count, CLASS_PRIOR.stored(prior)).sum()

    init = jnp.full_like(count, 1 / clf.num_classes)
    return solve_constrained(
        objective, lambda p: p.sum() - 1, init, lower=jnp.zeros_like(init), block_size=1
    )


def _solve(family: HasRoads, stats: PyTree) -> ConstrainedSolution:
    """The params of one leaf family, and in `lower_multipliers` those of all bounds."""
    reference = family.start(stats)
    prior_stats = family.prior_stats(
        family.pooled(stats) if isinstance(family, SharesScatter) else stats
    )
    if not reference.parameters:
        raise ValueError(
            f"{type(reference).__name__} declares no parameters; add the property `parameters`"
        )
    if isinstance(reference, GaussianParams):
        return solve_gaussian(reference, stats, prior_stats)
    return _solve_values(reference, stats, prior_stats)


def _solve_values(reference: Params, stats: PyTree, prior_stats: PyTree) -> ConstrainedSolution:
    """Solve for the values themselves: probabilities, rates."""
    declared = reference.parameters

    def params_of(values: dict[str, Array]) -> Params:
        return set_fields(
            reference, "", {name: p.stored(values[name]) for name, p in declared.items()}
        )

    def objective(values: dict[str, Array]) -> Array:
        params = params_of(values)
        return params.log_lik(stats) + params.log_lik(prior_stats)

    def constraints(values: dict[str, Array]) -> dict[str, Array]:
        return {
            name: p.table_sums(values[name]) - 1
            for name, p in declared.items()
            if p.constraint == "simplex"
        }

    init = {name: p.value(getattr(reference, name)) for name, p in declared.items()}
    lower, upper = (
        {name: jnp.full_like(init[name], p.bounds()[side]) for name, p in declared.items()}
        for side in (0, 1)
    )
    size = None if reference.coupled else 1
    found = solve_constrained(
        objective, constraints, init, lower=lower, upper=upper, block_size=size
    )
    net = jax.tree.map(jnp.subtract, found.lower_multipliers, found.upper_multipliers)
    return replace(found, params=params_of(found.params), lower_multipliers=net)
