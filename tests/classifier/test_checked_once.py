"""A public function checks each argument once, and the functions behind it check nothing again."""

import sys
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.arguments import hyperparameters
from genclf.classifier import estimation, labels, model, rows

X = np.arange(42.0).reshape(14, 3) ** 2 % 11
Y = np.arange(14) % 2
SOME = np.where(np.arange(14) < 9, Y, -1)
FOLDS = np.arange(14) // 2 % 3
CLF = gcf.lda(2, prior=gcf.NormalInverseWishart())
SOFTMAX = gcf.SoftmaxRegression(2, l2=0.1)
BAYES = gcf.gaussian_nb(2, prior=gcf.NormalInverseWishart())
PREDICTIVE = gcf.gaussian_nb(2, prior=gcf.NormalInverseWishart(), inference="predictive")

CHECKS = {
    "model": hyperparameters.invalid_fields,
    "params": model.check_params,
    "rows": rows.check_rows,
    "examples": rows.check_examples,
    "labels": labels.check_labels,
    "statistics": estimation.check_statistics,
}
OF_ROWS = {"model": 1, "rows": 1, "labels": 1}
OF_EXAMPLES = {"params": 1, "examples": 1}
CALLS = {
    "fit": (lambda p, s: gcf.fit(CLF, X, Y, np.ones(14)), OF_ROWS),
    "fit a softmax": (lambda p, s: gcf.fit(SOFTMAX, X, Y), OF_ROWS),
    "fit a predictive": (lambda p, s: gcf.fit(PREDICTIVE, X, Y), OF_ROWS),
    "stats": (lambda p, s: gcf.stats(CLF, X, Y), OF_ROWS),
    "estimate": (lambda p, s: gcf.estimate(CLF, s), {"model": 1, "statistics": 1}),
    "em": (lambda p, s: gcf.em(BAYES, X, SOME, key=jax.random.key(0), max_steps=3), OF_ROWS),
    "diagnose": (lambda p, s: gcf.diagnose(CLF, X, Y), {"model": 1, "rows": 1}),
    "validate": (lambda p, s: gcf.validate(CLF, X, Y), {"model": 1, "rows": 1}),
    "predict": (lambda p, s: gcf.predict(p, X), OF_EXAMPLES),
    "log_joint": (lambda p, s: gcf.log_joint(p, jnp.asarray(X)), OF_EXAMPLES),
    "explain": (lambda p, s: gcf.explain(p, X), OF_EXAMPLES),
    "condition": (lambda p, s: gcf.condition(p, X), OF_EXAMPLES),
    "adapt_prior": (lambda p, s: gcf.adapt_prior(p, X, max_steps=3), OF_EXAMPLES),
    "fit_gradient": (lambda p, s: gcf.fit_gradient(CLF, X, Y, max_steps=3), OF_ROWS),
    "certify": (lambda p, s: gcf.certify(CLF, p, X, Y), OF_ROWS | {"params": 1}),
    "predictive": (lambda p, s: gcf.predictive(CLF, s), {"model": 1, "statistics": 1}),
    "cross_validate": (lambda p, s: gcf.cross_validate(CLF, X, Y, FOLDS), OF_ROWS),
    "leave_one_out": (lambda p, s: gcf.leave_one_out(SOFTMAX, X, Y), OF_ROWS),
    "searchlight": (lambda p, s: gcf.searchlight(CLF, X, Y, [[0, 1], [1, 2]], FOLDS), OF_ROWS),
}


def counting(monkeypatch):
    """Count the calls of each check, wherever it was imported to."""
    counts = Counter()
    for name in dir(gcf):  # a module imported later would import what counts
        getattr(gcf, name)
    places = [m for name, m in sys.modules.items() if name.startswith("genclf.")]
    for name, check in CHECKS.items():

        def counted(*args, name=name, check=check, **kwargs):
            counts[name] += 1
            return check(*args, **kwargs)

        for place in places:
            # It calls itself for the parts of a model.
            if vars(place).get(check.__name__) is check and place is not hyperparameters:
                monkeypatch.setattr(place, check.__name__, counted)
    return counts


@pytest.mark.slow("fit_gradient", "certify", "searchlight")
@pytest.mark.parametrize("name", CALLS)
def test_each_argument_is_checked_once(monkeypatch, name):
    params, stats = gcf.fit(CLF, X, Y), gcf.stats(CLF, X, Y)
    # What is known to be valid is not checked again, so that it would hide a second check.
    for known in (model._valid_models, model._valid_params):
        monkeypatch.setattr(known, "get", lambda of: None)
    counts = counting(monkeypatch)
    call, expected = CALLS[name]
    call(params, stats)
    assert counts == expected


def test_a_model_and_params_are_checked_in_the_first_call_alone(monkeypatch):
    clf, params = gcf.lda(2), gcf.fit(CLF, X, Y)
    counts = Counter()

    def fields(*args):
        counts["model"] += 1
        return hyperparameters.invalid_fields(*args)

    monkeypatch.setattr(model, "invalid_fields", fields)
    for _ in range(3):
        gcf.fit(clf, X, Y)
        gcf.predict(params, X)
    assert counts["model"] == 1
    gcf.fit(clf, X[:, :2], Y)  # hyper-parameters may contradict the number of features
    assert counts["model"] == 2
    with jax.enable_x64(True):  # a number may be finite in float64 alone
        gcf.fit(clf, X, Y)
    assert counts["model"] == 3
    with pytest.raises(ValueError, match="num_classes is 0"):
        gcf.fit(gcf.lda(0), X, Y)


def test_an_array_among_the_hyper_parameters_is_checked_at_every_call():
    prior = np.array([0.5, 0.5])
    clf = gcf.Classifier(gcf.Gaussian(), 2, class_prior=prior)
    gcf.fit(clf, X, Y)
    prior[0] = 2
    with pytest.raises(ValueError, match="class_prior"):
        gcf.fit(clf, X, Y)
