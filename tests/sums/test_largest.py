"""The index of the largest number, as NumPy has it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genclf.sums.largest import argmax


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
