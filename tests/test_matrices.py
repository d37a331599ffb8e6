"""Inverses of triangular matrices, and the index of the largest number, as NumPy has them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genclf.sums.batched import inverse_lower
from genclf.sums.largest import argmax


def triangular(d):
    rows = np.random.default_rng(d).normal(size=(d, 3 * d))
    return np.linalg.cholesky(np.eye(d) + np.cov(rows))


@pytest.mark.parametrize("d", [13, 71])
def test_an_inverse_is_that_of_numpy(d, dtype):
    """From 64 features on it is made of blocks."""
    factors = np.stack([triangular(d), 3 * triangular(d)]).astype(dtype)
    found, mapped = jax.jit(lambda a: (inverse_lower(a), jax.vmap(inverse_lower)(a)))(factors)
    expected = np.linalg.inv(factors.astype(float))
    np.testing.assert_allclose(found, expected, atol=20 * d * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.triu(found, 1), 0)
    np.testing.assert_array_equal(mapped, found)


@jax.jit
def _slopes(factor, change):
    ahead, behind = (inverse_lower(factor + step * change) for step in (1e-5, -1e-5))
    return jax.jvp(inverse_lower, (factor,), (change,))[1], (ahead - behind) / 2e-5


def test_the_derivative_of_an_inverse_by_blocks(x64):
    change = np.tril(np.random.default_rng(0).normal(size=(71, 71))) / 71
    np.testing.assert_allclose(*_slopes(triangular(71), change), atol=1e-8)


@pytest.mark.parametrize("num_classes", [7, 37])
def test_the_first_of_the_largest_numbers(num_classes, dtype):
    """Ties, infinite numbers and leading axes, with few numbers and with many."""
    score = np.random.default_rng(0).integers(0, 5, (3, 43, num_classes)).astype(dtype)
    score[0, :5], score[1, 7], score[2, 11, -1] = -np.inf, np.inf, np.inf
    found, mapped = jax.jit(lambda a: (argmax(a), jax.vmap(argmax)(a)))(score)
    assert found.dtype == jnp.int32
    np.testing.assert_array_equal(found, score.argmax(-1))
    np.testing.assert_array_equal(mapped, found)
    score[1, 2, 0] = np.nan  # some class there, and no other row is touched
    again = np.asarray(jax.jit(argmax)(score))
    assert 0 <= again[1, 2] < num_classes
    assert (again != found).sum() <= 1
