"""Estimators of scikit-learn beside its own checks, its own models and ours."""

import pickle
import warnings

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from sklearn import metrics, naive_bayes
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import DecisionBoundaryDisplay, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils._param_validation import InvalidParameterError

import genclf as gcf
from genclf import sklearn as estimators
from tests.costs import counted

CLASSES = [
    estimators.LinearDiscriminant,
    estimators.QuadraticDiscriminant,
    estimators.RegularizedDiscriminant,
    estimators.GaussianNB,
    estimators.BernoulliNB,
    estimators.MultinomialNB,
    estimators.CategoricalNB,
    estimators.MixedNB,
    estimators.MixtureDiscriminant,
    estimators.SoftmaxRegression,
    estimators.GenerativeClassifier,
]
ADD_UP = [one for one in CLASSES if hasattr(one(), "partial_fit")]
GENERATIVE = [one for one in CLASSES if hasattr(one(), "sample")]
LEFT_OUT = [  # of check_estimator, though it has them
    estimator_checks.check_dataframe_column_names_consistency,
    estimator_checks.check_param_validation,
    estimator_checks.check_inplace_ensure_writeable,
]
BY_DESIGN = {  # a table's whole numbers may be categories, an array's are numbers
    estimators.MixedNB: {"check_classifier_data_not_an_array": "an array is not a table"}
}
OF_TRANSFORMERS = [
    estimator_checks.check_transformer_get_feature_names_out,
    estimator_checks.check_transformer_get_feature_names_out_pandas,
    estimator_checks.check_set_output_transform,
    estimator_checks.check_set_output_transform_pandas,
    estimator_checks.check_set_output_transform_polars,
    estimator_checks.check_global_output_transform_pandas,
    estimator_checks.check_global_set_output_transform_polars,
]


@pytest.fixture(autouse=True)
def _no_x64():
    """The setting of the process is JAX's default before and after."""
    before = jax.config.jax_enable_x64
    yield
    assert jax.config.jax_enable_x64 == before


