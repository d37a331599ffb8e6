"""Draws come from the model: a fit to them finds it again, as far as chance allows."""

import jax
import numpy as np
import pytest
from scipy.stats import chi2

import genclf as gcf
from tests.registry import BY_NAME, LENGTH, MODELS, D, K, V, assert_same

pytestmark = pytest.mark.usefixtures("x64")

DRAWS = 20011


# A soft threshold widens the densities.
CONSISTENT = [
    m for m in MODELS if m.generative and getattr(m.family, "soft_threshold", None) is None
]


def shapes(x):
    return [leaf.shape for leaf in jax.tree.leaves(x)]


@pytest.mark.slow("poisson", "product")
@pytest.mark.parametrize("model", CONSISTENT, ids=str)
def test_a_fit_to_draws_finds_the_model_again(model):
    # Wilks: twice the gain in log-likelihood of the refit over the truth is χ² with as many
    # degrees of freedom as there are free parameters. The two tails together have 2e-6.
    truth = gcf.fit(model.smooth, *model.example("float64"))
    x, y = gcf.sample(jax.random.key(11), truth, shape=(DRAWS,))
    s = gcf.stats(model.plain, x, y)
    refit = gcf.estimate(model.plain, s)
    gain = 2 * float(gcf.log_lik(refit, s) - gcf.log_lik(truth, s))
    degrees = gcf.num_parameters(model.plain, model.num_features)
    low, high = chi2.ppf([1e-6, 1 - 1e-6], degrees)
    assert low < gain < high


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_shapes_and_dtypes(model):
    shape = (2, 3)
    x, y = model.example("float64")
    params = gcf.fit(model.classifier, x, y)
    drawn, labels = gcf.sample(jax.random.key(0), params, shape)
    assert labels.shape == shape and labels.dtype == np.int32
    width = {"multinomial-tokens": V, "presence-tokens": V, "product": None}.get(model.name)
    if isinstance(x, dict):
        assert {k: a.shape for k, a in drawn.items()} == {
            k: (*shape, V if k == "text" else D) for k in x
        }
    else:
        assert drawn.shape == (*shape, width or x.shape[-1])
    # What was drawn can be scored.
    predicted = np.asarray(gcf.predict(params, drawn))
    assert predicted.shape == shape and (predicted >= 0).all()


def test_default_is_one_draw():
    model = BY_NAME["gaussian"]
    x, y = gcf.sample(jax.random.key(0), gcf.fit(model.classifier, *model.example("float64")))
    assert x.shape == (D,) and y.shape == ()


def test_the_key_decides():
    model = BY_NAME["gaussian"]
    params = gcf.fit(model.classifier, *model.example("float64"))
    draws = [gcf.sample(jax.random.key(seed), params, (7,)) for seed in (0, 0, 1)]
    assert_same(draws[0], draws[1])
    assert (np.asarray(draws[0][0]) != np.asarray(draws[2][0])).all()


def test_a_class_that_cannot_occur_is_not_drawn():
    model = BY_NAME["bernoulli"]
    params = gcf.fit(model.classifier, *model.example("float64"))
    params = gcf.with_prior(params, np.array([0.5, 0.0, 0.5]))
    _, y = gcf.sample(jax.random.key(0), params, (1009,))
    assert np.bincount(y, minlength=K)[1] == 0


def test_documents_have_the_length_of_the_training_documents():
    model = BY_NAME["multinomial"]
    x, y = model.example("float64")
    assert 0 < x.sum(1).mean() < LENGTH
    params = gcf.fit(model.classifier, x, y)
    drawn, _ = gcf.sample(jax.random.key(0), params, (DRAWS,))
    mean = x.sum() / len(x)
    # Six standard errors of a Poisson mean.
    assert abs(np.asarray(drawn).sum() / DRAWS - mean) < 6 * np.sqrt(mean / DRAWS)
