"""Triangular factors and their inverses, and products with sums, are those of NumPy."""

import re

import jax
import numpy as np
import pytest

from genclf.numerics.batched import cholesky, inverse_lower
from genclf.numerics.double import gram_and_sums, symmetric


def triangular(d):
    rows = np.random.default_rng(d).normal(size=(d, 3 * d))
    return np.linalg.cholesky(np.eye(d) + np.cov(rows))


@pytest.mark.parametrize("d", [13, 37, 71])
def test_an_inverse_is_that_of_numpy(d, dtype):
    """From 32 features on it is solved for some columns at a time, from 64 on made of blocks."""
    factors = np.stack([triangular(d), 3 * triangular(d)]).astype(dtype)
    found, mapped = jax.jit(lambda a: (inverse_lower(a), jax.vmap(inverse_lower)(a)))(factors)
    expected = np.linalg.inv(factors.astype(float))
    np.testing.assert_allclose(found, expected, atol=20 * d * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.triu(found, 1), 0)
    np.testing.assert_array_equal(mapped, found)


@pytest.mark.parametrize("d", [1, 31, 32, 45, 46, 63, 64])
def test_no_system_is_solved_by_threads_of_openblas(d):
    """It starts them for 1,024 numbers or more; they spin on cores that other fits need."""
    program = str(jax.make_jaxpr(inverse_lower)(np.ones((7, d, d), np.float32)))
    solves = re.findall(r"f32\[\d+,(\d+),(\d+)\] = triangular_solve", program)
    assert bool(solves) == (d < 64)
    assert all(int(rows) * int(columns) < 1024 for rows, columns in solves)


@pytest.mark.parametrize("d", [13, 137, 523])
def test_a_cholesky_factor_is_that_of_numpy(d, dtype):
    """In float32 it is made of panels from 128 features on, in two loops from 513 on."""
    factor = triangular(d)
    matrix = np.stack([factor @ factor.T, 9 * factor @ factor.T]).astype(dtype)
    reads_lower = np.where(np.triu(np.ones((d, d), bool), 1), np.nan, matrix)
    found = jax.jit(cholesky)(reads_lower)
    expected = np.stack([factor, 3 * factor])
    np.testing.assert_allclose(found, expected, atol=20 * d * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.triu(found, 1), 0)


def test_a_cholesky_factor_by_panels_is_as_exact_where_features_are_nearly_dependent():
    """The residual is at rounding: the panels are divided as a solver of systems would."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 1)) + 1e-2 * rng.normal(size=(500, 137))
    matrix = np.corrcoef(rows.T).astype(np.float32)  # condition number 2e6

    def residual(factor):
        factor = np.asarray(factor, float)
        return np.abs(factor @ factor.T - matrix).max()

    assert residual(jax.jit(cholesky)(matrix)) < 2 * residual(jax.lax.linalg.cholesky(matrix))
    # No factor is NaN, as LAPACK has it.
    broken = matrix.copy()
    broken[101, 101] = -1
    assert np.isnan(jax.jit(cholesky)(broken)).any()


@pytest.mark.parametrize(("exact", "pieces"), [(False, 1), (False, 3), (True, 1)])
def test_products_with_sums_are_both(exact, pieces, dtype):
    rng = np.random.default_rng(0)
    z, weight, columns = rng.normal(size=(101, 7)), rng.uniform(size=101), rng.normal(size=(101, 3))
    z, weight, columns = (a.astype(dtype) for a in (z, weight, columns))

    @jax.jit
    def both(weight, z, columns):
        squares, sums = gram_and_sums(weight, z, columns, exact, pieces)
        return tuple(symmetric(a, pieces) for a in squares), sums

    both = both(weight, z, columns)
    eps = np.finfo(np.float64 if exact else dtype).eps
    for (high, low), left in zip(both, (weight[:, None] * z.astype(float), columns), strict=True):
        expected = left.T.astype(float) @ z.astype(float)
        found = np.asarray(high, float) + np.asarray(low, float)
        np.testing.assert_allclose(found, expected, atol=1000 * eps)


@jax.jit
def _slopes(factor, change):
    ahead, behind = (inverse_lower(factor + step * change) for step in (1e-5, -1e-5))
    return jax.jvp(inverse_lower, (factor,), (change,))[1], (ahead - behind) / 2e-5


def test_the_derivative_of_an_inverse_by_blocks(x64):
    change = np.tril(np.random.default_rng(0).normal(size=(71, 71))) / 71
    np.testing.assert_allclose(*_slopes(triangular(71), change), atol=1e-8)
