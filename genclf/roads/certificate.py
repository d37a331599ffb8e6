"""Are these params the estimate? The conditions of a maximum, from the rows alone."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree

from genclf.arguments.domains import TOLERANCE
from genclf.arguments.reprs import ShowsNumbers
from genclf.classifier import Classifier, ClassifierParams
from genclf.entry.rows import check_labels, check_some_labels
from genclf.entry.verb import ArrayLike, verb
from genclf.estimation import estimate
from genclf.families.capabilities import HasRoads, require
from genclf.roads.information import Curvature, Neighbourhood
from genclf.roads.problem import CLASS_PRIOR, PRIOR, Problem, arrays, problem, start
from genclf.sums.blocks import einsum


class Certificate(ShowsNumbers):
    """The conditions of a maximum at given params, as `certify` returns them.

    Attributes:
        valid: whether all of them hold within `tol`.
        stationarity: largest Newton decrement of a block of parameters, per example: the distance
            to where the gradient vanishes on the surface of the constraints, in standard
            deviations of one example. Half its square is what the mean log-likelihood of that
            block could still gain.
        feasibility: largest violation of a constraint.
        slackness: largest product of a probability and the multiplier of its bound, over the
            multiplier of its table.
        curvature: largest eigenvalue of the Hessian, scaled to -1 on its diagonal; < 0 at a
            strict maximum.
        gap: mean log-likelihood (penalised, if smoothed) of the closed form less that of these
            params; it has no part in the verdict.
        multipliers: of the sums to one, by name: the number of examples for `log_prior`, its
            count for a table.
        bound_multipliers: of probabilities on a bound, by name: >= 0 at 0, <= 0 at 1.
        tol: the tolerance of the verdict.
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


