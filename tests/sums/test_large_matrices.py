"""Covariances of so many classes and features that few copies of them may exist."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.numerics import compensated
from genclf.sums import centred, factors
from tests.registry import assert_close

K, D, N = 7, 5, 4999  # more rows than are summed by one product


@pytest.fixture
def few_at_a_time(monkeypatch):
    """Three classes at a time in sums, and in factors; sums of classes one by one."""
    monkeypatch.setattr(centred, "_AT_ONCE", 0)
    monkeypatch.setattr(centred, "_FEW_CELLS", 3 * D * D)
    monkeypatch.setattr(factors, "_TOGETHER", 3 * D * D)
    monkeypatch.setattr(compensated, "_LARGE", 0)


def rows(dtype):
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    x = rng.normal(size=(N, D)) @ rng.normal(size=(D, D)) + 3 * y[:, None]
    weights = rng.uniform(0.5, 2, N) * (rng.random(N) > 0.1) * (y != 4)  # one class has no weight
    return x.astype(dtype), np.where(rng.random(N) < 0.1, -1, y), weights.astype(dtype)


MODELS = [
    {},
    {"shrinkage": 0.2},
    {"shrinkage": "ledoit-wolf"},
    {"shrinkage": "james-stein", "target": "diagonal"},
    {"pooling": 0.3, "ridge": 0.1},
    {"prior": gcf.NormalInverseWishart()},
]


@pytest.mark.slow(but=("rules1-float32", "rules1-float64"))
@pytest.mark.parametrize("rules", MODELS)
def test_a_few_classes_at_a_time_have_the_estimates_of_all_together(rules, dtype, request):
    clf = gcf.Classifier(gcf.Gaussian(**rules), K, class_alpha=1.0)
    x, y, w = rows(dtype)
    # New functions: each is compiled under its own sizes.
    expected = jax.jit(lambda x: gcf.fit(clf, x, y, w))(x)
    request.getfixturevalue("few_at_a_time")
    found = jax.jit(lambda x: gcf.fit(clf, x, y, w))(x)
    assert_close(found, expected, 1e-12 if dtype == np.float64 else 2e-6)
    batch = jax.jit(jax.vmap(lambda x: gcf.fit(clf, x, y, w)))(jnp.stack([x, x + 1]))
    assert_close(jax.tree.map(lambda a: a[0], batch), found, 1e-12 if dtype == np.float64 else 2e-6)


@pytest.mark.usefixtures("x64")
def test_their_derivatives_are_the_same(request):
    clf = gcf.Classifier(gcf.Gaussian(shrinkage=0.2), K, class_alpha=1.0)
    x, y, w = rows(np.float64)

    def slope():
        score = lambda x: gcf.log_posterior(gcf.fit(clf, x, y, w), x[:11])[:, 2].sum()  # noqa: E731
        return jax.jit(jax.grad(score))(x)

    expected = slope()
    request.getfixturevalue("few_at_a_time")
    np.testing.assert_allclose(slope(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("shrinkage", [0.2, "ledoit-wolf"])
def test_memory_of_a_fit_is_below_four_times_the_covariances(shrinkage):
    num_classes, d = 101, 613
    clf = gcf.Classifier(gcf.Gaussian(shrinkage=shrinkage), num_classes)
    x = jax.ShapeDtypeStruct((4999, d), jnp.float32)
    y = jax.ShapeDtypeStruct((4999,), jnp.int32)
    s = jax.eval_shape(lambda x, y: gcf.stats(clf, x, y), x, y)
    program = jax.jit(lambda s: gcf.estimate(clf, s)).lower(s).compile().memory_analysis()
    covariances = 4 * num_classes * d**2
    # The statistics are two copies, and the result is one; blocks of classes are the rest.
    assert program.temp_size_in_bytes < 1.5 * covariances
    if shrinkage == 0.2:
        program = jax.jit(lambda x, y: gcf.fit(clf, x, y)).lower(x, y).compile()
        found = program.memory_analysis()
        assert found.temp_size_in_bytes + found.output_size_in_bytes < 4 * covariances
