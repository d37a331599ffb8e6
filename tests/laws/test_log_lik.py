"""The likelihood is known from the statistics alone, and no other parameters have a higher one."""

import jax
import numpy as np
import pytest

import genclf as gcf
from tests.registry import MODELS, K, N, assert_near

pytestmark = [pytest.mark.usefixtures("x64"), pytest.mark.parametrize("model", MODELS, ids=str)]


def total(log_joint, soft):
    """Σ_nk w_nk log p(x_n, k) with 0 log 0 = 0."""
    log_joint, soft = np.asarray(log_joint), np.asarray(soft)
    return (soft * np.where(soft == 0, 0, log_joint)).sum()


@pytest.mark.parametrize("seed", [0, 1], ids=["own data", "other data"])
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
def test_from_statistics_as_from_the_data(model, seed, soft):
    params = gcf.fit(model.smooth, *model.example("float64"))
    x, y = model.example("float64", seed=seed)
    rng = np.random.default_rng(7)
    weights = rng.exponential(size=N)
    y = rng.dirichlet(np.ones(K), N) if soft else y
    s = gcf.stats(model.classifier, x, y, weights)
    share = y if soft else np.eye(K)[y]
    expected = total(gcf.log_joint(params, x), share * weights[:, None])
    assert_near(gcf.log_lik(params, s), expected, 1e-12, terms=N)


def test_without_smoothing(model):
    x, y = model.example("float64")
    params, s = gcf.fit(model.plain, x, y), gcf.stats(model.plain, x, y)
    expected = total(gcf.log_joint(params, x), np.eye(K)[y])
    assert_near(gcf.log_lik(params, s), expected, 1e-12, terms=N)


@pytest.mark.slow("product")
def test_no_other_parameters_are_more_likely(model):
    # Reweighting the rows moves the estimate along the constraint surface, in every direction of
    # it, since there are more rows than parameters: l(θ(w); S) is stationary and highest at w = 1.
    clf = model.plain
    x, y = model.example("float64")
    s = gcf.stats(clf, x, y)
    rng = np.random.default_rng(7)
    step = 1e-4 * rng.normal(size=(11, N))
    weights = np.concatenate([np.ones((1, N)), 1 + step, 1 - step, rng.uniform(0.5, 2, (11, N))])
    reached = jax.vmap(lambda w: gcf.log_lik(gcf.fit(clf, x, y, w), s))(weights)
    best, up, down, far = np.split(np.asarray(reached), [1, 12, 23])
    assert (far < best - 0.01).all()
    assert (up < best).all() and (down < best).all()
    # The slope is what is odd in the step, the curvature what is even; 1e-10 is rounding.
    odd, even = np.abs(up - down) / 2, best - (up + down) / 2
    assert (odd < 1e-3 * even + 1e-10).all()
