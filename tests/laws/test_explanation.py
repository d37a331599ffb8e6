"""An explanation adds up to the log-odds, and each term is what its feature says."""

import jax
import numpy as np
import pytest

import genclf as gcf
from genclf.families.capabilities import HasTerms, has
from tests.registry import BY_NAME, MIXTURES, MODELS, WITH_HOLES, D, K, assert_near, marginalizing

pytestmark = pytest.mark.usefixtures("x64")

WHOLE = {model.name: model for model in [*MODELS, *MIXTURES]}
ROWS = 7
ROW = np.arange(ROWS)
OF, AGAINST = ROW % K, (ROW + 1 + ROW // 3 % 2) % K


def fitted(model):
    """The params; those of a model of rows with holes are fitted to rows without."""
    x, y = WHOLE[model.name.removesuffix("-holes")].example("float64")
    if "mixture" in model.name:
        return gcf.em(model.smooth, x, y, key=jax.random.key(0), max_steps=3).params
    return gcf.fit(model.smooth, x, y)


def rows_of(model):
    return jax.tree.map(lambda a: a[:ROWS], model.example("float64", seed=1)[0])


@pytest.mark.slow("gaussian-shared-holes", "mixture")
@pytest.mark.parametrize("model", [*WHOLE.values(), *WITH_HOLES], ids=str)
def test_terms_add_up_to_the_log_odds(model):
    params, x = fitted(model), rows_of(model)
    if not has(params.conditional, HasTerms):
        with pytest.raises(ValueError, match="explain needs a log-density ratio"):
            gcf.explain(params, x)
        return
    log_p = np.asarray(gcf.log_posterior(params, x))
    found = gcf.explain(params, x, of=OF, against=AGAINST)
    assert_near(found.log_odds, log_p[ROW, OF] - log_p[ROW, AGAINST], 1e-10)
    best = gcf.explain(params, x)
    order = np.argsort(-log_p, 1)
    np.testing.assert_array_equal(best.of, order[:, 0])
    np.testing.assert_array_equal(best.against, order[:, 1])


INDEPENDENT = ["gaussian-diag", "bernoulli", "categorical-unequal", "poisson", "independent"]


@pytest.mark.parametrize("name", INDEPENDENT)
def test_a_term_is_what_the_log_odds_lose_without_the_feature(name):
    model = BY_NAME[name]
    clf = gcf.Classifier(marginalizing(model.smooth.family), K)
    params, x = gcf.fit(clf, *model.example("float64")), rows_of(model)
    found = gcf.explain(params, x, of=OF, against=AGAINST)
    for j in range(D):
        less = x.copy()
        less[:, j] = np.nan if np.issubdtype(x.dtype, np.floating) else -1
        left = gcf.explain(params, less, of=OF, against=AGAINST)
        assert_near(found.log_odds - left.log_odds, found.features[:, j], 1e-10)
        assert (np.asarray(left.features[:, j]) == 0).all()


@pytest.mark.parametrize("name", ["gaussian-shared", "gaussian-diag", "gaussian-spherical-shared"])
def test_terms_depend_neither_on_the_origin_nor_on_the_units(name):
    model = BY_NAME[name]
    (x, y), unit = model.example("float64"), np.array([1e-3, 2.0, 7.0, 1e4, 0.3])
    unit = 3.0 if "spherical" in name else unit
    explained = lambda x: gcf.explain(gcf.fit(model.classifier, x, y), x[:ROWS], of=OF)  # noqa: E731
    assert_near(explained(x * unit + 50 * unit).features, explained(x).features, 1e-8)


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(23, 41)), np.arange(23) % K
    params = gcf.fit(gcf.lda(K, shrinkage=0.3), x, y)
    found, log_p = gcf.explain(params, x), np.sort(np.asarray(gcf.log_posterior(params, x)))
    assert found.features.shape == (23, 41)
    assert_near(found.log_odds, log_p[:, -1] - log_p[:, -2], 1e-9)


@pytest.mark.slow
def test_of_a_softmax():
    x, y = BY_NAME["gaussian"].example("float64")
    params = gcf.fit(gcf.SoftmaxRegression(K, l2=0.1), x, y)
    log_p = np.asarray(gcf.log_posterior(params, x))
    found = gcf.explain(params, x, of=2, against=0)
    assert_near(found.log_odds, log_p[:, 2] - log_p[:, 0], 1e-10)
    bent = gcf.fit(gcf.SoftmaxRegression(K, l2=0.1, features="quadratic"), x, y)
    with pytest.raises(ValueError, match="softmax of quadratic features"):
        gcf.explain(bent, x)


def test_an_invalid_cell_and_a_class_that_there_is_not(monkeypatch):
    model = BY_NAME["bernoulli"]
    params, x = fitted(model), rows_of(model)
    x[1, 2] = 2
    found = gcf.explain(params, x)
    assert np.isnan(found.log_odds).tolist() == [False, True, *[False] * (ROWS - 2)]
    with pytest.raises(ValueError, match=r"of\[0\] is 3, expected 0\.\.2"):
        gcf.explain(params, x, of=np.full(ROWS, 3))
    with pytest.raises(ValueError, match=r"against has shape \(2,\), expected one class"):
        gcf.explain(params, x, against=np.zeros(2, int))
    with pytest.raises(ValueError, match=r"of is 1\.5, expected classes"):
        gcf.explain(params, x, of=1.5)
    inside = jax.jit(lambda k: gcf.explain(params, x, of=k).log_odds)
    assert np.isnan(inside(5)).all()
    assert_near(inside(1)[0], gcf.explain(params, x, of=1).log_odds[0], 1e-12)
    monkeypatch.setattr(type(params.conditional), "discriminant", None)  # traced once
    gcf.explain(params, x, of=2)


def test_an_impossible_value_speaks_without_bound():
    x, y = np.array([[0], [0], [1], [0]]), np.array([0, 0, 1, 1])
    params = gcf.fit(gcf.bernoulli_nb(2, alpha=0.0), x, y)
    found = gcf.explain(params, np.array([[1], [0]]))
    assert found.features.tolist()[0] == [np.inf]
    assert_near(found.features[1, 0], np.log(2), 1e-12)


def test_a_class_that_never_occurs_is_what_is_left_to_compare_with():
    params = gcf.fit(gcf.gaussian_nb(2), np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 0]))
    found = gcf.explain(params, np.array([[0.5]]))
    assert (found.of.item(), found.against.item(), found.log_odds.item()) == (0, 1, np.inf)
