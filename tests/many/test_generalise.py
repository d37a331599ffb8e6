"""`generalise` beside a fit for each fold and time, and scores of each other time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import genclf as gcf

N, D, T, K, F = 59, 3, 5, 2, 4


def rows(num_classes=K):
    rng = np.random.default_rng(0)
    y = (np.arange(N) % num_classes).astype(np.int32)
    x = rng.normal(size=(N, D, T))
    x[:, 0, 1:3] += 1.5 * y[:, None]
    x[:, 1, 3] += 2.0 * y
    return x, y, (np.arange(N) // num_classes) % F


def by_loops(clf, x, y, folds, metric, weights=None):
    found = np.zeros((T, T))
    for s in range(T):
        log_p = np.full((T, N, clf.num_classes), np.nan)
        for fold in range(folds.max() + 1):
            train = (folds != fold) & (folds > -2)
            w = None if weights is None else weights[train]
            params = gcf.fit(clf, x[train][:, :, s], y[train], weights=w)
            for t in range(T):
                log_p[t, folds == fold] = gcf.log_posterior(params, x[folds == fold][:, :, t])
        held = folds >= 0
        w = None if weights is None else weights[held]
        for t in range(T):
            found[s, t] = gcf.score(log_p[t, held], y[held], metric, weights=w)
    return found


@pytest.mark.slow(but=("lda-auc", "qda-auc", "low rank-log_loss"))
@pytest.mark.parametrize("metric", ["balanced_accuracy", "auc", "log_loss"])
@pytest.mark.parametrize(
    "clf",
    [
        gcf.lda(K, shrinkage=0.1),
        gcf.qda(K, shrinkage="oas"),
        gcf.Classifier(gcf.Gaussian(structure=gcf.LowRank(1)), K),
        gcf.SoftmaxRegression(K, l2=0.1),
    ],
    ids=["lda", "qda", "low rank", "softmax"],
)
def test_each_pair_of_times_is_a_fit_and_a_test(clf, metric):
    with jax.enable_x64(True):
        x, y, folds = rows()
        found = gcf.generalise(clf, x, y, folds, metric)
        np.testing.assert_allclose(found.score, by_loops(clf, x, y, folds, metric), 1e-6)
        own = gcf.sliding(clf, x, y, folds, metric).score
        np.testing.assert_allclose(np.diagonal(found.score), own, 1e-9)
        assert found.p_value is None and found.null is None


def test_weights_rows_always_trained_on_and_rows_not_used():
    with jax.enable_x64(True):
        x, y, folds = rows(3)
        folds = np.where(np.arange(N) < 7, -1, np.where(np.arange(N) > 53, -2, folds))
        weights = 1.0 + np.arange(N) % 3
        clf = gcf.lda(3)
        found = gcf.generalise(clf, x, y, folds, "accuracy", weights=weights)
        want = by_loops(clf, x, y, folds, "accuracy", weights)
        np.testing.assert_allclose(found.score, want, 1e-9)


@pytest.mark.slow("clf0")
@pytest.mark.parametrize("clf", [gcf.lda(K), gcf.Classifier(gcf.Gaussian("diag", shared=True), K)])
def test_an_offset_of_all_rows_costs_no_precision(clf):
    x, y, folds = rows()
    x = (np.round(256 * x) / 256).astype(np.float32)  # so that the sum is exact
    want = gcf.generalise(clf, x, y, folds, "log_loss").score
    found = gcf.generalise(clf, x + np.float32(4096), y, folds, "log_loss").score
    np.testing.assert_allclose(found, want, rtol=1e-4)


@pytest.mark.slow("float64")
def test_classes_that_are_far_apart(dtype):
    """Scores about the centre of the classes have lost the digits of the rows between them."""
    x, y, folds = rows()
    x = x.astype(dtype)
    x[:, :, 2] += 5_000 * y[:, None]
    x[7, :, 2] -= 2_500  # half-way
    with jax.enable_x64(dtype == "float64"):
        found = gcf.generalise(gcf.lda(K), x, y, folds, "log_loss")
        want = by_loops(gcf.lda(K), x, y, folds, "log_loss")
        np.testing.assert_allclose(found.score, want, rtol=1e-3 if dtype == "float32" else 1e-8)


def test_the_accuracy_is_that_of_scikit_learn():
    x, y, folds = rows()
    found = gcf.generalise(gcf.lda(K), x, y, folds, "accuracy")
    want = np.zeros((T, T))
    for s in range(T):
        for fold in range(F):
            test = folds == fold
            peer = LinearDiscriminantAnalysis().fit(x[~test][:, :, s], y[~test])
            want[s] += [(peer.predict(x[test][:, :, t]) == y[test]).sum() for t in range(T)]
    np.testing.assert_allclose(found.score, want / N, atol=1e-6)


def test_permutations_are_those_of_sliding_and_p_values_count_them():
    with jax.enable_x64(True):
        x, y, folds = rows()
        key, num, clf = jax.random.key(3), 19, gcf.lda(K, shrinkage=0.1)
        found = gcf.generalise(clf, x, y, folds, "auc", num=num, key=key)
        own = gcf.sliding(clf, x, y, folds, "auc", num=num, key=key)
        assert found.null.shape == (num, T, T)
        np.testing.assert_allclose(np.diagonal(found.null, axis1=1, axis2=2), own.null, 1e-6)
        null, score = np.asarray(found.null), np.asarray(found.score)
        better = null >= score - 1e-9
        np.testing.assert_allclose(found.p_value, (better.sum(0) + 1) / (num + 1))
        best = null.max((1, 2))[:, None, None] >= score - 1e-9
        np.testing.assert_allclose(found.p_corrected, (best.sum(0) + 1) / (num + 1))
        assert (found.p_corrected >= found.p_value).all()


@pytest.mark.slow("1", "2")
@pytest.mark.parametrize("batch_size", [1, 2, 5, 7])
def test_batches_change_nothing(batch_size):
    x, y, folds = rows()
    given = gcf.lda(K), x.astype(np.float32), y, folds
    found = gcf.generalise(*given, batch_size=batch_size)
    np.testing.assert_allclose(found.score, gcf.generalise(*given).score, 1e-5)


def test_labels_in_blocks_stay_there():
    x, y, folds = rows()
    blocks = np.arange(N) // 2 % F
    given = gcf.lda(K), x.astype(np.float32), y, folds
    found = gcf.generalise(*given, num=5, key=jax.random.key(0), blocks=blocks)
    assert found.null.shape == (5, T, T) and np.isfinite(found.null).all()


def test_an_invalid_cell_makes_its_time_nan():
    x, y, folds = rows()
    x[7, 1, 2] = np.nan
    score = np.asarray(gcf.generalise(gcf.lda(K), x.astype(np.float32), y, folds).score)
    invalid = np.zeros((T, T), bool)
    invalid[2], invalid[:, 2] = True, True
    np.testing.assert_array_equal(np.isnan(score), invalid)


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (np.zeros((N, D, 0)), {}, r"expected \(n, d, T\)"),
        (np.zeros((N, D, T)), {"num": 3}, "key is None"),
        (np.zeros((N, D, T)), {"key": jax.random.key(0)}, "without permutations"),
        (np.zeros((N + 1, D, T)), {}, "60"),
    ],
)
def test_what_is_wrong_is_refused(x, options, message):
    _, y, folds = rows()
    with pytest.raises(ValueError, match=message):
        gcf.generalise(gcf.lda(K), jnp.asarray(x, jnp.float32), y, folds, **options)
