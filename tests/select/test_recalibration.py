"""`recalibrate`: temperature and biases, beside SciPy's optimiser; and params that they are in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, sparse
from scipy.special import log_softmax

import genclf as gcf

pytestmark = pytest.mark.usefixtures("x64")

VOWEL = gcf.datasets.load_vowel()
X, Y = np.asarray(VOWEL.x_train), np.asarray(VOWEL.y_train)
SPEAKERS = np.arange(len(Y)) // 11 // 6  # rows are sorted by speaker
FOLDS = np.arange(len(Y)) % 7


def posteriors(seed=0, n=211, k=3, scale=3.0):
    """Overconfident posteriors of drawn labels, with a bias of each class."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k))
    y = np.array([rng.choice(k, p=np.exp(row)) for row in log_softmax(logits, 1)])
    return log_softmax(scale * logits + np.array([1.0, -0.5, 0.0])[:k], 1), y


def by_scipy(log_p, y, w=None, bias=True):
    """(slope, bias with sum 0, log-loss) by BFGS."""
    k = log_p.shape[1]

    def loss(at):
        score = at[0] * log_p + (at[1:] if bias else 0)
        own = log_softmax(score, 1)[np.arange(len(y)), y]
        return -np.average(own, weights=w)

    found = optimize.minimize(loss, np.r_[1, np.zeros(k if bias else 0)], options={"gtol": 1e-10})
    own = found.x[1:] - found.x[1:].mean() if bias else np.zeros(k)
    return found.x[0], own, found.fun


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_it_is_the_maximum_that_scipy_finds(bias, weighted):
    log_p, y = posteriors()
    w = np.random.default_rng(1).uniform(0.2, 3, len(y)) if weighted else None
    found = gcf.recalibrate(log_p, y, bias=bias, weights=w)
    slope, own, loss = by_scipy(log_p, y, w, bias)
    np.testing.assert_allclose(found.slope, slope, rtol=1e-5)
    np.testing.assert_allclose(found.bias, own, atol=1e-5)
    assert found.converged
    assert found.log_loss_after <= loss + 1e-12
    np.testing.assert_allclose(found.log_loss_before, gcf.score(log_p, y, "log_loss", weights=w))
    np.testing.assert_allclose(
        found.log_loss_after, gcf.score(found(log_p), y, "log_loss", weights=w), rtol=1e-12
    )
    np.testing.assert_allclose(found.temperature, 1 / slope, rtol=1e-5)


def test_with_biases_the_mean_posterior_is_the_share_of_each_class():
    log_p, y = posteriors()
    found = gcf.recalibrate(log_p, y)
    share = np.bincount(y) / len(y)
    np.testing.assert_allclose(jnp.exp(found(log_p)).mean(0), share, rtol=1e-10)
    np.testing.assert_allclose(jnp.exp(found.log_prior), share, rtol=1e-12)


def test_it_undoes_a_slope_and_a_bias():
    log_p, y = posteriors(n=997, scale=1.0)
    first = gcf.recalibrate(log_p, y)
    bent = log_softmax(2.5 * log_p + np.array([0.3, -2.0, 1.0]), 1)
    second = gcf.recalibrate(bent, y)
    np.testing.assert_allclose(first(log_p), second(bent), atol=1e-9)
    np.testing.assert_allclose(second.slope, first.slope / 2.5, rtol=1e-9)


def test_nested_is_fitted_without_each_fold_in_turn():
    log_p, y = posteriors()
    folds = np.arange(len(y)) % 13  # joined to ten groups
    found = gcf.recalibrate(log_p, y, folds=folds)
    loss = 0.0
    for group in range(10):
        held = folds % 10 == group
        own = gcf.recalibrate(log_p[~held], y[~held])
        loss -= np.asarray(own(log_p[held]))[np.arange(held.sum()), y[held]].sum()
    np.testing.assert_allclose(found.log_loss_nested, loss / len(y), rtol=1e-10)
    assert found.log_loss_after <= found.log_loss_nested
    assert np.isnan(gcf.recalibrate(log_p, y).log_loss_nested)


def test_a_cross_validation_brings_its_folds_and_unused_rows_do_not_count():
    folds = np.where(np.arange(len(Y)) % 5 == 0, -1, np.arange(len(Y)) % 3)
    cv = gcf.cross_validate(gcf.gaussian_nb(11), X, Y, folds)
    used = folds >= 0
    expected = gcf.recalibrate(cv.log_posterior[used], Y[used], folds=folds[used])
    found = gcf.recalibrate(cv, Y)
    for name in ("slope", "bias", "log_loss_before", "log_loss_after", "log_loss_nested"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)


