"""The formulas of the textbook, each written out in NumPy and compared with its function.

`docs/notes-to-code.md` names these tests, one or more for each formula.
"""

import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpyro.distributions import biject_to, constraints

import genclf as gcf
from genclf.arguments.parameters import Parameter

N, D, K, V = 101, 5, 3, 7

pytestmark = pytest.mark.usefixtures("x64")


def close(actual, expected, rtol=1e-10):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=1e-12)


@pytest.fixture
def y():
    return (
        np.random.default_rng(1).permutation(np.repeat(np.arange(K), (23, 31, 47))).astype(np.int32)
    )


@pytest.fixture
def numbers(y):
    rng = np.random.default_rng(2)
    mix = rng.normal(size=(K, D, D)) + 2 * np.eye(D)
    return np.einsum("nij,nj->ni", mix[y], rng.normal(size=(N, D))) + rng.normal(size=(K, D))[y]


@pytest.fixture
def codes(y):
    return (np.random.default_rng(3).integers(0, V, (N, D)) + y[:, None]) % V


@pytest.fixture
def bits(codes):
    return (codes > 2).astype(int)


@pytest.fixture
def words(y):
    rng = np.random.default_rng(4)
    return rng.poisson(np.array([0.3, 1.0, 2.0])[y][:, None] * rng.uniform(0.2, 1.0, (1, V)))


def means(x, y):
    return np.stack([x[y == k].mean(0) for k in range(K)])


def scatters(x, y):
    return np.stack([(z := x[y == k] - x[y == k].mean(0)).T @ z for k in range(K)])


# Bayes' rule and the class prior


def test_bayes_rule(numbers, y):
    params = gcf.fit(gcf.qda(K), numbers, y)
    joint = np.exp(np.asarray(gcf.log_joint(params, numbers)))
    close(jnp.exp(gcf.log_marginal(params, numbers)), joint.sum(1))
    close(jnp.exp(gcf.log_posterior(params, numbers)), joint / joint.sum(1, keepdims=True))


