"""A family in a file of a user's own, made of public names alone: that of the page about it."""

import ast
import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from docs import rendered
from genclf import families
from genclf.arguments.module import REGISTERED
from genclf.sklearn import GenerativeClassifier
from tests.processes import run

pytestmark = pytest.mark.usefixtures("x64")

SOURCE = rendered.code_of_page("own-family", rendered.sources()["own-family"])[0]
K, N, D = 2, 60, 3
Y = np.arange(N) % K
X = np.random.default_rng(0).exponential(np.array([[1.0, 1.0, 3.0], [2.0, 1.0, 0.5]])[Y])


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "exponential.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("exponential")
    sys.path.remove(str(folder))
    for name in ("Exponential", "ExponentialParams"):
        del REGISTERED[f"exponential.{name}"]


@pytest.fixture
def clf(own):
    return gcf.Classifier(own.Exponential(), K)


def rates_of(x, w):
    """`λ_kj = n_k / Σ_n w_nk x_nj`."""
    return w.sum(0)[:, None] / (w.T @ x)


def densities_of(x, rate):
    return np.log(rate).sum(1) - x @ rate.T


def log_posterior_of(x, rate, prior):
    joint = densities_of(x, rate) + np.log(prior)
    return joint - np.logaddexp.reduce(joint, 1)[:, None]


def by_numpy(train, held_out):
    w = np.eye(K)[Y[train]]
    return log_posterior_of(X[held_out], rates_of(X[train], w), w.mean(0))


def test_the_file_is_short_and_imports_public_names_alone():
    lines = [line for line in SOURCE.splitlines() if line]
    assert len(lines) <= 45 and max(map(len, lines)) <= 78
    tree = ast.parse(SOURCE)
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert sorted(modules) == ["genclf", "jax", "jaxtyping"]
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "gf"
    }
    assert used <= set(families.__all__) and len(used) > 10
    private = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert [name for name in private if name.startswith("_")] == []


def test_fit_and_scores(clf):
    params = gcf.fit(clf, X, Y)
    rate = rates_of(X, np.eye(K)[Y])
    np.testing.assert_allclose(np.exp(params.conditional.log_rate), rate, rtol=1e-12)
    found = gcf.log_posterior(params, X)
    np.testing.assert_allclose(found, log_posterior_of(X, rate, [0.5, 0.5]), atol=1e-12)
    total = densities_of(X, rate)[np.arange(N), Y].sum() - N * np.log(K)
    np.testing.assert_allclose(gcf.log_lik(params, gcf.stats(clf, X, Y)), total, rtol=1e-12)
    drawn, label = gcf.sample(jax.random.key(0), params, (20_000,))
    mean = [drawn[label == k].mean(0) for k in range(K)]
    np.testing.assert_allclose(mean, 1 / rate, rtol=0.05)
    assert gcf.num_parameters(clf, D) == K * D + K - 1


def test_invalid_cells(clf):
    params = gcf.fit(clf, X, Y)
    assert gcf.predict(params, np.array([[-1.0, 1.0, 1.0], X[0]])).tolist()[0] == -1
    with pytest.raises(ValueError, match=r"x\[0, 1\] is -1\..*, expected a time >= 0"):
        gcf.validate(clf, np.where(np.arange(D) == 1, -X, X), Y)


def test_statistics_merge(clf):
    halves = [gcf.stats(clf, X[rows], Y[rows]) for rows in (slice(23), slice(23, None))]
    found = gcf.estimate(clf, gcf.merge(*halves)).conditional.log_rate
    np.testing.assert_allclose(np.exp(found), rates_of(X, np.eye(K)[Y]), rtol=1e-12)
    rest = gcf.remove(gcf.stats(clf, X, Y), halves[0])
    np.testing.assert_allclose(rest.conditional.total, halves[1].conditional.total, rtol=1e-9)


def test_jit_vmap_and_grad(clf):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, (5, N))

    def of_weights(w):
        return gcf.fit(clf, X, Y, w).conditional.log_rate

    found = jax.jit(jax.vmap(of_weights))(weights)
    expected = [rates_of(X, w[:, None] * np.eye(K)[Y]) for w in weights]
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-12)
    slope = jax.grad(lambda x: gcf.fit(clf, x, Y).conditional.log_rate.sum())(jnp.asarray(X))
    totals = np.eye(K)[Y].T @ X  # log λ = log n - log Σ x
    np.testing.assert_allclose(slope, -1 / totals[Y], rtol=1e-12)


