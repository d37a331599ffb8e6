"""scikit-learn's own tests of naive Bayes and discriminant analysis, run on our estimators.

Their source is taken from the installed package, with another import. Subclasses give our
estimators their names of parameters and attributes. `DIFFERENT` lists every test that fails, with
the reason. `make test` leaves this file out, and `make test-all` runs it.
"""

import inspect
from typing import ClassVar

import jax
import numpy as np
import pytest
import sklearn.tests.test_discriminant_analysis
import sklearn.tests.test_naive_bayes
from scipy.special import log_expit

import genclf as gcf
from genclf import sklearn as ours

pytestmark = pytest.mark.slow
MESSAGE = "the message has other words"
PRIVATE = "it calls a private method"
FLOAT64 = "all numbers are float64"
FINITE = "a covariance that the rows do not determine has a finite estimate, and diagnosis_ says so"
NO_ESTIMATOR = "there is no covariance_estimator"
POOLED = "one intensity is estimated for a covariance, in the units of the features"
DIFFERENT = {
    "test_gnb": MESSAGE,
    "test_gnb_neg_priors": MESSAGE,
    "test_gnb_wrong_nb_priors": MESSAGE,
    "test_gnb_prior_greater_one": MESSAGE,
    "test_gnb_check_update_with_no_data": PRIVATE,
    "test_NB_partial_fit_no_first_classes": MESSAGE,
    "test_discretenb_provide_prior": MESSAGE,
    "test_alpha": "alpha = 0 is maximum likelihood, without a warning",
    "test_alpha_vector": "alpha is one number; a Dirichlet prior has one for each word",
    "test_check_accuracy_on_digits": "var_smoothing is of the largest variance, ridge of each",
    "test_check_alpha": PRIVATE,
    "test_lda_predict": NO_ESTIMATOR,
    "test_lda_priors": MESSAGE,
    "test_lda_transform": NO_ESTIMATOR,
    "test_lda_store_covariance": "params_ always holds the covariances",
    "test_lda_shrinkage": NO_ESTIMATOR,
    "test_lda_ledoitwolf": POOLED,
    "test_lda_dtype_match[float32-float32]": FLOAT64,
    "test_qda": FINITE,
    "test_qda_covariance_estimator": NO_ESTIMATOR,
    "test_qda_ledoitwolf": POOLED,
    "test_qda_coefs": "there are no rotations_: params_ holds Cholesky factors",
    "test_qda_store_covariance": "params_ always holds the covariances",
    "test_qda_regularization": FINITE,
    "test_raises_value_error_on_same_number_of_classes_and_samples": FINITE,
    "test_raises_value_error_on_one_sample_per_class": FINITE,
}


class _Names:
    class_alpha = 0.0
    semi_supervised = False
    ridge = 0.0
    ddof = 0.0
    target = "identity"
    missing = "error"
    _parameter_constraints: ClassVar = {}  # under their names

    def predict_joint_log_proba(self, X):
        with jax.enable_x64(True):
            return np.asarray(gcf.log_joint(self.params_, self._rows(X)))

    class_log_prior_ = property(lambda self: self.params_.log_prior)
    priors_ = property(lambda self: self.class_prior_)
    class_count_ = property(lambda self: self._stats.labels.count)
    feature_count_ = property(lambda self: self._stats.conditional.total)

    def _model(self, classes):
        num_classes = len(classes)
        given = self.priors if hasattr(self, "priors") else self.class_prior
        if given is None and not getattr(self, "fit_prior", True):
            given = np.full(num_classes, 1 / num_classes)
        given = None if given is None else np.asarray(given, float)
        return gcf.Classifier(self._family(), num_classes, 0.0, given)


class MultinomialNB(_Names, ours.MultinomialNB):
    presence = False
    feature_log_prob_ = property(lambda self: self.params_.conditional.log_theta)

    def __init__(self, *, alpha=1.0, force_alpha=True, fit_prior=True, class_prior=None):
        self.alpha, self.force_alpha = alpha, force_alpha
        self.fit_prior, self.class_prior = fit_prior, class_prior


