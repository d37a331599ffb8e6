"""A call that leaves out an argument, or gives one too many, is told what to do instead."""

import inspect
from inspect import signature

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf import bayes, datasets, discretize, distributed, plot, stream, text
from tests.registry import assert_same

HOMES = (gcf, bayes, datasets, discretize, plot, stream, text)


def public_functions():
    for home in HOMES:
        for name in sorted(getattr(home, "__all__", vars(home))):
            function = getattr(home, name)
            if inspect.isfunction(function) and signature(function).parameters:
                yield pytest.param(function, id=f"{home.__name__}.{name}")
    yield pytest.param(distributed.fit, id="genclf.distributed.fit")


FUNCTIONS = list(public_functions())


def takes(function):
    """The arguments by position, those by name alone, and which of both have no default."""
    parameters = signature(function).parameters
    by_name = [n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    required = [n for n, p in parameters.items() if p.default is p.empty]
    return [n for n in parameters if n not in by_name], by_name, required


def told(function, *args, **kwargs):
    """The message of the error that a call raises, which begins with the function's name."""
    with pytest.raises(TypeError) as raised:
        function(*args, **kwargs)
    message = str(raised.value)
    assert message.startswith(f"{function.__name__} "), message
    assert "positional argument" not in message, message
    return message


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_missing_argument_is_named_beside_the_right_call(function):
    *_, required = takes(function)
    for left_out in required:
        given = {name: None for name in required if name != left_out}
        message = told(function, **given)
        assert f"needs {left_out}" in message
        call = message[message.rindex(f"{function.__name__}(") :]
        assert all(name in call for name in required)


OF_EITHER = (  # of rows too
    gcf.fit_lagrange,
    gcf.posterior,
    gcf.predictive,
    gcf.log_evidence,
    gcf.fit_prior,
    gcf.bayes.prior,
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_argument_too_many_is_counted_and_the_right_call_shown(function):
    places, by_name, _ = takes(function)
    message = told(function, *[None] * (5 if function in OF_EITHER else len(places) + 1))
    assert f"takes {len(places)} argument" in message
    assert f"{function.__name__}({', '.join(places)})" in message
    assert all(name in message for name in by_name)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_unknown_or_repeated_name_is_named(function):
    places, by_name, required = takes(function)
    given = dict.fromkeys(required)
    for name in [*places, *by_name]:
        message = told(function, **given, **{f"{name}_": None})
        assert f"no argument {name}_" in message and f"did you mean {name}?" in message
    if places:
        assert f"{places[0]} twice" in told(function, None, **{places[0]: None})


X, Y = jnp.array([[0.0], [2.0], [4.0], [7.0]]), jnp.array([0, 0, 1, 1])
CLF = gcf.lda(2)


def of_statistics():
    """Public functions of the statistics of a model."""
    for case in FUNCTIONS:
        places, *_ = takes(case.values[0])
        if "stats" in places and case.values[0] not in (gcf.scale, gcf.pool, *OF_EITHER):
            yield case


@pytest.mark.parametrize("function", list(of_statistics()))
def test_rows_given_for_statistics_are_told_how_to_become_them(function):
    places, *_ = takes(function)
    before = [None] * places.index("stats")
    after = [None] * (len(places) - len(before) - 1)
    for message in (
        told(function, *before, X, Y, *after),
        told(function, *before, x=X, y=Y),
        told(function, *before, np.asarray(X), y=Y),
    ):
        assert "takes statistics, not rows" in message
        assert "stats = genclf.stats(clf, x, y)" in message


def test_messages():
    x, y = X, Y
    assert told(gcf.fit, CLF, x) == (
        "fit needs y (their labels, whole numbers from 0 on): fit(clf, x, y)"
    )
    assert told(gcf.estimate, CLF, x, y) == (
        "estimate takes statistics, not rows: estimate(clf, stats), with "
        "stats = genclf.stats(clf, x, y)"
    )
    assert told(gcf.fit, CLF, x, y, weight=None) == (
        "fit has no argument weight; did you mean weights? It takes clf, x, y, weights, init"
    )
    assert told(gcf.merge, x, y, y) == (
        "merge takes 2 arguments by position, merge(a, b), but 3 were given"
    )
    assert told(gcf.lda, 2, 0.1) == (
        "lda takes 1 argument by position, lda(num_classes), but 2 were given; by name it takes "
        "ridge, shrinkage, class_alpha, prior, inference, missing"
    )
    assert told(gcf.learning_curve, {}, x, y, [2]) == (
        "learning_curve needs key (a key of jax.random, such as jax.random.key(0)): "
        "learning_curve(models, x, y, sizes, key=key)"
    )
    with pytest.raises(ValueError, match=r"stats is an array .*genclf.stats\(clf, x, y\) returns"):
        gcf.fit_lagrange(CLF, x)


def test_em_draws_nothing_if_it_is_told_where_to_start():
    unlabelled = jnp.array([0, -1, -1, 1])
    start = gcf.fit(CLF, X, Y)
    keyless = gcf.em(CLF, X, unlabelled, init=start)
    assert_same(keyless, gcf.em(CLF, X, unlabelled, init=start, key=jax.random.key(7)))


def test_verbs_are_functions_and_say_so():
    clf, x, y = gcf.lda(2), np.array([[0.0], [1.0], [5.0], [7.0]]), np.array([0, 0, 1, 1])
    params = gcf.fit(clf, x, y)
    with pytest.raises(AttributeError, match=r"no attribute 'fit'.*genclf\.fit\(clf"):
        clf.fit(x, y)
    with pytest.raises(AttributeError, match=r"no attribute 'predict'.*genclf\.predict\(params"):
        params.predict(x)
    with pytest.raises(ValueError, match=r"the arguments are predict\(params, x\)"):
        gcf.predict(x, params)
    with pytest.raises(ValueError, match=r"Classifier\(family, num_classes\)"):
        gcf.fit(gcf.Gaussian(), x, y)
