"""Evidence and predictives against numerical integration and scipy's distributions."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import genclf as gcf
from tests.registry import assert_near

pytestmark = pytest.mark.usefixtures("x64")

X = np.array([[0.3], [1.9], [2.2], [-0.4], [1.1]])
ONE = np.zeros(5, int)
PRIOR = {"mean": 0.5, "kappa": 0.8, "scale": 1.7, "dof": 3.4}


def integral(x):
    """`∫∫ Π_n N(x_n; μ, σ²) p(μ, σ²) dμ dσ²` by quadrature, over the logarithm of σ²."""
    half, rate = PRIOR["dof"] / 2, PRIOR["scale"] / 2
    constant = half * math.log(rate) - math.lgamma(half) + 0.5 * math.log(PRIOR["kappa"])
    constant -= 0.5 * (len(x) + 1) * math.log(2 * math.pi)
    n, mean, scatter = len(x), float(np.mean(x)), float(np.sum((x - np.mean(x)) ** 2))

    def inner(mu, log_variance):
        away = scatter + n * (mean - mu) ** 2 + PRIOR["kappa"] * (mu - PRIOR["mean"]) ** 2
        power = -(half + 0.5 * (n + 1)) * log_variance
        return math.exp(constant + power - (rate + 0.5 * away) / math.exp(log_variance))

    found, _ = integrate.dblquad(inner, -8, 8, -8, 12, epsabs=1e-14, epsrel=1e-10)
    return found


@pytest.fixture(scope="module")
def evidence():
    return integral(X)


def gaussian(covariance):
    family = gcf.Gaussian(covariance, prior=gcf.NormalInverseWishart(**PRIOR))
    return gcf.Classifier(family, 1)


@pytest.mark.slow("full")
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_gaussian_evidence(covariance, evidence):
    clf = gaussian(covariance)
    found = gcf.log_evidence(clf, gcf.stats(clf, X, ONE))
    np.testing.assert_allclose(np.exp(found), evidence, rtol=1e-7)


def test_student_t_predictive_is_a_ratio_of_integrals(evidence):
    clf = gaussian("full")
    params = gcf.predictive(clf, gcf.stats(clf, X, ONE))
    for new in (-1.5, 4.0):
        ratio = integral(np.append(X, new)) / evidence
        np.testing.assert_allclose(
            np.exp(gcf.log_joint(params, np.array([new]))[0]), ratio, rtol=1e-6
        )


@pytest.mark.slow
def test_student_t_predictive_is_that_of_scipy():
    rng = np.random.default_rng(0)
    d, n = 3, 11
    x, scale = rng.normal(size=(n, d)), np.diag([1.0, 2.0, 3.0]) + 0.4
    mean, kappa, dof = np.array([0.1, 0.2, 0.3]), 0.7, 4.5
    prior = gcf.NormalInverseWishart(mean, kappa, scale, dof)
    clf = gcf.Classifier(gcf.Gaussian(prior=prior), 1)
    params = gcf.predictive(clf, gcf.stats(clf, x, np.zeros(n, int)))
    # Murphy (2012), eqs. 4.209 to 4.215 and 4.222.
    centred = x - x.mean(0)
    away = x.mean(0) - mean
    psi = scale + centred.T @ centred + kappa * n / (kappa + n) * np.outer(away, away)
    location, k, nu = (kappa * mean + n * x.mean(0)) / (kappa + n), kappa + n, dof + n
    shape = psi * (k + 1) / (k * (nu - d + 1))
    expected = stats.multivariate_t(location, shape, df=nu - d + 1).logpdf(x)
    assert_near(gcf.log_joint(params, x)[:, 0], expected, 1e-12)


@pytest.mark.slow
def test_posterior_of_a_gaussian_is_that_of_scipy():
    clf = gaussian("full")
    s = gcf.stats(clf, X, ONE)
    post = gcf.posterior(clf, s)
    node = post.conditional
    psi, nu = float(node.scale[0, 0, 0]), float(node.dof[0])
    for mu, variance in [(0.7, 1.1), (1.4, 0.6)]:
        params = gcf.ClassifierParams(
            jnp.zeros(1),
            gcf.GaussianParams(
                jnp.full((1, 1), mu), jnp.full((1, 1, 1), variance**0.5), "full", False
            ),
        )
        expected = stats.invwishart(nu, psi).logpdf(variance)
        expected += stats.norm(node.mean[0, 0], np.sqrt(variance / node.kappa[0])).logpdf(mu)
        assert_near(post.log_prob(params), expected, 1e-12)
    bounds = post.interval(0.9)
    t = stats.t(nu, node.mean[0, 0], np.sqrt(psi / (nu * node.kappa[0])))
    np.testing.assert_allclose(np.ravel(bounds["mean"]), t.interval(0.9), rtol=1e-10)
    inverse_gamma = stats.invgamma(nu / 2, scale=psi / 2)
    np.testing.assert_allclose(
        np.ravel(bounds["variance"]), inverse_gamma.interval(0.9), rtol=1e-10
    )


def test_beta_evidence_and_intervals():
    x = np.array([[1], [0], [1], [1]])
    clf = gcf.Classifier(gcf.Bernoulli(prior=gcf.Beta(1.3, 2.6)), 1)
    s = gcf.stats(clf, x, np.zeros(4, int))
    prior = stats.beta(1.3, 2.6)
    expected, _ = integrate.quad(lambda p: p**3 * (1 - p) * prior.pdf(p), 0, 1, epsabs=1e-13)
    np.testing.assert_allclose(np.exp(gcf.log_evidence(clf, s)), expected, rtol=1e-9)
    found = gcf.posterior(clf, s).interval(0.8)["probs"]
    np.testing.assert_allclose(np.ravel(found), stats.beta(4.3, 3.6).interval(0.8), rtol=1e-12)


def test_dirichlet_evidence_by_quadrature_and_words_by_their_urn():
    # Three words: an integral over a triangle.
    a, counts = np.array([0.9, 1.4, 2.2]), np.array([[2, 0, 1], [1, 3, 0]])
    clf = gcf.Classifier(gcf.Multinomial(prior=gcf.Dirichlet(a)), 1)
    s = gcf.stats(clf, counts[:1], np.zeros(1, int))

    constant = math.lgamma(a.sum()) - sum(math.lgamma(v) for v in a)

    def of(counts):
        power = a - 1 + counts

        def density(q, p):
            return math.exp(constant) * p ** power[0] * q ** power[1] * (1 - p - q) ** power[2]

        return integrate.dblquad(density, 0, 1, 0, lambda p: 1 - p, epsabs=1e-11)[0]

    first, both = of(counts[0]), of(counts.sum(0))
    np.testing.assert_allclose(np.exp(gcf.log_evidence(clf, s)), first, rtol=1e-6)
    ahead = gcf.log_joint(gcf.predictive(clf, s), counts[1])[0]
    np.testing.assert_allclose(np.exp(ahead), both / first, rtol=1e-6)
    urn = stats.dirichlet_multinomial(a + counts[0], counts[1].sum()).logpmf(counts[1])
    orders = stats.multinomial(counts[1].sum(), [1 / 3] * 3).logpmf(counts[1]) + 4 * np.log(3)
    assert_near(ahead, urn - orders, 1e-12, terms=(urn, orders))


@pytest.mark.slow
def test_fit_prior_against_a_grid():
    votes = gcf.datasets.load_house_votes()
    clf = gcf.categorical_nb(2, 3)
    s = gcf.stats(clf, votes.x, votes.y)
    found = gcf.fit_prior(clf, s)
    assert found.converged
    grid = np.exp(np.linspace(-2, 2, 401))
    of = lambda a: gcf.log_evidence(gcf.categorical_nb(2, 3, prior=gcf.Dirichlet(a)), s)  # noqa: E731
    curve = np.asarray(jax.vmap(of)(jnp.asarray(grid)))
    assert found.log_evidence >= curve.max()
    best = found.classifier.family.prior.concentration
    assert abs(np.log(best) - np.log(grid[curve.argmax()])) <= 0.01


@pytest.mark.slow
def test_a_prior_without_end_is_said_to_be_one():
    # Counts more even than any multinomial makes them: the larger the concentration the better.
    x, y = np.tile(np.arange(2), 20)[:, None], np.repeat(np.arange(2), 20)
    clf = gcf.categorical_nb(2, 2)
    assert not gcf.fit_prior(clf, gcf.stats(clf, x, y)).converged