def test_bayes_rule_worked_example():
    boys, girls = 60, 40
    trousers = np.array([1] * boys + [1] * (girls // 2) + [0] * (girls // 2))[:, None]
    girl = np.repeat([0, 1], [boys, girls]).astype(np.int32)
    params = gcf.fit(gcf.bernoulli_nb(2, alpha=0.0), trousers, girl)
    close(jnp.exp(gcf.log_posterior(params, np.array([1])))[1], 0.25)


def test_class_prior(numbers, y):
    count = np.bincount(y)
    close(jnp.exp(gcf.fit(gcf.lda(K), numbers, y).log_prior), count / N)
    smoothed = gcf.fit(gcf.lda(K, class_alpha=2.0), numbers, y)
    close(jnp.exp(smoothed.log_prior), (count + 2) / (N + 2 * K))


def test_class_prior_solves_its_lagrangian(numbers, y):
    # ∂/∂π_k (Σ_k n_k log π_k - λ (Σ_k π_k - 1)) = n_k / π_k - λ = 0, with λ = n
    prior = np.exp(np.asarray(gcf.fit(gcf.lda(K), numbers, y).log_prior))
    close(np.bincount(y) / prior, np.full(K, N))


def test_log_likelihood(numbers, y):
    clf = gcf.qda(K)
    params = gcf.fit(clf, numbers, y)
    of_rows = np.asarray(gcf.log_joint(params, numbers))[np.arange(N), y]
    close(gcf.log_lik(params, gcf.stats(clf, numbers, y)), of_rows.sum())


# Gaussian classes


def test_gaussian_density(numbers, y):
    params = gcf.fit(gcf.qda(K), numbers, y).conditional
    covariances = np.asarray(params.covariances)
    density = [
        scipy.stats.multivariate_normal(mean, covariance).logpdf(numbers)
        for mean, covariance in zip(np.asarray(params.mean), covariances, strict=True)
    ]
    close(params.log_prob(jnp.asarray(numbers)), np.stack(density, 1))


def test_lda_estimate(numbers, y):
    params = gcf.fit(gcf.lda(K), numbers, y).conditional
    close(params.mean, means(numbers, y))
    close(params.covariances, np.stack([scatters(numbers, y).sum(0) / N] * K))


def test_qda_estimate(numbers, y):
    params = gcf.fit(gcf.qda(K), numbers, y).conditional
    close(params.mean, means(numbers, y))
    close(params.covariances, scatters(numbers, y) / np.bincount(y)[:, None, None])


def test_unbiased_divisors(numbers, y):
    own = gcf.Classifier(gcf.Gaussian(ddof=1.0), K)
    shared = gcf.Classifier(gcf.Gaussian(shared=True, ddof=float(K)), K)
    scatter, count = scatters(numbers, y), np.bincount(y)
    close(gcf.fit(own, numbers, y).conditional.covariances, scatter / (count - 1)[:, None, None])
    close(gcf.fit(shared, numbers, y).conditional.covariances[0], scatter.sum(0) / (N - K))


def test_univariate(numbers, y):
    x = numbers[:, :1]
    params = gcf.fit(gcf.qda(K), x, y).conditional
    mu = np.array([x[y == k].mean() for k in range(K)])
    var = np.array([((x[y == k] - mu[k]) ** 2).mean() for k in range(K)])
    close(params.mean[:, 0], mu)
    close(params.covariances[:, 0, 0], var)
    density = np.exp(-((x - mu) ** 2) / (2 * var)) / np.sqrt(2 * np.pi * var)
    close(jnp.exp(params.log_prob(jnp.asarray(x))), density)


def test_gaussian_nb_estimate(numbers, y):
    params = gcf.fit(gcf.gaussian_nb(K), numbers, y).conditional
    variance = np.stack([numbers[y == k].var(0) for k in range(K)])
    close(params.mean, means(numbers, y))
    close(params.scale**2, variance)
    density = scipy.stats.norm.logpdf(numbers[:, None], means(numbers, y), np.sqrt(variance))
    close(params.log_prob(jnp.asarray(numbers)), density.sum(-1))


def linear_discriminants(x, y):
    precision = np.linalg.inv(scatters(x, y).sum(0) / N)
    mu, prior = means(x, y), np.bincount(y) / N
    quadratic = np.einsum("ki,ij,kj->k", mu, precision, mu)
    return mu @ precision, -0.5 * quadratic + np.log(prior)


def test_linear_discriminant(numbers, y):
    params = gcf.fit(gcf.lda(K), numbers, y)
    coef, intercept = linear_discriminants(numbers, y)
    # Up to what the classes share.
    for found, expected in zip(gcf.linear_form(params), (coef, intercept), strict=True):
        close(found - found[:1], expected - expected[:1])
    delta = numbers @ coef.T + intercept
    difference = np.asarray(gcf.discriminant(params, numbers)) - delta
    close(difference - difference[:, :1], np.zeros((N, K)))
    assert (np.asarray(gcf.predict(params, numbers)) == delta.argmax(1)).all()


def test_linear_boundary(numbers, y):
    params = gcf.fit(gcf.lda(K), numbers, y)
    coef, intercept = map(np.asarray, gcf.linear_form(params))
    for k, other in itertools.combinations(range(K), 2):
        normal, offset = coef[k] - coef[other], intercept[k] - intercept[other]
        # Each row moved onto the boundary, along its normal.
        on = numbers - np.outer((numbers @ normal + offset) / (normal @ normal), normal)
        log_joint = np.asarray(gcf.log_joint(params, on))
        close(log_joint[:, k], log_joint[:, other], rtol=1e-9)


def test_logistic_form(numbers, y):
    pair = y < 2
    x, y = numbers[pair], y[pair]
    params = gcf.fit(gcf.lda(2), x, y)
    theta, theta_0 = map(np.asarray, gcf.logistic_form(params))
    mu = np.stack([x[y == k].mean(0) for k in (0, 1)])
    sigma = sum((z := x[y == k] - mu[k]).T @ z for k in (0, 1)) / len(y)
    precision, n_0, n_1 = np.linalg.inv(sigma), (y == 0).sum(), (y == 1).sum()
    close(theta, precision @ (mu[1] - mu[0]))
    close(
        theta_0,
        -0.5 * mu[1] @ precision @ mu[1] + 0.5 * mu[0] @ precision @ mu[0] + np.log(n_1 / n_0),
    )
    close(jnp.exp(gcf.log_posterior(params, x))[:, 1], 1 / (1 + np.exp(-(x @ theta + theta_0))))


def test_quadratic_discriminant(numbers, y):
    params = gcf.fit(gcf.qda(K), numbers, y)
    matrix, coef, intercept = map(np.asarray, gcf.quadratic_form(params))
    sigma = scatters(numbers, y) / np.bincount(y)[:, None, None]
    precision, mu = np.linalg.inv(sigma), means(numbers, y)
    close(matrix, -0.5 * precision)
    close(coef, np.einsum("kij,kj->ki", precision, mu))
    log_det = np.linalg.slogdet(2 * np.pi * sigma)[1]
    quadratic = np.einsum("ki,kij,kj->k", mu, precision, mu)
    close(intercept, -0.5 * quadratic - 0.5 * log_det + np.log(np.bincount(y) / N))


def test_quadratic_boundary(numbers, y):
    # On a line between two rows the difference of two discriminants is a parabola: three points
    # of it give all of it, and at its roots the two classes are equally probable.
    params = gcf.fit(gcf.qda(K), numbers, y)
    matrix, coef, intercept = map(np.asarray, gcf.quadratic_form(params))
    a, b = numbers[y == 0][0], numbers[y == 2][0]
    t = np.linspace(-3, 3, 13)
    line = a + t[:, None] * (b - a)
    delta = np.einsum("ni,kij,nj->nk", line, matrix, line) + line @ coef.T + intercept
    close(gcf.log_joint(params, line), delta, rtol=1e-8)
    parabola = np.polyfit(t, delta[:, 0] - delta[:, 2], 2)
    close(np.polyval(parabola, t), delta[:, 0] - delta[:, 2], rtol=1e-8)
    for root in np.roots(parabola):
        if np.isreal(root):
            joint = np.asarray(gcf.log_joint(params, a + root.real * (b - a)))
            close(joint[0], joint[2], rtol=1e-7)


@pytest.mark.parametrize("k, d", [(2, 1), (3, 5), (11, 10)])
def test_parameter_counts(k, d):
    assert gcf.num_boundary_parameters(k, d) == (k - 1) * (d + 1)
    assert gcf.num_boundary_parameters(k, d, quadratic=True) == (k - 1) * (d * (d + 3) / 2 + 1)
    assert gcf.num_parameters(gcf.lda(k), d) == (k - 1) + k * d + d * (d + 1) / 2
    assert gcf.num_parameters(gcf.qda(k), d) == (k - 1) + k * d + k * d * (d + 1) / 2
    assert gcf.num_parameters(gcf.gaussian_nb(k), d) == (k - 1) + 2 * k * d
    assert gcf.num_parameters(gcf.bernoulli_nb(k), d) == (k - 1) + k * d
    assert gcf.num_parameters(gcf.categorical_nb(k, 4), d) == (k - 1) + k * d * 3
    assert gcf.num_parameters(gcf.multinomial_nb(k), d) == (k - 1) + k * (d - 1)


# Naive Bayes on what can be counted


@pytest.mark.parametrize("alpha", [0.0, 1.0, 0.3])
def test_bernoulli(bits, y, alpha):
    params = gcf.fit(gcf.bernoulli_nb(K, alpha=alpha), bits, y).conditional
    p = np.stack([(bits[y == k].sum(0) + alpha) / ((y == k).sum() + 2 * alpha) for k in range(K)])
    close(params.probs, p)
    density = np.prod(p ** bits[:, None] * (1 - p) ** (1 - bits[:, None]), -1)
    close(jnp.exp(params.log_prob(jnp.asarray(bits))), density)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 0.3])
