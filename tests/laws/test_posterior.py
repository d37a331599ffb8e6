"""Joint, marginal, posterior, discriminant and prediction say the same thing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import (
    FAMILIES,
    MODELS,
    K,
    N,
    assert_close,
    assert_near,
    assert_same,
    spoil,
    take,
)

pytestmark = pytest.mark.usefixtures("x64")
every_model = pytest.mark.parametrize("model", MODELS, ids=str)
every_family = pytest.mark.parametrize("model", FAMILIES, ids=str)


@pytest.fixture
def x(model):
    return model.example("float64", seed=1)[0]


@pytest.fixture
def params(model):
    return gcf.fit(model.smooth, *model.example("float64"))


def logsumexp(a):
    top = a.max(-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(a - top).sum(-1))


@every_model
def test_marginal_is_the_sum_of_the_joint(params, x):
    joint = np.asarray(gcf.log_joint(params, x))
    assert_near(gcf.log_marginal(params, x), logsumexp(joint), 1e-13)


@every_model
def test_posterior_is_the_normalised_joint(params, x):
    joint, posterior = np.asarray(gcf.log_joint(params, x)), gcf.log_posterior(params, x)
    np.testing.assert_allclose(np.exp(posterior).sum(-1), np.ones(N), rtol=1e-13)
    np.testing.assert_allclose(posterior, joint - logsumexp(joint)[:, None], rtol=1e-10, atol=1e-12)


@every_model
def test_discriminant_is_the_joint_up_to_a_common_term(params, x):
    common = np.asarray(gcf.log_joint(params, x)) - np.asarray(gcf.discriminant(params, x))
    np.testing.assert_allclose(common, np.repeat(common[:, :1], K, 1), rtol=1e-11, atol=1e-11)


@pytest.mark.slow("poisson", "product")
@every_family
def test_joint_is_the_prior_and_the_density(params, x):
    density = params.conditional.log_prob(jax.tree.map(jnp.asarray, x))
    expected = np.asarray(density) + np.asarray(params.log_prior)
    assert_near(gcf.log_joint(params, x), expected, 1e-14, terms=density)


@every_model
def test_predict_is_the_argmax_of_the_posterior(params, x):
    predicted = gcf.predict(params, x)
    assert predicted.dtype == jnp.int32 and predicted.shape == (N,)
    np.testing.assert_array_equal(predicted, np.asarray(gcf.log_posterior(params, x)).argmax(-1))
    assert len(np.unique(predicted)) > 1


@every_model
def test_ties_go_to_the_lowest_class(model, x):
    # Every row belongs equally to all classes, so the classes are copies of each other.
    y = np.ones((N, K))
    params = gcf.fit(model.classifier, model.example("float64")[0], y)
    np.testing.assert_array_equal(gcf.predict(params, x), np.zeros(N))
    first_never = gcf.with_prior(params, np.array([0.0, 0.5, 0.5]))
    np.testing.assert_array_equal(gcf.predict(first_never, x), np.ones(N))


@every_model
def test_with_prior_changes_the_prior_alone(params, x):
    prior = np.array([0.2, 0.7, 0.1])
    changed = gcf.with_prior(params, prior)
    assert_same(changed.conditional, params.conditional)
    np.testing.assert_allclose(np.exp(changed.log_prior), prior, rtol=1e-14)
    shift = np.log(prior) - np.asarray(params.log_prior)
    expected = np.asarray(gcf.log_joint(params, x)) + shift
    assert_near(gcf.log_joint(changed, x), expected, 1e-13)


@every_family
def test_a_fixed_prior_is_not_learned(model, x):
    prior = np.array([0.2, 0.7, 0.1])
    clf = gcf.Classifier(model.family, num_classes=K, class_prior=prior)
    params = gcf.fit(clf, *model.example("float64"))
    np.testing.assert_allclose(np.exp(params.log_prior), prior, rtol=1e-14)
    learned = gcf.fit(model.classifier, *model.example("float64"))
    assert_close(params.conditional, learned.conditional, 1e-14)  # of another program


@pytest.mark.slow("product")
@every_family
def test_any_leading_axes(params, x):
    for function in (gcf.log_joint, gcf.predict):
        rows = np.asarray(function(params, take(x, slice(0, 10))))
        grid = jax.tree.map(lambda a: a[:10].reshape(2, 5, *a.shape[1:]), x)
        assert_close(np.asarray(function(params, grid)), rows.reshape(2, 5, *rows.shape[1:]), 1e-14)
        one = np.asarray(function(params, take(x, 3)))
        assert one.shape == rows.shape[1:]
        assert_close(one, rows[3], 1e-14)
        assert function(params, take(x, slice(0, 0))).shape == (0, *rows.shape[1:])


@every_model
def test_a_row_that_cannot_be_scored_is_named_by_no_class(params, x):
    spoiled = spoil(x, slice(3, 4))
    predicted = np.asarray(gcf.predict(params, spoiled))
    assert predicted[3] == -1
    assert np.isnan(np.asarray(gcf.log_joint(params, spoiled))[3]).all()
    others = np.arange(N) != 3
    np.testing.assert_array_equal(predicted[others], np.asarray(gcf.predict(params, x))[others])
