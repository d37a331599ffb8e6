"""Choices of hyper-parameters beside cross-validations of each candidate, one after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import genclf as gcf
from tests.registry import BY_NAME, K

F = 5


def data(n=61, counts=False):
    model = BY_NAME["multinomial" if counts else "gaussian"]
    x, y = model.example("float64", n=n)
    return x, y, gcf.kfold(jax.random.key(0), y, F)


def gaussian(covariance, ridge):
    return gcf.Classifier(gcf.Gaussian(covariance, ridge=ridge), K)


GRID = {"covariance": ["diag", "full"], "ridge": [2.0, 0.3, 0.01]}


def one_by_one(clf_of, candidates, x, y, folds, metric, weights=None):
    found = []
    for values in candidates:
        cv = gcf.cross_validate(clf_of(**values), x, y, folds, weights)
        whole = gcf.score(cv, y, metric, weights=weights)
        each = gcf.score(cv, y, metric, weights=weights, by=folds)
        found.append([whole, np.std(each, ddof=1) / np.sqrt(F)])
    return np.array(found).T


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["log_loss", "balanced_accuracy"])
def test_each_candidate_is_cross_validated(metric, x64):
    x, y, folds = data()
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    found = gcf.tune(gaussian, GRID, x, y, folds, metric, weights=weights, batch_size=1)
    rows = zip(*(found.table[name] for name in GRID), strict=True)
    candidates = [dict(zip(GRID, row, strict=True)) for row in rows]
    assert len(candidates) == 6
    score, error = one_by_one(gaussian, candidates, x, y, folds, metric, weights)
    np.testing.assert_allclose(found.table["score"], score, rtol=1e-9)
    np.testing.assert_allclose(found.table["standard_error"], error, rtol=1e-6)
    sign = -1 if metric == "log_loss" else 1
    best = (sign * score).argmax()
    assert gaussian(**candidates[best]) == found.best
    simplest = np.flatnonzero(sign * score >= sign * score[best] - error[best])[0]
    assert gaussian(**candidates[simplest]) == found.one_se


MODELS = {
    "covariances": (gaussian, GRID),
    "row-space": (lambda s: gcf.lda(K, shrinkage=s), {"s": [0.9, 0.5, 0.1]}),
    "softmax": (lambda l2: gcf.SoftmaxRegression(K, l2=l2), {"l2": [10.0, 0.1]}),
}


@pytest.mark.slow("row-space", "softmax")
@pytest.mark.parametrize("name", MODELS)
def test_nested_choices_are_choices_among_the_other_folds(name, x64):
    x, y, folds = data(31)
    if name == "row-space":
        x = np.random.default_rng(0).normal(size=(31, 43)) + y[:, None]
    clf_of, grid = MODELS[name]
    found = gcf.tune(clf_of, grid, x, y, folds, nested=True)
    for fold in range(F):
        rest = folds != fold
        inner = np.unique(folds[rest], return_inverse=True)[1]
        alone = gcf.tune(clf_of, grid, x[rest], y[rest], inner)
        sign = found.table["score"]
        assert np.argmin(alone.table["score"]) == found.chosen[fold], sign
        expected = gcf.log_posterior(gcf.fit(alone.best, x[rest], y[rest]), x[~rest])
        atol = 1e-5 if name == "softmax" else 1e-8
        np.testing.assert_allclose(found.nested.log_posterior[~rest], expected, atol=atol)


@pytest.mark.slow
def test_rows_without_fold_or_label(x64):
    x, y, folds = data()
    folds[[0, 7]], folds[[3, 11]], y = -1, -2, y.copy()
    y[[20, 21]] = -1
    found = gcf.tune(gaussian, GRID, x, y, folds)
    cv = gcf.cross_validate(found.best, x, y, folds)
    np.testing.assert_allclose(found.table["score"].min(), gcf.score(cv, y, "log_loss"), rtol=1e-9)


@pytest.mark.slow
def test_a_list_of_candidates(x64):
    x, y, folds = data(counts=True)
    make = lambda alpha, presence: gcf.Classifier(  # noqa: E731
        gcf.Multinomial(alpha=alpha, presence=presence), K
    )
    grid = [{"alpha": a, "presence": p} for a, p in [(1.0, True), (0.5, True), (1.0, False)]]
    found = gcf.tune(make, grid, x, y, folds)
    score, _ = one_by_one(make, grid, x, y, folds, "log_loss")
    np.testing.assert_allclose(found.table["score"], score, rtol=1e-9)
    assert found.table["presence"] == [True, True, False]


def test_a_candidate_without_a_score_is_not_chosen(x64):
    x, y, folds = data()
    y = np.where(y == 2, 1, y)
    y[4] = 2  # no fold without this row has the class, and with ddof=1 no divisor
    make = lambda ddof: gcf.Classifier(gcf.Gaussian("diag", ddof=ddof), K)  # noqa: E731
    found = gcf.tune(make, {"ddof": [1.0, 0.0]}, x, y, folds, "accuracy")
    assert np.isnan(found.table["score"][0]) and found.best.family.ddof == 0
    assert found.nested is None and found.chosen is None
    with pytest.raises(ValueError, match="no candidate of grid has a score"):
        gcf.tune(make, {"ddof": [1.0]}, x, y, folds)


@pytest.mark.slow
def test_gradients_of_the_cross_validated_loss(x64):
    x, y, folds = data()
    counts, _, _ = data(counts=True)

    def loss(h):
        clfs = [
            (gcf.lda(K, shrinkage=h["shrinkage"]), x),
            (gcf.qda(K, ridge=h["ridge"]), x),
            (gcf.multinomial_nb(K, alpha=h["alpha"]), counts),
            (gcf.Classifier(gcf.Gaussian("diag"), K, class_prior=jax.nn.softmax(h["prior"])), x),
        ]
        found = [gcf.cross_validate(clf, rows, y, folds).log_posterior for clf, rows in clfs]
        found.append(jax.nn.log_softmax(h["temperature"] * found[0]))
        return sum(gcf.score(each, y, "log_loss") for each in found)

    h = {"shrinkage": 0.2, "ridge": 0.5, "alpha": 1.5, "temperature": 0.8}
    h = {name: jnp.asarray(value) for name, value in h.items()} | {
        "prior": jnp.array([0.1, 0, 0.3])
    }
    slope = jax.grad(loss)(h)
    evaluate = jax.jit(loss)
    for name, value in h.items():
        step = 1e-5 * jnp.arange(1.0, value.size + 1).reshape(value.shape)
        change = evaluate(h | {name: value + step}) - evaluate(h | {name: value - step})
        np.testing.assert_allclose((slope[name] * step).sum(), change / 2, rtol=1e-5, atol=1e-13)


@pytest.mark.slow
def test_driven_by_optax(x64):
    x, y, folds = data()
    loss = lambda t: gcf.score(  # noqa: E731
        gcf.cross_validate(gcf.qda(K, ridge=jnp.exp(t)), x, y, folds), y, "log_loss"
    )
    solver, t = optax.adam(0.1), jnp.array(-3.0)
    state, evaluate = solver.init(t), jax.jit(jax.value_and_grad(loss))
    for _ in range(300):
        _, slope = evaluate(t)
        with jax.numpy_dtype_promotion("standard"):
            step, state = solver.update(slope, state, t)
        t = optax.apply_updates(t, step)
    grid = {"ridge": np.geomspace(1e-3, 10, 41)}
    best = gcf.tune(lambda ridge: gcf.qda(K, ridge=ridge), grid, x, y, folds)
    assert loss(t) <= best.table["score"].min() + 1e-9
    assert abs(jax.grad(loss)(t)) < 1e-4


@pytest.mark.slow
def test_values_may_be_arrays_or_none(x64):
    x, y, folds = data()
    grid = {"class_prior": [None, np.array([0.2, 0.3, 0.5])]}
    make = lambda class_prior: gcf.Classifier(gcf.Gaussian(), K, class_prior=class_prior)  # noqa: E731
    found = gcf.tune(make, grid, x, y, folds)
    for prior, score in zip(grid["class_prior"], found.table["score"], strict=True):
        cv = gcf.cross_validate(make(prior), x, y, folds)
        np.testing.assert_allclose(score, gcf.score(cv, y, "log_loss"), rtol=1e-9)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"ridge": [1.0, -1.0]}, r"candidate 1 of grid, {'ridge': -1.0}: ridge is -1"),
        ({"rigde": [1.0]}, "candidate 0 of grid, .*unexpected keyword argument 'rigde'"),
        ({"ridge": 1.0}, r"grid\['ridge'\] is 1.0, expected a sequence"),
        ({}, "candidate 0 of grid"),
        ([], "grid is .*expected the values"),
        ([{"ridge": 1.0}, {"alpha": 1.0}], "expected the values of each hyper-parameter"),
    ],
    ids=["value", "name", "number", "empty", "none", "mixed"],
)
def test_grids_that_cannot_be(grid, message):
    x, y, folds = data()
    with pytest.raises(ValueError, match=message):
        gcf.tune(lambda ridge: gcf.lda(K, ridge=ridge), grid, x, y, folds)