def test_categorical(codes, y, alpha):
    params = gcf.fit(gcf.categorical_nb(K, V, alpha=alpha), codes, y).conditional
    density = np.ones((N, K))
    for j, k in itertools.product(range(D), range(K)):
        count = np.array([((codes[:, j] == v) & (y == k)).sum() for v in range(V)])
        theta = (count + alpha) / ((y == k).sum() + V * alpha)
        close(jnp.exp(params.table(j)[k]), theta)
        density[:, k] *= theta[codes[:, j]]
    close(jnp.exp(params.log_prob(jnp.asarray(codes))), density)


def multinomial_theta(words, y, alpha):
    total = np.stack([words[y == k].sum(0) for k in range(K)])
    return (total + alpha) / (total.sum(1, keepdims=True) + words.shape[1] * alpha)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 0.3])
def test_multinomial(words, y, alpha):
    params = gcf.fit(gcf.multinomial_nb(K, alpha=alpha), words, y).conditional
    theta = multinomial_theta(words, y, alpha)
    close(jnp.exp(params.log_theta), theta)
    close(jnp.exp(params.log_prob(jnp.asarray(words))), np.prod(theta ** words[:, None], -1))


def test_multinomial_of_word_sequences(y):
    # p(x | k) = Π over positions of θ_k[word], whatever the lengths.
    rng = np.random.default_rng(5)
    ids, lengths = rng.integers(0, V, (N, 13)), rng.integers(0, 14, N)
    tokens = gcf.Tokens.from_lengths(jnp.asarray(ids), jnp.asarray(lengths), V)
    params = gcf.fit(gcf.multinomial_nb(K), tokens, y).conditional
    words = np.stack(
        [np.bincount(row[:length], minlength=V) for row, length in zip(ids, lengths, strict=True)]
    )
    theta = multinomial_theta(words, y, 1.0)
    close(jnp.exp(params.log_theta), theta)
    expected = [
        np.prod(theta[:, row[:length]], 1) for row, length in zip(ids, lengths, strict=True)
    ]
    close(jnp.exp(params.log_prob(tokens)), np.stack(expected))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_presence(words, y, alpha):
    # p_kj = #(documents of class k with word j) / Σ_j' the same: not one coin per word.
    clf = gcf.Classifier(gcf.Multinomial(alpha=alpha, presence=True), K)
    params = gcf.fit(clf, words, y).conditional
    theta = multinomial_theta((words > 0).astype(int), y, alpha)
    close(jnp.exp(params.log_theta), theta)
    close(jnp.exp(params.log_theta).sum(1), np.ones(K))
    density = np.prod(theta ** (words > 0)[:, None], -1)
    close(jnp.exp(params.log_prob(jnp.asarray(words))), density)


