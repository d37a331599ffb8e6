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


@every_model
def test_rows_have_priors_of_their_own(model, params, x):
    prior = np.random.default_rng(2).normal(size=(N, K))
    prior[::7, 1] = -np.inf
    score = np.asarray(gcf.log_joint(params, x)) - np.asarray(params.log_prior) + prior
    expected = score - logsumexp(score)[:, None]
    found = gcf.log_posterior(params, x, prior)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert (found[::7, 1] == -np.inf).all()
    same = np.broadcast_to(params.log_prior, (N, K))
    assert_near(gcf.log_posterior(params, x, same), gcf.log_posterior(params, x), 1e-12)


def test_priors_of_rows_are_traced_and_checked():
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    params = gcf.fit(gcf.gaussian_nb(3, ridge=0.1), x, y)  # nobody saw class 2
    prior = jnp.zeros((6, 3)).at[1, 0].set(jnp.inf).at[2, 1].set(jnp.nan)
    found = jax.jit(lambda p: gcf.log_posterior(params, x, p))(prior)
    np.testing.assert_array_equal(np.isnan(found).all(1), [False, True, True, False, False, False])
    assert (np.asarray(found)[[0, 3, 4, 5], 2] == -np.inf).all()
    # d log p(0 | x) / d prior = 1 - p(0 | x), and -p(1 | x)
    slope = jax.grad(lambda p: gcf.log_posterior(params, x[:1], p)[0, 0])(jnp.zeros((1, 3)))
    share = np.exp(gcf.log_posterior(params, x[:1], jnp.zeros((1, 3))))[0]
    np.testing.assert_allclose(slope[0], np.array([1, 0, 0]) - share, atol=1e-12)
    with pytest.raises(ValueError, match=r"log_prior\[1, 0\] is inf, expected a natural logarithm"):
        gcf.log_posterior(params, x, prior)
    with pytest.raises(ValueError, match=r"log_prior has shape \(3,\).*with_prior takes one prior"):
        gcf.log_posterior(params, x, jnp.zeros(3))
    with pytest.raises(ValueError, match=r"class_prior has shape \(6, 3\).*takes one for each row"):
        gcf.fit(gcf.Classifier(gcf.Gaussian(), 3, class_prior=np.full((6, 3), 1 / 3)), x, y)
    softmax = gcf.fit(gcf.SoftmaxRegression(2, l2=0.1), x, y)
    with pytest.raises(ValueError, match="log_posterior with a log_prior needs"):
        gcf.log_posterior(softmax, x, jnp.zeros((6, 2)))
