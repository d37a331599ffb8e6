"""Class means are exact to the last digits of their low part, for few rows and for many."""

import jax
import numpy as np
import pytest

import genclf as gcf

K, D = 11, 33
MODELS = {"nb": gcf.gaussian_nb(K), "qda": gcf.qda(K), "lda": gcf.lda(K)}
MODELS["nb, missing cells"] = gcf.gaussian_nb(K, missing="marginalize")


@pytest.mark.parametrize("n", [2047, 2048])
@pytest.mark.parametrize("name", MODELS)
def test_a_mean_far_from_0(name, n):
    """Its high part is the nearest float32 number, and its low part the rest."""
    rng = np.random.default_rng(1)
    y = rng.integers(-1, K, n)
    x = (rng.normal(size=(n, D)) * rng.uniform(0.1, 10, D) + 1e4).astype(np.float32)
    found = jax.jit(lambda x, y: gcf.stats(MODELS[name], x, y))(x, y).conditional
    expected = np.stack([x[y == k].astype(float).mean(0) for k in range(K)])
    np.testing.assert_allclose(found.mean, expected, rtol=0.501 * np.finfo(np.float32).eps)
    both = np.asarray(found.mean, float) + np.asarray(found.rounding[1], float)
    np.testing.assert_allclose(both, expected, rtol=1e-13)
