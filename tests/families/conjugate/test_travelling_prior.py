"""A prior that was learned of some classes is a prior of others; and priors of each class."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

import genclf as gcf

K, D = 3, 5


def rows(n=31):
    rng = np.random.default_rng(0)
    y = np.resize(np.arange(K), n)
    return rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) + y[:, None], y


@pytest.mark.slow("map-full", "map-spherical", "predictive-diag", "predictive-full", "map-diag")
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
@pytest.mark.parametrize("inference", ["map", "predictive"])
def test_a_mean_for_each_class_is_that_of_a_model_of_the_class(covariance, inference):
    x, y = rows()
    mean, kappa = np.random.default_rng(1).normal(size=(K, D)), np.array([0.5, 2.0, 7.0])

    def fitted(own, x, y, num_classes):
        prior = gcf.NormalInverseWishart(mean[own], kappa[own], 1.7, D + 3.0)
        family = gcf.Gaussian(covariance, prior=prior)
        return gcf.fit(gcf.Classifier(family, num_classes, inference=inference), x, y)

    whole = fitted(slice(None), x, y, K)
    for k in range(K):
        alone = fitted(k, x[y == k], 0 * y[y == k], 1)
        score = np.asarray(whole.conditional.log_prob(jnp.asarray(x)))[:, k]
        np.testing.assert_allclose(score, alone.conditional.log_prob(jnp.asarray(x))[:, 0], 1e-11)
    compiled = jax.jit(lambda m: gcf.fit(gcf.Classifier(
        gcf.Gaussian(covariance, prior=gcf.NormalInverseWishart(m, kappa, 1.7, D + 3.0)), K,
        inference=inference), x, y))  # fmt: skip
    np.testing.assert_allclose(
        gcf.log_posterior(compiled(mean), x), gcf.log_posterior(whole, x), atol=1e-10
    )


def test_a_mean_of_another_shape_is_named():
    x, y = rows()
    prior = gcf.NormalInverseWishart(mean=np.zeros((K + 1, D)))
    with pytest.raises(
        ValueError, match=r"mean has shape \(4, 5\), expected \(\) or the last axes"
    ):
        gcf.fit(gcf.Classifier(gcf.Gaussian(prior=prior), K), x, y)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shared", [False, True])
def test_one_row_of_each_new_digit_and_a_prior_of_the_others(shared):
    """Six digits tell how four others vary: log-loss of one row a class, beside two usual rules."""
    x, y = load_digits(return_X_y=True)
    x = x[:, x.std(0) > 2.5]
    old, new = y < 6, np.flatnonzero(y >= 6)
    family = gcf.Gaussian(shared=shared, prior=gcf.NormalInverseWishart())
    learned = gcf.fit_prior(gcf.Classifier(family, 6), x[old], y[old])
    prior = learned.classifier.family.prior
    numbers = [np.asarray(a) for a in (prior.mean, prior.kappa, prior.scale, prior.dof)]
    assert learned.converged and all(np.isfinite(a).all() for a in numbers)
    few = gcf.Classifier(learned.classifier.family, 4, inference="predictive")
    within = gcf.fit(gcf.lda(6), x[old], y[old]).conditional.covariances[0]
    losses = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        one = np.array([rng.choice(new[y[new] == k]) for k in range(6, 10)])
        rest = np.setdiff1d(new, one)
        params = gcf.fit(few, x[one], y[one] - 6)
        equal = np.full(4, 0.25)
        rules = [
            params,
            gcf.ClassifierParams.of(equal, gcf.GaussianParams.of(x[one], within)),
            gcf.ClassifierParams.of(equal, gcf.GaussianParams.of(x[one], np.eye(x.shape[1]))),
        ]
        at = np.arange(len(rest)), y[rest] - 6
        losses.append([-gcf.log_posterior(rule, x[rest])[at].mean() for rule in rules])
    own, plug_in, nearest = np.mean(losses, 0)
    assert own < 0.5 * plug_in < plug_in < nearest


@pytest.mark.usefixtures("x64")
def test_the_posterior_of_old_classes_is_the_prior_of_all():
    """With a mean per class, what two thirds of the rows told is a prior for the others."""
    x, y = rows()
    clf = gcf.Classifier(gcf.Gaussian(prior=gcf.NormalInverseWishart(0.0, 1.0, 2.0, D + 2.0)), K)
    first = slice(0, 20)
    before = gcf.posterior(clf, gcf.stats(clf, x[first], y[first])).conditional
    assert before.mean.shape == (K, D)
    shared = replace(clf, family=replace(clf.family, shared=True))
    told = gcf.posterior(shared, gcf.stats(shared, x[first], y[first])).conditional
    prior = gcf.NormalInverseWishart(told.mean, told.kappa, told.scale[0], told.dof[0])
    later = replace(shared, family=replace(shared.family, prior=prior), inference="predictive")
    at_once = replace(shared, inference="predictive")
    found = gcf.fit(later, x[20:], y[20:]).conditional.log_prob(jnp.asarray(x))
    expected = gcf.fit(at_once, x, y).conditional.log_prob(jnp.asarray(x))
    np.testing.assert_allclose(found, expected, atol=1e-10)
