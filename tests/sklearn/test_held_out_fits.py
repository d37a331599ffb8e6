"""Estimators whose posteriors are calibrated, and that say "none of these"."""

import pickle
import warnings

import jax
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import genclf as gcf
from genclf import sklearn as estimators
from tests.sklearn.test_estimators import CLASSES, GENERATIVE, data, made

SLOW = ("MixtureDiscriminant", "SoftmaxRegression", "QuadraticDiscriminant", "MixedNB")


def asked(one, **how):
    """The estimator with a bias, and with the members of its folds where it can keep them."""
    how = {"calibrate": "bias"} | how
    return made(one).set_params(**how, **({"conformal": True} if one in GENERATIVE else {}))


def by_the_core(estimator, x, y, w):
    """Posteriors and p-values of the model of an estimator by functions of the library."""
    k = np.unique(y, return_inverse=True)[1].astype(np.int32)
    with jax.enable_x64(True):
        clf = estimator._model(np.unique(y))
        rows = estimator._rows(x)
        folds = gcf.kfold(jax.random.key(0), k, 10)
        members = not isinstance(clf, gcf.SoftmaxRegression)
        cv = gcf.cross_validate(clf, rows, k, folds, w, members=members)
        found = gcf.recalibrate(cv, k, weights=w)
        params = gcf.with_calibration(gcf.fit(clf, rows, k, w), found)
        log_p = np.asarray(gcf.log_posterior(params, rows))
        p = np.asarray(gcf.typicality(clf, cv, rows)) if members else None
    return found, log_p, p


@pytest.mark.slow(
    "GaussianNB",
    "LinearDiscriminant",
    "RegularizedDiscriminant",
    "GenerativeClassifier",
    "MixtureDiscriminant",
    "QuadraticDiscriminant",
    "SoftmaxRegression",
)
@pytest.mark.parametrize("one", CLASSES)
def test_numbers_are_those_of_the_core(one):
    x, y = data(61)
    w = 1.0 + np.arange(61) % 3
    found = asked(one)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.fit(x, y, w)
    if one is estimators.MixtureDiscriminant:  # its start of EM is its own
        assert found.recalibration_.log_loss_after <= found.recalibration_.log_loss_before
        return
    recalibration, log_p, p = by_the_core(found, x, y, w)
    tol = 1e-3 if one is estimators.SoftmaxRegression else 1e-8  # L-BFGS stops a little elsewhere
    np.testing.assert_allclose(found.predict_log_proba(x), log_p, tol, tol)
    for name in ("slope", "bias", "log_loss_before", "log_loss_nested", "gain_error"):
        ours, theirs = (getattr(a, name) for a in (found.recalibration_, recalibration))
        np.testing.assert_allclose(ours, theirs, 10 * tol, tol)
    if p is not None:
        np.testing.assert_allclose(found.typicality(x), p, 1e-9)
        np.testing.assert_array_equal(found.predict_set(x, 0.2), p > 0.2)


@pytest.mark.parametrize("one", [estimators.LinearDiscriminant, estimators.MultinomialNB])
def test_what_a_calibration_leaves_alone(one):
    x, y = data(61)
    plain, found = made(one).fit(x, y), asked(one).fit(x, y)
    np.testing.assert_array_equal(found.score_samples(x), plain.score_samples(x))
    np.testing.assert_array_equal(found.sample(5, 0)[0], plain.sample(5, 0)[0])
    np.testing.assert_array_equal(found.params_.params.log_prior, plain.params_.log_prior)
    np.testing.assert_allclose(found.coef_, found.recalibration_.slope * plain.coef_, 1e-12)
    score = x @ found.coef_.T + found.intercept_
    odds = found.predict_log_proba(x)
    np.testing.assert_allclose(score - score[:, :1], odds - odds[:, :1], atol=1e-9)
    terms = found.explain(x[:3], of="a", against="b")
    np.testing.assert_allclose(terms.log_odds, odds[:3, 0] - odds[:3, 1], atol=1e-9)
    if one is estimators.LinearDiscriminant:
        np.testing.assert_allclose(found.transform(x), plain.transform(x))


