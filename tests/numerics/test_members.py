"""Functions that `jax.vmap` computes for a few members at a time."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.numerics import members
from genclf.numerics.members import in_cache
from tests.registry import assert_close


@in_cache
def total(x, y):
    """Of a dict of an array and of integers, with another dtype in the result."""
    return expected(x, y)


def expected(x, y):
    return {"square": (x["a"] ** 2).sum(-1) * y.astype(jnp.float32), "label": y}


@pytest.fixture
def few(monkeypatch):
    """At most five members at once."""
    monkeypatch.setattr(members, "_TOGETHER", 5 * 4)


@pytest.mark.parametrize("size", [1, 4, 5, 6, 11])
@pytest.mark.parametrize("axes", [({"a": 0}, 0), ({"a": None}, 0), ({"a": 0}, None)])
def test_any_number_of_members(few, size, axes):
    rng = np.random.default_rng(size)
    x = {"a": jnp.asarray(rng.normal(size=(size, 3) if axes[0]["a"] == 0 else 3), jnp.float32)}
    y = jnp.arange(size) if axes[1] == 0 else jnp.int32(2)
    assert_close(jax.vmap(total, axes)(x, y), jax.vmap(expected, axes)(x, y), 0)


def test_nested_and_differentiated(few):
    x = {"a": jnp.arange(66.0).reshape(2, 11, 3)}
    y = jnp.arange(22).reshape(2, 11)
    twice = lambda f: jax.vmap(jax.vmap(f))  # noqa: E731
    assert_close(twice(total)(x, y), twice(expected)(x, y), 0)
    slopes = [twice(jax.grad(lambda x, y, f=f: f(x, y)["square"])) for f in (total, expected)]
    assert_close(slopes[0](x, y), slopes[1](x, y), 0)
    of_sum = [lambda x, f=f: twice(f)(x, y)["square"].sum() for f in (total, expected)]
    assert_close(jax.grad(of_sum[0])(x), jax.grad(of_sum[1])(x), 0)
    assert_close(jax.hessian(of_sum[0])(x), jax.hessian(of_sum[1])(x), 0)


@pytest.mark.slow("lda", "qda")
@pytest.mark.parametrize("preset", [gcf.lda, gcf.qda, gcf.gaussian_nb])
def test_fits_do_not_depend_on_how_many_are_computed_at_once(preset, monkeypatch):
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(7, 31, 2)).astype(np.float32))
    y = jnp.asarray(rng.integers(0, 3, (7, 31)))
    fits = lambda: jax.vmap(lambda x, y: gcf.fit(preset(3), x, y))(x, y)  # noqa: E731
    at_once = fits()
    monkeypatch.setattr(members, "_TOGETHER", 3 * 31 * 3)
    jax.clear_caches()
    assert_close(fits(), at_once, 1e-5)


@pytest.mark.parametrize(
    "clf",
    [
        gcf.SoftmaxRegression(3),
        gcf.Classifier(gcf.Mixture(gcf.Gaussian("diag", ridge=0.1), 2), 3),
    ],
    ids=["softmax", "mixture"],
)
def test_at_most_eight_data_sets_wait_for_the_iterations_of_the_slowest(clf):
    x, y = jnp.ones((19, 31, 2), jnp.float32), jnp.zeros((19, 31), int)
    fits = jax.jit(jax.vmap(lambda x, y: gcf.fit(clf, x, y)))
    program = fits.trace(x, y).lower(lowering_platforms=("cpu",)).as_text()
    waits = r"applies stablehlo.or across dimensions = \[0\] : \(tensor<(\d+)xi1>"
    together = set(map(int, re.findall(waits, program)))
    assert together and max(together) <= members.ITERATED
