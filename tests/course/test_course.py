"""What courses state of generative learning, in NumPy, beside the functions that compute it.

`docs/notes-to-code.md` names these tests.
"""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

import genclf as gcf

pytestmark = pytest.mark.usefixtures("x64")

MEAN = np.array([[0.0, 1.0], [2.0, -1.0]])
SIGMA = np.array([[1.0, 0.4], [0.4, 0.7]])
PHI = 0.3
N = 101


def close(actual, expected, rtol=1e-10, atol=1e-12):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=atol)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


@pytest.fixture(scope="module")
def stated():
    with jax.enable_x64(True):
        return gcf.ClassifierParams.of([1 - PHI, PHI], gcf.GaussianParams.of(MEAN, SIGMA))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], (67, 34)))
    return MEAN[y] + rng.normal(size=(N, 2)) @ np.linalg.cholesky(SIGMA).T, y


def gaussian(x, mean, sigma):
    return scipy.stats.multivariate_normal(mean, sigma).pdf(x)


# Two philosophies


def test_the_perceptron_separates_what_can_be_separated():
    """Gradient steps on `max(0, -s f(x))`, example by example: at most (R / margin)² mistakes."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 3))
    normal = np.array([0.6, -0.8, 0.0])
    x = np.c_[x[np.abs(x @ normal) > 0.2], np.ones((np.abs(x @ normal) > 0.2).sum())]
    s = np.where(x[:, :3] @ normal > 0, 1.0, -1.0)
    loss = jax.jit(jax.value_and_grad(lambda w, x, s: jnp.maximum(-s * (x @ w), 0.0)))
    optimiser, w, mistakes = optax.sgd(1.0), jnp.zeros(4), 0
    for _ in range(100):
        wrong = np.flatnonzero(s * (x @ np.asarray(w)) <= 0)
        if not len(wrong):
            break
        at = wrong[0]
        _, gradient = loss(w - 1e-9 * s[at] * x[at], x[at], s[at])
        w = optax.apply_updates(w, optimiser.update(gradient, optimiser.init(w))[0])
        mistakes += 1
    assert (s * (x @ np.asarray(w)) > 0).all()
    margin = np.abs(x[:, :3] @ normal).min()
    assert 0 < mistakes <= (np.linalg.norm(x, axis=1).max() / margin) ** 2


def test_least_squares_is_the_most_likely_line(rows):
    x, t = np.c_[rows[0][:, 0], np.ones(N)], rows[0][:, 1]
    w, rss, *_ = np.linalg.lstsq(x, t)

    def log_likelihood(w, log_sigma):
        return jax.scipy.stats.norm.logpdf(t, x @ w, jnp.exp(log_sigma)).sum()

    gradient = jax.grad(log_likelihood, (0, 1))(jnp.asarray(w), 0.5 * jnp.log(rss[0] / N))
    close(np.concatenate([gradient[0], [gradient[1]]]), 0, atol=1e-9)


def test_a_density_of_x_does_not_move_the_line(rows):
    """`log p(x; m) + log p(t | x; w)` has no mixed derivatives: each factor is maximised alone."""
    x, t = np.c_[rows[0][:, 0], np.ones(N)], rows[0][:, 1]

    def joint(m, w):
        own = jax.scipy.stats.norm.logpdf(x[:, 0], m, 1.0)
        return (own + jax.scipy.stats.norm.logpdf(t, x @ w, 1.0)).sum()

    mixed = jax.jacobian(jax.grad(joint), 1)(jnp.array(0.3), jnp.array([0.2, 0.1]))
    close(mixed, 0)


# The Gaussian


def test_mean_and_both_forms_of_the_covariance():
    density = gcf.GaussianParams.of(MEAN[1:], SIGMA)
    grid = np.stack(np.meshgrid(*[np.linspace(m - 9, m + 9, 301) for m in MEAN[1]]), -1)
    p = np.exp(np.asarray(density.log_prob(jnp.asarray(grid))))[..., 0] * (18 / 300) ** 2
    close(p.sum(), 1, 1e-9)
    mean = np.einsum("ij,ijk->k", p, grid)
    close(mean, MEAN[1], 1e-9)
    about = np.einsum("ij,ijk,ijl->kl", p, grid - mean, grid - mean)
    raw = np.einsum("ij,ijk,ijl->kl", p, grid, grid) - np.outer(mean, mean)
    close(about, SIGMA, 1e-8)
    close(raw, about, 1e-8)
    close(density.covariances[0], SIGMA)


@pytest.mark.parametrize(
    "sigma", [np.eye(2), 0.6 * np.eye(2), [[1, 0.8], [0.8, 1]], [[3, 0.8], [0.8, 1]]]
)
def test_axes_of_an_ellipse_are_eigenvectors(sigma):
    """At distance sqrt(-2 log(1-p) λ) along an eigenvector the density is (1 - p) of its peak."""
    density = gcf.GaussianParams.of([[1.0, 0.0]], np.asarray(sigma, float))
    values, vectors = np.linalg.eigh(sigma)
    ends = np.array([1.0, 0.0]) + (np.sqrt(-2 * np.log(0.1) * values) * vectors).T
    peak = density.log_prob(jnp.array([1.0, 0.0]))
    for end in ends:
        close(density.log_prob(jnp.asarray(end)) - peak, np.log(0.1))


# Discriminant analysis


def test_two_classes_are_a_bernoulli(rows):
    x, y = rows
    phi = y.mean()
    params = gcf.fit(gcf.lda(2), x, y)
    close(np.exp(params.log_prior), [1 - phi, phi])
    close(np.exp(np.asarray(params.log_prior)[y]), phi**y * (1 - phi) ** (1 - y))


def test_minus_log_likelihood_has_minus_the_logarithms_of_the_prior(rows, stated):
    x, y = rows
    n_0, n_1 = (y == 0).sum(), (y == 1).sum()
    away = x - MEAN[y]
    squares = 0.5 * np.einsum("ni,ij,nj->", away, np.linalg.inv(SIGMA), away)
    constant = N * np.log(2 * np.pi) + 0.5 * N * np.linalg.slogdet(SIGMA)[1]
    right = squares + constant - n_0 * np.log(1 - PHI) - n_1 * np.log(PHI)
    close(-gcf.log_lik(stated, gcf.stats(gcf.lda(2), x, y)), right)
    printed = squares + constant + n_0 * np.log(1 - PHI) + n_1 * np.log(PHI)
    assert abs(printed - right) > 1


def test_groups_of_parameters_are_maximised_apart(rows):
    """The prior, and each class, alone: the log-likelihood is a sum over them."""
    x, y = rows
    whole = gcf.fit(gcf.qda(2), x, y)
    for k in (0, 1):
        alone = gcf.fit(gcf.qda(1), x[y == k], 0 * y[y == k])
        close(whole.conditional.mean[k], alone.conditional.mean[0])
        close(whole.conditional.covariances[k], alone.conditional.covariances[0])


def test_a_shared_covariance_is_the_weighted_mean(rows):
    x, y = rows
    each = gcf.fit(gcf.qda(2), x, y).conditional.covariances
    shared = gcf.fit(gcf.lda(2), x, y).conditional.covariances[0]
    close(shared, (np.bincount(y)[:, None, None] * np.asarray(each)).sum(0) / N)


def test_log_odds_about_the_midpoint_of_the_means(rows, stated):
    x = rows[0]
    theta = np.linalg.solve(SIGMA, MEAN[1] - MEAN[0])
    right = np.log(PHI / (1 - PHI)) + (x - MEAN.mean(0)) @ theta
    log_p = np.asarray(gcf.log_posterior(stated, x))
    close(log_p[:, 1] - log_p[:, 0], right)
    assert abs(np.log(PHI / (1 - PHI)) - (x - MEAN.mean(0)) @ theta - right).max() > 1


def test_other_densities_have_a_logistic_posterior_too():
    x = np.arange(7)[:, None]
    poisson = gcf.fit(gcf.Classifier(gcf.Poisson(), 2), x, np.array([0, 0, 0, 1, 0, 1, 1]))
    bits = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]])
    bernoulli = gcf.fit(gcf.bernoulli_nb(2), bits, np.array([0, 0, 1, 0, 1]))
    for params, data in ((poisson, x), (bernoulli, bits)):
        theta, theta_0 = gcf.logistic_form(params)
        posterior = np.exp(gcf.log_posterior(params, data))[:, 1]
        close(posterior, sigmoid(data @ np.asarray(theta) + theta_0), 1e-9)
    rate = np.exp(np.asarray(poisson.conditional.log_rate))[:, 0]
    close(gcf.logistic_form(poisson)[0][0], np.log(rate[1] / rate[0]))


def test_p_x_is_a_mixture_of_gaussians(rows, stated):
    x = rows[0]
    density = (1 - PHI) * gaussian(x, MEAN[0], SIGMA) + PHI * gaussian(x, MEAN[1], SIGMA)
    close(np.exp(gcf.log_marginal(stated, x)), density)


# Linear or quadratic


def test_one_feature_has_a_quadratic_discriminant():
    mean, sigma, prior = np.array([0.0, 2.0]), np.array([1.0, 0.5]), np.array([0.6, 0.4])
    params = gcf.ClassifierParams.of(
        prior, gcf.GaussianParams.of(mean[:, None], (sigma**2)[:, None, None])
    )
    x = np.linspace(-3, 5, 17)[:, None]
    g = -(x**2) / (2 * sigma**2) + mean * x / sigma**2 - mean**2 / (2 * sigma**2)
    g = g + np.log(prior / (np.sqrt(2 * np.pi) * sigma))
    close(gcf.log_joint(params, x), g)
    roots = np.roots(
        [
            1 / (2 * sigma[0] ** 2) - 1 / (2 * sigma[1] ** 2),
            mean[1] / sigma[1] ** 2 - mean[0] / sigma[0] ** 2,
            mean[0] ** 2 / (2 * sigma[0] ** 2)
            - mean[1] ** 2 / (2 * sigma[1] ** 2)
            + np.log(prior[1] * sigma[0] / (prior[0] * sigma[1])),
        ]
    )
    at = np.exp(gcf.log_posterior(params, np.sort(roots.real)[:, None]))
    close(at, 0.5, 1e-8)


def test_differences_of_discriminants_decide(rows):
    x = rows[0]
    params = gcf.fit(gcf.lda(3), x, np.arange(N) % 3)
    g = np.asarray(gcf.discriminant(params, x))
    less = g - g[:, 2:]  # K - 1 functions, and a zero
    assert (less.argmax(1) == np.asarray(gcf.predict(params, x))).all()
    joint = np.asarray(gcf.log_joint(params, x))
    close(less, joint - joint[:, 2:], 1e-8, 1e-10)


def test_nearest_means_have_voronoi_cells(rows):
    x, y = rows[0], np.arange(N) % 5
    family = gcf.Gaussian(covariance="spherical", shared=True)
    params = gcf.fit(gcf.Classifier(family, 5, class_prior=np.full(5, 0.2)), x, y)
    mean = np.stack([x[y == k].mean(0) for k in range(5)])
    grid = np.stack(np.meshgrid(np.linspace(-3, 4, 41), np.linspace(-3, 4, 41)), -1)
    nearest = ((grid[..., None, :] - mean) ** 2).sum(-1).argmin(-1)
    assert (np.asarray(gcf.predict(params, grid)) == nearest).all()


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_quadratic_has_this_many_coefficients(d):
    """As many as its terms are independent functions: not d (d + 2) / 2."""
    points = np.random.default_rng(d).normal(size=(101, d))
    i, j = np.triu_indices(d)
    terms = np.c_[np.ones(101), points, points[:, i] * points[:, j]]
    rank = np.linalg.matrix_rank(terms)
    assert rank == d * (d + 3) / 2 + 1 != d * (d + 2) / 2
    for num_classes in (2, 3):
        quadratic = gcf.num_boundary_parameters(num_classes, d, quadratic=True)
        assert quadratic == (num_classes - 1) * rank
        assert gcf.num_boundary_parameters(num_classes, d) == (num_classes - 1) * (d + 1)


# Generative or discriminative


@pytest.fixture(scope="module")
def logistic(rows):
    with jax.enable_x64(True):
        return gcf.fit(gcf.SoftmaxRegression(2), *rows)


def test_cross_entropy_is_entropy_and_divergence():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    cross = -(p * np.log(q)).sum()
    close(cross, scipy.stats.entropy(p) + scipy.stats.entropy(p, q))
    y = np.array([1])
    close(optax.softmax_cross_entropy_with_integer_labels(jnp.log(q)[None], y), -np.log(q[y]))


def test_logistic_loss_is_minus_the_log_posterior_of_the_label(rows, logistic):
    x, y = rows
    w, b = gcf.logistic_form(logistic)
    f = x @ np.asarray(w) + float(b)
    loss = y * np.log1p(np.exp(-f)) + (1 - y) * np.log1p(np.exp(f))
    close(loss, -np.asarray(gcf.log_posterior(logistic, x))[np.arange(N), y], 1e-9)


def test_equations_of_logistic_regression_and_of_least_squares(rows, logistic):
    x, y = np.c_[rows[0], np.ones(N)], rows[1]
    p = np.exp(gcf.log_posterior(logistic, rows[0]))[:, 1]
    close(x.T @ (y - p) / N, 0, atol=1e-6)
    w = np.linalg.solve(x.T @ x, x.T @ y)
    close(x.T @ (y - x @ w), 0, atol=1e-9)
    theta = np.asarray(gcf.logistic_form(gcf.fit(gcf.lda(2), *rows))[0])
    close(w[0] / theta[0], w[1] / theta[1], 1e-9)  # and LDA has that direction


def test_each_has_the_higher_likelihood_of_its_own_kind(rows, logistic):
    x, y = rows
    lda = gcf.fit(gcf.lda(2), x, y)
    of_labels = [
        np.asarray(gcf.log_posterior(p, x))[np.arange(N), y].sum() for p in (logistic, lda)
    ]
    assert of_labels[0] > of_labels[1]
    w = np.asarray(gcf.logistic_form(logistic)[0])
    # The joint likelihood of LDA's densities, moved to the other line.
    mean = np.asarray(lda.conditional.mean)
    sigma = np.asarray(lda.conditional.covariances[0])
    middle, apart = mean.mean(0), sigma @ w / 2
    moved = gcf.ClassifierParams.of(
        np.exp(lda.log_prior), gcf.GaussianParams.of([middle - apart, middle + apart], sigma)
    )
    s = gcf.stats(gcf.lda(2), x, y)
    assert gcf.log_lik(lda, s) > gcf.log_lik(moved, s)


# Naive Bayes


def test_a_full_table_has_two_to_the_d_less_one_parameters():
    for d in (1, 3, 7):
        assert gcf.num_parameters(gcf.categorical_nb(1, 2**d), 1) == 2**d - 1
        assert gcf.num_parameters(gcf.bernoulli_nb(1), d) == d
    assert len(str(2**5000 - 1)) == 1506


def test_the_chain_rule_and_the_assumption():
    """The rule holds for any table; independence given the class takes conditions out of it."""
    table = np.random.default_rng(2).dirichlet(np.ones(8)).reshape(2, 2, 2)
    x = (1, 0, 1)
    factors = [table.sum((1, 2))[1], table.sum(2)[1, 0] / table.sum((1, 2))[1]]
    factors.append(table[x] / table.sum(2)[1, 0])
    close(np.prod(factors), table[x])
    bits = np.random.default_rng(3).integers(0, 2, (N, 3))
    params = gcf.fit(gcf.bernoulli_nb(1), bits, np.zeros(N, int))
    p = (bits.sum(0) + 1) / (N + 2)
    close(np.exp(params.conditional.log_prob(jnp.array(x)))[0], p[0] * (1 - p[1]) * p[2])


def test_independent_given_the_class_is_not_independent():
    """Two words, each likely in spam: one tells of the other until the class is known."""
    spam, p = np.array([0.6, 0.4]), np.array([[0.1, 0.05], [0.7, 0.6]])
    params = gcf.ClassifierParams.of(spam, gcf.BernoulliParams.of(p))
    joint = np.exp(gcf.log_joint(params, np.array([[0, 0], [0, 1], [1, 0], [1, 1]])))
    both, first, second = joint[3], joint[2] + joint[3], joint[1] + joint[3]
    close(both / second, p[:, 0])  # p(x_1 | y, x_2) = p(x_1 | y)
    assert both.sum() / second.sum() > 1.5 * first.sum()  # p(x_1 | x_2) > p(x_1)


def test_gaussian_naive_bayes_is_linear_where_variances_are_shared(rows):
    x, y = rows
    shared = gcf.fit(gcf.Classifier(gcf.Gaussian("diag", shared=True), 2), x, y)
    log_p = np.asarray(gcf.log_posterior(shared, x))
    theta, theta_0 = gcf.logistic_form(shared)
    close(log_p[:, 1] - log_p[:, 0], x @ np.asarray(theta) + theta_0, 1e-8, 1e-9)
    own = gcf.fit(gcf.gaussian_nb(2), x, y)
    with pytest.raises(ValueError, match="quadratic"):
        gcf.logistic_form(own)
    ends = np.array([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    odds = np.diff(np.asarray(gcf.log_posterior(own, ends)), axis=1)[:, 0]
    assert abs(odds[0] - 2 * odds[1] + odds[2]) > 1e-3  # curved


def test_the_likelihood_of_naive_bayes_decomposes(rows):
    bits = (rows[0] > 0.5).astype(int)
    y = rows[1]
    params = gcf.fit(gcf.bernoulli_nb(2, alpha=0.0), bits, y)
    total = np.log(np.array([(y == 0).mean(), (y == 1).mean()])) @ np.bincount(y)
    for k in (0, 1):
        for j in (0, 1):
            ones, n_k = bits[y == k, j].sum(), (y == k).sum()
            p = ones / n_k
            total += ones * np.log(p) + (n_k - ones) * np.log(1 - p)
    close(gcf.log_lik(params, gcf.stats(gcf.bernoulli_nb(2), bits, y)), total)


# Smoothing


def test_a_word_that_training_never_saw_is_0_over_0():
    x, y = np.array([[1, 0, 0], [0, 1, 0]]), np.array([0, 1])
    new = np.array([[1, 0, 1]])
    for make in (gcf.bernoulli_nb, gcf.multinomial_nb):
        params = gcf.fit(make(2, alpha=0.0), x, y)
        assert np.isneginf(gcf.log_joint(params, new)).all()
        assert np.isnan(gcf.log_posterior(params, new)).all()
        assert gcf.predict(params, new)[0] == -1
        smoothed = gcf.fit(make(2), x, y)
        assert np.isfinite(gcf.log_posterior(smoothed, new)).all()
        assert gcf.predict(smoothed, new)[0] == 0


def test_smoothed_probabilities_sum_to_one_and_none_is_zero():
    z = np.array([0, 0, 2, 2, 2])
    table = gcf.fit(gcf.categorical_nb(1, 4), z[:, None], 0 * z).conditional.table(0)[0]
    close(np.exp(table), (1 + np.bincount(z, minlength=4)) / (4 + len(z)))
    bits = gcf.fit(gcf.bernoulli_nb(1), (z[:, None] > 0).astype(int), 0 * z)
    close(np.exp(bits.conditional.log_prob(jnp.array([1])))[0], (1 + 3) / (2 + 5))
    for before, after in pairwise((0.0, 0.5, 1.0, 5.0)):
        theta = [
            np.exp(
                gcf.fit(gcf.categorical_nb(1, 4, alpha=a), z[:, None], 0 * z).conditional.table(0)
            )
            for a in (before, after)
        ]
        assert np.ptp(theta[1]) < np.ptp(theta[0])  # nearer to uniform


@pytest.mark.slow
def test_few_examples_favour_the_true_density():
    d, n, num = 5, 24, 60
    keys = jax.random.split(jax.random.key(0), num + 1)
    params = gcf.ClassifierParams.of(
        [0.5, 0.5], gcf.GaussianParams.of([[0.0] * d, [2.0] * d], np.eye(d) + 0.3)
    )
    new, label = gcf.sample(keys[-1], params, (2000,))
    y = jnp.arange(n) % 2

    def wrong(clf, x):
        return (gcf.predict(gcf.fit(clf, x, y), new) != label).mean()

    lda, logistic = gcf.lda(2), gcf.SoftmaxRegression(2)
    draws = [params.conditional.sample(key, y) for key in keys[:num]]
    less = jnp.stack([wrong(logistic, x) - wrong(lda, x) for x in draws])
    assert less.mean() > 3 * less.std() / num**0.5
