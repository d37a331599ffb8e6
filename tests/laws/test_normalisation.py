"""Densities add up to one: over every x of a small support, or by quadrature over the line."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import BY_NAME, LENGTH, UNEQUAL, D, K, V, assert_near

pytestmark = pytest.mark.usefixtures("x64")

TOLERANCE = 1e-12
WORDS = 3  # length of the documents that are all written down


def log_prob(params, x):
    return np.asarray(gcf.log_joint(params, x)) - np.asarray(params.log_prior)


def all_bits():
    return np.array(list(itertools.product(range(2), repeat=D)), np.int32)


def all_codes(sizes):
    return np.array(list(itertools.product(*map(range, sizes))), np.int32)


def all_counts():
    """Every document of WORDS words as counts, and the log of its number of orders."""
    every = itertools.product(range(WORDS + 1), repeat=V)
    counts = np.array([c for c in every if sum(c) == WORDS], np.int32)
    orders = [math.factorial(WORDS) / np.prod([math.factorial(i) for i in c]) for c in counts]
    return counts, np.log(orders)


def all_tokens():
    ids = np.array(list(itertools.product(range(V), repeat=WORDS)), np.int32)
    padded = np.pad(ids, [(0, 0), (0, LENGTH - WORDS)], constant_values=99)
    return gcf.Tokens.from_lengths(jnp.asarray(padded), jnp.full(len(ids), WORDS), V)


SUPPORTS = {
    "bernoulli": all_bits,
    "bernoulli-0.3": all_bits,
    "independent-bernoulli": all_bits,
    "categorical-unequal": lambda: all_codes(UNEQUAL),
    "categorical": lambda: all_codes((V,) * D),
    "independent-categorical": lambda: all_codes((V,) * D),
    "multinomial-tokens": all_tokens,
}


@pytest.mark.parametrize("name", SUPPORTS)
def test_sum_over_the_support(name):
    model = BY_NAME[name]
    params = gcf.fit(model.classifier, *model.example("float64"))
    total = np.exp(log_prob(params, SUPPORTS[name]())).sum(0)
    np.testing.assert_allclose(total, np.ones(K), rtol=TOLERANCE)


def test_sum_over_count_vectors_with_their_orders():
    model = BY_NAME["multinomial"]
    params = gcf.fit(model.classifier, *model.example("float64"))
    counts, log_orders = all_counts()
    total = np.exp(log_prob(params, counts) + log_orders[:, None]).sum(0)
    np.testing.assert_allclose(total, np.ones(K), rtol=TOLERANCE)


@pytest.mark.parametrize("name", ["presence", "presence-tokens"])
def test_sum_over_documents_of_one_word(name):
    # Presence drops repetitions, so longer documents are not all told apart.
    model = BY_NAME[name]
    params = gcf.fit(model.classifier, *model.example("float64"))
    total = np.exp(log_prob(params, np.eye(V, dtype=np.int32))).sum(0)
    np.testing.assert_allclose(total, np.ones(K), rtol=TOLERANCE)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
@pytest.mark.parametrize("d", [1, 2])
def test_integral_over_the_line_and_the_plane(d, covariance, shared):
    # The trapezoid rule converges faster than any power of the step on a Gaussian.
    x, y = BY_NAME["gaussian"].example("float64")
    family = gcf.Gaussian(covariance, shared, ridge=0.3)
    params = gcf.fit(gcf.Classifier(family, K), x[:, :d], y)
    axis = np.linspace(-20, 25, 211)
    grid = np.stack(np.meshgrid(*[axis] * d), -1).reshape(-1, d)
    total = np.exp(log_prob(params, grid)).sum(0) * (axis[1] - axis[0]) ** d
    np.testing.assert_allclose(total, np.ones(K), rtol=1e-10)


@pytest.mark.parametrize("name", ["product", "product-linear"])
def test_a_product_is_the_product_of_its_blocks(name):
    model = BY_NAME[name]
    x, y = model.example("float64")
    expected = sum(
        log_prob(gcf.fit(gcf.Classifier(part, K), x[key], y), x[key])
        for key, part in model.family.parts.items()
    )
    found = log_prob(gcf.fit(model.classifier, x, y), x)
    assert_near(found, expected, 1e-13)


@pytest.mark.slow("gaussian-diag-ridge-independent")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("multinomial", "multinomial-tokens"),
        ("presence", "presence-tokens"),
        ("bernoulli", "independent-bernoulli"),
        ("categorical", "independent-categorical"),
        ("gaussian-diag-ridge", "independent"),
    ],
)
def test_two_ways_to_say_one_model(one, other):
    joint = []
    for name in (one, other):
        model = BY_NAME[name]
        x, y = model.example("float64")
        clf = gcf.Classifier(BY_NAME[name].family, K)
        if name == "multinomial-tokens":
            clf = gcf.multinomial_nb(K)
        joint.append(np.asarray(gcf.log_joint(gcf.fit(clf, x, y), x)))
    assert_near(joint[0], joint[1], 1e-12)
