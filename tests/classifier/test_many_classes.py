"""Hundreds of classes: scores are reduced by blocks, matrices factorised some at a time."""

import jax
import numpy as np
import pytest

import genclf as gcf
from genclf.sums import factors

NUM_CLASSES, D, N = 257, 3, 3001  # more rows than a block has


@pytest.fixture(scope="module", params=["lda", "gaussian_nb"])
def fitted(request):
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(NUM_CLASSES), rng.integers(0, NUM_CLASSES, N - NUM_CLASSES)])
    x = (4 * rng.normal(size=(NUM_CLASSES, D))[y] + rng.normal(size=(N, D))).astype(np.float32)
    return gcf.fit(getattr(gcf, request.param)(NUM_CLASSES), x, y), jax.numpy.asarray(x)


@pytest.mark.slow("gaussian_nb")
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


@pytest.mark.slow("gaussian_nb")
def test_leading_axes_and_maps(fitted):
    params, x = fitted
    folded = x[: 2 * 1493].reshape(2, 1493, D)
    expected = np.asarray(gcf.predict(params, x))[: 2 * 1493].reshape(2, 1493)
    np.testing.assert_array_equal(gcf.predict(params, folded), expected)
    np.testing.assert_array_equal(jax.vmap(lambda x: gcf.predict(params, x))(folded), expected)


@pytest.mark.slow
def test_covariances_of_many_classes_are_factorised_some_at_a_time(monkeypatch):
    """Memory is that of a few copies of the result; the numbers are those of one piece."""
    num_classes, d, n = 211, 13, 3001
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, d)).astype(np.float32), rng.integers(0, num_classes, n)
    x[y == 5] = x[y == 5] @ np.full((d, d), 0.3)  # a class on a line
    model = gcf.qda(num_classes, shrinkage=0.01)
    whole = gcf.fit(model, x, y)

    monkeypatch.setattr(factors, "_TOGETHER", 20 * d**2)
    jax.clear_caches()
    pieces = gcf.fit(model, x, y)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), pieces, whole)
    program = jax.jit(lambda stats: gcf.estimate(model, stats)).lower(gcf.stats(model, x, y))
    used = program.compile().memory_analysis()
    assert used.temp_size_in_bytes < 6 * used.output_size_in_bytes
    jax.clear_caches()  # programs with small pieces
