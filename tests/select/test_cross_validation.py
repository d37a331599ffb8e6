"""Folds, cross-validation and leave-one-out beside refits, and scores beside scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, StratifiedKFold

import genclf as gcf
from genclf.select.downdates import has_downdates
from genclf.select.folds import check_training
from genclf.select.left_out_words import can_leave_out_words, without_each_document
from tests.registry import BY_NAME, MIXTURES, MODELS, WITH_HOLES, K, N, assert_close, take

F = 7


def refits(clf, x, y, folds, weights=None, *, by_weight=False):
    """The posteriors of each fold's rows by a fit to the others, one after the other.

    Where EM starts depends on the number of rows, so with `by_weight` the others have weight 0.
    """
    found = np.full((len(y), clf.num_classes), np.nan)
    for fold in range(folds.max() + 1):
        train, test = (folds != fold) & (folds != -2), folds == fold
        if by_weight:
            params = gcf.fit(clf, x, y, weights * train.astype(weights.dtype))
        else:
            w = None if weights is None else weights[train]
            params = gcf.fit(clf, take(x, train), y[train], w)
        found[test] = gcf.log_posterior(params, take(x, test))
    return found


def some_folds(y):
    folds = gcf.kfold(jax.random.key(0), y, F)
    folds[[3, 11]], folds[[5, 17]] = -1, -2
    return folds


@pytest.mark.slow(
    "float32-gaussian-diag",
    "float32-gaussian-shared-holes",
    "float32-gaussian-shared",
    "float32-mixture",
    "float32-product",
    "float64-gaussian-shared-holes",
    "float64-gaussian-shared",
    "float64-mixture",
    "float64-product",
    "float32-categorical-unequal",
    "float64-categorical-unequal",
    "float64-gaussian-diag",
)
@pytest.mark.parametrize("model", [*MODELS, *MIXTURES, *WITH_HOLES], ids=str)
def test_as_refits(model, dtype):
    x, y = model.example(dtype)
    folds = some_folds(y)
    weights = np.random.default_rng(1).uniform(0.5, 2, N).astype(dtype)
    found = gcf.cross_validate(model.classifier, x, y, folds, weights)
    by_em = model in (*MIXTURES, *WITH_HOLES)
    expected = refits(model.classifier, x, y, folds, weights, by_weight=by_em)
    held = folds >= 0
    assert np.isnan(found.log_posterior[~held]).all()
    rtol = 1e-10 if dtype == "float64" else 1e-4
    if by_em:  # it may stop one step later
        rtol = 1e-3
    difference = np.exp(found.log_posterior[held]) - np.exp(expected[held])
    assert np.abs(difference).max() < rtol
    one = jax.tree.map(lambda leaf: leaf[2], found.params)
    assert_close(
        gcf.log_posterior(one, take(x, folds == 2)), found.log_posterior[folds == 2], 10 * rtol
    )


@pytest.mark.slow("product", "categorical-unequal", "gaussian-shared")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_leaving_one_out_is_a_fold_for_each_row(model, x64):
    x, y = model.example("float64", n=31)
    folds = np.arange(31)
    expected = gcf.cross_validate(model.classifier, x, y, folds).log_posterior
    found = gcf.leave_one_out(model.classifier, x, y, batch_size=7).log_posterior
    np.testing.assert_allclose(jnp.exp(found), jnp.exp(expected), rtol=0, atol=1e-9)
    # One class has one row, and so no divisor if a ddof is subtracted.
    assert not np.isnan(found).any() or getattr(model.family, "ddof", 0.0) > 0


@pytest.mark.slow(
    "float32-ddof",
    "float32-lda-shrunk",
    "float32-lda",
    "float32-qda-shrunk",
    "float32-qda",
    "float32-target",
    "float32-unbiased",
    "float32-unshrunk",
    "float64-lda-shrunk",
    "float64-qda",
    "float64-qda-shrunk",
    "float64-unbiased",
    "float64-unshrunk",
    "float64-lda",
)
@pytest.mark.parametrize(
    "clf",
    [
        gcf.lda(K),
        gcf.Classifier(gcf.Gaussian(shared=True, ddof=3.0), K, class_alpha=1.5),
        gcf.qda(K),
        gcf.Classifier(gcf.Gaussian(ddof=1.0), K, class_prior=np.array([0.5, 0.2, 0.3])),
        gcf.Classifier(gcf.Gaussian(shared=True, ddof=3.0, shrinkage=0.1), K),
        gcf.qda(K, shrinkage=0.2),
        gcf.lda(K, shrinkage=1.0),
        gcf.qda(K, shrinkage=0.0),
    ],
    ids=["lda", "ddof", "qda", "unbiased", "lda-shrunk", "qda-shrunk", "target", "unshrunk"],
)
def test_downdates_are_refits(clf, dtype):
    x, y = BY_NAME["gaussian"].example(dtype)
    x, y = x[:43] * 10.0 ** np.arange(-2, 3, dtype=dtype), y[:43].copy()
    x[7] += 4 * x[:, 2].std()  # without this row the covariance is another one
    weights = np.random.default_rng(0).uniform(0.5, 3, 43).astype(dtype)
    weights[5], y[9] = 0, -1
    found = np.asarray(gcf.leave_one_out(clf, x, y, weights).log_posterior)
    with jax.enable_x64(True):
        expected = refits(clf, x.astype(float), y, np.arange(43), weights.astype(float))
    rtol = 1e-10 if dtype == "float64" else 2e-5
    np.testing.assert_allclose(np.exp(found), np.exp(expected), rtol=0, atol=rtol)
    np.testing.assert_allclose(found, expected, rtol=100 * rtol, atol=100 * rtol)


@pytest.mark.parametrize("presence", [False, True], ids=["counts", "presence"])
def test_words_without_a_document_are_refits(presence, dtype):
    x, y = BY_NAME["multinomial"].example(dtype)
    x, y = x[:43] * (np.arange(43)[:, None] % 3 > 0), y[:43].copy()  # some have no word
    y[y == 2] = 1
    y[[7, 9]] = 2, -1  # the only document of its class, and one without label
    weights = np.random.default_rng(0).uniform(0.5, 3, 43).astype(dtype)
    weights[5] = 0
    clf = gcf.Classifier(gcf.Multinomial(alpha=0.3, presence=presence), K, class_alpha=0.5)
    found = gcf.leave_one_out(clf, x, y, weights).log_posterior
    expected = refits(clf, x, y, np.arange(43), weights, by_weight=True)
    rtol = 1e-10 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(np.exp(found), np.exp(expected), rtol=0, atol=rtol)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("by", ["words", "weight"])
def test_a_document_that_is_nearly_all_of_its_class(by, size, dtype):
    x, y = BY_NAME["multinomial"].example(dtype)
    x, y, weights = x[:43].astype(dtype), y[:43], np.linspace(0.4, 1.7, 43, dtype=dtype)
    (x if by == "words" else weights)[6] *= size
    clf = gcf.multinomial_nb(K)
    found = np.asarray(gcf.leave_one_out(clf, x, y, weights).log_posterior)
    with jax.enable_x64(True):
        exact = refits(clf, x.astype(float), y, np.arange(43), weights.astype(float))
    rtol = 1e-9 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(found, exact, rtol=rtol, atol=rtol)


@pytest.mark.slow
def test_leaving_one_out_with_more_features_than_rows(dtype):
    rng = np.random.default_rng(0)
    y = np.arange(31) % K
    x = (rng.normal(size=(31, 67)) + y[:, None]).astype(dtype)
    weights = rng.uniform(0.5, 3, 31).astype(dtype)
    for clf in (gcf.lda(K, shrinkage=0.2), gcf.qda(K, shrinkage=0.2)):
        found = np.asarray(gcf.leave_one_out(clf, x, y, weights).log_posterior)
        with jax.enable_x64(True):
            expected = refits(clf, x.astype(float), y, np.arange(31), weights.astype(float))
        rtol = 1e-10 if dtype == "float64" else 1e-4
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def test_a_row_with_nearly_all_weight_of_its_class(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    x, y, weights = x[:43], y[:43], np.ones(43)
    weights[6] = 1e9
    found = gcf.leave_one_out(gcf.lda(K), x, y, weights).log_posterior
    expected = refits(gcf.lda(K), x, y, np.arange(43), weights)
    np.testing.assert_allclose(found[6], expected[6], rtol=1e-7)


@pytest.mark.slow
def test_rows_that_a_covariance_needs(x64):
    rng = np.random.default_rng(0)
    y = np.arange(23) % 2
    x = rng.normal(size=(23, 3))
    x[:, 2] = 0
    x[4, 2] = 1  # nothing else varies here
    for clf in (gcf.lda(2), gcf.qda(2)):
        found = np.asarray(gcf.leave_one_out(clf, x, y).log_posterior)
        expected = refits(clf, x, y, np.arange(23))
        np.testing.assert_allclose(found, expected, atol=1e-7)


def test_the_only_row_of_a_class(x64):
    x, y = BY_NAME["gaussian-diag"].example("float64", n=31)
    y = np.where(y == 2, 1, y)
    y[4] = 2
    found = gcf.leave_one_out(gcf.lda(K), x, y).log_posterior
    assert np.isneginf(found[4, 2]) and np.isfinite(found[4, :2]).all()
    others = np.arange(31) != 4
    assert np.isfinite(found[others]).all()


@pytest.mark.slow
def test_more_features_than_rows(x64):
    rng = np.random.default_rng(0)
    y = np.arange(29) % K
    x = rng.normal(size=(29, 61)) + 3 * y[:, None]
    folds = gcf.kfold(jax.random.key(0), y, F)
    for clf in (
        gcf.lda(K, shrinkage=0.2),
        gcf.qda(K, shrinkage=0.2),
        gcf.Classifier(gcf.Gaussian(shared=True, shrinkage=0.3, target="diagonal"), K),
    ):
        found = gcf.cross_validate(clf, x, y, folds)
        np.testing.assert_allclose(found.log_posterior, refits(clf, x, y, folds), atol=1e-9)
    space = gcf.row_space(x)
    found = gcf.cross_validate(gcf.lda(K, shrinkage=0.2), x, y, folds)
    params = space.params(jax.tree.map(lambda leaf: leaf[0], found.params))
    assert_close(gcf.log_posterior(params, x[folds == 0]), found.log_posterior[folds == 0], 1e-9)


@pytest.mark.slow
def test_softmax_regression_too(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    clf, folds = gcf.SoftmaxRegression(K, l2=0.1), gcf.kfold(jax.random.key(0), y, 3)
    found = gcf.cross_validate(clf, x, y, folds).log_posterior
    np.testing.assert_allclose(found, refits(clf, x, y, folds), atol=1e-6)


@pytest.mark.slow("float64")
def test_which_documents_are_left_out_exactly(dtype):
    """All of whole numbers; with weights, none whose words are nearly all there is of them."""
    rng = np.random.default_rng(0)
    y, counts = np.arange(23) % K, rng.poisson(1.0, (23, 7)).astype(np.int32)
    clf, eps = gcf.multinomial_nb(K, alpha=0.5), np.finfo(dtype).eps
    for weights in (np.ones(23), np.where(np.arange(23) == 4, 0.3 / eps, 0.7)):
        w = jnp.asarray(weights, dtype)
        stats = gcf.stats(clf, counts, y, w)
        found, exact = without_each_document(clf, stats, jnp.asarray(counts), jnp.asarray(y), w)
        np.testing.assert_array_equal(exact, weights * eps < 0.1)
        for i in np.flatnonzero(exact & (y != y[4])):
            rest = np.arange(23) != i
            total = np.stack([(weights * rest * (y == k)) @ counts for k in range(K)]) + 0.5
            score = np.log(total / total.sum(1, keepdims=True)) @ counts[i]
            score = score + np.log(np.bincount(y[rest], weights[rest]) / weights[rest].sum())
            expected = score - np.logaddexp.reduce(score)
            np.testing.assert_allclose(found[i], expected, rtol=1e3 * eps, atol=1e3 * eps)


def test_which_models_of_documents_have_a_leave_one_out_of_their_own():
    x, y = np.ones((4, 2), np.int32), jnp.array([0, 1, 0, 1])
    assert can_leave_out_words(gcf.multinomial_nb(2), x, y)
    prior = gcf.Multinomial(alpha=0.0, prior=gcf.Dirichlet(2.0))
    for clf in (
        gcf.Classifier(prior, 2), gcf.multinomial_nb(2, alpha=0.0), gcf.bernoulli_nb(2),
        gcf.SoftmaxRegression(2),
    ):  # fmt: skip
        assert not can_leave_out_words(clf, x, y)
    assert not can_leave_out_words(gcf.multinomial_nb(2), x, jnp.eye(2)[y])


def test_leave_one_out_of_soft_labels(x64):
    x, y = (a[:43] for a in BY_NAME["gaussian"].example("float64"))
    found = gcf.leave_one_out(gcf.lda(K), x, np.eye(K)[y]).log_posterior
    expected = gcf.leave_one_out(gcf.lda(K), x, y).log_posterior
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_which_models_have_downdates():
    y, full = jnp.arange(N) % K, gcf.Gaussian()
    for family in (full, gcf.Gaussian(shared=True), gcf.Gaussian(shrinkage=0.2)):
        assert has_downdates(gcf.Classifier(family, K), y)
        assert not has_downdates(gcf.Classifier(family, K), jnp.eye(K)[y])
    prior = gcf.NormalInverseWishart()
    for family in (
        gcf.Gaussian("diag"), gcf.Gaussian(ridge=0.1), gcf.Gaussian(prior=prior),
        gcf.Gaussian(shrinkage="oas"), gcf.Gaussian(shrinkage=0.2, target="diagonal"),
        gcf.Gaussian(pooling=0.5, shrinkage=0.2), gcf.Gaussian(missing="marginalize"),
        gcf.Poisson(),
    ):  # fmt: skip
        assert not has_downdates(gcf.Classifier(family, K), y)
    assert not has_downdates(gcf.Classifier(full, K, inference="predictive"), y)
    assert not has_downdates(gcf.SoftmaxRegression(K), y)
    traced = jax.eval_shape(lambda r: jnp.array(has_downdates(gcf.qda(K, ridge=r), y)), 0.0)
    assert traced.shape == ()


def test_a_fold_that_has_all_of_a_class(x64):
    x, y = BY_NAME["gaussian-diag"].example("float64")
    folds = np.where(y == 1, 0, 1 + np.arange(N) % 3)
    found = gcf.cross_validate(gcf.lda(K), x, y, folds).log_posterior
    assert np.isneginf(found[y == 1, 1]).all() and not np.isnan(found).any()
    assert float(gcf.score(found, y, "log_loss")) == np.inf


@pytest.mark.slow
def test_a_diagnosis_of_each_fold(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    folds = gcf.kfold(jax.random.key(0), y, 3)
    x[folds != 1, 2] = 5.0  # without fold 1 the feature is constant
    found = gcf.cross_validate(gcf.lda(K), x, y, folds, diagnosed=True).diagnosis
    for fold in range(3):
        one = gcf.diagnose(gcf.lda(K), x[folds != fold], y[folds != fold])
        assert (found.conditional.constant[fold] == one.conditional.constant).all()
        assert (found.conditional.rank[fold] == one.conditional.rank).all()
        assert (found.count[fold] == one.count).all()
    assert found.conditional.constant[1, :, 2].all() and not found.conditional.constant[0].any()
    with pytest.raises(ValueError, match="a diagnosis needs p"):
        gcf.cross_validate(gcf.SoftmaxRegression(K, l2=0.1), x, y, folds, diagnosed=True)


def test_sizes_of_folds():
    y = np.random.default_rng(0).choice(K, 103, p=[0.1, 0.3, 0.6])
    folds = gcf.kfold(jax.random.key(0), y, F)
    count = np.zeros((F, K), int)
    np.add.at(count, (folds, y), 1)
    assert np.ptp(count.sum(1)) <= 1 and np.ptp(count, axis=0).max() <= 1
    np.testing.assert_array_equal(folds, gcf.kfold(jax.random.key(0), y, F))
    assert (folds != gcf.kfold(jax.random.key(1), y, F)).any()


def test_groups_stay_together():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 40, 301)
    y = (rng.random(301) < 0.2 + 0.5 * (groups > 25)).astype(int)
    folds = gcf.kfold(jax.random.key(0), y, 5, groups=groups)
    assert all(len(set(folds[groups == g])) == 1 for g in set(groups))
    count = np.zeros((5, 2))
    np.add.at(count, (folds, y), 1)
    assert np.ptp(count.sum(1)) < 20 and np.ptp(count[:, 1] / count.sum(1)) < 0.1


def test_folds_of_scikit_learn():
    x, y = BY_NAME["gaussian"].example("float32")
    for splitter in (KFold(5), StratifiedKFold(3, shuffle=True, random_state=0)):
        splits = list(splitter.split(x, y))
        folds = gcf.folds(splits)
        for fold, (_, test) in enumerate(splits):
            np.testing.assert_array_equal(np.flatnonzero(folds == fold), test)
    kept = gcf.folds([([0, 1, 4], [2]), ([0, 1, 2], [4])], num_rows=6)
    np.testing.assert_array_equal(kept, [-1, -1, 0, -2, 1, -2])
    groups = np.arange(N) // 10
    assert len(set(gcf.folds(GroupKFold(4).split(x, y, groups)))) == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: gcf.kfold(jax.random.key(0), y, 1), "num_folds is 1, expected"),
        (lambda x, y: gcf.kfold(jax.random.key(0), x[:, 0], 3), "expected integer labels"),
        (lambda x, y: gcf.kfold(jax.random.key(0), y[:, None], 3), "expected integer labels"),
        (lambda x, y: gcf.kfold(jax.random.key(0), y, 102), "expected at most the 101 rows"),
        (
            lambda x, y: gcf.kfold(jax.random.key(0), y, 4, groups=y),
            "expected at most the 3 groups",
        ),
        (lambda x, y: gcf.folds(RepeatedKFold(n_splits=2).split(x)), "twice, in . and"),
        (lambda x, y: gcf.folds([([0], [1]), ([1, 2], [0])]), "of split 0 .* lacks row 2"),
        (lambda x, y: gcf.folds([([0, 1], [1])]), "of split 0 .* holds row 1"),
        (lambda x, y: gcf.cross_validate(gcf.lda(K), x, y, np.full(N, 1)), "no row in fold 0"),
        (lambda x, y: gcf.cross_validate(gcf.lda(K), x, y, np.arange(N) - 3), "is -3, expected"),
        (lambda x, y: gcf.cross_validate(gcf.lda(K), x, y, np.arange(7)), "expected 101"),
        (
            lambda x, y: jax.jit(lambda f: gcf.cross_validate(gcf.lda(K), x, y, f))(y),
            "folds is read on the host",
        ),
        (lambda x, y: gcf.score(np.zeros((N, K)), y[:5]), "expected .n, K. and n integer"),
        (lambda x, y: gcf.score(np.zeros((N, K)), y, weights=np.ones(5)), "weights has shape .5,."),
        (lambda x, y: gcf.score(np.zeros((N, K)), y, by=np.ones((N, 2), int)), "by is an array"),
    ],
)
def test_invalid_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(*BY_NAME["gaussian"].example("float32"))


BY_SKLEARN = {
    "accuracy": lambda y, p, w: metrics.accuracy_score(y, p.argmax(1), sample_weight=w),
    "balanced_accuracy": lambda y, p, w: metrics.balanced_accuracy_score(
        y, p.argmax(1), sample_weight=w
    ),
    "log_loss": lambda y, p, w: metrics.log_loss(
        y, p, sample_weight=w, labels=np.arange(p.shape[1])
    ),
    "brier": lambda y, p, w: metrics.brier_score_loss(
        y, p, sample_weight=w, labels=np.arange(p.shape[1]), scale_by_half=False
    ),
    "auc": lambda y, p, w: metrics.roc_auc_score(
        y, p[:, 1] if p.shape[1] == 2 else p, sample_weight=w, multi_class="ovr"
    ),
    "average_precision": lambda y, p, w: metrics.average_precision_score(
        y if p.shape[1] == 2 else np.eye(p.shape[1])[y],
        p[:, 1] if p.shape[1] == 2 else p,
        sample_weight=w,
    ),
    "mcc": lambda y, p, w: metrics.matthews_corrcoef(y, p.argmax(1), sample_weight=w),
    "confusion": lambda y, p, w: metrics.confusion_matrix(
        y, p.argmax(1), sample_weight=w, labels=np.arange(p.shape[1])
    ),
}


@pytest.mark.parametrize("num_classes", [2, 5])
@pytest.mark.parametrize("metric", BY_SKLEARN)
def test_scores_as_scikit_learn(metric, num_classes, x64):
    rng = np.random.default_rng(0)
    y = rng.integers(0, num_classes, 211)
    likely = 0.4 * np.eye(num_classes)[y] + 0.6 / num_classes
    p = (1 + rng.multinomial(16 - num_classes, likely)) / 16  # with ties
    log_p, w = np.log(p), rng.integers(0, 4, 211).astype(float)
    expected = BY_SKLEARN[metric](y[w > 0], p[w > 0], w[w > 0])
    np.testing.assert_allclose(gcf.score(log_p, y, metric, weights=w), expected, rtol=1e-12)
    by = rng.integers(-1, 3, 211)
    each = gcf.score(log_p, y, metric, by=by)
    for group in range(3):
        rows = by == group
        found = BY_SKLEARN[metric](y[rows], p[rows], None)
        np.testing.assert_allclose(each[group], found, rtol=1e-12)


@pytest.mark.parametrize("num_classes", [2, 5])
def test_posteriors_that_round_to_one_keep_their_order(num_classes, dtype):
    rng = np.random.default_rng(0)
    y = rng.integers(0, num_classes, 211)
    score = np.round(rng.normal(size=(211, num_classes)) + 0.5 * np.eye(num_classes)[y], 2)
    # Of scores so large no sum of others than the largest has a part.
    others = np.stack([np.delete(score, k, 1).max(1) for k in range(num_classes)], 1)
    areas = [
        metrics.roc_auc_score(y == k, np.round((score - others)[:, k], 2))
        for k in range(1 if num_classes == 2 else 0, num_classes)
    ]
    log_p = jax.nn.log_softmax(jnp.asarray(2.0**14 * np.round(100 * score), dtype))
    np.testing.assert_allclose(gcf.score(log_p, y, "auc"), np.mean(areas), rtol=1e-5)


def test_scores_of_rows_that_do_not_count(x64):
    log_p = np.log(np.array([[0.9, 0.1], [0.2, 0.8], [np.nan, np.nan], [0.6, 0.4]]))
    y = np.array([0, 1, 0, 1])
    assert np.isnan(gcf.score(log_p, y))
    assert gcf.score(log_p, y, weights=np.array([1, 1, 0, 1.0])) == pytest.approx(2 / 3)
    assert gcf.score(log_p, np.array([0, 1, -1, 1])) == pytest.approx(2 / 3)
    assert np.isnan(gcf.score(log_p, y, weights=np.zeros(4)))
    # Matthews' coefficient of single rows is 0; of all together it is not.
    assert gcf.score(log_p[[0, 1]], y[:2], "mcc") == 1
    assert gcf.score(log_p[[0, 1]], y[:2], lambda lp, y, w: (w * lp[:, 0]).sum()) < 0


def test_folds_that_leave_nothing_to_learn_from():
    x, y = BY_NAME["gaussian"].example("float32")
    key, one, two = jax.random.key(0), np.zeros(N, int), np.arange(N) % 2
    labelled, clf = np.where(two == 0, y, -1), gcf.lda(K)
    grid = (lambda ridge: gcf.lda(K, ridge=ridge), {"ridge": [0.1]})
    calls = {
        "cross_validate": lambda f, y, w: gcf.cross_validate(clf, x, y, f, w),
        "permutation_test": lambda f, y, w: gcf.permutation_test(key, clf, x, y, f, weights=w),
        "searchlight": lambda f, y, w: gcf.searchlight(clf, x, y, [[0, 1]], f, weights=w),
        "sliding": lambda f, y, w: gcf.sliding(clf, x[..., None], y, f, weights=w),
        "tune": lambda f, y, w: gcf.tune(*grid, x, y, f, weights=w),
    }
    weights = (two == 0).astype(np.float32)
    message = "folds leave nothing to learn from: all rows with a label and a weight are in fold 0"
    for call in calls.values():
        for folds, w in ((one, None), (two, weights)):
            with pytest.raises(ValueError, match=message):
                call(folds, y, w)
    for name in ("cross_validate", "tune"):
        with pytest.raises(ValueError, match=message):
            calls[name](two, labelled, None)
    with pytest.raises(ValueError, match="in fold 0 and 1, expected some in other folds"):
        gcf.tune(*grid, x, y, two, nested=True)
    with pytest.raises(ValueError, match=message):
        gcf.leave_one_out(clf, x, y, (np.arange(N) == 0).astype(np.float32))
    held_out = np.where(two == 0, 0, -1)  # one fold, and rows in every training set
    check_training(held_out, jnp.asarray(y), None)


@pytest.mark.parametrize("metric", ["confusion", lambda log_p, y, w: log_p[0]])
def test_a_metric_that_is_no_number_has_no_order(metric):
    x, y = BY_NAME["gaussian"].example("float32")
    folds, key, clf = np.arange(N) % 3, jax.random.key(0), gcf.lda(K)
    grid = (lambda ridge: gcf.lda(K, ridge=ridge), {"ridge": [0.1]})
    for call in (
        lambda: gcf.permutation_test(key, clf, x, y, folds, metric),
        lambda: gcf.searchlight(clf, x, y, [[0, 1]], folds, metric),
        lambda: gcf.sliding(clf, x[..., None], y, folds, metric),
        lambda: gcf.tune(*grid, x, y, folds, metric),
    ):
        with pytest.raises(ValueError, match=r"metric is .* whose score has shape .* one number"):
            call()
