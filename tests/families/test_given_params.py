"""Params of means, covariances and class probabilities that somebody states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf

MEAN = np.array([[0.0, 1.0, -2.0], [3.0, 0.0, 0.5]])
ROOT = np.array([[2.0, 0.0, 0.0], [0.3, 1.0, 0.0], [-0.5, 0.7, 0.1]])
ONE = ROOT @ ROOT.T
EACH = np.stack([ONE, np.diag([1e-8, 1.0, 1e8])])
of = gcf.GaussianParams.of


def density_by_hand(x, mean, covariance):
    away, inverse = x - mean, np.linalg.inv(covariance)
    squared = np.einsum("ni,ij,nj->n", away, inverse, away)
    return -0.5 * (squared + np.linalg.slogdet(2 * np.pi * covariance)[1])


@pytest.mark.slow("covariance0")
@pytest.mark.parametrize("covariance", [ONE, EACH])
def test_densities_are_those_of_the_definition(covariance, x64):
    density = of(MEAN.tolist(), covariance.tolist())
    assert density.shared == (covariance.ndim == 2)
    x = np.random.default_rng(0).normal(size=(7, 3))
    each = np.broadcast_to(covariance, (2, 3, 3))
    expected = np.stack([density_by_hand(x, *pair) for pair in zip(MEAN, each, strict=True)], 1)
    np.testing.assert_allclose(density.log_prob(jnp.asarray(x)), expected, rtol=1e-9)
    np.testing.assert_allclose(density.covariances, each, rtol=1e-12, atol=1e-12)


def test_a_classifier_of_given_parts_is_bayes_rule(dtype):
    prior = np.array([0.3, 0.7], dtype)
    density = of(MEAN.astype(dtype), ONE.astype(dtype))
    params = gcf.ClassifierParams.of(prior, density)
    assert density.mean.dtype == params.log_prior.dtype == dtype
    x = np.random.default_rng(1).normal(size=(5, 3)).astype(dtype)
    joint = prior * np.stack([np.exp(density_by_hand(x, m, ONE)) for m in MEAN], 1)
    expected = joint / joint.sum(1, keepdims=True)
    np.testing.assert_allclose(np.exp(gcf.log_posterior(params, x)), expected, 3e-4, 1e-30)
    drawn, y = gcf.sample(jax.random.key(0), params, (3_000,))
    assert abs(np.mean(np.asarray(y) == 1) - 0.7) < 0.04
    assert np.abs(np.cov(np.asarray(drawn)[np.asarray(y) == 1].T) - ONE).max() < 0.5


@pytest.mark.slow("float64")
def test_it_is_what_fit_returns(dtype):
    x = np.random.default_rng(2).normal(size=(41, 3)).astype(dtype)
    y = np.arange(41) % 2
    fitted = gcf.fit(gcf.qda(2), x, y)
    stated = gcf.ClassifierParams.of(
        np.exp(fitted.log_prior), of(fitted.conditional.mean, fitted.conditional.covariances)
    )
    tol = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(gcf.log_joint(stated, x), gcf.log_joint(fitted, x), rtol=tol)


def test_densities_of_every_kind_are_taken():
    x, y = np.array([[0, 1], [2, 1], [1, 0]]), np.array([0, 1, 1])
    table = gcf.fit(gcf.categorical_nb(2, 3), x, y).conditional
    mixed = gcf.Product({"a": gcf.Gaussian(), "b": gcf.Bernoulli()})
    parts = {"a": x[:, :1].astype(float), "b": x[:, 1:]}
    both = gcf.fit(gcf.Classifier(mixed, 2), parts, y).conditional
    for density, rows in ((table, x), (both, parts)):
        params = gcf.ClassifierParams.of([0.25, 0.75], density)
        np.testing.assert_allclose(np.exp(params.log_prior), [0.25, 0.75], rtol=1e-6)
        assert gcf.log_joint(params, rows).shape == (3, 2)


@pytest.mark.parametrize(
    "mean, covariance, words",
    [
        ([0.0, 0.0], np.eye(2), r"mean has shape \(2,\), expected \(K, d\)"),
        ([[0.0, 0.0]], np.eye(3), r"\(2, 2\) for one that all classes share, or \(1, 2, 2\)"),
        ([[0.0, np.inf]], np.eye(2), r"mean\[0, 1\] is inf"),
        ([[0.0, 0.0]], [[1.0, np.nan], [np.nan, 1.0]], r"covariance\[0, 1\] is nan"),
        ([[0.0, 0.0]], [[1.0, 0.5], [0.4, 1.0]], r"\[0, 1\] is 0.5 and \[1, 0\] is 0.4"),
        ([[0.0, 0.0]] * 2, [np.eye(2), -np.eye(2)], r"covariance\[1\]\[0, 0\] is -1.0"),
        ([[0.0, 0.0]] * 2, [np.eye(2), np.ones((2, 2))], r"covariance\[1\] is not positive"),
        ([[0.0, 0.0]], [[1.0, 1 - 1e-8], [1 - 1e-8, 1.0]], "is not positive definite"),
        ("mean", np.eye(2), "mean has dtype"),
    ],
)
def test_what_is_no_mean_and_covariance_is_named(mean, covariance, words):
    with pytest.raises(ValueError, match=words):
        of(mean, np.asarray(covariance, np.float32))


@pytest.mark.parametrize(
    "prior, words",
    [
        ([0.5, 0.6], "sums to 1.1"),
        ([1.5, -0.5], r"prior\[1\] is -0.5"),
        ([0.2, 0.3, 0.5], r"prior has shape \(3,\), expected \(2,\)"),
        (None, "prior is None, expected class probabilities"),
        ({0: 0.5, 1: 0.5}, "expected class probabilities"),
    ],
)
def test_what_is_no_class_prior_is_named(prior, words):
    with pytest.raises(ValueError, match=words):
        gcf.ClassifierParams.of(prior, of(MEAN, ONE))


def test_a_family_is_not_a_density():
    with pytest.raises(ValueError, match=r"conditional is Gaussian.*expected params"):
        gcf.ClassifierParams.of([0.5, 0.5], gcf.Gaussian())


def test_traced_numbers_are_nan_where_they_are_none():
    score = jax.jit(
        lambda c, p: gcf.ClassifierParams.of(p, of(MEAN, c)).discriminant(jnp.asarray(MEAN[0]))
    )
    right = jnp.array([0.5, 0.5])
    assert np.isfinite(score(jnp.asarray(ONE), right)).all()
    for bad in (-ONE, np.ones((3, 3)), ONE + np.triu(np.ones((3, 3)), 1), ONE * np.nan):
        assert np.isnan(score(jnp.asarray(bad), right)).all()
    assert np.isnan(score(jnp.asarray(ONE), jnp.array([0.5, 0.6]))).all()


def test_derivatives_are_those_of_the_density(x64):
    value = lambda c: of(MEAN, (c + c.T) / 2).log_prob(jnp.ones(3)).sum()  # noqa: E731
    found = jax.grad(value)(jnp.asarray(ONE))
    inverse = np.linalg.inv(ONE)
    away = inverse @ (1 - MEAN).T
    np.testing.assert_allclose(found, 0.5 * (away @ away.T - 2 * inverse), rtol=1e-8)


def test_stated_probabilities_are_those_of_the_densities(x64):
    p = np.array([[0.1, 0.0, 1.0], [0.5, 0.25, 0.9]])
    bits = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1]])
    expected = np.prod(np.where(bits[:, None] == 1, p, 1 - p), -1)
    found = gcf.BernoulliParams.of(p).log_prob(jnp.asarray(bits))
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-12)
    tables = [[[0.2, 0.8], [0.5, 0.5]], [[0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]]
    codes = np.array([[0, 2], [1, 0]])
    expected = np.array([[np.prod([t[k][v] for t, v in zip(tables, row, strict=True)])
                          for k in (0, 1)] for row in codes])  # fmt: skip
    found = gcf.CategoricalParams.of(tables).log_prob(jnp.asarray(codes))
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-12)
    theta = np.array([[0.2, 0.3, 0.5], [0.0, 0.5, 0.5]])
    words = np.array([[0, 1, 2], [3, 0, 1]])
    density = gcf.MultinomialParams.of(theta, mean_length=7)
    found = np.exp(density.log_prob(jnp.asarray(words)))
    np.testing.assert_allclose(found, np.prod(theta ** words[:, None], -1), rtol=1e-12)
    drawn = density.sample(jax.random.key(0), jnp.zeros(2_000, jnp.int32))
    assert abs(drawn.sum(1).mean() - 7) < 0.3


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: gcf.BernoulliParams.of([[0.5, 1.5]]), r"probs\[0, 1\] is 1.5, expected a number"),
        (lambda: gcf.BernoulliParams.of([0.5, 0.5]), r"probs has shape \(2,\), expected 2 axes"),
        (lambda: gcf.BernoulliParams.of([[np.nan]]), r"probs\[0, 0\] is nan"),
        (lambda: gcf.CategoricalParams.of([[[0.5, 0.6]]]), r"tables\[0\]\[0\] sums to 1.1"),
        (lambda: gcf.CategoricalParams.of([]), "tables have shapes none"),
        (lambda: gcf.CategoricalParams.of([[[1.0]], [[1.0], [1.0]]]), r"\(1, 1\), \(2, 1\)"),
        (lambda: gcf.MultinomialParams.of([[0.5, 0.4]], mean_length=3), r"theta\[0\] sums to 0.9"),
        (lambda: gcf.MultinomialParams.of([[1.0]], mean_length=-1), "mean_length is -1"),
    ],
)
def test_what_is_no_probability_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_traced_probabilities_are_nan_where_they_are_none():
    score = jax.jit(lambda p: gcf.MultinomialParams.of(p, mean_length=1).log_theta)
    assert np.isfinite(score(jnp.array([[0.5, 0.5]]))).all()
    assert np.isnan(score(jnp.array([[0.5, 0.6]]))).all()
