"""Nothing silent: what is invalid is an error where it is concrete, and NaN where it is traced."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.arguments.domains import Domain
from genclf.arguments.hyperparameters import Declared
from genclf.families.capabilities import HasRoads, is_additive, lacking
from tests.registry import (
    BY_NAME,
    DISTINCT,
    MIXTURES,
    MODELS,
    WITH_HOLES,
    K,
    Model,
    N,
    reals,
    take,
)

KERNELS = [
    Model("kernel", gcf.KernelDensity(0.5), reals),
    Model("independent-kernel", gcf.Independent(gcf.KernelDensity(0.5)), reals),
]
LATENT = [model for model in MIXTURES if model.name in ("mixture-shared", "product-mixture")]
HOLES = [m for m in WITH_HOLES if m.name in ("gaussian-shared-holes", "gaussian-diag-shared-holes")]
EVERY = [*MODELS, *KERNELS, *LATENT]


# Cells that no density can take, or whose score overflows.


def with_cell(x, rows, cells, value):
    """x with a value in some rows: in the first cell or in all; as far as the dtype can hold it."""
    if isinstance(x, dict):
        return {name: with_cell(part, rows, cells, value) for name, part in x.items()}
    if isinstance(x, gcf.Tokens):
        return x
    x = x.astype(np.asarray(value).dtype) if x.dtype.kind == "i" else x.copy()
    x[rows, cells] = value
    return x


@pytest.mark.slow(
    "float32-gaussian-shared-holes",
    "float32-independent-kernel",
    "float32-kernel",
    "float64-gaussian-shared-holes",
    "float64-independent-kernel",
    "float64-kernel",
    "float64-product",
)
@pytest.mark.parametrize("model", [*EVERY, *HOLES], ids=str)
def test_no_class_is_named_exactly_where_the_posterior_is_nan(model, dtype):
    x, y = model.example(dtype)
    params = gcf.fit(model.classifier, x, y)
    largest = np.finfo(dtype).max
    values = [dtype.type(v) for v in (np.inf, -np.inf, np.nan, largest, -largest, largest / 4)]
    for i, value in enumerate(values):
        cell = slice(0, 1) if i % 2 else slice(None)
        x = with_cell(x, slice(2 * i, 2 * i + 1), slice(0, 1), value)
        x = with_cell(x, slice(2 * i + 1, 2 * i + 2), cell, value)
    undecided = np.isnan(np.asarray(gcf.log_posterior(params, x)))
    np.testing.assert_array_equal(undecided.all(-1), undecided.any(-1))
    np.testing.assert_array_equal(np.asarray(gcf.predict(params, x)) == -1, undecided.any(-1))
    # What is no number is scored by no model; NaN may be a missing cell.
    outside = slice(0, 4) if "holes" in model.name else slice(0, 6)
    if not isinstance(x, gcf.Tokens):
        assert undecided[outside].all()
        assert np.isnan(np.asarray(gcf.log_joint(params, x))[outside]).all()
    assert not undecided[2 * len(values) :].any()


# Hyper-parameters outside their domain.

BAD = {"negative": -0.5, "nan": np.nan, "inf": np.inf, "minus inf": -np.inf}


def numbers(node, path=()):
    """The path, and the domain, of every hyper-parameter that is a number."""
    for field in dataclasses.fields(node):
        value, domain = getattr(node, field.name), node.domains.get(field.name)
        here = (*path, field.name)
        if isinstance(domain, Domain) and domain.valid is not None:
            is_number = isinstance(value, int | float | np.ndarray) and not isinstance(value, bool)
            if is_number or field.name in ("kappa", "concentration"):
                yield here, domain
        elif isinstance(value, Declared):
            yield from numbers(value, here)
        elif isinstance(value, dict):
            for key, part in value.items():
                yield from numbers(part, (*here, key))


def with_number(node, path, value):
    name, *rest = path
    if isinstance(node, dict):
        return node | {name: with_number(node[name], rest, value)}
    inner = with_number(getattr(node, name), rest, value) if rest else value
    return dataclasses.replace(node, **{name: inner})


def classifiers():
    for model in [*EVERY, *HOLES]:
        yield pytest.param(model, model.classifier, id=str(model))
        if model in DISTINCT:
            yield pytest.param(model, model.bayesian, id=f"{model}-bayesian")


def verbs(clf, x, y):
    """Every verb that takes a classifier, called with this one."""
    good = gcf.stats(gcf.gaussian_nb(K), np.zeros((N, 1), np.float32), y)
    key = jax.random.key(0)
    return {
        "fit": lambda: gcf.fit(clf, x, y),
        "stats": lambda: gcf.stats(clf, x, y),
        "empty": lambda: gcf.empty(clf, x),
        "estimate": lambda: gcf.estimate(clf, good),
        "em": lambda: gcf.em(clf, x, y, key=key),
        "validate": lambda: gcf.validate(clf, x, y),
        "diagnose": lambda: gcf.diagnose(clf, x, y),
        "certify": lambda: gcf.certify(clf, None, x, y),
        "fit_gradient": lambda: gcf.fit_gradient(clf, x, y),
        "fit_lagrange": lambda: gcf.fit_lagrange(clf, good),
        "standard_errors": lambda: gcf.standard_errors(clf, None, x, y),
        "posterior": lambda: gcf.posterior(clf, good),
        "predictive": lambda: gcf.predictive(clf, good),
        "log_evidence": lambda: gcf.log_evidence(clf, good),
        "fit_prior": lambda: gcf.fit_prior(clf, good),
        "prior": lambda: gcf.bayes.prior(clf, good),
        "learning_curve": lambda: gcf.learning_curve({"a": clf}, x, y, [7], key=key),
        "num_parameters": lambda: gcf.num_parameters(clf, 5),
        "story": lambda: gcf.bayes.story(clf),
    }


@pytest.mark.slow("gaussian-shared-holes", "product-bayesian", "product")
@pytest.mark.parametrize(("model", "clf"), list(classifiers()))
def test_concrete_hyper_parameters_outside_their_domain(model, clf):
    x, y = model.example("float32")
    found = list(numbers(clf))
    assert found
    for path, domain in found:
        outside = [value for value in BAD.values() if domain.problem(value, "it")]
        assert outside
        for value in outside:
            wrong = with_number(clf, path, value)
            for name, call in verbs(wrong, x, y).items():
                with pytest.raises(ValueError, match=f"{path[-1]}.* is .*expected") as error:
                    call()
                assert "invalid literal" not in str(error.value), (name, path)


def is_read(clf, path):
    """Whether no prior stands beside the number, in place of it."""
    beside = getattr(_at(clf, path[:-1]), "class_prior" if "class" in path[-1] else "prior", None)
    return "prior" in path or beside is None


@pytest.mark.slow("gaussian-shared-holes", "independent-kernel", "product")
@pytest.mark.parametrize(("model", "clf"), list(classifiers()))
def test_traced_hyper_parameters_outside_their_domain(model, clf):
    x, y = model.example("float32")
    found = [(path, domain) for path, domain in numbers(clf) if is_read(clf, path)]
    right = [np.asarray(_at(clf, path), np.float32) for path, _ in found]

    @jax.jit
    def posterior(values):
        given = clf
        for (path, _), value in zip(found, values, strict=True):
            given = with_number(given, path, value)
        return gcf.log_posterior(gcf.fit(given, x, y), x)

    assert np.isfinite(posterior(right)).all()
    for place, (path, domain) in enumerate(found):
        bad = [value for value in BAD.values() if domain.problem(value, "it")]
        assert bad, path
        for value in bad:
            values = list(right)
            values[place] = np.full_like(right[place], value)
            spoiled = np.isnan(np.asarray(posterior(values))).any(-1)
            assert spoiled.mean() > 0.9, (path, value)  # an empty document has nothing to score


def _at(node, path):
    for name in path:
        node = node[name] if isinstance(node, dict) else getattr(node, name)
    return node


# Statistics of another model.

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


# Params of many fits.


@pytest.mark.slow("independent-kernel", "product")
@pytest.mark.parametrize("model", EVERY, ids=str)
def test_params_of_many_fits_take_vmap(model):
    x, y = model.example("float32")
    one = gcf.fit(model.classifier, x, y)
    many = jax.tree.map(lambda a: jnp.stack([a, a]), one)
    for verb in (gcf.predict, gcf.log_joint, gcf.log_posterior, gcf.log_marginal, gcf.discriminant):
        with pytest.raises(ValueError, match=r"batch axes of shape \(2,\).*jax\.vmap"):
            verb(many, x)
    with pytest.raises(ValueError, match=r"jax\.vmap"):
        gcf.sample(jax.random.key(0), many)
    found = jax.vmap(gcf.predict, (0, None))(many, take(x, slice(5)))
    np.testing.assert_array_equal(found[1], gcf.predict(one, take(x, slice(5))))


@pytest.mark.parametrize("name", ["y", "weights"])
@pytest.mark.parametrize("verb", [gcf.fit, gcf.stats, gcf.diagnose, gcf.em])
def test_labels_and_weights_are_one_array(name, verb):
    given = {"x": np.ones((4, 2)), "y": np.array([0, 1, 0, 1]), "weights": np.ones(4)}
    given[name] = {"a": given[name]}
    with pytest.raises(ValueError, match=f"{name} is a dict, expected an array of numbers"):
        verb(gcf.gaussian_nb(2), **given)


BAYESIAN = {
    "multinomial": gcf.multinomial_nb(2),
    "bernoulli": gcf.bernoulli_nb(2),
    "categorical": gcf.categorical_nb(2, 5),
    "poisson": gcf.Classifier(gcf.Poisson(prior=gcf.Gamma(1.5, 0.5)), 2),
    "gaussian": gcf.gaussian_nb(2, prior=gcf.NormalInverseWishart()),
}


@pytest.mark.parametrize("name", BAYESIAN)
def test_the_evidence_of_invalid_rows_is_nan(name):
    x, y = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]]), np.array([0, 1, 0, 1])
    evidence = jax.jit(gcf.log_evidence)
    assert np.isfinite(evidence(BAYESIAN[name], x, y, np.ones(4)))
    for labels, weights in ((y, np.array([1.0, -1, 1, 1])), (y + 1, np.ones(4))):
        assert np.isnan(evidence(BAYESIAN[name], x, labels, weights))
