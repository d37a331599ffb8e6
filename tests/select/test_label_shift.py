"""`adapt_prior`: the class prior of another population."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import genclf as gcf
from tests.registry import BY_NAME, K, N, assert_near

MODELS = [BY_NAME[name] for name in ("gaussian-shared", "multinomial-tokens", "product")]


def shifted(model, seed=1, n=503):
    """Params of one population, rows of another in which the last class is rare."""
    x, y = model.example("float64", n=1009)
    params = gcf.fit(model.classifier, x, y)
    other = gcf.with_prior(params, jnp.array([0.55, 0.4, 0.05]))
    return params, *gcf.sample(jax.random.key(seed), other, (n,))


@pytest.mark.slow("multinomial-tokens", "product")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_maximum(model, x64):
    params, x, _ = shifted(model)
    found = gcf.adapt_prior(params, x, tol=0.0)
    density = np.asarray(gcf.log_joint(params, x)) - np.asarray(params.log_prior)

    def loss(free):
        log_prior = free - np.logaddexp.reduce(free)
        return -np.logaddexp.reduce(density + log_prior, axis=1).mean()

    best = optimize.minimize(loss, np.zeros(K), options={"gtol": 1e-9})
    prior = np.exp(best.x - np.logaddexp.reduce(best.x))
    np.testing.assert_allclose(jnp.exp(found.params.log_prior), prior, atol=1e-5)
    np.testing.assert_allclose(found.value / len(density), -best.fun, rtol=1e-9)
    values = np.asarray(found.objective)[: int(found.steps)]
    assert (np.diff(values) >= -1e-12 * np.abs(values[1:])).all()
    np.testing.assert_allclose(values[0], gcf.log_marginal(params, x).sum(), rtol=1e-12)


@pytest.mark.slow("gaussian-shared", "product")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_it_is_near_the_prior_drawn_from(model, x64):
    params, x, y = shifted(model)
    found = gcf.adapt_prior(params, x)
    assert found.converged
    np.testing.assert_allclose(jnp.exp(found.params.log_prior), [0.55, 0.4, 0.05], atol=0.09)
    before, after = (np.asarray(gcf.log_posterior(p, x))[np.arange(503), y].mean()
                     for p in (params, found.params))  # fmt: skip
    assert after > before


@pytest.mark.slow
def test_weights_are_repetitions_and_densities_stay(x64):
    params, x, _ = shifted(MODELS[0])
    weights = np.random.default_rng(0).integers(0, 3, 503)
    holed = np.where(weights[:, None] == 0, np.nan, x)
    found = gcf.adapt_prior(params, holed, weights=weights.astype(float))
    repeated = gcf.adapt_prior(params, np.repeat(np.asarray(x), weights, axis=0))
    assert_near(found.params.log_prior, repeated.params.log_prior, 1e-10)
    np.testing.assert_array_equal(found.params.conditional.mean, params.conditional.mean)


def test_a_class_that_cannot_occur_stays_so(x64):
    params, x, _ = shifted(MODELS[0])
    found = gcf.adapt_prior(gcf.with_prior(params, jnp.array([0.5, 0.5, 0.0])), x)
    assert found.converged and found.params.log_prior[2] == -jnp.inf


@pytest.mark.slow
def test_any_density_and_any_transform(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    params = gcf.fit(gcf.Classifier(gcf.KernelDensity(), K), x, y)
    rows = np.stack([x[y != 0], x[y != 0] + 0.1])
    many = jax.vmap(lambda x: gcf.adapt_prior(params, x))(rows)
    for i in range(2):
        alone = gcf.adapt_prior(params, rows[i])
        assert_near(many.params.log_prior[i], alone.params.log_prior, 1e-8)
    assert (np.exp(np.asarray(many.params.log_prior))[:, 0] < 0.2).all()

    def score(shift):
        return gcf.adapt_prior(params, x + shift, tol=0.0, max_steps=3000).params.log_prior[1]

    slope = jax.grad(score)(0.0)
    np.testing.assert_allclose(slope, (score(1e-3) - score(-1e-3)) / 2e-3, rtol=1e-3)


@pytest.mark.slow
def test_invalid_input():
    params, x, _ = shifted(MODELS[0])
    with pytest.raises(ValueError, match="weights has shape"):
        gcf.adapt_prior(params, x, weights=np.ones(3))
    with pytest.raises(ValueError, match="expected rows"):
        gcf.adapt_prior(params, x[0])
    with pytest.raises(ValueError, match="max_steps"):
        gcf.adapt_prior(params, x, max_steps=0)
    nothing = gcf.adapt_prior(params, x, weights=np.zeros(503))
    assert np.isnan(nothing.params.log_prior).all() and not nothing.converged
    bad = gcf.adapt_prior(params, x, weights=np.full(503, -1.0))
    assert np.isnan(bad.params.log_prior).all() and not bad.converged
    broken = gcf.adapt_prior(params, np.where(np.arange(503)[:, None] == N, np.nan, x))
    assert np.isnan(broken.params.log_prior).all()


# The confusion matrix, and calibrated posteriors


@pytest.fixture(scope="module")
def overconfident():
    """Correlated features, which naive Bayes counts several times; rows of a shifted prior."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)

        def rows(share, n):
            y = rng.choice(3, n, p=share)
            common = rng.normal(size=(n, 1)) + 1.8 * y[:, None]
            return common + 0.3 * rng.normal(size=(n, 7)), y

        x, y = rows([0.4, 0.4, 0.2], 3001)
        clf = gcf.gaussian_nb(3)
        cv = gcf.cross_validate(clf, x, y, np.arange(3001) % 5)
        params = gcf.fit(clf, x, y)
        new = rows([0.1, 0.2, 0.7], 2003)
        return params, gcf.with_calibration(params, gcf.recalibrate(cv, y)), cv, y, *new


