"""What params can do, on a few rows beside NumPy and SciPy.

Laws on all models hold the same in `make test-all`; here each method runs in `make test` too.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.covariance import ledoit_wolf, oas

import genclf as gcf
from genclf.families.gaussian.row_space import RowSpaceParams
from tests.registry import assert_close, stack

pytestmark = pytest.mark.usefixtures("x64")

RNG = np.random.default_rng(0)
DRAWS = 4001


def arrays(*values):
    return [jnp.asarray(value, float) for value in values]


def compiled(method, *args):
    """The method's answer as one program, which is compiled sooner than each of its steps."""
    return jax.jit(lambda *of: method(*of))(*args)


def assert_moments(drawn, mean, variance):
    """Within five standard errors; that of a variance as of a kurtosis of 9."""
    drawn = np.asarray(drawn, float)
    assert (np.abs(drawn.mean(0) - mean) < 5 * np.sqrt(variance / len(drawn))).all()
    assert (np.abs(drawn.var(0) / variance - 1) < 5 * np.sqrt(8 / len(drawn))).all()


def test_directions():
    mean, kappa = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, -1.0]]), np.array([3.0, 11.0])
    params = gcf.VonMisesFisherParams(*arrays(mean, kappa))
    known = [scipy.stats.vonmises_fisher(m, k) for m, k in zip(mean, kappa, strict=True)]
    x = np.concatenate([one.rvs(7, random_state=RNG) for one in known])
    log_p = np.stack([one.logpdf(x) for one in known], 1)
    apart = log_p[:, 1] - log_p[:, 0]
    coef, intercept = params.linear()
    np.testing.assert_allclose(x @ np.asarray(coef).T + np.asarray(intercept), log_p, rtol=1e-9)
    y, other = jnp.ones(14, int), jnp.zeros(14, int)
    terms = compiled(params.terms, jnp.asarray(x), y, other).sum(1) + params.constant(y, other)
    np.testing.assert_allclose(terms, apart, rtol=1e-9)
    score = compiled(params.discriminant, jnp.asarray(x))
    np.testing.assert_allclose(score[:, 1] - score[:, 0], apart, rtol=1e-9)
    clf, label = gcf.Classifier(gcf.VonMisesFisher(shared=True), 2), np.repeat([0, 1], 7)
    found, summed = gcf.fit(clf, x, label), gcf.stats(clf, x, label)
    own = np.asarray(compiled(found.conditional.log_prob, jnp.asarray(x)))[
        np.arange(14), label
    ].sum()
    np.testing.assert_allclose(
        compiled(found.conditional.log_lik, summed.conditional), own, rtol=1e-11
    )
    assert gcf.num_parameters(clf, 3) == 1 + 2 * 2 + 1
    assert gcf.num_parameters(gcf.Classifier(gcf.VonMisesFisher(), 2), 3) == 1 + 2 * 2 + 2
    drawn = np.asarray(compiled(params.sample, jax.random.key(1), jnp.repeat(jnp.arange(2), DRAWS)))
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, rtol=1e-12)
    for k, rows in enumerate(np.split(drawn, 2)):
        # In three dimensions the cosine w has the density κ exp(κ w) / (2 sinh κ).
        below = lambda w, k=k: np.expm1(kappa[k] * (w + 1)) / np.expm1(2 * kappa[k])  # noqa: E731
        assert scipy.stats.kstest(rows @ mean[k], below).pvalue > 1e-3