def test_a_given_prior_is_that_of_the_calibrated_posteriors():
    x, y = data(61)
    prior = {"a": 0.7, "b": 0.2, "c": 0.1}
    found = estimators.GaussianNB(class_prior=prior, calibrate="bias").fit(x, y)
    np.testing.assert_allclose(found.class_prior_, [0.7, 0.2, 0.1])
    map_ = found.recalibration_
    plain = estimators.GaussianNB(class_prior=prior).fit(x, y).predict_log_proba(x)
    moved = map_.slope * plain + map_.bias + np.log([0.7, 0.2, 0.1]) - map_.log_prior
    odds = found.predict_log_proba(x)
    np.testing.assert_allclose(odds - odds[:, :1], moved - moved[:, :1], atol=1e-9)


@pytest.mark.parametrize("how", ["temperature", "bias"])
def test_held_out_log_loss_of_real_rows(how):
    """Gaussian naive Bayes is far too sure of itself; scikit-learn's calibration is beside it."""
    x, y = load_breast_cancer(return_X_y=True)
    loss = {"none": [], "ours": [], "theirs": []}
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(x, y):
        models = {
            "none": estimators.GaussianNB(),
            "ours": estimators.GaussianNB(calibrate=how),
            "theirs": CalibratedClassifierCV(estimators.GaussianNB(), ensemble=False, cv=10),
        }
        for name, model in models.items():
            p = model.fit(x[train], y[train]).predict_proba(x[test])
            loss[name].append(log_loss(y[test], p))
    before, ours, theirs = (np.mean(loss[name]) for name in ("none", "ours", "theirs"))
    assert before > 0.4 and ours < 0.25
    assert ours < theirs + 0.02


def test_sparse_rows_give_the_numbers_of_dense_ones():
    x, y = data(61)
    dense, sparse = (asked(estimators.MultinomialNB).fit(rows, y) for rows in (x, csr_array(x)))
    np.testing.assert_allclose(sparse.predict_proba(csr_array(x)), dense.predict_proba(x), 1e-9)
    np.testing.assert_allclose(sparse.typicality(csr_array(x)), dense.typicality(x), 1e-9)


def test_the_f_distribution_without_folds():
    x, y = data(61)
    found = estimators.LinearDiscriminant().fit(x, y)
    clf, k = gcf.lda(3), np.unique(y, return_inverse=True)[1]
    with jax.enable_x64(True):
        p = gcf.typicality(clf, gcf.stats(clf, x, k), x)
    np.testing.assert_allclose(found.typicality(x), p, 1e-9)
    added = estimators.LinearDiscriminant().partial_fit(x[:20], y[:20], list("abc"))
    np.testing.assert_allclose(added.partial_fit(x[20:], y[20:]).typicality(x), p, 1e-9)


@pytest.mark.parametrize("one", [estimators.GaussianNB, estimators.MixedNB])
def test_a_model_without_it_says_what_to_do(one):
    x, y = data(61)
    with pytest.raises(ValueError, match="conformal=True"):
        one().fit(x, y).predict_set(x)
    with pytest.raises(ValueError, match=r"kept no statistics.*conformal=True"):
        unlabelled = np.where(np.arange(61) < 9, None, y)
        estimators.LinearDiscriminant(semi_supervised=True).fit(x, unlabelled).typicality(x)
    assert not hasattr(estimators.SoftmaxRegression(), "typicality")


def test_a_row_of_no_class_has_an_empty_set():
    x, y = load_breast_cancer(return_X_y=True)
    found = estimators.QuadraticDiscriminant(conformal=True).fit(x[::2], y[::2])
    rows = x[1::2]
    inside = found.predict_set(rows, 0.1)[np.arange(len(rows)), y[1::2]]
    assert abs(inside.mean() - 0.9) < 4 * np.sqrt(0.09 / len(rows))
    far = rows + 20 * x.std(0)
    assert not found.predict_set(far, 0.1).any()
    assert found.predict_proba(far).max(1).min() > 0.9  # whose posteriors are as sure as ever