def test_presence_with_words_outside_the_training_set(words, y):
    # (1 + #documents with the word) / (N + Σ_j' #documents with j'), N counting the unseen words.
    unseen = 4
    x = np.concatenate([words, np.zeros((N, unseen), int)], 1)
    clf = gcf.Classifier(gcf.Multinomial(alpha=1.0, presence=True), K)
    theta = np.exp(np.asarray(gcf.fit(clf, x, y).conditional.log_theta))
    for k in range(K):
        documents = (words[y == k] > 0).sum(0)
        close(theta[k, :V], (1 + documents) / (V + unseen + documents.sum()))
        close(theta[k, V:], np.full(unseen, 1 / (V + unseen + documents.sum())))


def test_laplace_smoothing_is_the_mean_under_a_uniform_prior():
    # ∫ p p^3 (1-p)^1 dp / ∫ p^3 (1-p)^1 dp = (3 + 1) / (4 + 2)
    x, y = np.array([[1], [1], [1], [0]]), np.zeros(4, np.int32)
    p = gcf.fit(gcf.bernoulli_nb(1, alpha=1.0), x, y).conditional.probs[0, 0]
    weight = lambda p: p**3 * (1 - p)  # noqa: E731
    mean = scipy.integrate.quad(lambda p: p * weight(p), 0, 1)[0]
    close(p, mean / scipy.integrate.quad(weight, 0, 1)[0])