def test_the_space_of_few_rows():
    x, y = RNG.normal(size=(5, 7)) + 3, np.array([0, 1, 0, 1, 0])
    params = gcf.fit(gcf.qda(2, shrinkage=0.3), x, y).conditional
    assert isinstance(params, RowSpaceParams)
    own = np.stack([np.cov(x[y == k].T, bias=True) for k in range(2)])
    shrunk = 0.7 * own + 0.3 * np.trace(own, axis1=1, axis2=2)[:, None, None] / 7 * np.eye(7)
    mean = np.stack([x[y == k].mean(0) for k in range(2)])
    np.testing.assert_allclose(params.covariances, shrunk, atol=1e-12)
    np.testing.assert_allclose(params.mean, mean, atol=1e-12)
    new = np.concatenate([x, RNG.normal(size=(6, 7)) + 3])
    known = [multivariate_normal(m, c) for m, c in zip(mean, shrunk, strict=True)]
    log_p = np.stack([one.logpdf(new) for one in known], 1)
    np.testing.assert_allclose(compiled(params.log_prob, jnp.asarray(new)), log_p, rtol=1e-10)
    label = np.array([0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0])
    summed = gcf.stats(gcf.qda(2), new, label).conditional
    np.testing.assert_allclose(
        compiled(params.log_lik, summed), log_p[np.arange(11), label].sum(), 1e-10
    )
    drawn = np.asarray(compiled(params.sample, jax.random.key(2), jnp.zeros(DRAWS, int)))
    whitened = (drawn - mean[0]) @ np.linalg.inv(np.linalg.cholesky(shrunk[0])).T
    assert_moments(whitened, 0, np.ones(7))
    assert np.abs(np.corrcoef(whitened.T) - np.eye(7)).max() < 5 / np.sqrt(DRAWS)


def test_intensities_of_merged_statistics():
    x, y = RNG.normal(size=(14, 3)) * [1, 3, 9] + 5, np.arange(14) % 2
    clf = gcf.qda(2, shrinkage="ledoit-wolf")
    a, b = gcf.stats(clf, x[:7], y[:7]), gcf.stats(clf, x[7:], y[7:])
    whole = gcf.stats(clf, x, y)
    assert_close(gcf.merge(a, b), whole, 1e-11)
    assert_close(gcf.remove(whole, b), a, 1e-10)
    assert_close(gcf.pool(stack([a, b])), whole, 1e-11)
    for peer, other in ((ledoit_wolf, clf), (oas, gcf.qda(2, shrinkage="oas"))):
        summed = whole if peer is ledoit_wolf else gcf.stats(other, x, y)
        found = gcf.estimate(other, summed).conditional.covariances
        expected = [peer(x[y == k])[0] for k in range(2)]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def mixture(missing="error"):
    """Three components of two features in each of two classes."""
    weight = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    mean, deviation = RNG.normal(size=(6, 2)) * 3, RNG.uniform(0.5, 2, (6, 2))
    each = gcf.GaussianParams(*arrays(mean, deviation), "diag", False, missing)
    params = gcf.MixtureParams(jnp.log(jnp.asarray(weight)), each)
    return params, weight, mean.reshape(2, 3, 2), deviation.reshape(2, 3, 2)


def test_mixtures():
    params, weight, mean, deviation = mixture("marginalize")
    x, r = np.array([[0.3, np.nan], [1.0, -2.0], [np.nan, 4.0]]), np.array([[0.25, 0.75]] * 3)
    each = norm.logpdf(x[:, None, None], mean, deviation)
    joint = np.log(weight) + np.nansum(each, -1)
    np.testing.assert_allclose(
        compiled(params.log_prob, jnp.asarray(x)), logsumexp(joint, -1), rtol=1e-10
    )
    share = r[..., None] * np.exp(joint - logsumexp(joint, -1, keepdims=True))
    expected = np.where(np.isnan(x), np.einsum("nkj,kjd->nd", share, mean), x)
    np.testing.assert_allclose(compiled(params.condition, *arrays(x, r)).mean, expected, rtol=1e-10)
    y = jnp.repeat(jnp.arange(2), DRAWS)
    spread = np.einsum("kj,kjd->kd", weight, deviation**2 + mean**2)
    centre = np.einsum("kj,kjd->kd", weight, mean)
    for k, rows in enumerate(
        np.split(np.asarray(compiled(params.sample, jax.random.key(3), y)), 2)
    ):
        assert_moments(rows, centre[k], spread[k] - centre[k] ** 2)
    many = jnp.asarray(np.repeat(x[:1], 2 * DRAWS, 0))
    for k, rows in enumerate(
        np.split(np.asarray(compiled(params.sample_missing, jax.random.key(4), many, y)), 2)
    ):
        own = np.exp(joint[0, k] - logsumexp(joint[0, k]))
        middle = own @ mean[k, :, 1]
        variance = own @ (deviation[k, :, 1] ** 2 + mean[k, :, 1] ** 2) - middle**2
        assert (rows[:, 0] == 0.3).all()
        assert_moments(rows[:, 1:], middle, np.array([variance]))