def test_held_out_scores(clf):
    folds = np.arange(N) // 2 % 5
    found = gcf.cross_validate(clf, X, Y, folds).log_posterior
    for fold in range(5):
        expected = by_numpy(folds != fold, folds == fold)
        np.testing.assert_allclose(found[folds == fold], expected, atol=1e-10)
    found = gcf.leave_one_out(clf, X, Y).log_posterior
    rows = np.arange(N)
    expected = [by_numpy(rows != n, rows == n)[0] for n in rows]
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_searchlight(clf):
    folds, neighbours = np.arange(N) // 2 % 5, [[0], [0, 1], [1, 2], [0, 1, 2]]
    found = gcf.searchlight(clf, X, Y, neighbours, folds, "accuracy").score
    rates = [rates_of(X[folds != f], np.eye(K)[Y[folds != f]]) for f in range(5)]
    for place, score in zip(neighbours, found, strict=True):
        joint = np.zeros((N, K))
        for f, rate in enumerate(rates):
            joint[folds == f] = densities_of(X[folds == f][:, place], rate[:, place])
        np.testing.assert_allclose(score, (joint.argmax(1) == Y).mean(), rtol=1e-12)


def test_em(clf):
    labels = np.where(np.arange(N) % 3 > 0, -1, Y)
    found = gcf.em(clf, X, labels, key=jax.random.key(0), tol=1e-12)
    assert found.converged
    rate = np.exp(np.asarray(found.params.conditional.log_rate))
    prior = np.exp(np.asarray(found.params.log_prior))
    share = np.exp(log_posterior_of(X, rate, prior))
    share = np.where((labels < 0)[:, None], share, np.eye(K)[Y])
    np.testing.assert_allclose(rates_of(X, share), rate, rtol=1e-4)  # a step changes nothing


def test_mixture(own):
    clf = gcf.Classifier(gcf.Mixture(own.Exponential(), 2), K)
    found = gcf.em(clf, X, Y, key=jax.random.key(0), tol=1e-12).params.conditional
    rate = np.exp(np.asarray(found.components.log_rate)).reshape(K, 2, D)
    weight = np.exp(np.asarray(found.log_weight))
    for k in range(K):
        share = np.exp(log_posterior_of(X[Y == k], rate[k], weight[k]))
        np.testing.assert_allclose(rates_of(X[Y == k], share), rate[k], rtol=1e-3)


def test_product_and_independent_columns(own, clf):
    family = gcf.Product({"wait": own.Exponential(), "size": gcf.Gaussian("diag")})
    whole = gcf.Classifier(family, K)
    params = gcf.fit(whole, {"wait": X, "size": np.log(X)}, Y)
    size = gcf.fit(gcf.gaussian_nb(K), np.log(X), Y)
    expected = densities_of(X, rates_of(X, np.eye(K)[Y])) + gcf.log_joint(size, np.log(X))
    found = gcf.log_joint(params, {"wait": X, "size": np.log(X)})
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    columns = gcf.fit(gcf.Classifier(gcf.Independent(own.Exponential()), K), X, Y)
    np.testing.assert_allclose(
        gcf.log_joint(columns, X), gcf.log_joint(gcf.fit(clf, X, Y), X), rtol=1e-10
    )


def test_forms_terms_and_roads(clf):
    params, rate = gcf.fit(clf, X, Y), rates_of(X, np.eye(K)[Y])
    coef, intercept = gcf.linear_form(params)
    np.testing.assert_allclose(coef, -rate, rtol=1e-12)
    np.testing.assert_allclose(intercept, np.log(rate).sum(1) - np.log(K), rtol=1e-12)
    found = gcf.explain(params, X, of=1, against=0).features
    expected = np.log(rate[1] / rate[0]) - (rate[1] - rate[0]) * X
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert gcf.certify(clf, params, X, Y).valid
    error = np.asarray(gcf.standard_errors(clf, params, X, Y)["log_rate"])
    np.testing.assert_allclose(error, np.full((K, D), (N / K) ** -0.5), rtol=1e-6)
    with pytest.raises(ValueError, match=r"quadratic_form needs .*: GaussianParams has it"):
        gcf.quadratic_form(params)


def test_estimator(clf):
    names = np.array(["long", "short"])[Y]
    found = GenerativeClassifier(clf).fit(X, names).predict_proba(X)
    expected = np.exp(by_numpy(np.arange(N), np.arange(N)))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_files(own, clf, tmp_path):
    params, path = gcf.fit(clf, X, Y), tmp_path / "times.genclf"
    gcf.save(path, {"model": clf, "params": params})
    found = gcf.load(path)
    assert found["model"] == clf and type(found["params"].conditional) is own.ExponentialParams
    assert np.array_equal(gcf.log_joint(found["params"], X), gcf.log_joint(params, X))
    load = f"import genclf; genclf.load({str(path)!r})"  # nothing is imported by a file
    done = run(load)
    assert "genclf does not define: import exponential first" in done.stderr