def test_laplace_smoothing_is_imagined_examples(codes, y):
    # α = 1 is one more example of every value in every class.
    imagined = np.repeat(np.arange(V), K)[:, None] * np.ones(D, int)
    x, labels = (
        np.concatenate([codes, imagined]),
        np.concatenate([y, np.tile(np.arange(K, dtype=np.int32), V)]),
    )
    smoothed = gcf.fit(gcf.categorical_nb(K, V, alpha=1.0), codes, y).conditional
    close(
        smoothed.log_theta,
        gcf.fit(gcf.categorical_nb(K, V, alpha=0.0), x, labels).conditional.log_theta,
    )


def test_discrete_decisions_are_linear(bits, codes, words, y):
    cases = [
        (gcf.bernoulli_nb(K), bits, bits),
        (gcf.multinomial_nb(K), words, words),
        (gcf.categorical_nb(K, V), codes, gcf.indicators(jnp.asarray(codes), V)),
    ]
    for clf, x, features in cases:
        params = gcf.fit(clf, x, y)
        coef, intercept = map(np.asarray, gcf.linear_form(params))
        score = np.exp(np.asarray(features) @ coef.T + intercept)
        close(jnp.exp(gcf.log_posterior(params, x)), score / score.sum(1, keepdims=True))


# Three roads


def test_stick_breaking():
    # θ_j = σ(z_j) Π_{i<j} (1 - σ(z_i)), z_j = u_j - log (V - 1 - j), in numpyro's order.
    u = np.random.default_rng(6).normal(size=(K, V - 1))
    sigma = 1 / (1 + np.exp(-(u - np.log(np.arange(V - 1, 0, -1)))))
    left = np.cumprod(1 - sigma, 1)
    theta = np.concatenate([sigma, np.ones((K, 1))], 1)
    theta[:, 1:] *= left
    log_theta = Parameter("simplex", "log").constrained([jnp.asarray(u[:, None])], V)
    close(jnp.exp(log_theta), theta)
    of_numpyro = biject_to(constraints.simplex)
    close(jnp.exp(log_theta), np.stack([of_numpyro(jnp.asarray(row)) for row in u]))
    close(Parameter("simplex", "log").free(log_theta)[0][:, 0], u)