def test_the_likelihood_of_components():
    params, weight, mean, deviation = mixture()
    x, part = RNG.normal(size=(11, 2)), np.arange(11) % 6
    summed = gcf.stats(gcf.gaussian_nb(6), x, part)
    own = norm.logpdf(x, mean.reshape(6, 2)[part], deviation.reshape(6, 2)[part]).sum()
    expected = own + np.log(weight.reshape(6)[part]).sum()
    np.testing.assert_allclose(compiled(params.log_lik, summed), expected, rtol=1e-11)
    clf = gcf.Classifier(gcf.Mixture(gcf.Gaussian("diag"), 3), 2)
    assert gcf.num_parameters(clf, 2) == 1 + 2 * 2 + 6 * 4
    assert params.statistic.startswith("3 components of each class, each: ")


def test_words():
    theta = np.array([[0.5, 0.2, 0.3], [0.1, 0.3, 0.6]])
    params = gcf.MultinomialParams(
        jnp.log(jnp.asarray(theta)), jnp.asarray(9.0), False, "marginalize"
    )
    x, r = np.array([[4.0, np.nan, 2.0], [1.0, 3.0, 0.0]]), np.array([[0.25, 0.75], [0.5, 0.5]])
    log_p = [x[0, [0, 2]] @ np.log(theta[:, [0, 2]] / theta[:, [0, 2]].sum(1, keepdims=True)).T]
    log_p.append(x[1] @ np.log(theta).T)
    np.testing.assert_allclose(compiled(params.log_prob, jnp.asarray(x)), log_p, rtol=1e-11)
    terms = compiled(params.terms, jnp.asarray(x), jnp.ones(2, int), jnp.zeros(2, int))
    np.testing.assert_allclose(terms.sum(1), [one[1] - one[0] for one in log_p], rtol=1e-11)
    # Words are drawn until 6 counted ones were met.
    expected = 6 * theta[:, 1] / (1 - theta[:, 1])
    found = compiled(params.condition, *arrays(x, r))
    np.testing.assert_allclose(found, [[4, r[0] @ expected, 2], x[1]], rtol=1e-11)
    many = jnp.asarray(np.repeat(x[:1], 2 * DRAWS, 0))
    drawn = compiled(
        params.sample_missing, jax.random.key(5), many, jnp.repeat(jnp.arange(2), DRAWS)
    )
    for k, rows in enumerate(np.split(np.asarray(drawn), 2)):
        assert (rows[:, [0, 2]] == [4, 2]).all()
        assert_moments(rows[:, 1], expected[k], expected[k] / (1 - theta[k, 1]))


def test_counts():
    rate = np.array([[2.0, 0.5], [1.0, 7.0]])
    params = gcf.PoissonParams(jnp.log(jnp.asarray(rate)), "marginalize")
    x, r = np.array([[3.0, np.nan]]), np.array([[0.25, 0.75]])
    np.testing.assert_allclose(compiled(params.condition, *arrays(x, r)), [[3, r[0] @ rate[:, 1]]])
    many = jnp.asarray(np.repeat(x, 2 * DRAWS, 0))
    drawn = compiled(
        params.sample_missing, jax.random.key(6), many, jnp.repeat(jnp.arange(2), DRAWS)
    )
    for k, rows in enumerate(np.split(np.asarray(drawn), 2)):
        assert (rows[:, 0] == 3).all()
        assert_moments(rows[:, 1], rate[k, 1], rate[k, 1])


