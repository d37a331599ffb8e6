"""Scores of hundreds of classes, which are reduced block by block on a CPU."""

import jax
import numpy as np
import pytest

import genclf as gcf

NUM_CLASSES, D, N = 257, 3, 3001  # more rows than a block has


@pytest.fixture(scope="module", params=["lda", "gaussian_nb"])
def fitted(request):
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(NUM_CLASSES), rng.integers(0, NUM_CLASSES, N - NUM_CLASSES)])
    x = (4 * rng.normal(size=(NUM_CLASSES, D))[y] + rng.normal(size=(N, D))).astype(np.float32)
    return gcf.fit(getattr(gcf, request.param)(NUM_CLASSES), x, y), jax.numpy.asarray(x)


def test_blocks_reduce_the_scores_as_numpy_does(fitted):
    params, x = fitted
    x = x.at[17].set(np.nan).reshape(N, D)
    joint = np.asarray(gcf.log_joint(params, x), float)
    marginal = joint.max(1) + np.log(np.exp(joint - joint.max(1, keepdims=True)).sum(1))
    np.testing.assert_allclose(gcf.log_marginal(params, x), marginal, rtol=1e-5)
    posterior = joint - marginal[:, None]
    np.testing.assert_allclose(gcf.log_posterior(params, x), posterior, rtol=1e-4, atol=1e-3)
    label = np.asarray(gcf.predict(params, x))
    assert label[17] == -1
    rest = np.delete(np.arange(N), 17)
    best = joint[rest].max(1)
    np.testing.assert_allclose(joint[rest, label[rest]], best, rtol=1e-5, atol=1e-4)


def test_leading_axes_and_maps(fitted):
    params, x = fitted
    folded = x[: 2 * 1493].reshape(2, 1493, D)
    expected = np.asarray(gcf.predict(params, x))[: 2 * 1493].reshape(2, 1493)
    np.testing.assert_array_equal(gcf.predict(params, folded), expected)
    np.testing.assert_array_equal(jax.vmap(lambda x: gcf.predict(params, x))(folded), expected)
