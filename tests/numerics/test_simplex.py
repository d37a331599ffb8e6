"""Least squares over the simplex, beside SciPy's non-negative least squares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from genclf.numerics.simplex import least_squares

solve = jax.jit(least_squares)


def loss(matrix, v, pi):
    return ((matrix @ pi - v) ** 2).sum()


@pytest.mark.parametrize(("dtype", "slack"), [("float64", 1e-14), ("float32", 1e-6)])
@pytest.mark.parametrize("k", [1, 2, 3, 11])
def test_no_other_point_is_better(k, dtype, slack, request):
    if dtype == "float64":
        request.getfixturevalue("x64")
    rng = np.random.default_rng(k)
    for _ in range(23):
        matrix = rng.dirichlet(rng.choice([0.1, 1, 5]) * np.ones(k), k).T
        v = matrix @ rng.dirichlet(rng.choice([0.05, 1]) * np.ones(k))
        v = v + rng.choice([0, 0.001, 0.1]) * rng.normal(size=k)
        found = np.asarray(solve(matrix.astype(dtype), v.astype(dtype), np.ones(k, bool)), float)
        heavy = np.vstack([matrix, 1e4 * np.ones(k)])  # the sum is 1
        other = optimize.nnls(heavy, np.append(v, 1e4))[0]
        assert found.min() >= 0
        np.testing.assert_allclose(found.sum(), 1, rtol=1e-6)
        assert loss(matrix, v, found) <= loss(matrix, v, other / other.sum()) + slack


@pytest.mark.usefixtures("x64")
def test_what_is_not_allowed_is_left_out():
    rng = np.random.default_rng(0)
    matrix, allowed = rng.dirichlet(np.ones(5), 5).T, np.array([True, False, True, True, False])
    v = rng.dirichlet(np.ones(5))
    found = np.asarray(solve(matrix, v, allowed))
    np.testing.assert_array_equal(found[~allowed], 0)
    np.testing.assert_allclose(found[allowed], solve(matrix[:, allowed], v, np.ones(3, bool)))


@pytest.mark.usefixtures("x64")
def test_derivatives():
    matrix = jnp.asarray(np.random.default_rng(1).dirichlet(np.ones(4), 4).T)
    v = matrix @ jnp.array([0.4, 0.4, 0.3, -0.1])  # the last one is 0 at the minimum
    of = lambda v: solve(matrix, v, jnp.ones(4, bool))  # noqa: E731
    assert of(v)[3] == 0
    change = [(of(v + e) - of(v - e)) / 2e-5 for e in 1e-5 * jnp.eye(4)]
    np.testing.assert_allclose(jax.jacobian(of)(v), np.stack(change, 1), atol=1e-7)