def test_counts_of_uncertain_rates():
    a, b = np.array([[2.0, 3.0], [5.0, 0.7]]), np.array([[0.5, 2.0], [1.0, 0.3]])
    params = gcf.NegativeBinomialParams(*arrays(a, b))
    x = RNG.poisson(3, (7, 2))
    log_p = scipy.stats.nbinom.logpmf(x[:, None], a, b / (1 + b)).sum(-1)
    found = compiled(params.log_prob, jnp.asarray(x))
    np.testing.assert_allclose(found, log_p, rtol=1e-10)
    for score in (
        compiled(params.discriminant, jnp.asarray(x)),
        compiled(params.discriminant, jnp.asarray(x) + 10**9),
    ):
        assert np.isfinite(score).all()
    score = compiled(params.discriminant, jnp.asarray(x))
    np.testing.assert_allclose(score[:, 1] - score[:, 0], log_p[:, 1] - log_p[:, 0], rtol=1e-9)
    terms = compiled(params.terms, jnp.asarray(x), jnp.ones(7, int), jnp.zeros(7, int)).sum(1)
    np.testing.assert_allclose(terms, log_p[:, 1] - log_p[:, 0], rtol=1e-9)
    drawn = np.asarray(compiled(params.sample, jax.random.key(7), jnp.repeat(jnp.arange(2), DRAWS)))
    for k, rows in enumerate(np.split(drawn, 2)):
        assert_moments(rows, a[k] / b[k], a[k] * (1 + b[k]) / b[k] ** 2)


def test_documents_of_uncertain_words():
    a = np.array([[0.5, 1.5, 3.0], [2.0, 2.0, 1.0]])
    params = gcf.DirichletMultinomialParams(*arrays(a, 11.0), False)
    counts = np.array([[2, 0, 3], [0, 1, 1], [5, 0, 0]])
    tokens = [np.repeat(np.arange(3), row) for row in counts]
    length = max(map(len, tokens))
    ids = np.stack([np.pad(row, (0, length - len(row))) for row in tokens]).astype(np.int32)
    mask = np.arange(length) < counts.sum(1)[:, None]
    order = np.array([3, 0, 4, 2, 1])
    rows = gcf.Tokens(jnp.asarray(ids[:, order]), jnp.asarray(mask[:, order]), 3)
    gammas = lambda at, n: scipy.special.gammaln(at + n) - scipy.special.gammaln(at)  # noqa: E731
    expected = gammas(a, counts[:, None]).sum(-1) - gammas(a.sum(1), counts.sum(1)[:, None])
    np.testing.assert_allclose(compiled(params.log_prob, jnp.asarray(counts)), expected, rtol=1e-10)
    np.testing.assert_allclose(compiled(params.log_prob, rows), expected, rtol=1e-10)
    drawn = np.asarray(compiled(params.sample, jax.random.key(8), jnp.repeat(jnp.arange(2), DRAWS)))
    for k, of in enumerate(np.split(drawn, 2)):
        mean, total = 11 * a[k] / a[k].sum(), a[k].sum()
        spread = 11**2 * (a[k] / total) * (1 - a[k] / total) / (total + 1)
        assert_moments(of, mean, mean + spread)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_heavy_tails(covariance):
    mean, dof, inflation = np.array([[1.0, -2.0], [0.0, 3.0]]), np.array([9.0, 14.0]), [1.5, 1.1]
    scale = np.array([[[2.0, 0.0], [1.0, 0.5]], [[1.0, 0.0], [-0.5, 2.0]]])
    scale = scale if covariance == "full" else np.array([[2.0, 0.5], [1.0, 3.0]])
    params = gcf.StudentTParams(*arrays(mean, scale, dof, inflation), covariance, False)
    x = RNG.normal(size=(5, 2))
    drawn = np.split(
        np.asarray(compiled(params.sample, jax.random.key(9), jnp.repeat(jnp.arange(2), DRAWS))), 2
    )
    for k in range(2):
        if covariance == "full":
            spread = inflation[k] * scale[k] @ scale[k].T
            log_p = scipy.stats.multivariate_t(mean[k], spread, dof[k]).logpdf(x)
            variance = np.diagonal(spread)
        else:
            variance = inflation[k] * scale[k] ** 2
            log_p = scipy.stats.t.logpdf(x, dof[k], mean[k], np.sqrt(variance)).sum(1)
        np.testing.assert_allclose(
            compiled(params.log_prob, jnp.asarray(x))[:, k], log_p, rtol=1e-10
        )
        assert_moments(drawn[k], mean[k], variance * dof[k] / (dof[k] - 2))
        for j in range(2):
            one = scipy.stats.t(dof[k], mean[k, j], np.sqrt(variance[j]))
            assert scipy.stats.kstest(drawn[k][:, j], one.cdf).pvalue > 1e-3


