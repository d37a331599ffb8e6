"""Statistics of another model, and those and params of many data sets, are refused."""

import re
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.families.capabilities import HasRoads, is_additive, lacking
from tests.registry import BY_NAME, DISTINCT, FITTED, WITH_HOLES, D, K, take

ADDITIVE = [model for model in [*DISTINCT, *WITH_HOLES] if is_additive(model.family)]


@pytest.fixture(scope="module")
def fitted():
    found = {}
    for model in ADDITIVE:
        x, y = model.example("float32")
        s = gcf.stats(model.classifier, x, y)
        found[model.name] = model.bayesian, s, gcf.estimate(model.classifier, s)
    return found


@pytest.mark.slow
def test_statistics_of_another_model_are_refused(fitted):
    pairs = 0
    others = {other.statistic: (name, other) for name, (_, other, _) in fitted.items()}
    for a, (clf, own, params) in fitted.items():
        for b, other in others.values():
            if own.statistic == other.statistic:
                gcf.merge(own, other)
                continue
            pairs += 1
            calls = [
                lambda params=params, other=other: gcf.log_lik(params, other),
                lambda own=own, other=other: gcf.merge(own, other),
                lambda own=own, other=other: gcf.remove(own, other),
            ]
            if own.statistic.replace("5", "1") != other.statistic.replace("5", "1"):
                # A model does not know its number of features; its params do.
                calls += [
                    lambda clf=clf, other=other: gcf.estimate(clf, other),
                    lambda clf=clf, other=other: gcf.posterior(clf, other),
                    lambda clf=clf, other=other: gcf.fit_lagrange(clf, other),
                ][: 3 if lacking(clf.family, HasRoads) is None else 1]
            apart = own.statistic.replace("pooled ", "")
            if apart != own.statistic and apart.replace("5", "1") == other.statistic.replace(
                "5", "1"
            ):
                # The multipliers of a shared covariance come from the scatters of each class.
                calls = calls[:-1]
            for call in calls:
                with pytest.raises(ValueError, match=r"stat|Categorical|estimates"):
                    call()
                    pytest.fail(f"{a} took statistics of {b}")
    assert pairs > 100


def test_statistics_of_other_classes_or_features_are_refused():
    x, y = BY_NAME["gaussian"].example("float32")
    clf = gcf.gaussian_nb(K)
    params, narrow = gcf.fit(clf, x, y), gcf.stats(clf, x[:, :1], y)
    one = gcf.stats(gcf.gaussian_nb(1), x, np.zeros_like(y))
    for other in (narrow, one):
        with pytest.raises(ValueError, match="stats"):
            gcf.log_lik(params, other)
    columns = gcf.stats(gcf.categorical_nb(2, (2, 4)), np.zeros((2, 2), np.int32), [0, 1])
    with pytest.raises(ValueError, match=re.escape("(2, 4)")):
        gcf.estimate(gcf.categorical_nb(2, (4, 2)), columns)
    codes = gcf.stats(gcf.categorical_nb(2, 4), np.zeros((2, 2), np.int32), [0, 1])
    with pytest.raises(ValueError, match="num_values = 3"):
        gcf.estimate(gcf.categorical_nb(2, 3), codes)


def test_columns_of_different_numbers():
    clf = gcf.Classifier(gcf.Independent(gcf.Gaussian()), K)
    found = gcf.stats(clf, np.ones((11, D), np.float32), np.arange(11) % K)
    torn = eqx.tree_at(lambda s: s.conditional.mean, found, found.conditional.mean[1:])
    with pytest.raises(ValueError, match=r"one leading column axis, .* sizes \[\(4,\), \(5,\)\]"):
        gcf.estimate(clf, torn)


