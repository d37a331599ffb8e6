"""Constrained maximisation by Newton's method on the Karush-Kuhn-Tucker conditions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from genclf.arguments.calls import checked_call
from genclf.arguments.domains import number, whole_number
from genclf.classifier.model import Solution
from genclf.roads.interior_point import LARGEST_LAST_STEP, InteriorPoint

LARGEST_MATRIX = 4000**2  # numbers: 128 MB in float64, factored in seconds


class ConstrainedSolution(Solution):
    """A point that meets the conditions of a constrained maximum, from `solve_constrained`.

    Attributes:
        params: the maximiser, in the structure of `init`.
        multipliers: λ of every constraint, in the structure of `constraints(params)`.
        lower_multipliers: multipliers of the lower bounds, >= 0, in the structure of `params`; 0
            off the bound.
        upper_multipliers: the same for the upper bounds.
        objective: the objective at `params`.
        residual: largest violation of stationarity (relative to the gradient at `init`) or of a
            constraint.
        steps: number of Newton steps.
        converged: whether the residual is within the tolerance, the multipliers of bounds are >= 0,
            and the last step was short.
    """

    params: PyTree
    multipliers: PyTree
    lower_multipliers: PyTree
    upper_multipliers: PyTree
    objective: Float[Array, "*batch"]
    residual: Float[Array, "*batch"]
    steps: Int[Array, "*batch"]
    converged: Bool[Array, "*batch"]


@checked_call
def solve_constrained(
    objective: Callable[[PyTree], Array],
    constraints: Callable[[PyTree], PyTree] | None,
    init: PyTree,
    *,
    lower: PyTree = None,
    upper: PyTree = None,
    block_size: int | None = None,
    max_steps: int = 100,
    tol: float | None = None,
) -> ConstrainedSolution:
    """Maximise f(θ) subject to c(θ) = 0 and lower <= θ <= upper, with all multipliers.

    Solves for the point and the multipliers together

    ::

        ∇f - λᵀ ∇c + z_lower - z_upper = 0,   c = 0,
        z_lower (θ - lower) = 0,   z_upper (upper - θ) = 0,   z >= 0

    by a primal-dual interior-point method: Newton steps on these equations that drive the
    complementarity to zero. Then entries at a bound are set to it, and Newton's method refines the
    others. f should be concave and c linear, at least approximately near `init`. `converged` is
    false if no step lowers the residual, if the point is not a maximum, or if f is unbounded.
    The solver is compiled once for the same function objects. It has forward-mode derivatives only.

    Args:
        objective: f, from params to a scalar.
        constraints: c, from params to a pytree of arrays that must be 0; None: no constraints.
        init: a pytree of floating arrays, strictly between the bounds.
        lower: lower bounds, in the structure of `init`, -inf for an entry without one; None: no
            lower bounds.
        upper: upper bounds, the same with inf.
        block_size: size of the diagonal blocks of the Hessian: f is a sum of functions, each of
            this many consecutive entries of the raveled params, and c is linear. With 1 no entry
            may be in two constraints, and a step costs a few evaluations of f and c. None: f may be
            any function, and a step solves a dense linear system.
        max_steps: maximum number of Newton steps, in each of the two phases.
        tol: tolerance on the residual; by default 1e-9 in float64 and 1e-4 in float32.

    Returns:
        `ConstrainedSolution`.

    Raises:
        ValueError: an argument has the wrong type or structure; the linear system of a step would
            be too large; or, outside traced code, `init` is not strictly inside the bounds.

    Example:
        The distribution on three values under which the counts 5, 3 and 0 are most likely.

        >>> import jax.numpy as jnp, genclf as gcf
        >>> counts = jnp.array([5.0, 3.0, 0.0])
        >>> def log_lik(theta): return (counts[:2] * jnp.log(theta[:2])).sum()
        >>> def sums_to_one(theta): return theta.sum() - 1
        >>> found = gcf.solve_constrained(log_lik, sums_to_one, jnp.ones(3) / 3, lower=jnp.zeros(3))
        >>> print(found.params, found.multipliers.round(3), found.lower_multipliers.round(3))
        [0.625 0.375 0.   ] 8.0 [0. 0. 8.]

    References:
        Nocedal & Wright (2006), Numerical Optimization, §12.3 and §19.2.
    """
    for name, function in (("objective", objective), ("constraints", constraints)):
        if not callable(function) and not (name == "constraints" and function is None):
            raise ValueError(f"{name} is {function!r}, expected a function of the params")
    if block_size is not None:
        block_size = whole_number(block_size, "block_size", 1)
    settings = block_size, whole_number(max_steps, "max_steps", 1)
    tol = None if tol is None else number(tol, "tol", least=0.0)
    _check_leaves(init, lower, upper)
    found = jax.eval_shape(objective, init)
    if jnp.shape(found) != ():
        raise ValueError(f"objective returns {found!r}, expected one number")
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((init, lower, upper, tol))):
        return _solve(objective, constraints, *settings, tol, init, lower, upper)
    _check_inside(init, lower, upper)
    return _compiled(objective, constraints, *settings, tol, init, lower, upper)


def _check_leaves(init: PyTree, lower: PyTree, upper: PyTree) -> None:
    """Raise unless `init` holds floating arrays, and each bound arrays of the same shapes."""

    def dtypes(tree: PyTree) -> list[str]:
        return [str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in jax.tree.leaves(tree)]

    found = dtypes(init)
    if not found or not all(dtype.startswith(("float", "bfloat")) for dtype in found):
        raise ValueError(
            f"init holds {', '.join(sorted(set(found))) or 'nothing'}, expected arrays of floating "
            "numbers"
        )

    def outline(tree: PyTree) -> list[tuple]:
        return [
            (jax.tree_util.keystr(path), np.shape(leaf))
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        ]

    for name, bound in (("lower", lower), ("upper", upper)):
        if bound is None:
            continue
        if outline(bound) != outline(init) or not all(
            dtype.startswith(("float", "bfloat", "int", "uint")) for dtype in dtypes(bound)
        ):
            raise ValueError(
                f"{name} has the arrays {outline(bound)}, expected those of init: {outline(init)}"
            )


def _check_inside(init: PyTree, lower: PyTree, upper: PyTree) -> None:
    for name, bound, sign in (("lower", lower, 1), ("upper", upper, -1)):
        if bound is None:
            continue
        slack = jax.tree.map(lambda a, b, sign=sign: (sign * (a - b)).min(), init, bound)
        if not all(bool(least > 0) for least in jax.tree.leaves(slack)):
            raise ValueError(
                f"init is not strictly inside the {name} bounds; move it inside, and turn fixed "
                "parameters into constants of the objective"
            )


def _solve(
    objective: Callable[[PyTree], Array],
    constraints: Callable[[PyTree], PyTree] | None,
    block_size: int | None,
    max_steps: int,
    tol: Array | float | None,
    init: PyTree,
    lower: PyTree,
    upper: PyTree,
) -> ConstrainedSolution:
    theta, unravel = ravel_pytree(init)
    shapes = None if constraints is None else jax.eval_shape(constraints, init)
    none, unravel_multipliers = ravel_pytree(jax.tree.map(jnp.zeros_like, shapes))
    multiplier_dtype = none.dtype

    def flat_constraints(theta: Array) -> Array:
        if constraints is None or not jax.tree.leaves(shapes):
            return theta[:0]
        return ravel_pytree(constraints(unravel(theta)))[0]

    bounds = [
        jnp.full_like(theta, sign * jnp.inf) if b is None else ravel_pytree(b)[0]
        for b, sign in ((lower, -1), (upper, 1))
    ]
    _check_size(len(theta), len(jax.eval_shape(flat_constraints, theta)), block_size)
    tol = (1e-9 if theta.dtype == jnp.float64 else 1e-4) if tol is None else tol
    system = InteriorPoint(
        lambda theta: objective(unravel(theta)), flat_constraints, bounds, theta, block_size
    )
    point, at_lower, at_upper = system.begin(), *[jnp.zeros(theta.shape, bool)] * 2
    if lower is not None or upper is not None:
        point, at_lower, at_upper = system.interior(point, max_steps)
    point, share = system.polish(point, at_lower, at_upper, max_steps)
    residual, feasible = system.check(point)
    scale = system.scale
    return ConstrainedSolution(
        unravel(point.theta),
        unravel_multipliers((point.multipliers * scale).astype(multiplier_dtype)),
        unravel(point.below * scale),
        unravel(point.above * scale),
        objective(unravel(point.theta)),
        residual,
        point.steps,
        (residual <= tol) & (share <= LARGEST_LAST_STEP) & feasible,
    )


_compiled = partial(jax.jit, static_argnums=(0, 1, 2, 3))(_solve)


def _check_size(n: int, m: int, block_size: int | None) -> None:
    if block_size is not None and n % block_size:
        raise ValueError(f"block_size is {block_size}, which does not divide {n} parameters")
    matrices = {None: (n + m) ** 2, 1: 0}.get(block_size, max(n * (block_size or 1), m * n))
    if matrices > LARGEST_MATRIX:
        raise ValueError(
            f"{n} parameters and {m} constraints make matrices of {matrices} numbers, more than "
            f"{LARGEST_MATRIX}; give a block_size if the Hessian is block diagonal, 1 if it is "
            "diagonal"
        )