@verb(tol=TOLERANCE)
def certify(
    clf: Classifier,
    params: ClassifierParams,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    tol: float | None = None,
) -> Certificate:
    """Whether params, from wherever they come, maximise the likelihood of these rows.

    Checks, from the log-joint of the rows and the constraints that the parameters declare, that
    the params are feasible, that the gradient is a combination of the constraints' (the
    multipliers, by least squares), that bounds press where they hold, and that the Hessian is
    negative. With smoothing or a ridge it is the penalised likelihood. A small pytree, so
    thousands of fits can be certified by `jax.vmap`.

    The verdict is no better than the dtype of the params: in float32 a mean of 10⁵ standard
    deviations is rounded to 7e-3 of one, and no stored mean is the maximum.

    Args:
        clf: the model.
        params: of that model.
        x: rows, as for `fit`.
        y: labels (n,) or responsibilities (n, K).
        weights: weight of each row, (n,).
        tol: on stationarity, feasibility and slackness; by default 1e-7 in float64 and 5e-4 in
            float32.

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
    require(clf.family, HasRoads, "certify")
    check_labels(y, clf.num_classes)
    check_some_labels(y, weights)
    return _certify(clf, params, x, y, weights, tol)


@verb
def standard_errors(
    clf: Classifier,
    params: ClassifierParams,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
) -> dict[str, Array]:
    """Standard errors of the parameters, from the observed information.

    The square roots of the diagonal of `Z (Zᵀ I Z)⁻¹ Zᵀ`, I minus the Hessian of the
    log-likelihood at the params, Z a basis of the directions that keep the constraints. They are
    of the arrays as the params hold them: of log π and log θ, logits, means and scales (that of
    θ itself is θ times that of log θ, of p itself p (1-p) times that of the logit). A weight
    counts as that many examples. With smoothing they are those of the normal approximation to the
    posterior.

    Args:
        clf: the model.
        params: a maximum: `fit(clf, x, y)`.
        x: rows, as for `fit`.
        y: labels (n,) or responsibilities (n, K).
        weights: weight of each row, (n,).

    Returns:
        Arrays by name, in the shapes of the parameters; infinite where the data say nothing (a
        class without examples, the logarithm of a probability 0). Off a maximum they mean
        nothing, and nothing here checks for it: `certify` does.

    Raises:
        ValueError: the params are of another model, or a shape or dtype does not fit.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [6.0]]), jnp.array([0, 0, 1, 1])
        >>> errors = gcf.standard_errors(gcf.lda(2), gcf.fit(gcf.lda(2), x, y), x, y)
        >>> print(errors["mean"].ravel().round(3), errors["scale"].ravel().round(3))
        [0.707 0.707] [0.354]

    References:
        Efron & Hinkley (1978), "Assessing the accuracy of the maximum likelihood estimator".
    """
    require(clf.family, HasRoads, "standard_errors")
    check_labels(y, clf.num_classes)
    check_some_labels(y, weights)
    return _standard_errors(clf, params, x, y, weights)


def _check_params(rows: Problem, params: ClassifierParams) -> None:
    def outline(tree: PyTree) -> tuple:
        return jax.tree.structure(tree), [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)]

    expected = jax.eval_shape(start, rows.clf, rows.stats)
    if outline(params) != outline(expected):
        raise ValueError(
            f"params are {eqx.tree_pformat(params)}, but the model has {eqx.tree_pformat(expected)}"
        )


@jax.jit
def _certify(
    clf: Classifier,
    params: ClassifierParams,
    x: PyTree,
    y: Array,
    weights: Array | None,
    tol: float | Array | None,
) -> Certificate:
    rows = problem(clf, x, y, weights)
    _check_params(rows, params)
    here = Neighbourhood(rows, params)
    dtype = rows.w.dtype
    tol = jnp.asarray((1e-7 if dtype == jnp.float64 else 5e-4) if tol is None else tol, dtype)

    stored = arrays(params)
    violations = [p.infeasibility(stored[name]) for name, p in here.declared.items()]
    if clf.label_prior.fixed is not None:
        fixed = jnp.asarray(clf.label_prior.fixed, dtype)
        violations.append(jnp.abs(CLASS_PRIOR.value(stored[PRIOR]) - fixed).max())
    feasibility = jnp.stack(violations).max()

    found = [_stationarity_and_curvature(here, part) for part in here.curvatures()]
    stationarity = jnp.stack([decrement for decrement, _ in found]).max(initial=0)
    curvature = jnp.stack([largest for _, largest in found]).max(initial=-1)
    slackness, bound_multipliers, right_signs = _bounds(here, tol)

    multipliers = dict(here.multipliers)
    if PRIOR in multipliers:
        multipliers[PRIOR] = multipliers[PRIOR][0]
    closed = estimate(clf, rows.stats)
    gap = (rows.objective(closed) - rows.objective(params)) / rows.total
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


def _scaled(part: Curvature) -> tuple[Array, Array]:
    """The information with 1 (or -1) on its diagonal, and the scales; 1 for an idle entry."""
    size = part.layout.shape[1]
    eye = jnp.eye(size, dtype=part.slope.dtype)[None]
    known = ~part.idle
    both = known[:, :, None] & known[:, None, :]
    information = jnp.where(both, part.information, jnp.where(known[:, :, None], 0, eye))
    diagonal = jnp.abs(jnp.diagonal(information, axis1=1, axis2=2))
    scale = jnp.sqrt(jnp.where(diagonal == 0, 1, diagonal))
    return information / (scale[:, :, None] * scale[:, None, :]), scale


def _stationarity_and_curvature(here: Neighbourhood, part: Curvature) -> tuple[Array, Array]:
    """Largest decrement of a table or block, and largest eigenvalue of the scaled Hessian."""
    matrix, scale = _scaled(part)
    slope = jnp.where(part.idle, 0, part.slope)
    if part.layout.shape[1] == 1:
        eigenvalues, slope = matrix[:, 0], slope / scale
    else:
        eigenvalues, vectors = jnp.linalg.eigh(matrix)
        slope = einsum("bij,bi->bj", vectors, slope / scale)
    # slopeᵀ information⁻¹ slope; where the curvature has the wrong sign there is no Newton step.
    ahead = jnp.where(eigenvalues > 0, eigenvalues, jnp.nan)
    squares = jnp.where(slope == 0, 0, slope**2 / ahead).sum(1)
    table = here.table[part.layout][:, 0]
    squares = squares / jnp.where(part.weight == 0, 1, part.weight)
    if part.layout.shape[1] == 1:
        # The entries of a table are tied by their sum: Pearson's χ², over its count.
        squares = jnp.zeros(len(here.zero), squares.dtype).at[table].add(squares)
    decrement = jnp.sqrt(squares)
    largest = -eigenvalues.min()
    return jnp.where(jnp.isnan(decrement).any(), jnp.inf, decrement.max()), largest


def _bounds(here: Neighbourhood, tol: Array) -> tuple[Array, dict[str, Array], Array]:
    """Slackness, the multipliers of bounds that hold, and whether all press inwards."""
    slackness, multipliers, signs = [jnp.zeros((), tol.dtype)], {}, [jnp.asarray(True)]
    for name, p in here.declared.items():
        value, gradient, held = here.value[name], here.gradient[name], here.at_bound[name]
        if p.constraint == "simplex":
            sum_to = here.multiplier_of_entries(name)
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


@jax.jit
def _standard_errors(
    clf: Classifier, params: ClassifierParams, x: PyTree, y: Array, weights: Array | None
) -> dict[str, Array]:
    rows = problem(clf, x, y, weights)
    _check_params(rows, params)
    here = Neighbourhood(rows, params)
    variance = jnp.zeros_like(here.zero)
    silent = jnp.zeros(len(here.zero), bool)

    def moved(displacement: Array) -> Array:
        found = arrays(here.params_at(displacement))
        return ravel_pytree({name: found[name] for name in here.declared})[0]

    for part in here.curvatures():
        matrix, scale = _scaled(part)
        size = part.layout.shape[1]
        # A root R of the inverse, R Rᵀ: its columns are displacements of one standard error.
        if size == 1:
            information = scale[:, 0] ** 2 * matrix[:, 0, 0]
            normal = here.normal[part.layout[:, 0]]
            table = here.table[part.layout[:, 0]]
            share = jnp.zeros(len(here.zero), information.dtype)
            share = share.at[table].add(normal**2 / information)[table]
            tied = normal**2 / information**2 / jnp.where(share == 0, 1, share)
            root = jnp.sqrt(jnp.maximum(1 / information - tied, 0))[:, None, None]
        else:
            eigenvalues, vectors = jnp.linalg.eigh(matrix)
            root = vectors / jnp.sqrt(eigenvalues)[:, None, :] / scale[:, :, None]
        silent = silent.at[part.layout].set(part.idle)
        root = jnp.where(part.idle[:, :, None], 0, root)

        def column(i: Array, part: Curvature = part, root: Array = root) -> Array:
            direction = here.zero.at[part.layout].set(root[:, :, i])
            return jax.jvp(moved, (here.zero,), (direction,))[1] ** 2

        variance = variance + lax.map(column, jnp.arange(size), batch_size=16).sum(0)
    found = here.by_name(jnp.where(silent, jnp.inf, jnp.sqrt(variance)))
    return {name: jnp.where(here.at_bound[name], jnp.inf, found[name]) for name in here.declared}
