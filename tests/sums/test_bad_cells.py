"""A cell that is not finite makes the moments of its class NaN; if they are pooled, of all."""

import jax
import numpy as np
import pytest

import genclf as gcf

K = 3
MODELS = {"nb": gcf.gaussian_nb(K), "qda": gcf.qda(K), "lda": gcf.lda(K)}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [31, 2053])
@pytest.mark.parametrize("name", MODELS)
def test_only_its_feature_is_nan(name, n, bad, dtype):
    """With few rows, sums are products, in which every cell meets every class."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, 2)).astype(dtype), np.arange(n) % K
    x[7, 1] = bad
    x[11], y[11] = bad, -1  # a row without a class has no effect
    found = jax.jit(lambda x, y: gcf.stats(MODELS[name], x, y))(x, y).conditional
    without = gcf.stats(MODELS[name], np.delete(x, 7, 0), np.delete(y, 7)).conditional
    expected = np.asarray(without.mean).copy()
    own = x[(y == y[7]) & (np.arange(n) != 11), 0]
    expected[y[7]] = own.mean(), np.nan
    is_nan = np.zeros((len(found.scatter), 2), bool)
    is_nan[0 if found.is_pooled else y[7], 1] = True
    expected[:, 1] = np.where(found.is_pooled, np.nan, expected[:, 1])
    np.testing.assert_allclose(found.mean, expected, rtol=1e-4, atol=1e-6)
    if found.is_full:
        is_nan = is_nan[:, None] | is_nan[:, :, None]
    np.testing.assert_array_equal(np.isnan(found.scatter), is_nan)
