"""Compiled, interpreted and mapped over data sets: one answer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import (
    BY_NAME,
    FAMILIES,
    MODELS,
    N,
    assert_close,
    assert_same,
    concatenate,
    take,
    with_hyperparameters,
)

pytestmark = pytest.mark.usefixtures("x64")
every_model = pytest.mark.parametrize("model", MODELS, ids=str)

TOLERANCE = 1e-12
SETS = 3


def fit_and_score(clf, x, y):
    params = gcf.fit(clf, x, y)
    return params, gcf.log_posterior(params, x), gcf.predict(params, x)


mapped = jax.jit(jax.vmap(fit_and_score, (None, 0, 0)))


@pytest.fixture
def many(model):
    """Three data sets, stacked."""
    sets = [model.example("float64", seed=seed) for seed in range(SETS)]
    return concatenate(*[jax.tree.map(lambda a: a[None], one) for one in sets])


@pytest.mark.slow
@pytest.mark.parametrize("model", FAMILIES, ids=str)
def test_compiled_as_interpreted(model):
    x, y = jax.tree.map(jnp.asarray, model.example("float64"))
    compiled = jax.jit(fit_and_score)(model.classifier, x, y)
    assert_close(fit_and_score(model.classifier, x, y), compiled, TOLERANCE)
    with jax.disable_jit():
        interpreted = fit_and_score(model.classifier, x, y)
    assert_close(interpreted, compiled, TOLERANCE)


@pytest.mark.slow("product")
@every_model
def test_mapped_as_one_by_one(model, many):
    x, y = many
    together = mapped(model.classifier, x, y)
    for i in range(SETS):
        alone = fit_and_score(model.classifier, take(x, i), y[i])
        assert_close(take(together, i), alone, TOLERANCE)


@every_model
def test_mapped_beside_a_degenerate_data_set(model, many):
    # In the middle: one class only, every row the same. Its neighbours do not notice.
    x, y = many
    bad = jax.tree.map(lambda a: a.copy(), (x, y))
    for leaf in jax.tree.leaves(bad[0]):
        leaf[1] = leaf[1, N - 1]
    bad[1][1] = 2
    expected, found = mapped(model.classifier, x, y), mapped(model.classifier, *bad)
    for i in (0, 2):
        assert_same(take(found, i), take(expected, i))
    np.testing.assert_array_equal(found[2][1], np.full(N, 2))


def test_traced_code_may_close_over_the_rows():
    """Outside traced code few rows are compiled in another way, which is an error inside."""
    model = BY_NAME["gaussian-diag"]
    x, y = map(jnp.asarray, model.example("float64"))

    def found():
        params = gcf.fit(model.classifier, x, y)
        return params, gcf.certify(model.classifier, params, x, y).multipliers

    assert_close(jax.jit(found)(), found(), 1e-9)


@pytest.mark.slow
def test_mapped_over_weights_and_hyper_parameters():
    model = BY_NAME["product"]
    x, y = model.example("float64")
    weights = np.random.default_rng(7).exponential(size=(SETS, N))
    models = [
        with_hyperparameters(model.classifier, lambda leaf, i=i: leaf + i) for i in range(SETS)
    ]
    stacked = jax.tree.map(lambda *leaves: np.array(leaves, float), *models)
    together = jax.vmap(gcf.fit, (0, None, None, 0))(stacked, x, y, weights)
    for i in range(SETS):
        alone = gcf.fit(models[i], x, y, weights[i])
        assert_close(take(together, i), alone, TOLERANCE)
