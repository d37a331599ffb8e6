"""Train on some rows and test on others: two conditions, and folds as pairs of masks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold, StratifiedKFold

import genclf as gcf
from genclf.select import labellings

N, D, K, F = 67, 5, 3, 4
MODELS = {
    "lda": gcf.lda(K, shrinkage="ledoit-wolf"),
    "correlations": gcf.Classifier(
        gcf.Gaussian(shared=True, shrinkage="james-stein", target="diagonal"), K
    ),
    "qda": gcf.qda(K, ridge=0.1),
    "nb": gcf.gaussian_nb(K),
    "softmax": gcf.SoftmaxRegression(K, l2=1.0),
}


def data(dtype="float64"):
    """Rows with labels, folds of which one is always trained on, and which rows are tested."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(N) % K)
    x = rng.normal(size=(N, D)) + 0.8 * y[:, None] * rng.normal(size=D)
    folds = rng.permutation(np.arange(N) % (F + 1)) - 1
    folds[[5, 11]] = -2
    return x.astype(dtype), y, folds, rng.random(N) < 0.4


def by_hand(clf, x, y, folds, test_on, weights):
    """The log-posteriors of the tested rows, fold by fold."""
    found = np.full((len(y), K), np.nan)
    for fold in range(folds.max() + 1):
        train = ~test_on & (folds != fold) & (folds > -2)
        held = test_on & (folds == fold)
        params = gcf.fit(clf, x[train], y[train], weights[train])
        found[held] = gcf.log_posterior(params, x[held])
    return found


@pytest.mark.slow(but=("float32-lda", "float64-nb"))
@pytest.mark.parametrize("name", MODELS)
def test_fits_to_some_rows_are_tested_on_others(name, dtype):
    x, y, folds, test_on = data(dtype)
    weights = np.random.default_rng(1).uniform(0.5, 2, N).astype(dtype)
    found = gcf.cross_validate(MODELS[name], x, y, folds, weights, test_on=test_on)
    expected = by_hand(MODELS[name], x, y, folds, test_on, weights)
    close = {"rtol": 1e-8, "atol": 1e-8} if dtype == "float64" else {"rtol": 1e-2, "atol": 1e-3}
    np.testing.assert_allclose(found.log_posterior, expected, **close)
    np.testing.assert_array_equal(found.folds >= 0, test_on & (folds >= 0))
    np.testing.assert_array_equal(found.folds == -1, ~test_on & (folds > -2))
    # The same as pairs of masks, and of row numbers.
    trains = [~test_on & (folds != f) & (folds > -2) for f in range(F)]
    tests = [test_on & (folds == f) for f in range(F)]
    masks = list(zip(trains, tests, strict=True))
    numbers = tuple((np.flatnonzero(a), np.flatnonzero(b)) for a, b in masks)
    for pairs in (masks, numbers, (pair for pair in masks)):
        again = gcf.cross_validate(MODELS[name], x, y, pairs, weights)
        np.testing.assert_array_equal(again.log_posterior, found.log_posterior)
        np.testing.assert_array_equal(again.folds, found.folds)


def test_a_splitter_of_scikit_learn(x64):
    x, y, _, _ = data()
    pairs, peer = list(StratifiedKFold(3).split(x, y)), LinearDiscriminantAnalysis()
    found = gcf.cross_validate(gcf.lda(K, ridge=0), x, y, pairs)
    for train, test in pairs:
        expected = peer.fit(x[train], y[train]).predict_log_proba(x[test])
        np.testing.assert_allclose(found.log_posterior[test], expected, rtol=1e-8)
    plain = gcf.cross_validate(gcf.lda(K), x, y, gcf.folds(pairs))
    np.testing.assert_allclose(found.log_posterior, plain.log_posterior, rtol=1e-8)


@pytest.mark.slow(but=("correlations",))
@pytest.mark.parametrize("name", ["lda", "correlations", "nb"])
def test_permutations_keep_the_conditions_apart(name, x64):
    """Each labelling is cross-validated; the tested rows keep their labels as a set."""
    x, y, folds, test_on = data()
    clf, key, blocks = MODELS[name], jax.random.key(0), np.arange(N) // 30
    given = {"num": 3, "blocks": blocks, "test_on": test_on}
    found = gcf.permutation_test(key, clf, x, y, folds, "log_loss", **given)
    permuted = labellings.permutations_of(jnp.asarray(y), key, 3, blocks, False, test_on)
    for number, score in zip(permuted.numbers[1:], found.null, strict=True):
        labels = np.asarray(labellings.labelling(key, number, permuted.labels))
        assert (labels != y).any()
        for of_block in range(3):
            for part in (test_on, ~test_on):
                own = part & (blocks == of_block)
                assert sorted(labels[own]) == sorted(y[own])
        cv = gcf.cross_validate(clf, x, labels, folds, test_on=test_on)
        np.testing.assert_allclose(score, gcf.score(cv, labels, "log_loss"), rtol=1e-8)
    cv = gcf.cross_validate(clf, x, y, folds, test_on=test_on)
    np.testing.assert_allclose(found.observed, gcf.score(cv, y, "log_loss"), rtol=1e-10)
    near = [[0, 1, 2, 3, 4], [1, 3]]
    places = gcf.searchlight(clf, x, y, near, folds, "log_loss", key=key, **given)
    np.testing.assert_allclose(places.score[0], found.observed, rtol=1e-8)
    np.testing.assert_allclose(places.null[:, 0], found.null, rtol=1e-8)


