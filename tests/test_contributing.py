"""The skeleton family of CONTRIBUTING.md runs as written, and obeys the laws of its contract."""

import importlib
import re
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jaxtyping import install_import_hook

import genclf as gcf
from tests import registry
from tests.registry import K, Model, N, assert_close, assert_finite, assert_near, take

PAGE = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text("utf-8")

pytestmark = pytest.mark.usefixtures("x64")


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory):
    """The module that a contributor would have copied."""
    path = tmp_path_factory.mktemp("families") / "skeleton.py"
    path.write_text(re.search(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)[1], "utf-8")
    sys.path.insert(0, str(path.parent))
    with install_import_hook("skeleton", "beartype.beartype"):
        yield importlib.import_module("skeleton")
    sys.path.remove(str(path.parent))
    del sys.modules["skeleton"]


@pytest.fixture
def model(skeleton, monkeypatch) -> Model:
    """The line of the registry, as the page gives it."""
    line = re.search(r'`(Model\(".*?\)),`', PAGE)[1]
    monkeypatch.setattr(gcf, "Poisson", skeleton.Poisson, raising=False)
    return eval(line, {"Model": Model, "gcf": gcf, "counts": registry.counts})


@pytest.fixture
def data(model):
    return model.example("float64")


def test_it_is_the_model_it_says(model, data):
    x, y = map(np.asarray, data)
    params = gcf.fit(model.classifier, x, y)
    rate = np.stack([x[y == k].mean(0) for k in range(K)])
    np.testing.assert_allclose(np.exp(params.conditional.log_rate), rate, rtol=1e-12)
    expected = scipy.stats.poisson.logpmf(x[:, None], rate).sum(-1) + np.log(np.bincount(y) / N)
    assert_near(gcf.log_joint(params, x), expected, 1e-10)
    np.testing.assert_allclose(
        gcf.log_posterior(params, x), jax.nn.log_softmax(jnp.asarray(expected)), atol=1e-10
    )


def test_merge_and_remove(model, data):
    clf, (x, y) = model.classifier, data
    whole = gcf.stats(clf, x, y)
    a, b = (gcf.stats(clf, *take(data, rows)) for rows in (slice(None, 37), slice(37, None)))
    assert_close(gcf.merge(a, b), whole, 1e-12)
    assert_close(gcf.remove(whole, b), a, 1e-12)


def test_weight_is_repetition(model, data):
    clf, (x, y) = model.classifier, data
    times = np.arange(N) % 4
    repeated = take(data, np.repeat(np.arange(N), times))
    assert_close(gcf.fit(clf, x, y, times.astype(float)), gcf.fit(clf, *repeated), 1e-12)


def test_log_lik_is_the_sum_of_log_prob(model, data):
    x, y = data
    params = gcf.fit(model.smooth, x, y)
    expected = np.asarray(gcf.log_joint(params, x))[np.arange(N), np.asarray(y)].sum()
    np.testing.assert_allclose(gcf.log_lik(params, gcf.stats(model.classifier, x, y)), expected)


def test_the_estimate_is_stationary(model, data):
    clf, (x, y) = model.classifier, data
    s, params = gcf.stats(clf, x, y), gcf.fit(clf, x, y)
    slope = jax.grad(lambda c: c.log_lik(s.conditional))(params.conditional)
    np.testing.assert_allclose(slope.log_rate, 0, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_the_other_roads_lead_to_the_estimate(model, data, alpha):
    x, y = data
    clf = with_alpha(model, alpha)
    params = gcf.fit(clf, x, y)
    gradient = gcf.fit_gradient(clf, x, y)
    lagrange = gcf.fit_lagrange(clf, gcf.stats(clf, x, y))
    assert gradient.converged and lagrange.converged
    assert_close(gradient.params, params, 1e-6)
    assert_close(lagrange.params, params, 1e-6)
    np.testing.assert_allclose(lagrange.multipliers["log_prior"], N, rtol=1e-9)
    for found in (params, gradient.params, lagrange.params):
        assert gcf.certify(clf, found, x, y, tol=1e-6).valid
    moved = params.conditional.log_rate.at[1, 2].add(1e-3)
    wrong = eqx.tree_at(lambda p: p.conditional.log_rate, params, moved)
    assert not gcf.certify(clf, wrong, x, y, tol=1e-6).valid


def test_sample_then_fit(model, data):
    params = gcf.fit(model.smooth, *data)
    drawn = gcf.sample(jax.random.key(0), params, (20_000,))
    refitted = gcf.fit(model.classifier, *drawn)
    np.testing.assert_allclose(
        np.exp(refitted.conditional.log_rate), np.exp(params.conditional.log_rate), rtol=0.1
    )


def test_decision_is_linear(model, data):
    x, y = data
    params = gcf.fit(model.smooth, x, y)
    coef, intercept = gcf.linear_form(params)
    score = np.asarray(x) @ np.asarray(coef).T + np.asarray(intercept)
    np.testing.assert_allclose(
        gcf.log_posterior(params, x), jax.nn.log_softmax(jnp.asarray(score)), atol=1e-10
    )


def test_impossible_and_invalid_counts(skeleton):
    x, y = jnp.array([[0, 3], [2, 0], [0, 1]]), jnp.array([0, 1, 0], jnp.int32)
    params = gcf.fit(gcf.Classifier(skeleton.Poisson(), 2), x, y)
    assert gcf.predict(params, x).tolist() == y.tolist()
    assert gcf.predict(params, jnp.array([[1.0, 0.0], [0.5, 0.0], [1.0, 1.0]])).tolist() == [
        1,
        -1,
        -1,
    ]
    with pytest.raises(ValueError, match=r"x\[0, 0\] is -1"):
        gcf.validate(
            gcf.Classifier(skeleton.Poisson(), 2), jnp.array([[-1, 0]]), jnp.array([0], jnp.int32)
        )


def test_transformations(model, data):
    x, y = data
    fit = lambda alpha: gcf.fit(with_alpha(model, alpha), x, y)  # noqa: E731
    grid = jnp.array([0.5, 1.0, 2.0])
    assert_close(jax.tree.map(lambda a: a[1], jax.vmap(fit)(grid)), fit(1.0), 1e-12)
    assert_finite(jax.grad(lambda a: gcf.log_posterior(fit(a), x)[:, 0].mean())(1.0))


def with_alpha(model, alpha):
    return gcf.Classifier(type(model.family)(alpha=alpha), num_classes=K)


def test_a_combinator_takes_it(skeleton, data):
    x, y = data
    joint = gcf.fit(gcf.Classifier(skeleton.Poisson(), K), x, y)
    columns = gcf.fit(gcf.Classifier(gcf.Independent(skeleton.Poisson()), K), x, y)
    assert_near(gcf.log_joint(columns, x), gcf.log_joint(joint, x), 1e-10)
