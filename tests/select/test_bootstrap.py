"""Bootstrap samples as weights, beside rows that are drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import BY_NAME, K

KEY = jax.random.key(0)


def test_weights_count_draws():
    groups = np.array([0, 0, 1, 1, 1, 2, 3, 3, 4, 4, 4])
    strata = np.array([7, 7, 7, 7, 7, 7, 9, 9, 9, 9, 9])
    identity = lambda w: w  # noqa: E731
    rows = gcf.bootstrap(KEY, identity, 11, num=601, batch_size=3).draws
    assert (rows.sum(1) == 11).all() and rows.max() >= 4 and abs(rows.mean() - 1) < 1e-6
    np.testing.assert_allclose(rows.std(), np.sqrt(10 / 11), rtol=0.05)  # of a binomial
    of_strata = gcf.bootstrap(KEY, identity, 11, num=7, strata=strata).draws
    assert (of_strata[:, :6].sum(1) == 6).all()
    both = np.asarray(gcf.bootstrap(KEY, identity, 11, num=101, groups=groups, strata=strata).draws)
    first = np.array([0, 2, 5, 6, 8])
    assert (both == both[:, first][:, groups]).all()
    assert (both[:, first][:, :3].sum(1) == 3).all() and (both[:, first][:, 3:].sum(1) == 2).all()


@pytest.mark.slow
def test_of_scores_and_parameters(x64):
    x, y = BY_NAME["gaussian"].example("float64", n=61)
    clf = gcf.gaussian_nb(K)
    found = gcf.bootstrap(KEY, lambda w: gcf.fit(clf, x, y, w).conditional.mean, 61, num=199)
    draw = lambda w: np.repeat(np.arange(61), np.asarray(w).astype(int))  # noqa: E731
    weights = gcf.bootstrap(KEY, lambda w: w, 61, num=199).draws
    for number in (0, 113):
        rows = draw(weights[number])
        expected = gcf.fit(clf, x[rows], y[rows]).conditional.mean
        np.testing.assert_allclose(found.draws[number], expected, rtol=1e-10)
    np.testing.assert_allclose(found.lower, np.quantile(found.draws, 0.025, axis=0))
    np.testing.assert_allclose(found.upper, np.quantile(found.draws, 0.975, axis=0))
    np.testing.assert_allclose(found.standard_error, np.std(found.draws, 0, ddof=1))
    mean = gcf.bootstrap(KEY, lambda w: w @ x / w.sum(), 61, num=199)
    # The error of a standard deviation of 199 numbers is 5%.
    np.testing.assert_allclose(mean.standard_error, x.std(0) / np.sqrt(61), rtol=0.2)

    p = gcf.log_posterior(gcf.fit(clf, x, y), x)
    score = gcf.bootstrap(KEY, lambda w: gcf.score(p, y, weights=w), 61, num=199)
    right = np.asarray(p).argmax(1) == y
    np.testing.assert_allclose(score.draws, np.asarray(weights) @ right / 61, rtol=1e-12)
    assert score.estimate == right.mean()


def test_settings_that_cannot_be():
    with pytest.raises(ValueError, match="the group of row 2 has rows in two strata"):
        gcf.bootstrap(KEY, jnp.sum, 3, groups=np.array([5, 6, 5]), strata=np.array([0, 0, 1]))
    with pytest.raises(ValueError, match="strata has length 2, expected num_rows = 3"):
        gcf.bootstrap(KEY, jnp.sum, 3, strata=np.array([5, 6]))
    with pytest.raises(ValueError, match="level is 95"):
        gcf.bootstrap(KEY, jnp.sum, 3, level=95)
