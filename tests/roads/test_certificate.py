"""What the certificate must refuse, standard errors, and the gradient road's options."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.datasets import load_iris

import genclf as gcf
from tests.registry import BY_NAME, K, N, assert_close


@pytest.fixture
def iris(dtype):
    x, y = load_iris(return_X_y=True)
    return x.astype(dtype), y.astype(np.int32)


def swapped(params):
    """The params with classes 0 and 1 exchanged."""
    order = jnp.array([1, 0, 2])
    conditional = jax.tree.map(
        lambda leaf: leaf[order] if leaf.shape[:1] == (3,) else leaf, params.conditional
    )
    return eqx.tree_at(lambda p: p.conditional, params, conditional)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_wrong_gaussians(iris, shared):
    clf = gcf.Classifier(gcf.Gaussian(shared=shared), 3)
    unbiased = gcf.Classifier(gcf.Gaussian(shared=shared, ddof=3.0 if shared else 1.0), 3)
    params = gcf.fit(clf, *iris)
    wrong = {
        "divided by n - K": gcf.fit(unbiased, *iris),
        "mean": eqx.tree_at(
            lambda p: p.conditional.mean, params, params.conditional.mean.at[1, 2].add(1e-3)
        ),
        "transposed": eqx.tree_at(
            lambda p: p.conditional.scale, params, jnp.swapaxes(params.conditional.scale, 1, 2)
        ),
        "swapped": swapped(params),
        "prior": gcf.with_prior(params, jnp.array([0.34, 0.33, 0.33], iris[0].dtype)),
        "NaN": eqx.tree_at(
            lambda p: p.conditional.mean, params, params.conditional.mean.at[0, 0].set(jnp.nan)
        ),
    }
    assert gcf.certify(clf, params, *iris).valid
    for name, other in wrong.items():
        assert not gcf.certify(clf, other, *iris).valid, name
    assert gcf.certify(clf, wrong["transposed"], *iris).feasibility > 0.1
    assert gcf.certify(clf, wrong["divided by n - K"], *iris).gap > 1e-5


@pytest.mark.slow("float32")
def test_a_smoothed_table_is_not_the_maximum(dtype):
    votes = gcf.datasets.load_house_votes()
    plain, smooth = (gcf.categorical_nb(2, 3, alpha=alpha) for alpha in (0.0, 1.0))
    with_alpha, without = (gcf.fit(clf, votes.x, votes.y) for clf in (smooth, plain))
    assert gcf.certify(plain, without, votes.x, votes.y).valid
    assert gcf.certify(smooth, with_alpha, votes.x, votes.y).valid
    assert not gcf.certify(plain, with_alpha, votes.x, votes.y).valid
    assert not gcf.certify(smooth, without, votes.x, votes.y).valid


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_invalid_rows_are_never_certified():
    x, y = BY_NAME["gaussian"].example("float64")
    clf = BY_NAME["gaussian"].classifier
    params = gcf.fit(clf, x, y)
    x_bad, y_bad = x.copy(), y.copy()
    x_bad[7, 2], y_bad[11] = np.nan, K
    for rows in ((x_bad, y), (x, y_bad), (x, y, np.where(np.arange(N) == 3, -1.0, 1.0))):
        assert not jax.jit(gcf.certify)(clf, params, *rows).valid
        found = jax.jit(gcf.fit_gradient)(clf, *rows)
        assert not found.converged
        lagrange = gcf.fit_lagrange(clf, jax.jit(gcf.stats)(clf, *rows))
        assert not lagrange.converged


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "name",
    ["gaussian-shared", "gaussian-diag", "bernoulli", "categorical-unequal", "multinomial-tokens"],
)
def test_one_entry_that_is_nan_is_not_feasible(name):
    model = BY_NAME[name]
    params = gcf.fit(model.smooth, *model.example("float64")).conditional
    assert params.parameters
    for attribute, of in params.parameters.items():
        stored = getattr(params, attribute)
        assert of.infeasibility(stored) < 1e-6
        assert of.infeasibility(stored.at[(0,) * stored.ndim].set(jnp.nan)) == jnp.inf


@pytest.mark.usefixtures("x64")
def test_params_of_another_model_are_an_error():
    x, y = BY_NAME["gaussian"].example("float64")
    with pytest.raises(ValueError, match="params are"):
        gcf.certify(gcf.lda(K), gcf.fit(gcf.qda(K), x, y), x, y)
    with pytest.raises(ValueError, match="params are"):
        gcf.certify(gcf.lda(K), gcf.fit(gcf.lda(K), x[:, :3], y), x, y)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_a_thousand_fits_at_once():
    clf = gcf.lda(3)
    xs = jax.random.normal(jax.random.key(0), (1000, 29, 2))
    ys = jnp.arange(29) % 3

    @jax.jit
    @jax.vmap
    def each(x):
        params = gcf.fit(clf, x, ys)
        off = eqx.tree_at(lambda p: p.conditional.mean, params, params.conditional.mean + 1e-3)
        return gcf.certify(clf, params, x, ys).valid, gcf.certify(clf, off, x, ys).valid

    valid, off = each(xs)
    assert valid.all() and not off.any()


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["gaussian-diag", "gaussian-shared", "bernoulli", "multinomial"])
def test_standard_errors_are_those_of_a_bootstrap(name):
    model, n, repetitions = BY_NAME[name], 997, 400
    clf = model.plain
    # Rows drawn from the model itself, for which information and sampling agree.
    truth = gcf.fit(model.smooth, *model.example("float64"))
    x, y = gcf.sample(jax.random.key(1), truth, (n,))
    params = gcf.fit(clf, x, y)
    errors = gcf.standard_errors(clf, params, x, y)
    weights = np.random.default_rng(2).multinomial(n, np.ones(n) / n, repetitions).astype(float)
    refit = jax.jit(jax.vmap(gcf.fit, (None, None, None, 0)))(clf, x, y, weights)
    for key, found in errors.items():
        fits = refit.log_prior if key == "log_prior" else getattr(refit.conditional, key)
        # Not the zeros above the diagonal of a Cholesky factor, nor logarithms of 0.
        some = np.isfinite(fits).all(0) & np.isfinite(found) & (np.asarray(found) > 0)
        ratio = np.asarray(fits.std(0))[some] / np.asarray(found)[some]
        # The standard deviation of 400 numbers is good to 4%, the approximation to 1/√n_k.
        assert np.abs(np.median(ratio) - 1) < 0.03, key
        assert np.abs(ratio - 1).max() < 0.25, key


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_standard_errors_in_closed_form():
    x, y = BY_NAME["gaussian-diag"].example("float64")
    weights = np.random.default_rng(5).uniform(0.5, 2, N)
    clf = gcf.gaussian_nb(K)
    params = gcf.fit(clf, x, y, weights)
    errors = gcf.standard_errors(clf, params, x, y, weights)
    count = np.asarray(gcf.stats(clf, x, y, weights).count)
    sd = np.asarray(params.conditional.scale)
    np.testing.assert_allclose(errors["mean"], sd / np.sqrt(count)[:, None], rtol=1e-10)
    np.testing.assert_allclose(errors["scale"], sd / np.sqrt(2 * count)[:, None], rtol=1e-10)
    prior = count / count.sum()
    expected = np.sqrt((1 - prior) / (prior * count.sum()))
    np.testing.assert_allclose(errors["log_prior"], expected, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_any_optimizer_and_mini_batches():
    x, y = BY_NAME["gaussian-diag-shared"].example("float64")
    clf = gcf.Classifier(gcf.Gaussian("diag", shared=True), K)
    closed = gcf.fit(clf, x, y)
    by_adam = gcf.fit_gradient(clf, x, y, optimizer=optax.adam(0.05), max_steps=800, tol=1e-5)
    assert by_adam.converged
    assert_close(by_adam.params, closed, 1e-4)
    key = jax.random.key(0)
    batches = gcf.fit_gradient(clf, x, y, key=key, batch_size=37, max_steps=600)
    assert batches.steps == 600
    assert_close(batches.params, closed, 0.05)
    # The same under jit, where there is no progress bar.
    run = jax.jit(lambda x: gcf.fit_gradient(clf, x, y, key=key, batch_size=37, max_steps=600))
    assert_close(run(x).params, batches.params, 1e-9)
    nothing = gcf.fit_gradient(clf, x, y, max_steps=0)
    assert nothing.steps == 0 and not nothing.converged
    with pytest.raises(ValueError, match="belong together"):
        gcf.fit_gradient(clf, x, y, key=key)
    with pytest.raises(ValueError, match="batch_size is 0"):
        gcf.fit_gradient(clf, x, y, key=key, batch_size=0)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_a_singular_class_has_no_maximum():
    x = np.random.default_rng(0).normal(size=(23, 2))
    x[:, 1] = x[:, 0]
    found = gcf.fit_gradient(gcf.qda(2), x, np.arange(23) % 2, max_steps=200)
    assert found.on_boundary and not found.converged


@pytest.mark.usefixtures("x64")
def test_the_roads_on_few_rows():
    x, y = np.array([[0.0], [3], [1], [4], [6], [5], [2]]), np.array([0, 0, 0, 1, 1, 1, 1])
    total, count = np.array([4.0, 17.0]), np.array([3.0, 4.0])
    clf, prior = gcf.Classifier(gcf.Poisson(alpha=0.0), 2), count / 7
    by_gradient, by_lagrange = (
        gcf.fit_gradient(clf, x, y),
        gcf.fit_lagrange(clf, gcf.stats(clf, x, y)),
    )
    for found in (by_gradient, by_lagrange):
        assert found.converged
        np.testing.assert_allclose(found.params.conditional.rate[:, 0], total / count, rtol=1e-7)
        np.testing.assert_allclose(np.exp(found.params.log_prior), prior, rtol=1e-7)
    np.testing.assert_allclose(by_lagrange.multipliers["log_prior"], 7, rtol=1e-9)
    errors = gcf.standard_errors(clf, by_lagrange.params, x, y)
    np.testing.assert_allclose(errors["log_rate"][:, 0], total**-0.5, rtol=1e-7)
    np.testing.assert_allclose(errors["log_prior"], np.sqrt((1 - prior) / count), rtol=1e-7)


@pytest.mark.slow
def test_float32_roads():
    """Those in float64 are held to 1e-6 in the laws."""
    x, y = load_iris(return_X_y=True)
    iris = x.astype(np.float32), y.astype(np.int32)
    clf = gcf.lda(3)
    found = gcf.fit_gradient(clf, *iris)
    assert found.converged
    assert_close(found.params, gcf.fit(clf, *iris), 1e-4)
    s = gcf.stats(clf, *iris)
    lagrange = gcf.fit_lagrange(clf, s)
    assert lagrange.converged
    assert_close(lagrange.params, gcf.estimate(clf, s), 1e-4)
    np.testing.assert_allclose(lagrange.multipliers["log_prior"], 150, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["gaussian", "gaussian-shared", "multinomial"])
def test_a_class_without_rows_is_no_objection(name):
    model = BY_NAME[name]
    x, y = model.example("float64")
    x, y = x[y != 1], y[y != 1]
    clf = model.plain
    params = gcf.fit(clf, x, y)
    assert gcf.certify(clf, params, x, y).valid
    found = gcf.fit_lagrange(clf, gcf.stats(clf, x, y))
    assert found.converged and np.isneginf(found.params.log_prior[1])
    errors = gcf.standard_errors(clf, params, x, y)
    for key, values in errors.items():
        if len(values) == K:
            alone = np.asarray(values)[1]
            triangle = (
                np.tril(np.ones(alone.shape, bool)) if alone.ndim == 2 else np.ones_like(alone)
            )
            assert np.isinf(alone[triangle > 0]).all(), key
            assert np.isfinite(np.asarray(values)[0]).all() or key != "mean"


@pytest.mark.slow
def test_no_maximum_is_not_convergence(dtype):
    x = np.random.default_rng(0).normal(size=(23, 2)).astype(dtype)
    x[:, 1] = x[:, 0]
    y = np.arange(23) % 2
    clf = gcf.lda(2)
    assert not gcf.fit_lagrange(clf, gcf.stats(clf, x, y)).converged
    assert not gcf.certify(clf, gcf.fit(clf, x, y), x, y).valid


@pytest.mark.slow
def test_rare_words_are_not_absent_ones(dtype):
    counts = np.floor(1e6 / np.arange(1, 5001)).astype(dtype)[None]
    clf = gcf.multinomial_nb(1)
    s = gcf.stats(clf, counts, np.zeros(1, int))
    found = gcf.fit_lagrange(clf, s)
    assert found.converged
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    assert_close(found.params, gcf.estimate(clf, s), tolerance)
    np.testing.assert_allclose(
        found.multipliers["log_theta"], [[counts.sum() + 5000]], rtol=tolerance
    )


@pytest.mark.slow
def test_a_class_of_little_weight_is_fitted_too(dtype):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [197, 29])
    x = (rng.normal(size=(226, 2)) + 5 * y[:, None]).astype(dtype)
    weights = np.where(y == 0, 1, 1e-3).astype(dtype)
    clf = gcf.qda(2)
    found = gcf.fit_gradient(clf, x, y, weights, max_steps=3000)
    expected = gcf.fit(clf, x, y, weights)
    for of in (lambda p: p.log_prior, lambda p: p.conditional.mean, lambda p: p.conditional.scale):
        np.testing.assert_allclose(of(found.params), of(expected), rtol=1e-3, atol=1e-3)
    # In float32 the slope of so little weight is lost beside the others.
    assert found.converged or dtype == np.float32
