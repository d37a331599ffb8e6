"""What says that it has converged has: `adapt_prior` to a bound, `fit_prior` to no end."""

import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import BY_NAME, K

SHIFTED = [BY_NAME[name] for name in ("gaussian-shared", "multinomial-tokens", "product")]


def remaining(params, x):
    """`max_k 1/n Σ_n p(x_n | k) / p(x_n) - 1`: no prior gains more in the mean log-likelihood."""
    log_p = np.asarray(gcf.log_joint(params, x), np.float64)
    occurs = np.asarray(params.log_prior) > -np.inf
    density = log_p[:, occurs] - np.asarray(params.log_prior, np.float64)[occurs]
    return np.exp(density - np.logaddexp.reduce(log_p, axis=1)[:, None]).mean(0).max() - 1


def overlapping(dtype, n=2003):
    """Classes hardly apart, of which two do not occur: EM takes thousands of steps."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 5, n).astype(np.int32)
    means = 0.25 * np.stack([np.arange(5), np.arange(5) ** 2 / 5], 1)
    params = gcf.fit(gcf.lda(5), (means[y] + rng.normal(size=(n, 2))).astype(dtype), y)
    drawn = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return params, (means[drawn] + rng.normal(size=(n, 2))).astype(dtype)


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 0.0])
def test_adapt_prior_is_as_near_its_maximum_as_it_says(tol, dtype):
    params, x = overlapping(dtype)
    found = gcf.adapt_prior(params, x, tol=tol)
    assert found.converged and found.steps < 50
    least = 100 * np.finfo(dtype).eps
    assert remaining(found.params, x) <= 1.1 * max(tol, least)


@pytest.mark.slow(
    "float32-multinomial-tokens", "float32-product", "float64-gaussian-shared", "float64-product"
)
@pytest.mark.parametrize("model", SHIFTED, ids=str)
def test_adapt_prior_of_any_model(model, dtype):
    x, y = model.example(dtype, n=503)
    params = gcf.fit(model.classifier, x, y)
    for prior in ([0.6, 0.3, 0.1], [1e-6, 0.5, 0.5 - 1e-6], [0.0, 0.7, 0.3]):
        found = gcf.adapt_prior(gcf.with_prior(params, jnp.array(prior, dtype)), x)
        assert found.converged
        assert remaining(found.params, x) <= max(1.1e-6, 200 * np.finfo(dtype).eps)
        assert (np.asarray(found.params.log_prior) == -np.inf).tolist() == [p == 0 for p in prior]


@pytest.mark.slow
def test_adapt_prior_that_was_stopped_says_so(x64):
    params, x = overlapping(np.dtype("float64"))
    found = gcf.adapt_prior(params, x, max_steps=2)
    assert not found.converged and found.steps == 2
    assert remaining(found.params, x) > 1e-6


def test_classes_of_the_same_density(x64):
    x, _ = BY_NAME["gaussian"].example("float64")
    params = gcf.fit(gcf.lda(K), np.tile(x, (K, 1)), np.repeat(np.arange(K), len(x)))
    params = gcf.with_prior(params, jnp.array([0.2, 0.5, 0.3]))
    found = gcf.adapt_prior(params, x)
    assert found.converged
    np.testing.assert_allclose(jnp.exp(found.params.log_prior).sum(), 1, rtol=1e-12)


ALIKE = np.tile(np.arange(2), 20)[:, None], np.repeat(np.arange(2), 20)
# Counts more even than a prior of any strength expects; means and variances that are the prior's.
WITHOUT_END = {
    "dirichlet": (gcf.categorical_nb(2, 2), *ALIKE),
    "dirichlet-array": (
        gcf.categorical_nb(2, 2, prior=gcf.Dirichlet(np.full(2, 1.5))),
        *ALIKE,
    ),
    "beta": (gcf.bernoulli_nb(2, prior=gcf.Beta(1.0, 1.0)), *ALIKE),
    "gaussian": (
        gcf.gaussian_nb(2, prior=gcf.NormalInverseWishart(mean=0.5)),
        ALIKE[0].astype(float),
        ALIKE[1],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_END)
def test_fit_prior_that_rises_without_end(name, dtype):
    clf, x, y = WITHOUT_END[name]
    x = x.astype(dtype) if x.dtype.kind == "f" else x
    # From anywhere: where the evidence is flat the slope alone would say that it has arrived.
    s = gcf.stats(clf, x, y)
    found = gcf.fit_prior(clf, s)
    assert not found.converged
    assert not gcf.fit_prior(found.classifier, s).converged


@pytest.mark.slow
def test_fit_prior_begun_where_the_evidence_is_flat(x64):
    x, y = ALIKE
    for strength in (1e6, 1e8, 1e9):
        clf = gcf.categorical_nb(2, 2, prior=gcf.Dirichlet(strength))
        assert not gcf.fit_prior(clf, gcf.stats(clf, x, y)).converged
