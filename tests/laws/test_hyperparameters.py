"""A hyper-parameter outside its domain is an error where it is concrete, and NaN where traced."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.arguments.domains import Domain
from genclf.arguments.hyperparameters import Declared
from tests.registry import DISTINCT, FITTED_WITH_HOLES, FOUR_ROWS, K, N, V

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
    for model in FITTED_WITH_HOLES:
        yield pytest.param(model, model.classifier, id=str(model))
        if model in DISTINCT:
            yield pytest.param(model, model.bayesian, id=f"{model}-bayesian")


def verbs(clf, x, y):
    """Every function that takes a classifier, called with this one."""
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


@pytest.mark.slow("gaussian-shared-holes", "independent-kernel", "product", "product-bayesian")
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


# Params of many fits.


@pytest.mark.parametrize(
    ("clf", "expected"),
    [
        (gcf.lda(0), "num_classes is 0, expected >= 1"),
        (gcf.lda(K, ridge=-0.5), "ridge is -0.5, expected >= 0"),
        (gcf.lda(K, class_alpha=-1.0), "class_alpha is -1.0, expected >= 0"),
        (gcf.lda(K, ridge=float("nan")), "ridge is nan, expected >= 0"),
        (gcf.Classifier(gcf.Gaussian(ddof=-1.0), K), "ddof is -1.0, expected >= 0"),
        (gcf.bernoulli_nb(K, alpha=-1.0), "alpha is -1.0, expected >= 0"),
        (gcf.multinomial_nb(K, alpha=-1.0), "alpha is -1.0, expected >= 0"),
        (gcf.categorical_nb(K, V, alpha=-1.0), "alpha is -1.0, expected >= 0"),
        (gcf.categorical_nb(K, 0), "num_values is 0, expected >= 1"),
        (gcf.Classifier(gcf.Independent(gcf.Bernoulli(alpha=-1.0)), K), "alpha is -1.0"),
        (
            gcf.Classifier(gcf.Product({"a": gcf.Gaussian(ridge=-1.0), "b": gcf.Bernoulli()}), K),
            "a: ridge is -1.0",
        ),
        (
            gcf.Classifier(gcf.Gaussian(), K, class_prior=np.array([0.5, 0.5])),
            r"class_prior has shape \(2,\), expected \(3,\)",
        ),
        (
            gcf.Classifier(gcf.Gaussian(), K, class_prior=np.array([0.5, 0.6, -0.1])),
            r"class_prior\[2\] is -0.1, expected a probability >= 0",
        ),
        (
            gcf.Classifier(gcf.Gaussian(), K, class_prior=np.array([0.5, 0.6, 0.1])),
            r"class_prior .* sums to 1.2, expected 1",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hyper_parameters(clf, expected):
    x = np.zeros((11, 5), np.int32)
    x = {"a": x, "b": x} if isinstance(clf.family, gcf.Product) else x
    for function in (gcf.fit, gcf.validate):
        with pytest.raises(ValueError, match=expected):
            function(clf, x, np.arange(11) % K)


@pytest.mark.slow("clf2-l2")
@pytest.mark.parametrize(
    ("clf", "name"),
    [
        (gcf.lda(2, ridge=1e39), "ridge"),
        (gcf.lda(2, class_alpha=1e39), "class_alpha"),
        (gcf.SoftmaxRegression(2, l2=1e39), "l2"),
        (gcf.qda(2, prior=gcf.NormalInverseWishart(kappa=1e39)), "kappa"),
    ],
)
def test_hyper_parameters_beyond_the_dtype(clf, name):
    with pytest.raises(ValueError, match=rf"{name}.* is 1e\+39, expected"):
        gcf.fit(clf, *FOUR_ROWS)
    x, y = FOUR_ROWS
    with jax.enable_x64(True):
        gcf.fit(clf, x.astype(np.float64), y)


@pytest.mark.parametrize("model, clf", [*classifiers()])
def test_numbers_of_jax_in_compiled_code(model, clf):
    """They are as concrete there as those of Python, although `==` of them would be traced."""
    x, y = model.example("float32")
    on_device = jax.tree.map(lambda a: jnp.float32(a) if isinstance(a, float) else a, clf)
    for verb in (gcf.fit, gcf.diagnose):
        expected, found = (jax.eval_shape(partial(verb, c), x, y) for c in (clf, on_device))
        assert jax.tree.structure(found) == jax.tree.structure(expected)
