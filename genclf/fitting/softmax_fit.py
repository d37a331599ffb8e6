"""`fit` of a softmax regression: where its search starts, and what it returns."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from genclf.arguments.sharding import compiled
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.rows import Rows
from genclf.fitting.softmax import SoftmaxParams, SoftmaxRegression, softmax_form
from genclf.fitting.softmax_likelihood import Problem, make_problem
from genclf.fitting.softmax_minimum import minimise, tolerance
from genclf.numerics.members import ITERATED, in_cache
from genclf.numerics.namespace import Array, matmul


def _start_from(init: SoftmaxParams, problem: Problem) -> Float[Array, "K p1"]:
    """The point v at which the search starts for `init`."""
    num_classes, d = len(problem.present), len(problem.centre)
    if init.coef.shape != (num_classes, d):
        raise ValueError(
            f"init has {init.coef.shape[0]} classes of {init.coef.shape[1]} features, expected "
            f"{num_classes} of {d}"
        )
    unit, shift = problem.unit, problem.centre - init.centre.astype(problem.unit.dtype)
    coef, intercept = init.coef.astype(unit.dtype), init.intercept.astype(unit.dtype)
    products = []
    if init.matrix is not None:
        matrix = init.matrix.astype(unit.dtype)
        matrix = (matrix + jnp.swapaxes(matrix, 1, 2)) / 2
        half = matmul(matrix, shift)
        coef, intercept = coef + 2 * half, intercept - matmul(half, shift)
        i, j = np.triu_indices(d)
        both = np.where(i == j, 1, 2).astype(unit.dtype)
        products = [matrix[:, i, j] * (both * unit[i] * unit[j])[None]]
    intercept = intercept + matmul(coef, shift)
    raw = jnp.concatenate([coef * unit[None], *products, intercept[:, None]], axis=1)
    # The intercept -inf of a class that was impossible becomes 0.
    raw = jnp.where(problem.present[:, None] & jnp.isfinite(raw), raw, 0)
    mean = raw.sum(0, keepdims=True) / problem.present.sum().astype(raw.dtype)
    raw = jnp.where(problem.present[:, None], raw - mean, 0)
    return jnp.linalg.solve(problem.white.T, raw.T).T


@partial(compiled, fast_compile=2**14)
@partial(in_cache, most=ITERATED)
def fit_softmax(
    clf: SoftmaxRegression,
    x: Array,
    y: Array,
    weights: Array | None,
    init: ClassifierParams | SoftmaxParams | None,
) -> SoftmaxParams:
    """`fit` of a softmax regression: the maximum of the conditional likelihood."""
    rows = Rows.of(x, y, weights, clf.num_classes)
    problem = make_problem(x, rows.w, rows.count, clf.l2, clf.features == "quadratic")
    start = jnp.zeros((clf.num_classes, len(problem.white)), rows.count.dtype)
    known = jnp.asarray(False)
    if init is not None:
        init = softmax_form(init, features=clf.features)
        start, known = _start_from(init, problem), init.separable
    found = minimise(problem, start)
    # A search without a step cannot determine the flag, and keeps that of `init`.
    separable = found.separable | (known & (found.evaluations == 1))
    coef, intercept, matrix = problem.coefficients(found.v)
    intercept = jnp.where(problem.present, intercept, -jnp.inf)
    norm = found.gradient_norm
    invalid = rows.invalid | ~jnp.isfinite(norm) | ~(jnp.asarray(clf.l2) >= 0)
    invalid = invalid | ~problem.has_coefficients
    objective = -found.value * rows.count.sum()
    floats = coef, intercept, matrix, problem.centre, norm, objective
    coef, intercept, matrix, centre, norm, objective = jax.tree.map(
        lambda leaf: jnp.where(invalid, jnp.nan, leaf), floats
    )
    return SoftmaxParams(
        coef,
        intercept,
        matrix,
        centre,
        converged=norm <= tolerance(norm.dtype),
        separable=separable & ~invalid & (jnp.asarray(clf.l2) == 0),
        steps=found.evaluations,
        gradient_norm=norm,
        objective=objective,
    )
