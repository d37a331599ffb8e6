"""Sums of logarithms of rising factorials: their slopes by SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma

from genclf.numerics.log_pochhammer import log_rising_sums, rising_table


@pytest.mark.usefixtures("x64")
def test_slopes_of_rising_factorials():
    x, a = np.array([[0.0, 1, 5], [2, 0, 1]]), np.array([[0.5, 1.5, 3.0], [2.0, 2.0, 1.0]])
    x, a = jnp.asarray(x), jnp.asarray(a)
    by_x, by_a = jax.grad(lambda x, a: log_rising_sums(x, a, rising_table(a, 2)).sum(), (0, 1))(
        x, a
    )
    after = digamma(np.asarray(a)[None] + np.asarray(x)[:, None])
    np.testing.assert_allclose(by_x, after.sum(1), rtol=1e-9)
    np.testing.assert_allclose(by_a, (after - digamma(np.asarray(a))).sum(0), rtol=1e-9)