@pytest.mark.parametrize("name", ["calibrate", "conformal"])
def test_what_folds_cannot_do(name):
    x, y = data(61)
    given = {name: {"calibrate": "bias", "conformal": True}[name]}
    with pytest.raises(ValueError, match=f"{name} is .*partial_fit cannot have it: use fit"):
        estimators.GaussianNB(**given).partial_fit(x, y, list("abc"))
    with pytest.raises(ValueError, match=f"{name} is .*forget cannot have it: use fit"):
        estimators.GaussianNB(**given).fit(x, y).forget(x[:1], y[:1])
    with pytest.raises(ValueError, match="class 'z' has one row, but calibrate and conformal"):
        estimators.GaussianNB(**given).fit(x, np.append(y[:-1], "z"))
    with pytest.raises(ValueError, match="row 3 has no label, but calibrate and conformal"):
        labels = np.where(np.arange(61) == 3, None, y)
        estimators.GaussianNB(semi_supervised=True, **given).fit(x, labels)


def test_a_row_that_is_impossible_without_its_fold():
    """No calibration has a finite log-loss, but a p-value is the least that there is."""
    y = np.arange(61) % 3
    odd = np.zeros((61, 1))
    odd[7] = 1  # the only row with this value
    with pytest.raises(ValueError, match=r"a row of class 1, number 7 .*has log p.*smooth"):
        estimators.CategoricalNB(alpha=0, calibrate="bias").fit(odd, y)
    found = estimators.CategoricalNB(alpha=0, conformal=True).fit(odd, y)
    np.testing.assert_allclose(found.typicality(odd)[7], 1 / (np.bincount(y) + 1) + [0, 1 / 21, 0])


@pytest.mark.parametrize("alpha", [-0.1, 1.5, "x", np.nan])
def test_levels_are_checked(alpha):
    x, y = data(61)
    with pytest.raises(ValueError, match=r"alpha is .*, expected"):
        estimators.LinearDiscriminant().fit(x, y).predict_set(x, alpha)


def test_posteriors_without_a_calibration_stay_as_they_are():
    x = np.concatenate([np.zeros(20), np.full(20, 10.0)])[:, None] + np.arange(40)[:, None] / 40
    y = np.arange(40) // 20
    found = estimators.LinearDiscriminant(calibrate="bias")
    with pytest.warns(match="no calibration is the most likely one"):
        found.fit(x, y)
    assert not found.recalibration_.converged
    plain = estimators.LinearDiscriminant().fit(x, y)
    np.testing.assert_array_equal(found.predict_proba(x), plain.predict_proba(x))