def test_statistics_of_another_model():
    x, y = np.ones((11, D), np.float32), np.arange(11) % K
    full, diag = gcf.stats(gcf.qda(K), x, y), gcf.stats(gcf.gaussian_nb(K), x, y)
    words = gcf.stats(gcf.multinomial_nb(K), x, y)
    narrow = gcf.stats(gcf.qda(K), x[:, :2], y)
    two = gcf.stats(gcf.qda(2), x, y % 2)
    for other in (diag, words, narrow, two):
        for function in (gcf.merge, gcf.remove):
            with pytest.raises(ValueError, match="statistics of different models"):
                function(full, other)
    with pytest.raises(ValueError, match=r"stats.count has shape \(2,\), expected \(3,\)"):
        gcf.estimate(gcf.qda(K), two)
    batched = jax.tree.map(lambda leaf: leaf[None], full)
    with pytest.raises(ValueError, match="pool"):
        gcf.estimate(gcf.qda(K), batched)
    for clf, s in ((gcf.qda(K), diag), (gcf.gaussian_nb(K), full)):
        with pytest.raises(ValueError, match="estimates from"):
            gcf.estimate(clf, s)


@pytest.mark.usefixtures("x64")
def test_statistics_without_a_description_have_the_right_shapes():
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    s, *others = (
        jax.eval_shape(gcf.stats, clf, rows, y)
        for clf, rows in ((gcf.lda(2), x), (gcf.qda(2), x), (gcf.lda(2), x[:, :1]))
    )
    for other in others:
        with pytest.raises(ValueError, match="statistics of different models"):
            jax.eval_shape(gcf.merge, replace(s, statistic=None), other)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("many", [list, tuple])
def test_a_list_of_statistics_is_no_batch(many):
    count = jnp.ones(2)
    one = gcf.ClassifierStats(gcf.Sums(count, count), gcf.Sums(count, jnp.ones((2, 3))))
    given = many([one, one])
    message = r"is a (list|tuple) of 2 statistics, expected one of them: functools.reduce"
    for function in (gcf.pool, partial(gcf.scale, weight=2), partial(gcf.merge, one)):
        with pytest.raises(ValueError, match=message):
            function(given)
    with pytest.raises(ValueError, match="without a batch axis to pool over"):
        gcf.pool({"a": one, "b": one})


@pytest.mark.usefixtures("x64")
def test_statistics_of_shared_and_of_own_covariances_are_told_apart():
    full, lda = gcf.qda(K), gcf.lda(K)
    pooled, apart = (gcf.stats(clf, np.ones((7, D)), np.ones((7, K))) for clf in (lda, full))
    own, shared = gcf.estimate(full, apart), gcf.estimate(lda, pooled)
    diag = gcf.Classifier(gcf.Gaussian("diag", shared=True), K)
    for call in (
        lambda: gcf.estimate(lda, apart),
        lambda: gcf.estimate(full, pooled),
        lambda: gcf.log_lik(own, pooled),
        lambda: gcf.log_lik(shared, apart),
        lambda: gcf.merge(pooled, apart),
        lambda: gcf.pool_classes(lda, pooled),
        lambda: gcf.pool_classes(diag, apart),
        lambda: gcf.fit_lagrange(full, pooled),
    ):
        with pytest.raises(ValueError, match=r"pooled|whole|diagonal"):
            call()
    with pytest.raises(ValueError, match="use pool_classes"):
        gcf.estimate(lda, apart)


@pytest.mark.slow("independent-kernel", "product")
@pytest.mark.parametrize("model", FITTED, ids=str)
def test_params_of_many_fits_take_vmap(model):
    x, y = model.example("float32")
    one = gcf.fit(model.classifier, x, y)
    many = jax.tree.map(lambda a: jnp.stack([a, a]), one)
    for function in (
        gcf.predict,
        gcf.log_joint,
        gcf.log_posterior,
        gcf.log_marginal,
        gcf.discriminant,
    ):
        with pytest.raises(ValueError, match=r"batch axes of shape \(2,\).*jax\.vmap"):
            function(many, x)
    with pytest.raises(ValueError, match=r"jax\.vmap"):
        gcf.sample(jax.random.key(0), many)
    found = jax.vmap(gcf.predict, (0, None))(many, take(x, slice(5)))
    np.testing.assert_array_equal(found[1], gcf.predict(one, take(x, slice(5))))
