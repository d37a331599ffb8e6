"""Permutation tests beside cross-validation of each permutation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import genclf as gcf
from genclf.covariance.shrinkage import Estimated
from genclf.families.gaussian.padded import PaddedGaussian
from genclf.select import labellings, permutation
from genclf.select.permuted_labels import posteriors, rotated, share_scatters
from genclf.select.permuted_moments import Rotated, estimated_shrinkage, labelled
from tests.registry import BY_NAME, MIXTURES, D, K, N

NUM = 11


def correlations(num_classes, shrinkage):
    """A linear discriminant that shrinks the correlations."""
    return gcf.Classifier(
        gcf.Gaussian(shared=True, shrinkage=shrinkage, target="diagonal"), num_classes
    )


def scores_of_refits(clf, x, y, folds, metric, num, movable, weights=None, by=None):
    found = []
    for number in range(num):
        labels = np.asarray(labellings.labelling(jax.random.key(0), jnp.int32(number), movable))
        assert sorted(labels) == sorted(y)
        cv = gcf.cross_validate(clf, x, labels, folds, weights)
        found.append(gcf.score(cv, labels, metric, weights=weights, by=by))
    return np.stack(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "clf"),
    [
        ("lda", gcf.lda(K)),
        ("ddof", gcf.Classifier(gcf.Gaussian(shared=True, ddof=2.0), K, class_alpha=1.5)),
        ("shrunk", gcf.lda(K, shrinkage=0.3)),
        ("ridge", gcf.lda(K, ridge=0.1)),
        ("qda", gcf.qda(K)),
        ("oas", gcf.lda(K, shrinkage="oas")),
        ("ledoit-wolf", gcf.lda(K, shrinkage="ledoit-wolf")),
        ("correlations", correlations(K, 0.3)),
        ("james-stein", correlations(K, "james-stein")),
    ],
)
def test_each_permutation_is_cross_validated(name, clf, dtype):
    x, y = BY_NAME["gaussian"].example(dtype)
    weights = np.random.default_rng(0).uniform(0.5, 2, N).astype(dtype)
    folds = gcf.kfold(jax.random.key(1), y, 5)
    folds[[3, 8]], folds[[7, 13]] = -1, -2
    args = (clf, x, y, folds, "log_loss")
    found = gcf.permutation_test(jax.random.key(0), *args, num=NUM, weights=weights)
    movable = labellings.exchangeable(y, None, False)
    expected = scores_of_refits(*args, NUM, movable, weights)
    np.testing.assert_allclose(found.null, expected, rtol=1e-10 if dtype == "float64" else 1e-4)
    observed = gcf.score(gcf.cross_validate(*args[:-1], weights), y, "log_loss", weights=weights)
    np.testing.assert_allclose(found.observed, observed, rtol=1e-6)
    np.testing.assert_allclose(found.p_value, 1 / (NUM + 1), rtol=1e-6)


def by_definition(clf, x, y, w, test):
    """The log-posteriors of rows by a linear discriminant, in NumPy."""
    gaussian, d = clf.family, x.shape[1]
    means = np.stack([np.average(x[y == k], 0, w[y == k]) for k in range(K)])
    z = x - means[y]
    covariance = (w * z.T) @ z / (w.sum() - gaussian.ddof)
    s = gaussian.shrinkage or 0.0
    if isinstance(s, Estimated):
        s = shrinkage_by_definition(s.method, gaussian.target, x, y, w)
    target = np.trace(covariance) / d * np.eye(d)
    if gaussian.target == "diagonal":
        target = np.diag(np.diag(covariance))
    precision = np.linalg.inv((1 - s) * covariance + s * target)
    prior = np.bincount(y, w) / w.sum()
    apart = test[:, None] - means[None]
    score = np.log(prior) - 0.5 * np.einsum("nki,ij,nkj->nk", apart, precision, apart)
    return score - scipy.special.logsumexp(score, 1, keepdims=True)


@pytest.mark.parametrize(
    ("target", "shrinkage", "ddof"),
    [
        ("identity", None, 0.0),
        ("identity", None, 2.0),
        ("identity", 0.3, 2.0),
        ("identity", "ledoit-wolf", 0.0),
        ("diagonal", 0.3, 2.0),
        ("diagonal", 1.0, 0.0),
        ("diagonal", "oas", 0.0),
        ("diagonal", "ledoit-wolf", 0.0),
        ("diagonal", "james-stein", 1.0),
    ],
)
def test_posteriors_of_each_labelling(target, shrinkage, ddof, x64):
    x, y = BY_NAME["gaussian"].example("float64")
    x = x * 10.0 ** np.arange(D)  # features of other units
    family = gcf.Gaussian(shared=True, ddof=ddof, shrinkage=shrinkage, target=target)
    clf = gcf.Classifier(family, K)
    labels = np.stack([y, np.roll(y, 1), np.roll(y, 5)])
    w = np.random.default_rng(0).uniform(0.5, 2, N) * (np.arange(N) % 5 > 0)
    test = np.flatnonzero(w == 0)
    fold = rotated(clf, jnp.asarray(x), jnp.asarray(w))
    of_labels = lambda y: posteriors(clf, fold, jnp.asarray(test), y)  # noqa: E731
    found, exact = jax.jit(of_labels)(labels)
    assert np.asarray(exact).all()
    seen = w > 0
    for labelling, log_p in zip(labels, found, strict=True):
        expected = by_definition(clf, x[seen], labelling[seen], w[seen], x[test])
        np.testing.assert_allclose(log_p, expected, rtol=1e-9, atol=1e-9)


def shrinkage_by_definition(method, target, x, y, w):
    """The intensity, from the deviations of rows from the means of their classes."""
    z, n, d = x.copy(), w.sum(), x.shape[1]
    for k in range(K):
        z[y == k] -= np.average(x[y == k], 0, w[y == k])
    if target == "diagonal":
        z = z / np.sqrt(np.average(z**2, 0, w))
    s = (w * z.T) @ z / n
    squares, mean = (s**2).sum(), np.trace(s) ** 2 / d
    if method == "oas":
        return min(1, (squares / d**2 + mean / d) / ((n + 1) * (squares - mean) / d**2))
    products = (w[:, None, None] * (z[:, :, None] * z[:, None]) ** 2).sum(0) / n
    if method == "james-stein":
        off = ~np.eye(d, dtype=bool)
        return min(1, (products - s**2)[off].sum() / (n - 1) / (s**2)[off].sum())
    return min(1, (products - s**2).sum() / n / (squares - mean))


@pytest.mark.parametrize(
    ("target", "method"),
    [
        ("identity", "oas"),
        ("identity", "ledoit-wolf"),
        ("diagonal", "oas"),
        ("diagonal", "ledoit-wolf"),
        ("diagonal", "james-stein"),
    ],
)
def test_the_shrinkage_of_each_labelling(target, method, x64):
    x, y = BY_NAME["gaussian"].example("float64")
    labels = np.stack([y, np.roll(y, 1), np.roll(y, 2)])
    w = np.random.default_rng(0).uniform(0.5, 2, N) * (np.arange(N) % 5 > 0)
    z = x - np.average(x, 0, w)
    if target == "diagonal":
        z = z / np.sqrt(np.average(z**2, 0, w))
    spread, vector = np.linalg.eigh((w * z.T) @ z)
    fold = Rotated(*map(jnp.asarray, (z @ vector, spread, w, True)))
    if target == "diagonal":
        fold = fold._replace(vector=jnp.asarray(vector))
    of_labels = lambda y: estimated_shrinkage(method, fold, labelled(fold, y, K), D)  # noqa: E731
    seen = w > 0
    expected = [shrinkage_by_definition(method, target, x[seen], y[seen], w[seen]) for y in labels]
    np.testing.assert_allclose(jax.jit(of_labels)(labels), expected, rtol=1e-12)


def test_a_class_that_no_row_of_a_fold_has(x64):
    """It has no mean and changes no scatter; no labelling is refitted for it."""
    rng = np.random.default_rng(0)
    fold = Rotated(*map(jnp.asarray, (rng.normal(size=(N, D)), np.ones(D), np.ones(N), True)))
    y = rng.integers(0, 2, (3, N))
    found, two = (labelled(fold, jnp.asarray(y), k) for k in (3, 2))
    np.testing.assert_array_equal(found.between[:, 2], 0)
    np.testing.assert_allclose(found.between[:, :2], two.between, rtol=1e-12)
    np.testing.assert_allclose(found.within, two.within, rtol=1e-12)


@pytest.mark.parametrize("metric", ["log_loss", "balanced_accuracy", lambda *_: 0.0])
def test_p_values_count_what_is_as_good(metric, dtype):
    """Smaller log-losses are better, larger scores of all else; NaN where nothing was observed."""
    rng = np.random.default_rng(0)
    null = np.round(rng.uniform(size=(31, 7)), 1).astype(dtype)
    observed = np.array([0.3, 0.5, 0.7, -1, 2, np.nan, 0.1], dtype)
    better = null <= observed if metric == "log_loss" else null >= observed
    expected = np.where(np.isnan(observed), np.nan, (better.sum(0) + 1) / 32)
    found = permutation.p_values(jnp.asarray(observed), jnp.asarray(null), metric)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    # Rounding is that of the larger of the score and the scores of permutations.
    step = np.sqrt(np.finfo(dtype).eps) / 4 * (1 if metric == "log_loss" else -1)
    for observed, null in ((1.0, [0.0, 0.0, 1 + step]), (step / 100, [1.0, 1.0, step])):
        count = (
            permutation.p_values(jnp.array([observed]), jnp.array(null)[:, None], metric) * 4 - 1
        )
        others = [a <= observed if metric == "log_loss" else a >= observed for a in null[:2]]
        assert round(float(count[0])) == sum(others) + 1


@pytest.mark.slow("0.3")
@pytest.mark.parametrize("shrinkage", [0.3, "james-stein"])
def test_a_feature_that_the_labels_explain(shrinkage, x64):
    """Its variance within classes loses its digits, so the labels as given are refitted."""
    rng = np.random.default_rng(0)
    y, folds = np.arange(47) % 2, np.arange(47) // 16
    x = rng.normal(size=(47, 5))
    x[:, 1] = y + 1e-7 * x[:, 1]
    clf, given = correlations(2, shrinkage), {"num": 2, "key": jax.random.key(0)}
    one = gcf.searchlight(clf, x, y, [[0, 1, 2, 3, 4]], folds, "log_loss", **given)
    fold = rotated(clf, jnp.asarray(x), jnp.ones(47))
    _, exact = posteriors(clf, fold, jnp.arange(3), jnp.stack([y, rng.permutation(y)]))
    assert exact.tolist() == [False, True]
    movable = labellings.exchangeable(y, None, False)
    expected = scores_of_refits(clf, x, y, folds, "log_loss", 2, movable)
    np.testing.assert_allclose(one.null[:, 0], expected, rtol=1e-9)


def test_which_models_need_no_refits():
    shared = lambda **given: gcf.Classifier(gcf.Gaussian(shared=True, **given), 2)  # noqa: E731
    rows = jnp.zeros((11, 3))
    for shrinkage in (None, 0.2, 1.0, "oas", "ledoit-wolf"):
        assert share_scatters(shared(shrinkage=shrinkage), rows)
        assert share_scatters(shared(shrinkage=shrinkage), rows.T)
        clf = correlations(2, shrinkage)
        assert share_scatters(clf, rows)
        assert share_scatters(clf, rows.T) == (shrinkage is None)
    for clf in (
        gcf.qda(2), gcf.SoftmaxRegression(2), gcf.multinomial_nb(2), shared(ridge=0.1),
        shared(covariance="diag"), shared(missing="marginalize"),
        shared(prior=gcf.NormalInverseWishart()),
        gcf.Classifier(gcf.Gaussian(shared=True), 2, inference="predictive"),
    ):  # fmt: skip
        assert not share_scatters(clf, rows)


def test_columns_without_effect_are_no_reason_to_refit(x64):
    x = np.random.default_rng(0).normal(size=(11, 3))
    x[:, 2] = 0
    weight = jnp.ones(11)
    for width, regular in ((2, True), (3, False)):
        clf = gcf.Classifier(PaddedGaussian(gcf.Gaussian(shared=True), jnp.int32(width)), 2)
        assert bool(rotated(clf, jnp.asarray(x), weight).regular) == regular


def test_few_permutations_of_few_rows_as_scikit_learn(x64):
    rng = np.random.default_rng(0)
    y, folds = np.arange(17) % 2, np.arange(17) // 6
    x, peer = rng.normal(size=(17, 2)) + y[:, None], LinearDiscriminantAnalysis("lsqr")
    key = jax.random.key(0)
    found = gcf.permutation_test(key, gcf.lda(2), x, y, folds, "log_loss", num=3)
    movable = labellings.exchangeable(y, None, False)
    expected = []
    for number in range(4):
        labels = y if number == 3 else labellings.labelling(key, jnp.int32(number), movable)
        labels, log_p = np.asarray(labels), np.empty((17, 2))
        for fold in range(3):
            out = folds == fold
            log_p[out] = peer.fit(x[~out], labels[~out]).predict_log_proba(x[out])
        expected.append(-log_p[np.arange(17), labels].mean())
    np.testing.assert_allclose([*found.null, found.observed], expected, rtol=1e-9)
    no_worse = (np.array(expected[:3]) <= expected[3]).sum()
    np.testing.assert_allclose(found.p_value, (no_worse + 1) / 4)


@pytest.mark.slow("mixture-tokens")
@pytest.mark.parametrize("name", ["categorical", "mixture-tokens"])
def test_other_models(name, x64):
    model = {m.name: m for m in MIXTURES}.get(name) or BY_NAME[name]
    x, y = model.example("float64", n=41)
    folds = gcf.kfold(jax.random.key(1), y, 3)
    found = gcf.permutation_test(
        jax.random.key(0), model.classifier, x, y, folds, "accuracy", num=3
    )
    movable = labellings.exchangeable(y, None, False)
    args = (model.classifier, x, y, folds, "accuracy")
    expected = scores_of_refits(*args, 3, movable)
    np.testing.assert_allclose(found.null, expected, atol=1e-12)


@pytest.mark.slow
def test_more_features_than_rows(x64):
    rng = np.random.default_rng(0)
    y = np.arange(31) % K
    x = rng.normal(size=(31, 67)) + y[:, None]
    folds = gcf.kfold(jax.random.key(1), y, 5)
    for shrinkage in (0.4, "ledoit-wolf"):
        args = (gcf.lda(K, shrinkage=shrinkage), x, y, folds, "log_loss")
        found = gcf.permutation_test(jax.random.key(0), *args, num=NUM, batch_size=4)
        movable = labellings.exchangeable(y, None, False)
        expected = scores_of_refits(*args, NUM, movable)
        np.testing.assert_allclose(found.null, expected, rtol=1e-10)


@pytest.mark.slow
def test_where_labels_would_lose_digits_there_are_refits(x64):
    # Most labellings of so few rows leave little variance within classes; one feature is another.
    rng = np.random.default_rng(0)
    y = np.arange(17) % 2
    x = rng.normal(size=(17, 7))
    for rows in (x, np.concatenate([x, x[:, :1]], 1)):
        folds = gcf.kfold(jax.random.key(1), y, 4)
        args = (gcf.lda(2), rows, y, folds, "log_loss")
        found = gcf.permutation_test(jax.random.key(0), *args, num=NUM)
        movable = labellings.exchangeable(y, None, False)
        expected = scores_of_refits(*args, NUM, movable)
        np.testing.assert_allclose(found.null, expected, rtol=1e-8)


@pytest.mark.slow
def test_a_score_of_each_group(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    folds, by = gcf.kfold(jax.random.key(1), y, 5), np.arange(N) % 3
    found = gcf.permutation_test(jax.random.key(0), gcf.lda(K), x, y, folds, num=NUM, by=by)
    assert found.null.shape == (NUM, 3) and found.p_value.shape == (3,)
    movable = labellings.exchangeable(y, None, False)
    args = (gcf.lda(K), x, y, folds, "balanced_accuracy")
    expected = scores_of_refits(*args, NUM, movable, by=by)
    np.testing.assert_allclose(found.null, expected, rtol=1e-12)
    better = (expected >= np.asarray(found.observed)).sum(0)
    np.testing.assert_allclose(found.p_value, (better + 1) / (NUM + 1))


def test_labels_move_within_blocks_or_with_them():
    blocks = np.array([2, 0, 2, 0, 0, 1, 1, 2, 1, 1])
    y = np.array([1, 0, 1, 0, 0, 0, 0, 1, 0, 0])
    mixed = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    within = labellings.exchangeable(mixed, blocks, False)
    whole = labellings.exchangeable(y, blocks, True)
    moves = set()
    for number in range(20):
        found = np.asarray(labellings.labelling(jax.random.key(0), jnp.int32(number), within))
        for block in range(3):
            assert set(found[blocks == block]) == set(mixed[blocks == block])
        moves.add(tuple(found))
        labels = np.asarray(labellings.labelling(jax.random.key(0), jnp.int32(number), whole))
        of_block = [set(labels[blocks == block]) for block in range(3)]
        assert all(len(one) == 1 for one in of_block)
        assert sorted(one.pop() for one in of_block) == [0, 0, 1]
    assert len(moves) > 15


@pytest.mark.slow
def test_p_values_are_uniform_without_a_signal(x64):
    rng = np.random.default_rng(0)
    p_values = []
    for trial in range(40):
        y = np.arange(30) % 2
        x = rng.normal(size=(30, 3))
        folds = gcf.kfold(jax.random.key(trial), y, 3)
        test = gcf.permutation_test(
            jax.random.key(trial), gcf.lda(2), x, y, folds, "log_loss", num=19
        )
        p_values.append(float(test.p_value))
    # 40 draws of a uniform one of 20 values: the mean is within 4 standard errors.
    assert abs(np.mean(p_values) - 0.525) < 4 * 0.29 / np.sqrt(40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clf", "metric"),
    [
        (gcf.lda(2), "log_loss"),
        (gcf.lda(2), "accuracy"),
        (gcf.qda(2), "log_loss"),
        (gcf.gaussian_nb(2), "log_loss"),
    ],
)
def test_of_equal_labellings_none_is_worse(clf, metric, dtype):
    num, blocks = 60, np.arange(36) // 9
    y = np.array([0, 1, 1, 0])[blocks]
    x = (np.random.default_rng(0).normal(size=(36, 3)) + 2 * y[:, None]).astype(dtype)
    folds = np.arange(36) % 3
    key, moves = jax.random.key(0), {"blocks": blocks, "whole_blocks": True}
    test = gcf.permutation_test(key, clf, x, y, folds, metric, num=num, **moves)
    movable = labellings.exchangeable(y, blocks, True)
    labels = np.stack(
        [labellings.labelling(key, jnp.int32(number), movable) for number in range(num)]
    )
    # The classes are far apart: no labelling scores as well but this one, and its mirror image.
    equal = (labels == y).all(1) | (labels == 1 - y).all(1)
    assert 0 < equal.sum() < num
    np.testing.assert_allclose(test.p_value, (equal.sum() + 1) / (num + 1), rtol=1e-6)
    places = gcf.searchlight(clf, x, y, [[0, 1, 2], [2]], folds, metric, num=num, key=key, **moves)
    np.testing.assert_allclose(places.p_value[0], test.p_value, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(y=np.arange(N) % (K + 1) - 1), r"y\[0\] is -1, expected a label 0..K-1 of each row"),
        (dict(folds=np.zeros(7, int)), "folds has length 7, expected 101"),
        (dict(blocks=np.arange(7)), "blocks has shape"),
        (dict(blocks=np.zeros(N, int), whole_blocks=True), "expected one label in each block"),
        (dict(whole_blocks=True), "without blocks"),
        (dict(num=0), "num is 0"),
    ],
)
def test_invalid_arguments(change, message):
    x, y = BY_NAME["gaussian"].example("float32")
    given = dict(x=x, y=y, folds=gcf.kfold(jax.random.key(1), y, 5)) | change
    with pytest.raises(ValueError, match=message):
        gcf.permutation_test(jax.random.key(0), gcf.lda(K), num=given.pop("num", 3), **given)


def test_labels_that_cannot_move_are_an_error():
    x, folds = np.ones((12, 2)), np.arange(12) // 3
    with pytest.raises(ValueError, match="no block with two labels"):
        gcf.permutation_test(jax.random.key(0), gcf.lda(2), x, folds % 2, folds, blocks=folds)