@pytest.mark.slow("QuadraticDiscriminant1")
@pytest.mark.parametrize(
    "one",
    [
        estimators.LinearDiscriminant(),
        estimators.QuadraticDiscriminant(calibrate="bias", conformal=True),
        estimators.QuadraticDiscriminant(missing="marginalize"),
        estimators.GenerativeClassifier(gcf.Classifier(gcf.VonMisesFisher(), 3)),
        estimators.SoftmaxRegression(calibrate="temperature"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_estimator_that_was_used_is_saved(one, tmp_path):
    """What methods keep for the next call, by JAX too, is no part of the file."""
    x, y = data(61)
    x = (x + 1) / np.linalg.norm(x + 1, axis=1, keepdims=True)
    one.fit(x, y)
    for method in ("predict_proba", "score_samples", "typicality"):
        if hasattr(one, method) and (method != "typicality" or getattr(one, "conformal", False)):
            getattr(one, method)(x)
    gcf.save(tmp_path / "a.gcf", one)
    again = gcf.load(tmp_path / "a.gcf")
    np.testing.assert_array_equal(again.predict_proba(x), one.predict_proba(x))


def test_states_go_through_files_and_refits(tmp_path):
    x, y = data(61)
    found = asked(estimators.GaussianNB).fit(x, y)
    gcf.save(tmp_path / "a.gcf", found)
    for other in (pickle.loads(pickle.dumps(found)), gcf.load(tmp_path / "a.gcf")):
        np.testing.assert_array_equal(other.predict_proba(x), found.predict_proba(x))
        np.testing.assert_array_equal(other.typicality(x), found.typicality(x))
        assert other.recalibration_.gain == found.recalibration_.gain
    found.set_params(calibrate=None, conformal=False).fit(x, y)
    assert isinstance(found.params_, gcf.ClassifierParams)
    assert not hasattr(found, "recalibration_") and not hasattr(found, "_membership")


def test_a_search_finds_whether_to_calibrate():
    x, y = load_breast_cancer(return_X_y=True)
    grid = {"calibrate": [None, "temperature", "bias"]}
    search = GridSearchCV(estimators.GaussianNB(), grid, scoring="neg_log_loss", cv=3).fit(x, y)
    assert search.best_params_["calibrate"] is not None


@pytest.mark.slow
def test_the_mixture_of_each_fold_starts_as_that_of_all_rows():
    """EM from its own start: the held-out posteriors are those of the estimator itself."""
    x, y = data(61)
    one = estimators.MixtureDiscriminant(2, covariance="diag", calibrate="temperature")
    found = one.fit(x, y)
    k = np.unique(y, return_inverse=True)[1].astype(np.int32)
    folds = gcf.kfold(jax.random.key(0), k, 10)
    log_p = np.empty((61, 3))
    for fold in range(10):
        rest = estimators.MixtureDiscriminant(2, covariance="diag")
        rest.fit(x, y, (folds != fold).astype(float))
        log_p[folds == fold] = rest.predict_log_proba(x[folds == fold])
    with jax.enable_x64(True):
        expected = gcf.recalibrate(log_p, k, bias=False, folds=folds)
    np.testing.assert_allclose(found.recalibration_.slope, expected.slope, 1e-4)


@pytest.mark.parametrize("how", [{}, {"calibrate": "bias"}])
def test_words_that_are_present_count_once(how):
    """Scores are linear in x > 0, not in x: counts and bits have the same posteriors."""
    x, y = data(61)
    given = [estimators.MultinomialNB(presence=True, **how)]
    given += [
        estimators.GenerativeClassifier(gcf.Classifier(family, 3), **how)
        for family in (gcf.Multinomial(presence=True), gcf.Bernoulli(threshold=0.5))
    ]
    for one in given:
        found = one.fit(x, y)
        np.testing.assert_allclose(
            found.predict_log_proba(x), found.predict_log_proba((x > 0).astype(float)), 1e-12
        )
        with jax.enable_x64(True):
            of_params = np.asarray(gcf.log_posterior(found.params_, x))
        np.testing.assert_allclose(found.predict_log_proba(x), of_params, 1e-9, 1e-12)
        assert not hasattr(found, "coef_")


@pytest.mark.slow
def test_a_calibration_never_reverses_the_classes():
    """Without signal, held-out posteriors of stratified folds are worse than none."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(20):
        x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
        one = estimators.LinearDiscriminant(calibrate="temperature").fit(x, y)
        assert (one.predict(x) == estimators.LinearDiscriminant().fit(x, y).predict(x)).all() or (
            one.recalibration_.slope == 0
        )
        found.append(float(one.recalibration_.slope))
        assert one.recalibration_.log_loss_after <= np.log(2) + 1e-12
    assert min(found) == 0 < max(found)


def test_weighted_p_values_are_at_most_1():
    x, y = data(151)
    found = estimators.GaussianNB(conformal=True).fit(x, y, np.full(151, 0.1))
    p = found.typicality(np.vstack([found.means_, x]))
    assert p.max() == 1
    with jax.enable_x64(True):
        gcf.novelty(p)