def prior_of(found):
    return np.exp(np.asarray(found.params.log_prior))


def test_confusion_is_the_least_squares_of_mean_posteriors(overconfident, x64):
    params, _, cv, y, x, _ = overconfident
    found = gcf.adapt_prior(params, x, method="confusion", learned=cv, y=y)
    held, new = np.exp(cv.log_posterior), np.exp(gcf.log_posterior(params, x))
    confusion = np.stack([held[y == k].mean(0) for k in range(3)], 1)
    heavy = np.vstack([confusion, 1e4 * np.ones(3)])
    expected = optimize.nnls(heavy, np.append(new.mean(0), 1e4))[0]
    np.testing.assert_allclose(prior_of(found), expected, atol=1e-6)
    np.testing.assert_array_equal(found.params.conditional.mean, params.conditional.mean)
    weights = np.random.default_rng(1).integers(0, 3, len(x)).astype(float)
    weighted = gcf.adapt_prior(
        params, np.where(weights[:, None] == 0, np.nan, x), weights=weights,
        method="confusion", learned=np.asarray(cv.log_posterior), y=y,
    )  # fmt: skip
    repeated = gcf.adapt_prior(
        params, np.repeat(x, weights.astype(int), 0), method="confusion", learned=cv, y=y
    )
    np.testing.assert_allclose(prior_of(weighted), prior_of(repeated), rtol=1e-9)


def test_calibration_and_confusion_mend_the_prior_of_an_overconfident_model(overconfident, x64):
    params, calibrated, cv, y, x, labels = overconfident
    true = np.bincount(labels) / len(labels)
    error = lambda found: np.abs(prior_of(found) - true).max()  # noqa: E731
    plain = error(gcf.adapt_prior(params, x))
    assert plain > 0.05
    assert error(gcf.adapt_prior(calibrated, x)) < 0.7 * plain
    for given in (params, calibrated):
        found = gcf.adapt_prior(given, x, method="confusion", learned=cv, y=y)
        assert error(found) < 0.7 * plain
        assert type(found.params) is type(given)


def test_a_calibrated_model_takes_its_own_posteriors_of_held_out_rows(overconfident, x64):
    _, calibrated, cv, y, x, _ = overconfident
    cal = gcf.recalibrate(cv, y)
    by_cv = gcf.adapt_prior(calibrated, x, method="confusion", learned=cv, y=y)
    by_rows = gcf.adapt_prior(calibrated, x, method="confusion", learned=cal(cv.log_posterior), y=y)
    np.testing.assert_allclose(prior_of(by_cv), prior_of(by_rows), rtol=1e-8)
    moved = np.asarray(gcf.log_posterior(by_cv.params, x[:5]))
    ratio = np.asarray(by_cv.params.log_prior) - np.asarray(calibrated.log_prior)
    expected = np.asarray(gcf.log_posterior(calibrated, x[:5])) + ratio
    expected = expected - np.logaddexp.reduce(expected, 1)[:, None]
    np.testing.assert_allclose(moved, expected, atol=1e-9)


@pytest.mark.slow("confusion")
@pytest.mark.parametrize("method", ["likelihood", "confusion"])
def test_the_interval_is_that_of_bootstrap_samples(method, overconfident, x64):
    _, calibrated, cv, y, x, labels = overconfident
    more = {} if method == "likelihood" else {"learned": cv, "y": y}
    found = gcf.adapt_prior(
        calibrated, x[:211], method=method, key=jax.random.key(2), num_draws=60, **more
    )
    lower, upper = np.asarray(found.interval)
    prior = prior_of(found)
    assert (lower <= prior).all()
    assert (prior <= upper).all()
    share = np.bincount(labels) / len(labels)
    assert (upper - lower > 2 * np.sqrt(share * (1 - share) / 211)).all()
    assert (upper - lower < 0.5).all()
    assert gcf.adapt_prior(calibrated, x[:7], method=method, **more).interval is None


def test_confusion_needs_held_out_rows_and_says_so(overconfident):
    params, _, cv, y, x, _ = overconfident
    with pytest.raises(ValueError, match="learned is None with method='confusion'"):
        gcf.adapt_prior(params, x, method="confusion")
    with pytest.raises(ValueError, match="learned is given with method='likelihood'"):
        gcf.adapt_prior(params, x, learned=cv, y=y)
    with pytest.raises(ValueError, match="learned has posteriors of 2 classes, expected 3"):
        log_p = np.log(np.full((11, 2), 0.5))
        gcf.adapt_prior(params, x, method="confusion", learned=log_p, y=np.arange(11) % 2)
    with pytest.raises(ValueError, match="needs a class prior, which SoftmaxParams does not"):
        gcf.adapt_prior(gcf.softmax_form(gcf.fit(gcf.lda(3), x, np.arange(len(x)) % 3)), x)
