"""`condition`: what is missing, given what is seen."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import (
    BY_NAME,
    MIXTURES,
    SEEN_IN_PART,
    WITH_HOLES,
    D,
    K,
    N,
    V,
    assert_close,
    assert_near,
    holes,
    take,
)

DRAWS = 4001
GAUSSIANS = [m.name for m in SEEN_IN_PART if m.name.startswith("gaussian")]


def fitted(name):
    model = BY_NAME[name]
    x, y = model.example("float64")
    return gcf.fit(model.classifier, x, y), holes(np.random.default_rng(1), x, 0.4), y


def by_hand(mean, covariance, row):
    """Conditional mean and covariance of the missing coordinates, in NumPy."""
    o, m = ~np.isnan(row), np.isnan(row)
    gain = covariance[np.ix_(m, o)] @ np.linalg.inv(covariance[np.ix_(o, o)])
    guess, left = row.copy(), np.zeros_like(covariance)
    guess[m] = mean[m] + gain @ (row[o] - mean[o])
    left[np.ix_(m, m)] = covariance[np.ix_(m, m)] - gain @ covariance[np.ix_(o, m)]
    return guess, left


@pytest.mark.parametrize("name", GAUSSIANS)
def test_gaussians_are_as_by_hand(name, x64):
    params, x, y = fitted(name)
    covariance = np.asarray(params.conditional.covariances)
    mean = np.asarray(params.conditional.mean)
    labelled, free = gcf.condition(params, x, y), gcf.condition(params, x)
    r = np.exp(np.asarray(free.log_posterior))
    for n in range(0, N, 7):
        guesses, lefts = zip(
            *(by_hand(mean[k], covariance[k], x[n]) for k in range(K)), strict=True
        )
        np.testing.assert_allclose(labelled.features.mean[n], guesses[y[n]], atol=1e-11)
        np.testing.assert_allclose(labelled.features.covariance[n], lefts[y[n]], atol=1e-11)
        mixed = np.tensordot(r[n], guesses, 1)
        apart = np.stack(guesses) - mixed
        spread = np.tensordot(r[n], lefts, 1) + np.einsum("k,ki,kj->ij", r[n], apart, apart)
        np.testing.assert_allclose(free.features.mean[n], mixed, atol=1e-11)
        np.testing.assert_allclose(free.features.covariance[n], spread, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("model", WITH_HOLES, ids=str)
def test_the_label_is_a_special_case(model, x64):
    x, y = model.example("float64")
    params = gcf.fit(model.classifier, x, y)
    found = gcf.condition(params, x)
    assert_close(found.log_posterior, gcf.log_posterior(params, x), 1e-12)
    mixed = gcf.condition(params, x, np.where(np.arange(N) % 2, y, -1))
    own = np.where(np.arange(K) == y[:, None], 0, -np.inf)
    expected = np.where((np.arange(N) % 2)[:, None], own, found.log_posterior)
    assert_near(mixed.log_posterior, expected, 1e-12)


@pytest.mark.parametrize("name", ["bernoulli", "categorical-unequal", "independent"])
def test_naive_bayes_knows_the_class_alone(name, x64):
    params, x, _ = fitted(name)
    found = gcf.condition(params, x)
    r = np.exp(np.asarray(found.log_posterior))
    if name == "bernoulli":
        expected = np.where(x == -1, r @ np.asarray(params.conditional.probs), x)
        np.testing.assert_allclose(found.features, expected, atol=1e-12)
    elif name == "categorical-unequal":
        columns = params.conditional.columns
        for j, size in enumerate(columns.num_values):
            start = columns.first[j]
            table = np.exp(np.asarray(params.conditional.table(j)))
            hot = (x[:, j, None] == np.arange(size)).astype(float)
            expected = np.where(x[:, j, None] == -1, r @ table, hot)
            np.testing.assert_allclose(
                found.features[:, start : start + size], expected, atol=1e-12
            )
    else:
        assert found.features.mean.shape == (D, N, 1)
        mean = np.asarray(params.conditional.columns.mean)[..., 0]
        expected = np.where(np.isnan(x), r @ mean.T, x)
        np.testing.assert_allclose(found.features.mean[..., 0].T, expected, atol=1e-12)


@pytest.mark.slow
def test_uncounted_words(x64):
    """By enumeration: words are drawn until as many counted ones were met."""
    theta = np.array([[0.5, 0.2, 0.3]])
    like = gcf.fit(gcf.multinomial_nb(1), jnp.ones((1, 3)), jnp.zeros(1, int))
    params = replace(like, conditional=replace(like.conditional, log_theta=jnp.log(theta)))
    row = jnp.array([4.0, jnp.nan, 2.0])
    found = gcf.condition(params, row)
    np.testing.assert_allclose(found.features, [4, 6 * 0.2 / 0.8, 2])
    drawn = found.sample(jax.random.key(0), (DRAWS,))[0]
    assert (np.asarray(drawn)[:, [0, 2]] == [4, 2]).all()
    # Negative binomial: mean 1.5, variance mean (1 + 0.2 / 0.8).
    assert abs(drawn[:, 1].mean() - 1.5) < 5 * np.sqrt(1.875 / DRAWS)
    assert abs(drawn[:, 1].var() - 1.875) < 0.25


SAMPLED = [*(BY_NAME[name] for name in ("gaussian", "gaussian-shared", "univariate")), *MIXTURES]


@pytest.mark.slow("mixture")
@pytest.mark.parametrize("model", [m for m in SAMPLED if "tokens" not in m.name], ids=str)
def test_draws_have_the_moments(model, x64):
    x, y = model.example("float64")
    params = gcf.fit(model.classifier, x, y)
    x = take(holes(np.random.default_rng(1), x, 0.5), slice(0, 11))
    found = gcf.condition(params, x)
    filled, label = found.sample(jax.random.key(0), (DRAWS,))
    share = np.stack([(np.asarray(label) == k).mean(0) for k in range(K)], -1)
    posterior = np.exp(np.asarray(found.log_posterior))
    np.testing.assert_allclose(share, posterior, atol=5 * 0.5 / np.sqrt(DRAWS))

    def compare(features, drawn, given):
        missing = np.isnan(given)
        same = np.broadcast_to(given, drawn.shape)[:, ~missing]
        np.testing.assert_allclose(np.asarray(drawn)[:, ~missing], same)
        assert np.isfinite(drawn).all()
        mean, covariance = np.asarray(features.mean), np.asarray(features.covariance)
        sd = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
        error = 5 * sd / np.sqrt(DRAWS) + 1e-9
        assert (np.abs(drawn.mean(0) - mean) < error).all()
        apart = np.asarray(drawn) - mean
        spread = np.einsum("sni,snj->nij", apart, apart) / DRAWS
        limit = 0.25 * sd[..., :, None] * sd[..., None, :] + 1e-9
        assert (np.abs(spread - covariance) < limit).all()

    if isinstance(x, dict):
        compare(found.features["size"], filled["size"], x["size"])
        if "word" in x and x["word"].dtype.kind == "i":
            probability = np.asarray(found.features["word"])
            probability = probability[..., 0].T if probability.ndim == 3 else probability
            drawn = np.asarray(filled["word"])
            assert set(np.unique(drawn)) <= {0, 1}
            np.testing.assert_allclose(drawn.mean(0), probability, atol=5 * 0.5 / np.sqrt(DRAWS))
    elif model.name.startswith("independent"):
        for j in range(D):
            column = jax.tree.map(lambda a, j=j: a[j], found.features)
            compare(column, filled[..., [j]], x[:, [j]])
    else:
        compare(found.features, filled, x)


@pytest.mark.slow
def test_categories_are_drawn_by_their_probabilities(x64):
    params, x, _ = fitted("categorical")
    found = gcf.condition(params, x[:5])
    drawn = np.asarray(found.sample(jax.random.key(0), (DRAWS,))[0])
    expected = np.asarray(found.features).reshape(5, D, V)
    share = (drawn[..., None] == np.arange(V)).mean(0)
    np.testing.assert_allclose(share, expected, atol=5 * 0.5 / np.sqrt(DRAWS))


def test_better_than_the_mean_on_the_vowels():
    """A formant of new speakers from the others: two thirds of the error of the class means."""
    vowel = gcf.datasets.load_vowel()
    params = gcf.fit(gcf.lda(11), vowel.x_train, vowel.y_train)
    x = np.where(np.arange(10) == 1, np.nan, vowel.x_test)
    found = gcf.condition(params, x, vowel.y_test).features.mean[:, 1]
    by_class = np.asarray(params.conditional.mean)[vowel.y_test, 1]
    truth = vowel.x_test[:, 1]
    assert ((found - truth) ** 2).mean() < 0.7 * ((by_class - truth) ** 2).mean()


@pytest.mark.slow
def test_one_example_and_batches(x64):
    params, x, y = fitted("gaussian")
    rows = gcf.condition(params, x)
    assert_close(gcf.condition(params, x[3]).features, take(rows.features, 3), 1e-12)
    two = gcf.condition(params, x[:10].reshape(2, 5, D), y[:10].reshape(2, 5))
    assert two.features.covariance.shape == (2, 5, D, D)
    many = jax.vmap(gcf.condition, (None, 0))(params, x)
    assert_close(many.features.mean, rows.features.mean, 1e-12)
    filled, label = rows.sample(jax.random.key(0))
    assert filled.shape == x.shape and label.shape == (N,)
    slope = jax.grad(lambda p: gcf.condition(p, x).features.mean.sum())(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))


@pytest.mark.slow
def test_clear_errors():
    params, x, y = fitted("gaussian")
    with pytest.raises(ValueError, match="expected integer labels"):
        gcf.condition(params, x, y[:5])
    with pytest.raises(ValueError, match="fitted to 5 features"):
        gcf.condition(params, x[:, :3])
    kernels = gcf.fit(
        gcf.Classifier(gcf.KernelDensity(), K), *BY_NAME["gaussian"].example("float32")
    )
    with pytest.raises(ValueError, match="KernelDensityParams"):
        gcf.condition(kernels, x)
    with pytest.raises(ValueError, match=r"expected a label in 0\.\.2"):
        gcf.condition(params, x, np.full(N, K))
    invalid = jax.jit(gcf.condition)(params, x, np.full(N, K))
    assert np.isnan(invalid.features.mean).any()
    assert (invalid.sample(jax.random.key(0))[1] == -1).all()
