"""Learning curves: the splits, the errors, and where curves cross."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import genclf as gcf

N, D, K = 101, 2, 3
MODELS = {"lda": gcf.lda(K, ridge=0.1), "softmax": gcf.SoftmaxRegression(K, l2=0.1)}


KEY = jax.random.key(0)


def example(n=N, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n).astype(np.int32)
    return (rng.normal(size=(n, D)) + 2 * rng.normal(size=(K, D))[y]).astype(np.float32), y


@pytest.mark.slow
def test_errors_are_those_of_the_rows_left_out():
    x, y = example()
    key = jax.random.key(3)
    curve = gcf.learning_curve(MODELS, x, y, [7, 53], key=key, num_splits=5)
    assert curve.sizes.tolist() == [7, 53]
    for i, size in enumerate(curve.sizes.tolist()):
        for s, split in enumerate(jax.random.split(jax.random.fold_in(key, i), 5)):
            rows = np.asarray(jax.random.permutation(split, N))
            train, rest = rows[:size], rows[size:]
            for name, model in MODELS.items():
                params = gcf.fit(model, x[train], y[train])
                expected = np.mean(gcf.predict(params, x[rest]) != y[rest])
                np.testing.assert_allclose(curve.errors[name][i, s], expected, atol=0.02)


def test_few_rows_as_scikit_learn():
    x, y = example(17)
    y, key = y % 2, jax.random.key(3)
    curve = gcf.learning_curve({"a": gcf.gaussian_nb(2)}, x, y, [11], key=key, num_splits=3)
    for s, split in enumerate(jax.random.split(jax.random.fold_in(key, 0), 3)):
        rows = np.asarray(jax.random.permutation(split, 17))
        train, rest = rows[:11], rows[11:]
        peer = GaussianNB(var_smoothing=0).fit(x[train], y[train])
        np.testing.assert_allclose(
            curve.errors["a"][0, s], (peer.predict(x[rest]) != y[rest]).mean()
        )


@pytest.mark.slow
def test_a_test_set_and_batches():
    x, y = example()
    test = example(n=53, seed=0)
    args = {"key": jax.random.key(0), "num_splits": 7}
    curve = gcf.learning_curve(MODELS, x, y, [N], test=test, **args)
    params = gcf.fit(MODELS["lda"], x, y)
    expected = np.mean(gcf.predict(params, test[0]) != test[1])
    np.testing.assert_allclose(curve.errors["lda"], np.full((1, 7), expected), atol=1e-6)
    chunked = gcf.learning_curve(MODELS, x, y, [N], test=test, batch_size=3, **args)
    np.testing.assert_allclose(chunked.errors["softmax"], curve.errors["softmax"], atol=0.02)


def test_a_test_set():
    (x, y), test = example(), example(n=53, seed=1)
    args = {"key": jax.random.key(0), "num_splits": 2, "test": test}
    curve = gcf.learning_curve({"nb": gcf.gaussian_nb(K)}, x, y, [N], **args)
    expected = np.mean(gcf.predict(gcf.fit(gcf.gaussian_nb(K), x, y), test[0]) != test[1])
    np.testing.assert_allclose(curve.errors["nb"], [[expected, expected]], atol=1e-6)


def test_means_standard_errors_and_crossings():
    a = np.array([[0.3, 0.5, 0.4], [0.2, 0.3, 0.4], [0.1, 0.1, 0.1], [0.1, 0.2, 0.3]])
    apart = np.array([0.1, 0.0, -0.1, -0.1])[:, None] + np.array([[0.0, 0.01, -0.01]])
    curve = gcf.LearningCurve(
        jnp.array([5, 10, 20, 40]), {"a": jnp.asarray(a + apart), "b": jnp.asarray(a)}
    )
    np.testing.assert_allclose(curve.mean["b"], a.mean(1), rtol=1e-5)
    expected = a.std(1, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(curve.standard_error["b"], expected, atol=1e-7)
    mean, error = curve.difference("a", "b")
    np.testing.assert_allclose(mean, [0.1, 0, -0.1, -0.1], atol=1e-6)
    np.testing.assert_allclose(error, 0.01 / np.sqrt(3), rtol=1e-4)
    # At 10 the curves are not apart, so they cross somewhere between 5 and 20, once.
    assert curve.crossings("a", "b") == [(5, 20)]
    assert curve.crossings("a", "b", z=100.0) == []


@pytest.mark.slow
def test_a_class_that_was_not_drawn_counts_as_errors():
    x, y = example()
    curve = gcf.learning_curve(MODELS, x, y, [1], key=jax.random.key(0), num_splits=11)
    shares = np.bincount(y, minlength=K) / N
    for errors in curve.errors.values():
        # One row, one class: all rows of the others are wrong.
        assert all(np.abs(1 - shares - error).min() < 0.02 for error in np.asarray(errors[0]))


def test_the_least_training_set_is_one_row():
    x, y = example()
    models = {"smoothed": gcf.bernoulli_nb(K, alpha=1.0)}
    curve = gcf.learning_curve(models, (x > 0).astype(int), y, [1], key=KEY, num_splits=2)
    assert np.isfinite(curve.errors["smoothed"]).all()
    with pytest.raises(ValueError, match=r"sizes is \[0\], expected a list of whole numbers >= 1"):
        gcf.learning_curve(models, (x > 0).astype(int), y, [0], key=KEY)


def test_labels_that_are_not_all_known_are_refused():
    x, y = example()
    unknown = np.where(np.arange(N) == 3, -1, y)
    for labels, wrong in ((unknown, r"y\[3\] is -1 \(row 3\)"), (np.eye(K)[y], "responsibilities")):
        with pytest.raises(ValueError, match=wrong):
            gcf.learning_curve({"nb": gcf.gaussian_nb(K)}, x, labels, [N // 2], key=KEY)


def test_what_does_not_fit_says_so():
    x, y = example()
    args = {"key": jax.random.key(0), "num_splits": 2}
    with pytest.raises(ValueError, match=r"sizes holds 101, expected 1\.\.100 of the 101 rows"):
        gcf.learning_curve(MODELS, x, y, [N], **args)
    with pytest.raises(ValueError, match="leave out rows without a label"):
        gcf.learning_curve(MODELS, x, np.full(N, -1), [7], **args)
    with pytest.raises(ValueError, match="x has shape"):
        gcf.learning_curve(MODELS, x[:, 0], y, [7], **args)