def test_cholesky_with_log_diagonal():
    # Σ = L Lᵀ, below the diagonal L is free, and log L_ii is.
    u = np.random.default_rng(7).normal(size=(K, D * (D + 1) // 2))
    factor = np.zeros((K, D, D))
    factor[:, *np.tril_indices(D, -1)] = u[:, :-D]
    factor[:, np.arange(D), np.arange(D)] = np.exp(u[:, -D:])
    scale = Parameter("lower_cholesky", event_ndim=2)
    close(scale.constrained(jnp.asarray(u), D), factor)
    close(scale.free(jnp.asarray(factor)), u)


def test_gradient_ascent(numbers, codes, y):
    found = gcf.fit_gradient(gcf.lda(K), numbers, y)
    assert found.converged and found.gradient_norm <= 1e-9
    close(found.params.conditional.mean, means(numbers, y), rtol=1e-7)
    covariance = scatters(numbers, y).sum(0) / N
    close(found.params.conditional.covariances[0], covariance, rtol=1e-7)
    log_lik = np.asarray(found.objective)[: int(found.steps) + 1]
    assert (np.diff(log_lik) > -1e-9 * abs(log_lik[-1])).all()
    # α = ½ in every cell: the mode under Dirichlet(α + 1).
    found = gcf.fit_gradient(gcf.categorical_nb(K, V, alpha=0.5), codes, y)
    count = np.array([[(codes[y == k, 0] == v).sum() for v in range(V)] for k in range(K)])
    theta = (count + 0.5) / (count.sum(1, keepdims=True) + 0.5 * V)
    close(jnp.exp(found.params.conditional.table(0)), theta, rtol=1e-7)


def test_constrained_maximum():
    # max -½|θ - a|² with bᵀθ = β: θ = a - λ b, λ = (bᵀa - β) / bᵀb.
    a, b = np.random.default_rng(8).normal(size=(2, D))
    found = gcf.solve_constrained(
        lambda theta: -0.5 * ((theta - a) ** 2).sum(), lambda theta: theta @ b - 2.0, jnp.zeros(D)
    )
    multiplier = (b @ a - 2.0) / (b @ b)
    close(found.multipliers, multiplier)
    close(found.params, a - multiplier * b)
    # And with θ >= 0 alone: what is negative in a stands on the bound, and z = -a there.
    found = gcf.solve_constrained(
        lambda theta: -0.5 * ((theta - a) ** 2).sum(), None, jnp.ones(D), lower=jnp.zeros(D)
    )
    close(found.params, np.maximum(a, 0))
    close(found.lower_multipliers, np.maximum(-a, 0))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_multipliers_are_counts(numbers, codes, words, y, alpha):
    def multipliers(clf, x):
        return gcf.fit_lagrange(clf, gcf.stats(clf, x, y)).multipliers

    close(multipliers(gcf.gaussian_nb(K, class_alpha=alpha), numbers)["log_prior"], N + K * alpha)
    count = np.stack([words[y == k].sum(0) for k in range(K)])
    assert (count > 0).all()
    found = multipliers(gcf.multinomial_nb(K, alpha=alpha), words)["log_theta"]
    close(found[:, 0], count.sum(1) + V * alpha)
    found = multipliers(gcf.categorical_nb(K, V, alpha=alpha), codes)["log_theta"]
    close(found, np.repeat(np.bincount(y)[:, None] + V * alpha, D, 1))


def test_bound_multipliers(words, bits, y):
    words, bits = words.copy(), bits.copy()
    words[y == 0, 2], bits[y == 1, 0], bits[y == 2, 3] = 0, 0, 1
    clf = gcf.multinomial_nb(K, alpha=0.0)
    found = gcf.fit_lagrange(clf, gcf.stats(clf, words, y))
    theta = np.exp(np.asarray(found.params.conditional.log_theta))
    multiplier = np.asarray(found.multipliers["log_theta"])
    z = np.asarray(found.bound_multipliers["log_theta"])
    # c_v / θ_v - λ + z_v = 0: where c_v > 0, z = 0; where c_v = 0, θ_v = 0 and z_v = λ.
    assert theta[0, 2] == 0
    close(z, np.where(theta == 0, multiplier, 0))
    # ∂/∂p (s log p + (n - s) log (1 - p)) is -n at p = 0 if s = 0, and n at p = 1 if s = n.
    clf = gcf.bernoulli_nb(K, alpha=0.0)
    found = gcf.fit_lagrange(clf, gcf.stats(clf, bits, y))
    p, count = means(bits, y), np.bincount(y)[:, None]
    close(found.params.conditional.probs, p)
    close(found.bound_multipliers["logits"], count * ((p == 0).astype(int) - (p == 1)))


def test_shared_covariance_multipliers(numbers, y):
    # ∂ℓ/∂Σ_k⁻¹ = ½ (n_k Σ - C_k) is the multiplier of Σ_k⁻¹ = Σ_0⁻¹; over all k they sum to 0.
    stats = gcf.stats(gcf.qda(K), numbers, y)
    found = np.asarray(gcf.fit_lagrange(gcf.lda(K), stats).multipliers["scale"])
    scatter, count = scatters(numbers, y), np.bincount(y)[:, None, None]
    pull = 0.5 * count * (scatter.sum(0) / N - scatter / count)
    scale = abs(pull).max()
    close(found / scale, pull[1:] / scale, rtol=1e-8)
    close(found.sum(0) / scale, -pull[0] / scale, rtol=1e-8)


def test_newton_decrement(numbers, y):
    # A mean off by δ: √(δᵀ Σ_k⁻¹ δ), times √(n_k / n) where the classes share Σ.
    shift = 1e-4 * np.arange(1.0, D + 1)
    for clf, share in [(gcf.qda(K), 1.0), (gcf.lda(K), (y == 1).sum() / N)]:
        params = gcf.fit(clf, numbers, y)
        moved = eqx.tree_at(
            lambda p: p.conditional.mean, params, params.conditional.mean.at[1].add(shift)
        )
        distance = shift @ np.linalg.inv(np.asarray(params.conditional.covariances[1])) @ shift
        found = gcf.certify(clf, moved, numbers, y)
        close(found.stationarity, np.sqrt(share * distance), rtol=1e-5)
        close(found.gap, 0.5 * (y == 1).sum() / N * distance, rtol=1e-5)
        assert gcf.certify(clf, params, numbers, y).valid and not found.valid
    # Another table: √(Σ_v (θ̂_v - θ_v)² / θ_v), Pearson's χ² over n.
    prior, other = np.bincount(y) / N, np.array([0.3, 0.3, 0.4])
    found = gcf.certify(clf, gcf.with_prior(params, other), numbers, y)
    close(found.stationarity, np.sqrt(((prior - other) ** 2 / other).sum()))
    close(found.multipliers["log_prior"], N)


def test_second_order_condition(numbers, y):
    # In log σ: ∂² ℓ = -2 n v / σ², and in σ (1 + s), by s: n - 3 n v / σ² at s = 0, v = σ̂².
    x, clf = numbers[:, :1], gcf.gaussian_nb(K)
    params = gcf.fit(clf, x, y)
    close(gcf.certify(clf, params, x, y).curvature, -1.0)
    for times, sign in [(1.7, -1.0), (1.8, 1.0)]:  # 1.7² < 3 < 1.8²
        wide = eqx.tree_at(lambda p: p.conditional.scale, params, times * params.conditional.scale)
        close(gcf.certify(clf, wide, x, y).curvature, sign)
        assert not gcf.certify(clf, wide, x, y).valid


def test_standard_errors(numbers, codes, bits, y):
    count = np.bincount(y)[:, None]
    errors = gcf.standard_errors(
        gcf.gaussian_nb(K), gcf.fit(gcf.gaussian_nb(K), numbers, y), numbers, y
    )
    sd = np.stack([numbers[y == k].std(0) for k in range(K)])
    close(errors["mean"], sd / np.sqrt(count))
    close(errors["scale"], sd / np.sqrt(2 * count))
    prior = np.bincount(y) / N
    close(errors["log_prior"], np.sqrt((1 - prior) / (N * prior)))

    clf = gcf.categorical_nb(K, V, alpha=0.0)
    codes = np.concatenate([codes, np.tile(np.arange(V)[:, None], (K, D))])
    labels = np.concatenate([y, np.repeat(np.arange(K, dtype=np.int32), V)])
    errors = gcf.standard_errors(clf, gcf.fit(clf, codes, labels), codes, labels)["log_theta"]
    for k in range(K):
        own = codes[labels == k]
        theta = (own[:, :, None] == np.arange(V)).mean(0).ravel()
        close(errors[k], np.sqrt((1 - theta) / (len(own) * theta)))

    clf = gcf.bernoulli_nb(K, alpha=0.0)
    p = means(bits, y)
    errors = gcf.standard_errors(clf, gcf.fit(clf, bits, y), bits, y)
    close(errors["logits"], 1 / np.sqrt(count * p * (1 - p)))
