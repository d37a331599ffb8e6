"""`adapt_prior`: the class prior of another population."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import genclf as gcf
from tests.registry import BY_NAME, K, N, assert_near

MODELS = [BY_NAME[name] for name in ("gaussian-shared", "multinomial-tokens", "product")]


def shifted(model, seed=1, n=503):
    """Params of one population, rows of another in which the last class is rare."""
    x, y = model.example("float64", n=1009)
    params = gcf.fit(model.classifier, x, y)
    other = gcf.with_prior(params, jnp.array([0.55, 0.4, 0.05]))
    return params, *gcf.sample(jax.random.key(seed), other, (n,))


@pytest.mark.slow("multinomial-tokens", "product")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_maximum(model, x64):
    params, x, _ = shifted(model)
    found = gcf.adapt_prior(params, x, tol=0.0)
    density = np.asarray(gcf.log_joint(params, x)) - np.asarray(params.log_prior)

    def loss(free):
        log_prior = free - np.logaddexp.reduce(free)
        return -np.logaddexp.reduce(density + log_prior, axis=1).mean()

    best = optimize.minimize(loss, np.zeros(K), options={"gtol": 1e-9})
    prior = np.exp(best.x - np.logaddexp.reduce(best.x))
    np.testing.assert_allclose(jnp.exp(found.params.log_prior), prior, atol=1e-5)
    np.testing.assert_allclose(found.value / len(density), -best.fun, rtol=1e-9)
    values = np.asarray(found.objective)[: int(found.steps)]
    assert (np.diff(values) >= -1e-12 * np.abs(values[1:])).all()
    np.testing.assert_allclose(values[0], gcf.log_marginal(params, x).sum(), rtol=1e-12)


@pytest.mark.slow("gaussian-shared", "product")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_it_is_near_the_prior_drawn_from(model, x64):
    params, x, y = shifted(model)
    found = gcf.adapt_prior(params, x)
    assert found.converged
    np.testing.assert_allclose(jnp.exp(found.params.log_prior), [0.55, 0.4, 0.05], atol=0.09)
    before, after = (np.asarray(gcf.log_posterior(p, x))[np.arange(503), y].mean()
                     for p in (params, found.params))  # fmt: skip
    assert after > before


@pytest.mark.slow
def test_weights_are_repetitions_and_densities_stay(x64):
    params, x, _ = shifted(MODELS[0])
    weights = np.random.default_rng(0).integers(0, 3, 503)
    holed = np.where(weights[:, None] == 0, np.nan, x)
    found = gcf.adapt_prior(params, holed, weights=weights.astype(float))
    repeated = gcf.adapt_prior(params, np.repeat(np.asarray(x), weights, axis=0))
    assert_near(found.params.log_prior, repeated.params.log_prior, 1e-10)
    np.testing.assert_array_equal(found.params.conditional.mean, params.conditional.mean)


def test_a_class_that_cannot_occur_stays_so(x64):
    params, x, _ = shifted(MODELS[0])
    found = gcf.adapt_prior(gcf.with_prior(params, jnp.array([0.5, 0.5, 0.0])), x)
    assert found.converged and found.params.log_prior[2] == -jnp.inf


@pytest.mark.slow
def test_any_density_and_any_transform(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    params = gcf.fit(gcf.Classifier(gcf.KernelDensity(), K), x, y)
    rows = np.stack([x[y != 0], x[y != 0] + 0.1])
    many = jax.vmap(lambda x: gcf.adapt_prior(params, x))(rows)
    for i in range(2):
        alone = gcf.adapt_prior(params, rows[i])
        assert_near(many.params.log_prior[i], alone.params.log_prior, 1e-8)
    assert (np.exp(np.asarray(many.params.log_prior))[:, 0] < 0.2).all()

    def score(shift):
        return gcf.adapt_prior(params, x + shift, tol=0.0, max_steps=3000).params.log_prior[1]

    slope = jax.grad(score)(0.0)
    np.testing.assert_allclose(slope, (score(1e-3) - score(-1e-3)) / 2e-3, rtol=1e-3)


@pytest.mark.slow
def test_invalid_input():
    params, x, _ = shifted(MODELS[0])
    with pytest.raises(ValueError, match="weights has shape"):
        gcf.adapt_prior(params, x, weights=np.ones(3))
    with pytest.raises(ValueError, match="expected rows"):
        gcf.adapt_prior(params, x[0])
    with pytest.raises(ValueError, match="max_steps"):
        gcf.adapt_prior(params, x, max_steps=0)
    nothing = gcf.adapt_prior(params, x, weights=np.zeros(503))
    assert np.isnan(nothing.params.log_prior).all() and not nothing.converged
    bad = gcf.adapt_prior(params, x, weights=np.full(503, -1.0))
    assert np.isnan(bad.params.log_prior).all() and not bad.converged
    broken = gcf.adapt_prior(params, np.where(np.arange(503)[:, None] == N, np.nan, x))
    assert np.isnan(broken.params.log_prior).all()