def test_times(x64):
    """`sliding` and the diagonal of `generalise`, by two conditions and by pairs."""
    _, y, folds, test_on = data()
    x = np.random.default_rng(2).normal(size=(N, 2, 3)) + y[:, None, None]
    clf = MODELS["lda"]
    pairs = [(~test_on & (folds != f) & (folds > -2), test_on & (folds == f)) for f in range(F)]
    at = [gcf.cross_validate(clf, x[:, :, t], y, folds, test_on=test_on) for t in range(3)]
    expected = [gcf.score(cv, y, "log_loss") for cv in at]
    for found in (
        gcf.sliding(clf, x, y, folds, "log_loss", test_on=test_on).score,
        gcf.sliding(clf, x, y, pairs, "log_loss").score,
        jnp.diagonal(gcf.generalise(clf, x, y, folds, "log_loss", test_on=test_on).score),
        jnp.diagonal(gcf.generalise(clf, x, y, pairs, "log_loss").score),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_what_learns_in_one_condition_alone():
    """The classes differ in one feature when trained on, and in another when tested."""
    rng = np.random.default_rng(0)
    y, folds, test_on = np.arange(400) % 2, np.arange(400) % 5, np.arange(400) >= 200
    x = rng.normal(size=(400, 2))
    x[~test_on, 0] += 3 * y[~test_on]
    x[test_on, 1] += 3 * y[test_on]
    apart = gcf.cross_validate(gcf.lda(2), x, y, folds, test_on=test_on)
    same = gcf.cross_validate(gcf.lda(2), x[test_on], y[test_on], folds[test_on])
    assert gcf.score(apart, y, "accuracy") < 0.7
    assert gcf.score(same, y[test_on], "accuracy") > 0.9
    test = gcf.permutation_test(
        jax.random.key(0), gcf.lda(2), x[:, :1], y, folds, num=99, test_on=test_on
    )
    assert test.p_value > 0.05


@pytest.mark.parametrize(
    ("folds", "test_on", "message"),
    [
        (np.arange(N) % 3, np.ones(N, bool), "test_on holds for all rows"),
        (np.arange(N) % 3, np.zeros(N, bool), "test_on holds for no row"),
        (np.arange(N) % 3, np.arange(N) % 2, "expected a boolean mask of the rows"),
        (np.arange(N) % 3, np.arange(N - 1) > 3, "test_on has shape"),
        (np.arange(N) % 3, np.ones(N - 1, bool), "test_on has shape"),
        ((np.arange(N) < 9, np.arange(N) > 8), None, r"expected \[\(train, test\)\], a list of"),
        ((np.arange(9), np.arange(9, N)), None, r"expected \[\(train, test\)\], a list of one"),
        (5, None, r"folds is 5, expected genclf.kfold\(key, y, 5\)"),
        (KFold(5), None, r"expected list\(splitter.split\(x, y\)\)"),
        (np.where(np.arange(N) > 3, -1, 0), np.arange(N) > 3, "test_on holds for no row in a fold"),
        ([(np.arange(5), np.arange(5, 9))], np.arange(N) > 3, "expected one of them"),
        ([(np.arange(5), np.arange(4, 9))], None, r"folds\[0\] trains on row 4 and tests it"),
        ([(np.arange(5), [7, 9]), ([1, 2], [9])], None, "test row 9 twice, in 0 and 1"),
        ([(np.arange(5), [N])], None, r"folds\[0\] has the test rows"),
        ([(np.arange(5), [-1])], None, "row numbers from 0 to"),
        ([(np.arange(N - 1) > 5, [1])], None, "a mask of length"),
        ([(np.zeros(N, bool), [1])], None, r"folds\[0\] has no train rows"),
        ([([1.0], [2])], None, "a boolean mask of all rows, or row numbers"),
        ([([1], [2]), ([1, 2], [3], [4])], None, r"folds\[1\] is .* expected a pair"),
        (np.where(np.arange(N) > 3, 0, 1), np.arange(N) <= 3, None),
        (np.zeros(N, int), np.arange(N) <= 3, "fold 0 has nothing to learn from"),
    ],
)
def test_splits_that_cannot_be(folds, test_on, message):
    x, y, _, _ = data()
    call = lambda: gcf.cross_validate(gcf.lda(K), x, y, folds, test_on=test_on)  # noqa: E731
    if message is None:
        call()
    else:
        with pytest.raises(ValueError, match=message):
            call()
