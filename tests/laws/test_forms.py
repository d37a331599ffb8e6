"""A model written as a function of x decides as the model does."""

import jax
import numpy as np
import pytest

import genclf as gcf
from tests.registry import EQUAL, FAMILIES, MODELS, UNEQUAL, K, V, assert_near

pytestmark = pytest.mark.usefixtures("x64")

TOLERANCE = 1e-10
LINEAR = [m for m in MODELS if m.decision == "linear"]
QUADRATIC = [m for m in MODELS if m.decision == "quadratic"]
NEITHER = [m for m in MODELS if m.decision != "linear"]


def log_softmax(a):
    a = a - a.max(-1, keepdims=True)
    return a - np.log(np.exp(a).sum(-1, keepdims=True))


def counts(x):
    return ((x.ids[..., None] == np.arange(V)) & x.mask[..., None]).sum(1)


def indicators(*sizes):
    return lambda x: np.concatenate([np.eye(v)[x[:, j]] for j, v in enumerate(sizes)], 1)


# The coordinates in which a model is linear, where they are not x itself.
FEATURES = {
    "bernoulli-threshold": lambda x: x > 3,
    "categorical": indicators(*EQUAL),
    "categorical-unequal": indicators(*UNEQUAL),
    "independent-categorical": indicators(*EQUAL),
    "multinomial-tokens": counts,
    "presence": lambda x: x > 0,
    "presence-tokens": lambda x: counts(x) > 0,
}


def score(coef, model, x):
    """x · coef, summed over the blocks of a product."""
    x = FEATURES.get(model.name, lambda x: x)(x)
    terms = jax.tree.map(lambda c, f: np.asarray(f, float) @ np.asarray(c).T, coef, x)
    return sum(jax.tree.leaves(terms))


@pytest.mark.parametrize("model", LINEAR, ids=str)
def test_linear_form(model):
    params = gcf.fit(model.smooth, *model.example("float64"))
    x = model.example("float64", seed=1)[0]
    coef, intercept = gcf.linear_form(params)
    assert intercept.shape == (K,)
    found = log_softmax(score(coef, model, x) + np.asarray(intercept))
    expected = gcf.log_posterior(params, x)
    assert_near(found, expected, TOLERANCE)


@pytest.mark.parametrize("model", [m for m in LINEAR if m in FAMILIES] + LINEAR[:1], ids=str)
def test_logistic_form_of_two_classes(model):
    x, y = model.example("float64")
    clf = gcf.Classifier(model.smooth.family, num_classes=2)
    params = gcf.fit(clf, x, (y > 0).astype(np.int32))
    theta, theta_0 = gcf.logistic_form(params)
    logit = score(theta, model, x) + float(theta_0)
    posterior = np.exp(np.asarray(gcf.log_posterior(params, x))[:, 1])
    np.testing.assert_allclose(1 / (1 + np.exp(-logit)), posterior, rtol=TOLERANCE)


@pytest.mark.parametrize("model", QUADRATIC + LINEAR[:3], ids=str)
def test_quadratic_form(model):
    params = gcf.fit(model.classifier, *model.example("float64"))
    x = model.example("float64", seed=1)[0]
    matrix, coef, intercept = map(np.asarray, gcf.quadratic_form(params))
    joint = np.einsum("ni,kij,nj->nk", x, matrix, x) + x @ coef.T + intercept
    assert_near(joint, gcf.log_joint(params, x), TOLERANCE)


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", NEITHER, ids=str)
def test_what_is_not_linear_says_so(model):
    params = gcf.fit(model.classifier, *model.example("float64"))
    with pytest.raises(ValueError, match=r"linear|quadratic"):
        gcf.linear_form(params)


def test_quadratic_form_of_what_is_not_gaussian_says_so():
    x, y = np.eye(3, dtype=np.int32), np.arange(3, dtype=np.int32)
    with pytest.raises(ValueError, match="Gaussian"):
        gcf.quadratic_form(gcf.fit(gcf.bernoulli_nb(3), x, y))
    with pytest.raises(ValueError, match="3 classes, expected 2; use linear_form"):
        gcf.logistic_form(gcf.fit(gcf.bernoulli_nb(3), x, y))


@pytest.mark.parametrize("num_classes", [2, 3, 11])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_number_of_parameters(num_classes, d):
    k = num_classes
    assert gcf.num_boundary_parameters(k, d) == (k - 1) * (d + 1)
    assert gcf.num_boundary_parameters(k, d, quadratic=True) == (k - 1) * (d * (d + 3) // 2 + 1)
    pairs = d * (d + 1) // 2
    assert gcf.num_parameters(gcf.lda(k), d) == (k - 1) + k * d + pairs
    assert gcf.num_parameters(gcf.qda(k), d) == (k - 1) + k * d + k * pairs
    assert gcf.num_parameters(gcf.gaussian_nb(k), d) == (k - 1) + 2 * k * d
    assert gcf.num_parameters(gcf.bernoulli_nb(k), d) == (k - 1) + k * d
    assert gcf.num_parameters(gcf.multinomial_nb(k), d) == (k - 1) + k * (d - 1)
    assert gcf.num_parameters(gcf.categorical_nb(k, 7), d) == (k - 1) + k * d * 6
    for family, number in (
        (gcf.Gaussian("diag", shared=True), k * d + d),
        (gcf.Gaussian("spherical"), k * d + k),
        (gcf.Gaussian("spherical", shared=True), k * d + 1),
        (gcf.Independent(gcf.Gaussian()), k * d + k * d),
        (gcf.Poisson(), k * d),
        (gcf.VonMisesFisher(), k * (d - 1) + k),
        (gcf.VonMisesFisher(shared=True), k * (d - 1) + 1),
        (gcf.Mixture(gcf.Poisson(), 2), k + 2 * k * d),
    ):
        assert gcf.num_parameters(gcf.Classifier(family, k), d) == k - 1 + number
    mixed = gcf.Product({"a": gcf.Gaussian(), "b": gcf.Categorical((2, 3))})
    expected = (k - 1) + k * (d + pairs) + k * (1 + 2)
    assert gcf.num_parameters(gcf.Classifier(mixed, k), {"a": d, "b": 2}) == expected
    fixed = gcf.Classifier(gcf.Bernoulli(), k, class_prior=np.full(k, 1 / k))
    assert gcf.num_parameters(fixed, d) == k * d