def data(n=60):
    """Counts of three classes, which every estimator takes, and labels that are strings."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    x = rng.poisson(1.5 + 3 * (y[:, None] == np.arange(4) % 3), (n, 4)).astype(float)
    return np.minimum(x, 8), np.array(["b", "c", "a"])[y]


def made(one):
    return one(num_values=9) if one is estimators.CategoricalNB else one()


@pytest.mark.slow(but=("MultinomialNB",))
@pytest.mark.parametrize("one", CLASSES)
def test_check_estimator(one):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimator_checks.check_estimator(
            one(), expected_failed_checks=BY_DESIGN.get(one, {}), on_fail=None, on_skip=None
        )
    assert len(found) > 60
    by_status = {result["check_name"]: result["status"] for result in found}
    failed = {name for name, status in by_status.items() if status != "passed"}
    assert failed == BY_DESIGN.get(one, {}).keys()


@pytest.mark.slow("MixtureDiscriminant", "SoftmaxRegression", "LinearDiscriminant")
@pytest.mark.parametrize("one", CLASSES)
@pytest.mark.filterwarnings("ignore")
def test_checks_that_are_left_out_by_default(one):
    for check in LEFT_OUT:
        check(one.__name__, one())
    if hasattr(one, "transform"):
        for check in OF_TRANSFORMERS:
            check(one.__name__, one())


@pytest.mark.parametrize("one", ADD_UP)
def test_any_parts_are_the_whole(one):
    x, y = data(61)
    w = np.random.default_rng(1).uniform(0.5, 2, 61)
    whole = made(one).fit(x, y, w)
    for cuts in ([1, 2, 40], [30], range(7, 61, 7)):
        parts = made(one)
        for rows in np.split(np.arange(61), cuts):
            parts.partial_fit(x[rows], y[rows], ["a", "b", "c"], w[rows])
        np.testing.assert_allclose(
            parts.predict_log_proba(x), whole.predict_log_proba(x), rtol=1e-12, atol=1e-12
        )
    with pytest.raises(ValueError, match="classes is None"):
        made(one).partial_fit(x, y)
    with pytest.raises(ValueError, match="y has the label 'd'"):
        parts.partial_fit(x[:1], ["d"])


CORE = {
    "LinearDiscriminant": gcf.lda(3),
    "QuadraticDiscriminant": gcf.qda(3),
    "RegularizedDiscriminant": gcf.Classifier(
        gcf.Gaussian(pooling=0.5, shrinkage=0.1, target="diagonal"), 3
    ),
    "GaussianNB": gcf.gaussian_nb(3),
    "MultinomialNB": gcf.multinomial_nb(3),
    "CategoricalNB": gcf.categorical_nb(3, 9),
    "SoftmaxRegression": gcf.SoftmaxRegression(3, l2=0.01),
    "GenerativeClassifier": gcf.lda(3),
    "MixedNB": gcf.gaussian_nb(3),
}


@pytest.mark.slow("SoftmaxRegression")
@pytest.mark.parametrize("one", [one for one in CLASSES if one.__name__ in CORE])
def test_the_model_is_that_of_the_core(one, x64):
    x, y = data()
    number = np.searchsorted(["a", "b", "c"], y)
    w = np.random.default_rng(1).uniform(0.5, 2, len(y))
    given = x.astype(int) if one is estimators.CategoricalNB else x
    params = gcf.fit(CORE[one.__name__], given, number, w)
    found = made(one).fit(x, y, w)
    expected = np.asarray(gcf.log_posterior(params, given))
    np.testing.assert_allclose(found.predict_log_proba(x), expected, rtol=1e-6, atol=1e-8)
    assert (found.predict(x) == np.array(["a", "b", "c"])[expected.argmax(1)]).all()
    if hasattr(found, "decision_function"):
        others = [logsumexp(np.delete(expected, k, 1), 1) for k in range(3)]
        odds = expected - np.stack(others, 1)
        np.testing.assert_allclose(found.decision_function(x), odds, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (estimators.LinearDiscriminant(), LinearDiscriminantAnalysis()),
        (estimators.LinearDiscriminant(0.3), LinearDiscriminantAnalysis("lsqr", shrinkage=0.3)),
        (estimators.QuadraticDiscriminant(), QuadraticDiscriminantAnalysis()),
        (estimators.GaussianNB(), naive_bayes.GaussianNB(var_smoothing=0)),
        (estimators.BernoulliNB(), naive_bayes.BernoulliNB()),
        (estimators.MultinomialNB(), naive_bayes.MultinomialNB()),
        (estimators.CategoricalNB(), naive_bayes.CategoricalNB()),
    ],
    ids=lambda one: type(one).__name__,
)
def test_where_conventions_coincide_it_is_scikit_learn(ours, theirs):
    x, y = load_breast_cancer(return_X_y=True)
    x = np.abs(StandardScaler().fit_transform(x[:, :8]))
    x = x.astype(int) if "Categorical" in type(ours).__name__ else x
    ours, theirs = ours.fit(x, y), theirs.fit(x, y)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-9)
    assert ours.score(x, y) == theirs.score(x, y)
    for method in ("decision_function", "coef_", "class_prior_", "transform"):
        assert hasattr(theirs, method) <= hasattr(ours, method)
    if hasattr(theirs, "decision_function"):
        expected = theirs.decision_function(x)
        np.testing.assert_allclose(ours.decision_function(x), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.slow("-1", "None")
@pytest.mark.parametrize("none", [-1, None, np.nan])
def test_rows_without_a_label_take_part(none, x64):
    x, y = load_iris(return_X_y=True)
    few = y.astype(object if none is None else float)
    few[np.arange(150) % 3 > 0] = none
    found = estimators.QuadraticDiscriminant(semi_supervised=True).fit(x, few)
    number = np.where(np.arange(150) % 3 > 0, -1, y)
    expected = gcf.em(gcf.qda(3), x, number, key=jax.random.key(0)).params
    np.testing.assert_allclose(found.means_, expected.conditional.mean, rtol=1e-10)
    assert found.n_iter_ > 1 and (found.classes_ == np.arange(3)).all()
    with pytest.raises(ValueError, match="y has no label"):
        estimators.QuadraticDiscriminant(semi_supervised=True).fit(x, np.full(150, -1))


@pytest.mark.slow("full-False", "full-True")
@pytest.mark.parametrize("covariance, shared", [("full", False), ("full", True), ("diag", True)])
def test_missing_cells_are_integrated_out(covariance, shared, x64):
    x, y = load_iris(return_X_y=True)
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    model = gcf.Classifier(gcf.Gaussian(covariance, shared=shared, missing="marginalize"), 3)
    found = estimators.GenerativeClassifier(model).fit(x, y)
    params = gcf.fit(model, x, y)
    for seen in (x, x[:1]):
        expected = gcf.log_posterior(params, seen)
        np.testing.assert_allclose(found.predict_log_proba(seen), expected, atol=1e-9)
    assert get_tags(found).input_tags.allow_nan
    plain = estimators.GenerativeClassifier(gcf.lda(3))
    row, column = np.argwhere(np.isnan(x))[0]
    with pytest.raises(ValueError, match=rf"contains NaN: X\[{row}, {column}\] .*missing='margin"):
        plain.fit(x, y)
    with pytest.raises(ValueError, match="contains NaN"):
        plain.fit(x[:1].repeat(9, 0) * 0 + 1, y[[0, 60, 120] * 3]).predict(x)


@pytest.mark.slow("list")
@pytest.mark.parametrize("made", [list, pd.Series, pd.array, pd.Categorical])
def test_a_missing_string_is_no_class(made):
    x, y = np.arange(6.0)[:, None], made(["no", "no", None, "yes", "yes", "yes"])
    with pytest.raises(ValueError, match="Input y contains NaN: row 2 has no label"):
        estimators.LinearDiscriminant().fit(x, y)
    found = estimators.GaussianNB(semi_supervised=True).fit(x, y)
    assert found.classes_.tolist() == ["no", "yes"]


@pytest.mark.slow("MixtureDiscriminant")
@pytest.mark.parametrize("one", GENERATIVE)
def test_samples_and_densities(one):
    x, y = data()
    found = made(one).fit(x, y)
    drawn, labels = found.sample(7, random_state=3)
    assert drawn.shape == (7, 4) and set(labels) <= set(found.classes_)
    again, _ = found.sample(7, random_state=3)
    assert (drawn == again).all()
    assert found.score_samples(x).shape == (60,)
    np.testing.assert_allclose(found.class_prior_.sum(), 1)


@pytest.mark.slow("MixtureDiscriminant", "SoftmaxRegression")
@pytest.mark.parametrize("one", CLASSES)
def test_fitted_state_is_numpy_and_survives_a_pickle(one):
    x, y = data()
    found = made(one).fit(x, y)
    assert found.predict_proba(x).dtype == np.float64
    assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(found.params_))
    copy = pickle.loads(pickle.dumps(found))
    assert (copy.predict_proba(x) == found.predict_proba(x)).all()
    assert not hasattr(clone(found), "classes_")


def test_a_new_number_of_rows_compiles_nothing():
    x, y = data(300)
    found = estimators.QuadraticDiscriminant().fit(x[:200], y[:200])
    found.predict(x[:150]), found.predict(x[:2]), found.predict(x[:1])
    with counted() as work, warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (3, 5, 64, 65, 199, 256):
            found.predict_proba(x[:rows])
            estimators.QuadraticDiscriminant(shrinkage=None).fit(x[:197], y[:197])
    assert work.total() == 0


def test_axes_of_linear_discriminants():
    x, y = load_iris(return_X_y=True)
    ours = estimators.LinearDiscriminant(n_components=1).fit(x, y)
    scores = LinearDiscriminantAnalysis(n_components=1).fit_transform(x, y)
    found = ours.transform(x)
    assert found.shape == (150, 1)
    assert abs(np.corrcoef(found[:, 0], scores[:, 0])[0, 1]) > 1 - 1e-12
    assert list(ours.get_feature_names_out()) == ["lineardiscriminant0"]


@pytest.mark.slow
def test_in_the_company_of_scikit_learn():
    x, y = load_breast_cancer(return_X_y=True, as_frame=True)
    x, y = x.iloc[:, :6], np.where(y == 1, "benign", "malignant")
    pipe = make_pipeline(StandardScaler(), estimators.LinearDiscriminant())
    grid = {"lineardiscriminant__shrinkage": [None, 0.1, "ledoit-wolf"]}
    search = GridSearchCV(pipe, grid, cv=3, scoring="neg_log_loss").fit(x, y)
    assert search.best_score_ > -0.3
    calibrated = CalibratedClassifierCV(estimators.QuadraticDiscriminant(), cv=3).fit(x, y)
    assert cross_val_score(estimators.GaussianNB(), x, y, cv=3).mean() > 0.85
    stack = StackingClassifier(
        [("nb", estimators.GaussianNB()), ("qda", FrozenEstimator(calibrated))],
        LogisticRegression(),
        cv=3,
    ).fit(x, y)
    assert metrics.accuracy_score(y, stack.predict(x)) > 0.9
    importance = permutation_importance(search.best_estimator_, x, y, n_repeats=2, random_state=0)
    assert importance.importances_mean.max() > 0.05
    two = estimators.QuadraticDiscriminant().fit(x.iloc[:, :2], y)
    assert DecisionBoundaryDisplay.from_estimator(two, x.iloc[:, :2], grid_resolution=9)
    assert CalibrationDisplay.from_estimator(calibrated, x, y, pos_label="benign")


def test_weights_are_routed():
    import sklearn

    x, y = load_iris(return_X_y=True)
    w = np.random.default_rng(0).integers(0, 3, 150)
    with sklearn.config_context(enable_metadata_routing=True):
        one = estimators.GaussianNB().set_fit_request(sample_weight=True)
        one.set_score_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler(), one)
        pipe = pipe.set_params(standardscaler=StandardScaler().set_fit_request(sample_weight=False))
        found = pipe.fit(x, y, sample_weight=w)
        grid = GridSearchCV(one, {"ridge": [0.0, 0.1]}, cv=3).fit(x, y, sample_weight=w)
        calibrated = CalibratedClassifierCV(one, cv=3).fit(x, y, sample_weight=w)
    plain = StandardScaler().fit(x)
    expected = estimators.GaussianNB().fit(plain.transform(x), y, w)
    np.testing.assert_allclose(
        found.predict_proba(x), expected.predict_proba(plain.transform(x)), atol=1e-12
    )
    assert grid.best_score_ > 0.9 and calibrated.predict(x).shape == (150,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: estimators.LinearDiscriminant(ridge=-1).fit(x, y), "'ridge' parameter"),
        (
            lambda x, y: estimators.LinearDiscriminant(0.1, ridge=0.1).fit(x, y),
            "ridge and shrinkage",
        ),
        (
            lambda x, y: estimators.GaussianNB(class_prior=[0.5, 0.5]).fit(x, y),
            r"class_prior has shape \(2,\)",
        ),
        (lambda x, y: estimators.GaussianNB().fit(x, y[:7]), "60 rows and y 7 labels"),
        (lambda x, y: estimators.GaussianNB().fit(x, y, -np.ones(60)), "(?i)negative"),
        (
            lambda x, y: estimators.CategoricalNB().fit(x, y).predict([[9, 0, 0, 0]]),
            r"X\[0, 0\] is 9",
        ),
        (
            lambda x, y: estimators.GenerativeClassifier(gcf.lda(2)).fit(x, y),
            "y has 3 classes, but model.num_classes is 2",
        ),
        (lambda x, y: estimators.MultinomialNB().fit(-x - 1, y), "Negative values"),
    ],
)
def test_errors_name_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call(*data())


@pytest.mark.parametrize("one", CLASSES)
def test_parameters_have_the_domains_of_the_model(one):
    x, y = data()
    valid = {("binarize", -1), ("shrinkage", "oas"), ("model", object)}
    for name in one().get_params(deep=False):
        for wrong in (-1, np.nan, "oas", object):
            if (name, wrong) not in valid:
                with pytest.raises(
                    InvalidParameterError, match=f"'{name}' parameter of {one.__name__}"
                ):
                    one().set_params(**{name: wrong}).fit(x, y)


def test_a_subclass_may_have_more_parameters():
    class Mine(estimators.GaussianNB):
        def __init__(self, ridge=0.0, more="anything"):
            super().__init__(ridge)
            self.more = more

    x, y = data()
    expected = estimators.GaussianNB(0.5).fit(x, y).predict_proba(x)
    np.testing.assert_array_equal(Mine(0.5).fit(x, y).predict_proba(x), expected)


def test_mixtures_start_at_the_parts_of_each_class():
    """As two clusters of equal weight are far apart, they are the parts; up to the prior."""
    rng = np.random.default_rng(0)
    centre = 50.0 * np.array([[[0, 0], [9, 1]], [[3, 3], [5, 5]], [[1, 2], [7, 4]]])
    y, part = np.repeat([0, 1, 2, -1], [8, 12, 10, 3]), np.arange(33) % 2
    x, w = centre[y, part] + rng.normal(size=(33, 2)), np.full(33, 2.0)
    one = estimators.MixtureDiscriminant(2, covariance="diag")
    start = one._start(gcf.Classifier(one._family(), 3), x, y, w)
    expected = [x[(y == k) & (part == j)].mean(0) for k in range(3) for j in range(2)]
    found = np.asarray(start.conditional.components.mean).reshape(3, 2, 2)
    turned = np.where((found[:, :1, :1] > found[:, 1:, :1]), found[:, ::-1], found)
    np.testing.assert_allclose(turned.reshape(6, 2), expected, rtol=0, atol=1)
    np.testing.assert_allclose(np.exp(start.conditional.log_weight), 0.5, rtol=1e-6)
    np.testing.assert_allclose(np.exp(start.log_prior), np.array([17, 25, 21]) / 63, rtol=1e-6)


@pytest.mark.slow
def test_methods_that_make_no_sense_do_not_exist():
    x, y = data()
    assert not hasattr(estimators.SoftmaxRegression(), "sample")
    assert not hasattr(estimators.MixtureDiscriminant(), "partial_fit")
    assert not hasattr(estimators.QuadraticDiscriminant().fit(x, y), "coef_")
    assert estimators.QuadraticDiscriminant().fit(x, y).diagnosis_.rank.tolist() == [4, 4, 4]
    assert estimators.LinearDiscriminant().fit(x, y).coef_.shape == (3, 4)
