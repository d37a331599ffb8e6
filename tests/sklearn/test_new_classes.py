"""Classes that come later, and rows that are forgotten: each as a fit to the rows that remain."""

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from genclf import sklearn as estimators
from tests.sklearn.test_estimators import GENERATIVE, made

X, Y = load_digits(return_X_y=True)
X, Y = X[:, [2, 3, 10, 13, 20, 21, 36]] + 1e-3 * X[:, 1:8], Y
TASKS = [[0, 1], [6, 7], [2, 9], [3, 4], [5, 8]]
CHOICES = {
    "LinearDiscriminant": {"shrinkage": "ledoit-wolf"},
    "QuadraticDiscriminant": {"ridge": 1e-3},
    "CategoricalNB": {"num_values": 18},
}


def one(name):
    return getattr(estimators, name)(**CHOICES.get(name, {}))


def rows(name, at):
    return (np.floor(X) if name in ("CategoricalNB", "MultinomialNB") else X)[at]


def assert_same_fit(found, expected, tolerance=1e-12):
    np.testing.assert_array_equal(found.classes_, expected.classes_)
    for a, b in zip(jax.tree.leaves(found.params_), jax.tree.leaves(expected.params_), strict=True):
        np.testing.assert_array_equal(np.isneginf(a), np.isneginf(b))
        a, b = (np.where(np.isneginf(c), 0, c) for c in (a, b))
        assert np.abs(a - b).max(initial=0) <= tolerance * max(1, np.abs(b).max(initial=0))


NAMES = ["LinearDiscriminant", "QuadraticDiscriminant", "GaussianNB", "BernoulliNB"]
NAMES += ["MultinomialNB", "CategoricalNB", "MixedNB"]


@pytest.mark.parametrize("name", NAMES)
def test_five_tasks_of_two_classes_are_one_fit(name):
    """At every step, whatever the order in which the classes come."""
    streamed, seen = one(name), []
    for task in TASKS:
        seen += task
        at = np.isin(Y, task)
        streamed.partial_fit(rows(name, at), Y[at], classes=seen)
        known = np.isin(Y, seen)
        assert_same_fit(streamed, one(name).fit(rows(name, known), Y[known]))
    again = streamed.partial_fit(rows(name, slice(0, 5)), Y[:5], classes=[*range(11)])
    assert len(again.classes_) == 11 and again.predict_proba(rows(name, [0]))[0, 10] == 0


@pytest.mark.parametrize("name", NAMES)
def test_forgotten_rows_were_never_learned(name):
    weight = 1 + np.arange(len(Y)) % 3
    gone = np.arange(len(Y)) % 7 == 3
    found = one(name).fit(rows(name, slice(None)), Y, weight)
    found.forget(rows(name, gone), Y[gone], weight[gone])
    assert_same_fit(found, one(name).fit(rows(name, ~gone), Y[~gone], weight[~gone]), 1e-11)
    learned_again = found.partial_fit(rows(name, gone), Y[gone], sample_weight=weight[gone])
    assert_same_fit(learned_again, one(name).fit(rows(name, slice(None)), Y, weight), 1e-11)
    with pytest.raises(ValueError, match="never learned with these labels and weights"):
        found.forget(rows(name, gone), Y[gone], 100.0 * weight[gone])
    assert_same_fit(found, learned_again, 0)  # an error changes nothing


def test_a_table_gets_classes_too():
    table = pd.DataFrame({"a": X[:, 0], "b": np.array(["u", "v"])[(X[:, 1] > 8) * 1]})
    y = np.array(["n", "p", "q"])[Y % 3]
    two = y != "q"
    found = estimators.MixedNB().partial_fit(table[two], y[two], classes=["n", "p"])
    found.partial_fit(table[~two], y[~two], classes=["n", "q", "p"])
    assert_same_fit(found, estimators.MixedNB().fit(table, y))
    found.forget(table[~two], y[~two])
    kept = found.predict_proba(table)
    assert (kept[:, list(found.classes_).index("q")] == 0).all()


@pytest.mark.slow("MixtureDiscriminant")
@pytest.mark.parametrize("name", GENERATIVE)
def test_what_cannot_change_says_so(name):
    x, y = np.floor(X[:60] / 6), Y[:60] % 2
    found = made(name).fit(x, y)
    if not hasattr(found, "partial_fit"):
        assert not hasattr(found, "forget")
        return
    with pytest.raises(ValueError, match=r"y has the label 7, .* partial_fit adds classes"):
        found.partial_fit(x, np.where(y == 1, 7, 0))
    with pytest.raises(ValueError, match=r"lacks .*0.*, a class of an earlier call"):
        found.partial_fit(x, np.ones(60, int), classes=[1, 2])
    with pytest.raises(ValueError, match="y has the label 7"):
        found.forget(x, np.full(60, 7))


@pytest.mark.slow(
    "0-LinearDiscriminant",
    "0-QuadraticDiscriminant",
    "100.0-GaussianNB",
    "100.0-LinearDiscriminant",
    "100.0-QuadraticDiscriminant",
)
@pytest.mark.parametrize("name", ["LinearDiscriminant", "QuadraticDiscriminant", "GaussianNB"])
@pytest.mark.parametrize("far", [0, 100.0])
def test_rows_that_were_learned_are_forgotten_one_by_one(name, far):
    """However many are taken out; a class without rows is impossible then, whatever the weights."""
    rng = np.random.default_rng(5)
    for _ in range(10):
        x, y = rng.normal(size=(24, 2)) + far, np.arange(24) % 2
        w = rng.choice([0.1, 0.2, 0.3, 1.0, 2.7], 24)
        found = getattr(estimators, name)(ridge=0.1).fit(x, y, w)
        for i in rng.permutation(np.flatnonzero(y == 0)):
            found.forget(x[[i]], y[[i]], w[[i]])
        assert (found.predict_proba(x)[:, 0] == 0).all()


def test_what_is_left_is_checked():
    x, y = X[:40], Y[:40] % 2
    found = estimators.LinearDiscriminant().fit(x, y)
    with pytest.raises(ValueError, match="no row would be left"):
        found.forget(x, y)
    found.set_params(shrinkage="ledoit-wolf")
    with pytest.raises(ValueError, match="needs fourth moments"):
        found.forget(x[:1], y[:1])
