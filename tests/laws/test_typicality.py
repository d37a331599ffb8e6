"""p-values of members are uniform, for every family: those of rows that were not learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import BY_NAME, MODELS, K, N, assert_close

pytestmark = pytest.mark.usefixtures("x64")

SETS, ROWS = 60, 41  # data sets, and new rows of each
FOLDS = np.arange(N) % 5
LEVELS = np.array([0.05, 0.2, 0.5])
CONTINUOUS = {"gaussian-shared", "gaussian-diag", "gaussian", "directions"}
NORMAL = ("gaussian", "gaussian-shared", "gaussian-spherical", "gaussian-spherical-shared",
          "univariate", "univariate-shared")  # fmt: skip


def shares(model, learned, clf=None):
    """The share of own p-values up to each level, for each of many data sets, (S, levels)."""
    x, y = model.example("float64")
    params, clf = gcf.fit(model.smooth, x, y), clf or model.smooth
    labels = jnp.asarray(y)

    def one(key):
        first, second = jax.random.split(key)
        rows = params.conditional.sample(first, labels)
        new = params.conditional.sample(second, labels[:ROWS])
        p = gcf.typicality(clf, learned(clf, rows, labels), new)
        own = jnp.take_along_axis(p, labels[:ROWS, None], 1)
        return (own <= jnp.asarray(LEVELS + 1e-9)[None]).mean(0)

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), SETS)))


def error(found):
    return found.std(0, ddof=1) / SETS**0.5


@pytest.mark.slow("product", "gaussian-diag", "poisson", "categorical-unequal")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_by_folds_a_level_is_kept(model):
    found = shares(model, lambda *given: gcf.cross_validate(*given, FOLDS, members=True))
    assert (found.mean(0) <= LEVELS + 4 * error(found)).all()
    if model.name in CONTINUOUS:  # other rows tie with members
        least = 1 / 24  # a p-value is a multiple of 1 over the rows of its class and one
        assert (found.mean(0) >= LEVELS - least - 4 * error(found)).all()


@pytest.mark.slow("gaussian-spherical", "gaussian-spherical-shared", "univariate-shared")
@pytest.mark.parametrize("name", NORMAL)
def test_by_f_it_is_exact(name):
    model = BY_NAME[name]
    found = shares(model, gcf.stats, gcf.Classifier(model.family, K))
    assert (np.abs(found.mean(0) - LEVELS) <= 4 * error(found)).all()


@pytest.mark.slow("poisson", "categorical-unequal")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_distance_is_twice_the_fall_from_the_mode(model):
    x, y = model.example("float64")
    params = gcf.fit(model.smooth, x, y)
    try:
        found = np.asarray(gcf.distance(params, x))
    except ValueError as error:
        assert "has none in closed form" in str(error)
        return
    score = np.asarray(params.conditional.log_prob(jax.tree.map(jnp.asarray, x)))
    peak = 0.5 * found + score  # the largest log-density of each class
    assert (found >= 0).all()
    assert_close(peak, np.broadcast_to(peak[:1], peak.shape), 1e-9)
    drawn, _ = gcf.sample(jax.random.key(0), params, (501,))
    assert (np.asarray(params.conditional.log_prob(drawn)) <= peak[0] + 1e-9).all()