def test_where_other_speakers_are_no_gain_the_error_says_so():
    assert SPEAKERS.max() == 7
    new, labels = np.asarray(VOWEL.x_test), np.asarray(VOWEL.y_test)
    certain = {}
    for name, clf in {"lda": gcf.lda(11), "qda": gcf.qda(11)}.items():
        cv, params = gcf.cross_validate(clf, X, Y, SPEAKERS), gcf.fit(clf, X, Y)
        found = gcf.recalibrate(cv, Y)
        each = [params, gcf.with_calibration(params, found)]
        before, after = (gcf.score(gcf.log_posterior(p, new), labels, "log_loss") for p in each)
        certain[name] = bool(found.gain > 2 * found.gain_error), bool(after < before)
        own = [gcf.recalibrate(cv.log_posterior[SPEAKERS != s], Y[SPEAKERS != s])(
            cv.log_posterior[SPEAKERS == s]) for s in range(8)]  # fmt: skip
        gains = [gcf.score(cv.log_posterior[SPEAKERS == s], Y[SPEAKERS == s], "log_loss")
                 - gcf.score(own[s], Y[SPEAKERS == s], "log_loss") for s in range(8)]  # fmt: skip
        np.testing.assert_allclose(found.gain, np.mean(gains), rtol=1e-9)
        np.testing.assert_allclose(found.gain_error, np.std(gains, ddof=1) / 8**0.5, rtol=1e-9)
    assert certain == {"lda": (False, False), "qda": (True, True)}


def test_weights_are_repetitions_and_rows_of_weight_0_may_hold_anything():
    log_p, y = posteriors(n=97)
    w = np.random.default_rng(2).integers(0, 3, 97)
    holed = np.where(w[:, None] == 0, np.nan, log_p)
    found = gcf.recalibrate(holed, np.where(w == 0, -1, y), weights=w.astype(float))
    expected = gcf.recalibrate(np.repeat(log_p, w, 0), np.repeat(y, w))
    np.testing.assert_allclose(found.slope, expected.slope, rtol=1e-9)
    np.testing.assert_allclose(found.bias, expected.bias, atol=1e-9)


