"""Inverses of triangular matrices, and the index of the largest number, as NumPy has them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genclf.sums.batched import inverse_lower
from genclf.sums.largest import argmax


@pytest.mark.parametrize("d", [1, 13, 64, 71, 127])
def test_an_inverse_is_that_of_numpy(d, dtype):
    """From 64 features on it is made of blocks."""
    rng = np.random.default_rng(d)
    factor = np.linalg.cholesky(np.eye(d) + np.cov(rng.normal(size=(2, d, 3 * d))[1])).astype(dtype)
    both = jnp.asarray(np.stack([factor, 3 * factor]))
    found = jax.jit(inverse_lower)(both)
    expected = np.linalg.inv(np.asarray(both, float))
    np.testing.assert_allclose(found, expected, atol=20 * d * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.triu(found[0], 1), 0)
    np.testing.assert_array_equal(jax.vmap(inverse_lower)(both), found)


def test_the_derivative_of_an_inverse_by_blocks(x64):
    rng = np.random.default_rng(0)
    factor = jnp.asarray(np.tril(rng.normal(size=(67, 67))) / 67 + 2 * np.eye(67))
    change = jnp.asarray(np.tril(rng.normal(size=(67, 67))))
    slope = jax.jvp(inverse_lower, (factor,), (change,))[1]
    ahead, behind = (inverse_lower(factor + step * change) for step in (1e-5, -1e-5))
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-5, atol=1e-8)


@pytest.mark.parametrize("num_classes", [1, 7, 37, 101])
def test_the_first_of_the_largest_numbers(num_classes, dtype):
    """Ties, infinite numbers and leading axes, with few numbers and with many."""
    score = np.random.default_rng(0).integers(0, 5, (3, 43, num_classes)).astype(dtype)
    score[0, :5], score[1, 7], score[2, 11, -1] = -np.inf, np.inf, np.inf
    found = jax.jit(argmax)(jnp.asarray(score))
    assert found.dtype == jnp.int32
    np.testing.assert_array_equal(found, score.argmax(-1))
    np.testing.assert_array_equal(jax.vmap(argmax)(jnp.asarray(score)), found)
    np.testing.assert_array_equal(argmax(jnp.asarray(score[0, 7])), score[0, 7].argmax())
    score[1, 2, 0] = np.nan  # some class, and no other row is touched
    again = np.asarray(argmax(jnp.asarray(score)))
    assert 0 <= again[1, 2] < num_classes
    assert (again != found).sum() <= 1