class BernoulliNB(_Names, ours.BernoulliNB):
    feature_log_prob_ = property(lambda self: log_expit(self.params_.conditional.logits))

    def __init__(
        self, *, alpha=1.0, force_alpha=True, binarize=0.0, fit_prior=True, class_prior=None
    ):
        self.alpha, self.force_alpha, self.binarize = alpha, force_alpha, binarize
        self.fit_prior, self.class_prior = fit_prior, class_prior


class GaussianNB(_Names, ours.GaussianNB):
    theta_ = property(lambda self: self.means_)
    var_ = property(lambda self: self.params_.conditional.scale**2)

    def __init__(self, *, priors=None, var_smoothing=1e-9):
        self.priors, self.var_smoothing = priors, var_smoothing


class _Covariance(_Names):
    def _family(self):
        given = self.shrinkage
        self.shrinkage = "ledoit-wolf" if given == "auto" else given
        family = super()._family()
        self.shrinkage = given
        return family

    @property
    def _axes(self):
        with jax.enable_x64(True):
            return gcf.discriminant_axes(self.params_)

    @property
    def covariance_(self):
        found = self.params_.conditional.covariances
        return found[0] if self.params_.conditional.shared else list(found)

    explained_variance_ratio_ = property(lambda self: np.asarray(self._axes.explained))
    scalings_ = property(lambda self: np.asarray(self._axes.coefficient))
    xbar_ = property(lambda self: np.asarray(self._axes.centre))


class LinearDiscriminantAnalysis(_Covariance, ours.LinearDiscriminant):
    def __init__(
        self,
        solver="svd",
        shrinkage=None,
        priors=None,
        n_components=None,
        store_covariance=False,
        tol=1e-4,
        covariance_estimator=None,
    ):
        self.solver, self.shrinkage, self.priors = solver, shrinkage, priors
        self.n_components, self.store_covariance = n_components, store_covariance
        self.tol, self.covariance_estimator = tol, covariance_estimator


class QuadraticDiscriminantAnalysis(_Covariance, ours.QuadraticDiscriminant):
    def __init__(
        self,
        *,
        solver="svd",
        shrinkage=None,
        priors=None,
        reg_param=0.0,
        store_covariance=False,
        tol=1e-4,
        covariance_estimator=None,
    ):
        self.solver, self.shrinkage, self.priors = solver, shrinkage, priors
        self.reg_param, self.store_covariance = reg_param, store_covariance
        self.tol, self.covariance_estimator = tol, covariance_estimator


def their_tests(module, theirs, mine):
    """The tests of a module of scikit-learn, with an import replaced."""
    source = inspect.getsource(module)
    assert theirs in source
    names = dict(vars(module))
    exec(compile(source.replace(theirs, mine), inspect.getsourcefile(module), "exec"), names)
    found = {name: value for name, value in names.items() if name.startswith("test_")}
    # Values of categories are declared otherwise, and rows are arrays of NumPy: no test of other
    # arrays or of CategoricalNB.
    others = ("categorical", "array_api")
    return {name: value for name, value in found.items() if not any(a in name for a in others)}


NAIVE_BAYES = """from sklearn.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)
"""
OURS = f"""from {__name__} import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.naive_bayes import CategoricalNB, ComplementNB
"""
DISCRIMINANTS = """from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    _cov,
)
"""
OUR_DISCRIMINANTS = f"""from sklearn.discriminant_analysis import _cov
from {__name__} import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
"""
globals().update(their_tests(sklearn.tests.test_naive_bayes, NAIVE_BAYES, OURS))
globals().update(
    their_tests(sklearn.tests.test_discriminant_analysis, DISCRIMINANTS, OUR_DISCRIMINANTS)
)


@pytest.fixture
def global_random_seed():
    return 42


@pytest.fixture
def global_dtype():
    return np.float64


@pytest.fixture(autouse=True)
def different(request):
    """Tests listed in `DIFFERENT` have to fail."""
    of_theirs = "ComplementNB" in request.node.name or "CategoricalNB" in request.node.name
    name = request.node.name if request.node.name in DIFFERENT else request.node.originalname
    if name in DIFFERENT and not of_theirs:
        request.applymarker(pytest.mark.xfail(reason=DIFFERENT[name], strict=True))