def test_without_a_maximum_it_says_so():
    log_p = np.log([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
    found = gcf.recalibrate(log_p, np.array([0, 1, 0]))
    assert not found.converged
    assert np.isfinite(found.slope)
    more = np.log([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.8, 0.2]])
    assert gcf.recalibrate(more, np.array([0, 1, 0, 1])).converged


def test_a_class_without_rows_is_never_predicted_and_an_impossible_one_stays_so():
    log_p, y = posteriors()
    found = gcf.recalibrate(log_p, np.minimum(y, 1))
    assert found.bias[2] == -np.inf
    assert (np.asarray(found(log_p))[:, 2] == -np.inf).all()
    assert np.isfinite(gcf.recalibrate(log_p, np.minimum(y, 1), bias=False).bias).all()
    never = np.where(np.arange(len(y))[:, None] % 2 + np.arange(3) == 3, -np.inf, log_p)
    never = log_softmax(np.where((y == 2)[:, None], log_p, never), 1)
    found = gcf.recalibrate(never, y)
    assert (np.isneginf(never) == np.isneginf(found(never))).all()


def test_huge_log_odds_in_float32():
    log_p, y = posteriors(scale=3e4)
    found = gcf.recalibrate(log_p.astype(np.float32), y)
    slope, own, loss = by_scipy(log_p / 1e4, y)
    np.testing.assert_allclose(found.slope * 1e4, slope, rtol=1e-4)
    np.testing.assert_allclose(found.bias, own, atol=1e-4)
    np.testing.assert_allclose(found.log_loss_after, loss, rtol=1e-5)


def test_derivatives_are_those_of_refits():
    log_p, y = posteriors(n=53)
    slope = lambda log_p, w: gcf.recalibrate(log_p, y, weights=w).slope  # noqa: E731
    w = np.random.default_rng(3).uniform(0.5, 2, 53)
    by_rows, by_weights = jax.grad(slope, (0, 1))(jnp.asarray(log_p), jnp.asarray(w))
    step = 1e-6
    for row in (0, 17):
        moved = np.eye(53)[row] * step
        change = (slope(log_p, w + moved) - slope(log_p, w - moved)) / (2 * step)
        np.testing.assert_allclose(by_weights[row], change, rtol=1e-5, atol=1e-8)
        bent = lambda by, row=row: log_softmax(log_p + np.outer(np.eye(53)[row], [by, 0, 0]), 1)  # noqa: E731
        change = (slope(bent(step), w) - slope(bent(-step), w)) / (2 * step)
        direction = (bent(step) - bent(-step)) / (2 * step)
        np.testing.assert_allclose((by_rows * direction).sum(), change, rtol=1e-5, atol=1e-8)


def test_it_maps_over_data_sets():
    each = [posteriors(seed) for seed in range(3)]
    log_p, y = (np.stack(a) for a in zip(*each, strict=True))
    found = jax.vmap(gcf.recalibrate)(log_p, y)
    for i in range(3):
        one = gcf.recalibrate(*each[i])
        np.testing.assert_allclose(found.slope[i], one.slope, rtol=1e-9)
        np.testing.assert_allclose(found.log_loss_after[i], one.log_loss_after, rtol=1e-12)


def test_bad_rows_are_named_and_nan_in_traced_code():
    log_p, y = posteriors(n=11)
    for change, message in (
        (np.nan, r"log_posterior\[4\] is NaN"),
        (-np.inf, r"log_posterior\[4, .*\] is -inf, the true class"),
        (1.0, r"log_posterior\[4\] has probabilities that sum to"),
    ):
        bad = log_p.copy()
        bad[4, y[4]] = change
        if change == -np.inf:
            bad = log_softmax(bad, 1)
        with pytest.raises(ValueError, match=message):
            gcf.recalibrate(bad, y)
        found = jax.jit(gcf.recalibrate)(bad, y)
        assert np.isnan(found.slope)
        assert np.isnan(found.bias).all()
    with pytest.raises(ValueError, match="no row counts"):
        gcf.recalibrate(log_p, y, weights=np.zeros(11))


# Params with calibrated posteriors


@pytest.fixture
def lda():
    params = gcf.fit(gcf.lda(11), X, Y)
    return params, gcf.recalibrate(gcf.cross_validate(gcf.lda(11), X, Y, FOLDS), Y)


def test_params_use_the_calibration(lda):
    params, cal = lda
    found = gcf.with_calibration(params, cal)
    expected = cal(gcf.log_posterior(params, X))
    np.testing.assert_allclose(gcf.log_posterior(found, X), expected, atol=1e-11)
    np.testing.assert_array_equal(gcf.predict(found, X), np.asarray(expected).argmax(1))
    coef, intercept = map(np.asarray, gcf.linear_form(found))
    np.testing.assert_allclose(log_softmax(X @ coef.T + intercept, 1), expected, atol=1e-10)
    terms = gcf.explain(found, X[:5], of=3, against=7)
    odds = np.asarray(expected)[:5, 3] - np.asarray(expected)[:5, 7]
    np.testing.assert_allclose(terms.features.sum(1) + terms.constant, odds, rtol=1e-9)
    again = gcf.with_calibration(found, cal)
    np.testing.assert_array_equal(gcf.log_posterior(again, X[:3]), gcf.log_posterior(found, X[:3]))


def test_quadratic_and_softmax_models_too():
    for clf in (gcf.SoftmaxRegression(11, l2=1e-3), gcf.qda(11)):
        params = gcf.fit(clf, X, Y)
        cal = gcf.recalibrate(gcf.cross_validate(clf, X, Y, FOLDS), Y)
        found = gcf.with_calibration(params, cal)
        expected = cal(gcf.log_posterior(params, X))
        np.testing.assert_allclose(gcf.log_posterior(found, X), expected, atol=1e-9)
    matrix, coef, intercept = map(np.asarray, gcf.quadratic_form(found))
    score = np.einsum("ni,kij,nj->nk", X, matrix, X) + X @ coef.T + intercept
    np.testing.assert_allclose(log_softmax(score, 1), expected, atol=1e-8)


def test_another_prior_multiplies_the_posterior(lda):
    params, cal = lda
    found = gcf.with_calibration(params, cal)
    prior = np.random.default_rng(0).dirichlet(np.ones(11))
    moved = gcf.with_prior(found, prior)
    ratio = np.log(prior) - np.asarray(found.log_prior)
    expected = np.asarray(gcf.log_posterior(found, X)) + ratio
    np.testing.assert_allclose(gcf.log_posterior(moved, X), log_softmax(expected, 1), atol=1e-10)
    rows = np.tile(np.log(prior), (len(X), 1))
    np.testing.assert_allclose(
        gcf.log_posterior(found, X, rows), log_softmax(expected, 1), atol=1e-10
    )
    back = gcf.with_prior(moved, jnp.exp(found.log_prior))
    np.testing.assert_allclose(back.bias, found.bias, atol=1e-12)


def test_they_are_saved_and_have_no_density(lda, tmp_path):
    params, cal = lda
    found = gcf.with_calibration(params, cal)
    for given in (found, cal):
        gcf.save(tmp_path / "saved.genclf", given)
        loaded = gcf.load(tmp_path / "saved.genclf")
        assert jax.tree.structure(loaded) == jax.tree.structure(given)
        jax.tree.map(np.testing.assert_array_equal, loaded, given)
    for function in (gcf.log_joint, gcf.log_marginal):
        with pytest.raises(ValueError, match="give its field `params`, the classifier that was"):
            function(found, X)
    with pytest.raises(ValueError, match=r"recalibration.bias has shape \(11,\), expected \(3,\)"):
        gcf.with_calibration(gcf.fit(gcf.lda(3), X, np.minimum(Y, 2)), cal)
    with pytest.raises(ValueError, match="needs a class prior, which SoftmaxParams does not"):
        gcf.with_prior(gcf.fit(gcf.SoftmaxRegression(11, l2=0.1), X, Y), np.ones(11) / 11)


def test_sparse_rows_too():
    words = np.random.default_rng(0).poisson(0.7, (61, 13)).astype(float)
    labels = np.arange(61) % 3
    clf = gcf.multinomial_nb(3)
    cv = gcf.cross_validate(clf, words, labels, np.arange(61) % 5)
    found = gcf.with_calibration(gcf.fit(clf, words, labels), gcf.recalibrate(cv, labels))
    expected = gcf.log_posterior(found, words)
    rows = sparse.csr_array(words)
    np.testing.assert_allclose(gcf.log_posterior(found, rows), expected, atol=1e-10)


@pytest.mark.slow("True")
@pytest.mark.parametrize("bias", [True, False])
def test_classes_that_are_apart_have_no_calibration(bias):
    """No row is on the wrong side: the numbers are finite, and say so, also of the nested folds."""
    y = np.arange(61) % 3
    odds = np.where(y[:, None] == np.arange(3), 3.0, 0.0) + np.arange(61)[:, None] / 61
    log_p = odds - np.logaddexp.reduce(odds, 1, keepdims=True)
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            found = gcf.recalibrate(log_p.astype(dtype), y, bias=bias, folds=np.arange(61) % 5)
        assert not found.converged
        assert np.isfinite([found.slope, found.log_loss_after, found.log_loss_nested]).all()
        assert found.log_loss_after < 1e-5
    log_p[7] = log_p[8]  # one row on the wrong side, and there is one
    assert gcf.recalibrate(log_p, y, bias=bias).converged
    assert gcf.recalibrate(log_p, np.zeros(61, int), bias=True).converged  # of one class alone


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("bias", [True, False])
def test_posteriors_that_are_worse_than_none(bias):
    """At slope 0 q is the shares of the classes, of each nested calibration its own."""
    rng = np.random.default_rng(4)
    y, folds = rng.integers(0, 3, 61), np.arange(61) % 5
    odds = rng.normal(size=(61, 3)) - 0.3 * (y[:, None] == np.arange(3))
    log_p = odds - np.logaddexp.reduce(odds, 1, keepdims=True)
    found = gcf.recalibrate(log_p, y, bias=bias, folds=folds)
    share = np.bincount(y) / 61
    assert found.slope == 0 and found.converged
    expected = np.log(share) - np.log(share).mean() if bias else np.zeros(3)
    np.testing.assert_allclose(found.bias, expected, atol=1e-12)
    losses = []
    for fold in range(5):
        one = gcf.recalibrate(log_p, np.where(folds == fold, -1, y), bias=bias)
        losses.append(-np.asarray(one(log_p))[np.arange(61), y][folds == fold])
    np.testing.assert_allclose(found.log_loss_nested, np.concatenate(losses).mean(), rtol=1e-9)

    def first_bias(w):
        return gcf.recalibrate(log_p, y, bias=bias, weights=w).bias[0]

    w, step = jnp.ones(61), 1e-6 * jnp.eye(61)[3]
    slope = (first_bias(w + step) - first_bias(w - step)) / 2e-6
    np.testing.assert_allclose(jax.grad(first_bias)(w)[3], slope, rtol=1e-6, atol=1e-12)