def gaussians(shared):
    """Two classes of three features with missing cells, and matrices of NumPy."""
    factor = np.tril(RNG.normal(size=(1 if shared else 2, 3, 3))) + 2 * np.eye(3)
    mean = RNG.normal(size=(2, 3))
    params = gcf.GaussianParams(*arrays(mean, factor), "full", shared, "marginalize")
    return params, mean, np.broadcast_to(factor @ factor.swapaxes(1, 2), (2, 3, 3))


X = np.array([[0.3, np.nan, 1.0], [1.0, -2.0, np.nan], [np.nan, 4.0, np.nan], [1.0, 2.0, 3.0]])


def of_seen(x, mean, covariance):
    """The log-density of the observed cells, the completed row, and the covariance that is left."""
    seen, left = ~np.isnan(x), np.zeros((3, 3))
    log_p = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(x[seen])
    turn = covariance[np.ix_(~seen, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    row = x.copy()
    row[~seen] = mean[~seen] + turn @ (x[seen] - mean[seen])
    left[np.ix_(~seen, ~seen)] = (
        covariance[np.ix_(~seen, ~seen)] - turn @ covariance[np.ix_(seen, ~seen)]
    )
    return log_p, row, left


@pytest.mark.parametrize("shared", [False, True])
def test_missing_cells(shared):
    params, mean, covariance = gaussians(shared)
    known = [[of_seen(x, mean[k], covariance[k]) for k in range(2)] for x in X]
    log_p = np.array([[of[0] for of in row] for row in known])
    score, completion = compiled(params.complete, jnp.asarray(X))
    np.testing.assert_allclose(score, log_p, rtol=1e-9)
    w = RNG.uniform(0.5, 2, (4, 2))
    moments = completion.stats(jnp.asarray(w))
    scatter = np.zeros((2, 3, 3))
    for k in range(2):
        rows, left = (np.stack([row[k][i] for row in known]) for i in (1, 2))
        centre = np.average(rows, 0, w[:, k])
        np.testing.assert_allclose(moments.mean[k], centre, rtol=1e-10)
        apart = rows - centre
        scatter[k] = np.einsum("n,nij->ij", w[:, k], apart[:, :, None] * apart[:, None] + left)
    found = np.asarray(moments.scatter)
    np.testing.assert_allclose(found, scatter.sum(0, keepdims=True) if shared else scatter, 1e-9)
    if shared:
        y, other = jnp.ones(4, int), jnp.zeros(4, int)
        terms = compiled(params.terms, jnp.asarray(X), y, other)
        np.testing.assert_allclose(terms.sum(1), log_p[:, 1] - log_p[:, 0], rtol=1e-9)
        assert (np.asarray(terms)[np.isnan(X)] == 0).all()
