"""Densities are those of scipy.stats, and the textbook's formulas written out in NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import genclf as gcf
from tests.registry import BY_NAME, D, K, assert_near

pytestmark = pytest.mark.usefixtures("x64")

TOLERANCE = 1e-10


def fitted(family):
    x, y = BY_NAME["gaussian"].example("float64")
    seen, _ = BY_NAME["gaussian"].example("float64", seed=1)
    return gcf.fit(gcf.Classifier(family, K), x, y), x, y, seen


def log_density(params, x):
    return np.asarray(gcf.log_joint(params, x)) - np.asarray(params.log_prior)


def covariances(x, y, covariance, shared, ddof=0):
    """The estimates by their definitions: (K, d, d)."""
    own = [np.cov(x[y == k].T, bias=True) * (y == k).sum() for k in range(K)]
    count = np.bincount(y)
    if shared:
        own = [sum(own) / (len(y) - ddof)] * K
    else:
        own = [s / (n - ddof) for s, n in zip(own, count, strict=True)]
    if covariance == "diag":
        own = [np.diag(np.diag(s)) for s in own]
    elif covariance == "spherical":
        own = [np.eye(D) * np.trace(s) / D for s in own]
    return np.stack(own)


@pytest.mark.parametrize("ddof", [0, 1, 3])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_gaussian(covariance, shared, ddof):
    params, x, y, seen = fitted(gcf.Gaussian(covariance, shared, ddof=float(ddof)))
    expected = covariances(x, y, covariance, shared, ddof)
    np.testing.assert_allclose(params.conditional.covariances, expected, rtol=1e-12, atol=1e-14)
    means = np.stack([x[y == k].mean(0) for k in range(K)])
    assert_near(params.conditional.mean, means, 1e-13)
    density = [stats.multivariate_normal(means[k], expected[k]).logpdf(seen) for k in range(K)]
    assert_near(log_density(params, seen), np.stack(density, 1), TOLERANCE)


@pytest.mark.parametrize("shared", [False, True])
def test_ridge_is_a_share_of_the_pooled_variance(shared):
    params, x, y, _ = fitted(gcf.Gaussian(shared=shared, ridge=0.1))
    pooled = np.diag(covariances(x, y, "diag", True)[0])
    expected = covariances(x, y, "full", shared) + np.diag(0.1 * pooled)
    np.testing.assert_allclose(params.conditional.covariances, expected, rtol=1e-12, atol=1e-14)


def test_univariate():
    x, y = BY_NAME["univariate"].example("float64")
    params = gcf.fit(gcf.qda(K), x, y)
    density = [stats.norm(x[y == k].mean(), x[y == k].std()).logpdf(x[:, 0]) for k in range(K)]
    assert_near(log_density(params, x), np.stack(density, 1), TOLERANCE)


def test_bernoulli():
    x, y = BY_NAME["bernoulli"].example("float64")
    params = gcf.fit(gcf.bernoulli_nb(K), x, y)
    p = np.stack([(x[y == k].sum(0) + 1) / ((y == k).sum() + 2) for k in range(K)])
    np.testing.assert_allclose(params.conditional.probs, p, rtol=1e-14)
    density = np.stack([stats.bernoulli(p[k]).logpmf(x).sum(1) for k in range(K)], 1)
    assert_near(log_density(params, x), density, TOLERANCE)


def test_multinomial_less_the_number_of_orders():
    # log_prob is of the sequence of words; scipy's pmf is of the counts.
    x, y = BY_NAME["multinomial"].example("float64")
    params = gcf.fit(gcf.multinomial_nb(K), x, y)
    theta = np.stack([x[y == k].sum(0) + 1 for k in range(K)]).astype(float)
    theta /= theta.sum(1, keepdims=True)
    np.testing.assert_allclose(np.exp(params.conditional.log_theta), theta, rtol=1e-14)
    length = x.sum(1)
    orders = gammaln(length + 1) - gammaln(x + 1).sum(1)
    density = np.stack([stats.multinomial.logpmf(x, length, theta[k]) for k in range(K)], 1)
    found = log_density(params, x) + orders[:, None]
    np.testing.assert_allclose(found, density, rtol=TOLERANCE, atol=1e-12)


def test_categorical():
    x, y = BY_NAME["categorical"].example("float64")
    params = gcf.fit(gcf.categorical_nb(K, 7, alpha=0.5), x, y)
    density = np.zeros((len(y), K))
    for k in range(K):
        for j in range(D):
            count = np.bincount(x[y == k, j], minlength=7) + 0.5
            density[:, k] += np.log(count / count.sum())[x[:, j]]
    assert_near(log_density(params, x), density, TOLERANCE)


def test_discriminant_functions_of_the_textbook():
    # δ_k(x) = xᵀ Σ⁻¹ μ_k - ½ μ_kᵀ Σ⁻¹ μ_k + log π_k, and its quadratic kin.
    x, y = BY_NAME["gaussian"].example("float64")
    mean = np.stack([x[y == k].mean(0) for k in range(K)])
    log_prior = np.log(np.bincount(y) / len(y))
    precision = np.linalg.inv(covariances(x, y, "full", True)[0])
    linear = x @ precision @ mean.T - 0.5 * np.diag(mean @ precision @ mean.T) + log_prior
    found = np.asarray(gcf.discriminant(gcf.fit(gcf.lda(K), x, y), x))
    np.testing.assert_allclose(found - found[:, :1], linear - linear[:, :1], rtol=1e-9, atol=1e-9)
    own = covariances(x, y, "full", False)
    quadratic = [
        -0.5 * np.linalg.slogdet(own[k])[1]
        - 0.5 * np.einsum("ni,ij,nj->n", x - mean[k], np.linalg.inv(own[k]), x - mean[k])
        + log_prior[k]
        for k in range(K)
    ]
    quadratic = np.stack(quadratic, 1)
    found = np.asarray(gcf.discriminant(gcf.fit(gcf.qda(K), x, y), x))
    np.testing.assert_allclose(
        found - found[:, :1], quadratic - quadratic[:, :1], rtol=1e-9, atol=1e-9
    )


def test_poisson_and_its_predictive():
    x, y = BY_NAME["poisson"].example("float64")
    count = np.bincount(y)[:, None]
    total = np.stack([x[y == k].sum(0) for k in range(K)])
    params = gcf.fit(gcf.Classifier(gcf.Poisson(alpha=0.5), K), x, y)
    rate = (total + 0.5) / count
    np.testing.assert_allclose(params.conditional.rate, rate, rtol=1e-14)
    density = stats.poisson.logpmf(x[:, None], rate[None]).sum(-1)
    assert_near(log_density(params, x), density, TOLERANCE)
    clf = gcf.Classifier(gcf.Poisson(prior=gcf.Gamma(1.7, 0.6)), K, inference="predictive")
    found = gcf.fit(clf, x, y)
    shape, scale = total + 1.7, count + 0.6
    density = stats.nbinom.logpmf(x[:, None], shape[None], (scale / (scale + 1))[None]).sum(-1)
    assert_near(log_density(found, x), density, TOLERANCE)


@pytest.mark.slow
def test_large_counts_keep_their_digits():
    rate = np.array([[1e6, 3.0], [1.001e6, 3.5]])
    x = np.array([[1_000_500, 2], [999_000, 0], [1_002_000, 9]])
    for dtype, tolerance in (("float32", 0.3), ("float64", 1e-7)):
        params = gcf.PoissonParams(jnp.log(jnp.asarray(rate, dtype)))
        expected = stats.poisson.logpmf(
            x[:, None], np.exp(np.asarray(params.log_rate, np.float64))
        ).sum(-1)
        found = np.asarray(params.log_prob(jnp.asarray(x, dtype)))
        # Of a logarithm of 13.8 float32 leaves a rate of 1e6 to within a part.
        np.testing.assert_allclose(found, expected, atol=tolerance)
        np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=tolerance / 50)
