"""Whether params maximise the likelihood: the conditions of a maximum, from the rows alone."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from genclf.arguments.domains import OPTIONAL_NON_NEGATIVE
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.estimation import estimated
from genclf.numerics import loops
from genclf.numerics.namespace import einsum
from genclf.roads.information import Curvature, LocalModel, scaled
from genclf.roads.problem import CLASS_PRIOR, PRIOR, arrays, problem, require_roads


class Certificate(ShowsNumbers):
    """The conditions of a maximum at given params, as `certify` returns them.

    Attributes:
        valid: whether all conditions hold within `tol`.
        stationarity: largest Newton decrement of a block of parameters, per example: the distance
            to the point where the gradient along the constraints vanishes, in standard deviations
            of one example. Half its square is about the remaining gain in mean log-likelihood.
        feasibility: largest violation of a constraint.
        slackness: largest product of a probability and the multiplier of its bound, divided by the
            multiplier of its table.
        curvature: largest eigenvalue of the Hessian after scaling its diagonal to -1; < 0 at a
            strict maximum.
        gap: mean log-likelihood (penalised, if smoothed) of the closed form minus that of these
            params; `valid` does not depend on it.
        multipliers: of the sum-to-one constraints, by name. At a maximum that of `log_prior` is
            the number of examples, and that of a table its total count.
        bound_multipliers: of probabilities on a bound, by name. At a maximum they are >= 0 at the
            bound 0, and <= 0 at the bound 1.
        tol: the tolerance that `valid` uses.
    """

    valid: Bool[Array, ""]
    stationarity: Float[Array, ""]
    feasibility: Float[Array, ""]
    slackness: Float[Array, ""]
    curvature: Float[Array, ""]
    gap: Float[Array, ""]
    multipliers: dict[str, Array]
    bound_multipliers: dict[str, Array]
    tol: Float[Array, ""]


@checked_arguments(labels="supervised", tol=OPTIONAL_NON_NEGATIVE)
def certify(
    clf: Classifier,
    params: ClassifierParams,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    tol: float | None = None,
) -> Certificate:
    """Whether params from any source maximise the likelihood of these rows.

    Checks four conditions, from the log-joint of the rows and the constraints that the parameters
    declare: the params are feasible; the gradient is a linear combination of the gradients of the
    constraints (the multipliers, by least squares); the multipliers of bounds have the right sign;
    the Hessian is negative definite. With smoothing or a ridge the likelihood is penalised. The
    certificate is a small pytree, so `jax.vmap` can certify thousands of fits.

    The precision of the params limits the check: in float32 a mean of 10⁵ standard deviations is
    rounded to a multiple of 7e-3 standard deviations, so that no stored mean is the maximum.

    Args:
        clf: the model.
        params: params of that model.
        x: rows, as for `fit`.
        y: labels (n,) or responsibilities (n, K).
        weights: weight of each row, (n,).
        tol: tolerance on stationarity, feasibility and slackness; by default 1e-7 in float64 and
            5e-4 in float32.

    Returns:
        `Certificate`.

    Raises:
        ValueError: the params are of another model, or a shape or dtype does not fit.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> params = gcf.fit(gcf.lda(2), x, y)
        >>> print(gcf.certify(gcf.lda(2), params, x, y).valid)
        True
        >>> unbiased = gcf.Classifier(gcf.Gaussian(shared=True, ddof=2.0), num_classes=2)
        >>> print(gcf.certify(gcf.lda(2), gcf.fit(unbiased, x, y), x, y).valid)
        False

    References:
        Nocedal & Wright (2006), Numerical Optimization, theorems 12.1 and 12.5.
    """
    require_roads(clf, "certify")
    return _certify(clf, params, x, y, weights, tol)


@partial(compiled, fast_compile=2**16)
def _certify(
    clf: Classifier,
    params: ClassifierParams,
    x: PyTree,
    y: Array,
    weights: Array | None,
    tol: float | Array | None,
) -> Certificate:
    rows = problem(clf, x, y, weights)
    local = LocalModel(rows, params)
    dtype = rows.w.dtype
    tol = jnp.asarray((1e-7 if dtype == jnp.float64 else 5e-4) if tol is None else tol, dtype)

    stored = arrays(params)
    violations = [p.infeasibility(stored[name]) for name, p in local.declared.items()]
    if clf.label_prior.fixed is not None:
        fixed = jnp.exp(clf.log_prior(rows.stats.count))
        violations.append(jnp.abs(CLASS_PRIOR.value(stored[PRIOR]) - fixed).max())
    feasibility = jnp.stack(violations).max()

    found = [_stationarity_and_curvature(local, part) for part in local.curvatures()]
    stationarity = jnp.stack([decrement for decrement, _ in found]).max(initial=0)
    curvature = jnp.stack([largest for _, largest in found]).max(initial=-1)
    slackness, bound_multipliers, right_signs = _bounds(local, tol)

    multipliers = dict(local.multipliers)
    if PRIOR in multipliers:
        multipliers[PRIOR] = multipliers[PRIOR][0]
    both = jax.tree.map(lambda *pair: jnp.stack(pair), estimated(clf, rows.stats), params)
    best, here = loops.mapped(rows.objective, both)
    gap = (best - here) / rows.total
    within = jnp.maximum(jnp.maximum(stationarity, feasibility), slackness) <= tol
    return Certificate(
        valid=within & (curvature < 0) & right_signs,
        stationarity=stationarity,
        feasibility=feasibility,
        slackness=slackness,
        curvature=curvature,
        gap=gap,
        multipliers=multipliers,
        bound_multipliers=bound_multipliers,
        tol=tol,
    )


def _stationarity_and_curvature(local: LocalModel, part: Curvature) -> tuple[Array, Array]:
    """Largest decrement of a table or block, and largest eigenvalue of the scaled Hessian."""
    matrix, scale = scaled(part)
    slope = jnp.where(part.unidentified, 0, part.slope)
    if part.layout.shape[1] == 1:
        eigenvalues, slope = matrix[:, 0], slope / scale
    else:
        eigenvalues, vectors = jnp.linalg.eigh(matrix)
        slope = einsum("bij,bi->bj", vectors, slope / scale)
    # slopeᵀ information⁻¹ slope; there is no Newton step where the curvature has the wrong sign.
    positive = jnp.where(eigenvalues > 0, eigenvalues, jnp.nan)
    squares = jnp.where(slope == 0, 0, slope**2 / positive).sum(1)
    table = local.table[part.layout][:, 0]
    squares = squares / jnp.where(part.weight == 0, 1, part.weight)
    if part.layout.shape[1] == 1:
        # A table is one block: the squared decrements of its entries sum to Pearson's χ² / count.
        squares = jnp.zeros(len(local.zero), squares.dtype).at[table].add(squares)
    decrement = jnp.sqrt(squares)
    largest = -eigenvalues.min()
    return jnp.where(jnp.isnan(decrement).any(), jnp.inf, decrement.max()), largest


def _bounds(local: LocalModel, tol: Array) -> tuple[Array, dict[str, Array], Array]:
    """Slackness, the multipliers of active bounds, and whether all have the right sign."""
    slackness, multipliers, signs = [jnp.zeros((), tol.dtype)], {}, [jnp.asarray(True)]
    for name, p in local.declared.items():
        value, gradient, held = local.value[name], local.gradient[name], local.at_bound[name]
        if p.constraint == "simplex":
            sum_to = local.multiplier_of_entries(name)
            some = jnp.where(sum_to == 0, 1, sum_to)
            multiplier = jnp.where(held, sum_to - gradient / value, 0)
            off = jnp.where(sum_to == 0, 0, value - gradient / some)
            slackness.append(jnp.abs(off).max(initial=0))
            signs.append((multiplier >= -tol * some).all())
        elif p.link == "logit":
            # By the chain rule from the logit: gradient / (p (1-p)).
            near = jnp.minimum(value, 1 - value)
            multiplier = jnp.where(held, -gradient / jnp.maximum(near, 1e-30), 0)
            signs.append((multiplier * jnp.where(value < 0.5, 1, -1) >= 0).all())
        else:
            continue
        multipliers[name] = multiplier
    return jnp.stack(slackness).max(), multipliers, jnp.stack(signs).all()
