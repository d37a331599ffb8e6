"""What single arguments may be, and what is said of those that may not."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import genclf as gcf
from genclf.arguments import number, random_key, whole_number
from tests.registry import BY_NAME, K

BAD_COUNTS = [2.5, "3", None, True, 0, -2, np.nan, np.ones(2), [1]]
BAD_NUMBERS = ["1", None, np.nan, np.ones(2), [1.0], 1j, True, {}]
BAD_KEYS = [None, 0, "0", 1.5, np.zeros(3), np.zeros((2, 2), np.uint32), [0, 1]]
X, Y = BY_NAME["gaussian"].example("float32")


def unchecked(verb):
    """The verb as users have it: the tests check types on the signatures first."""
    return inspect.unwrap(verb)


@pytest.mark.parametrize("value", BAD_COUNTS, ids=repr)
def test_whole_numbers(value):
    with pytest.raises(ValueError, match=r"steps is .*, expected a whole number >= 1"):
        whole_number(value, "steps", 1)


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=repr)
def test_numbers(value):
    with pytest.raises(ValueError, match=r"tol (is|has shape) .*, expected one number"):
        number(value, "tol")


@pytest.mark.parametrize("value", BAD_KEYS, ids=repr)
def test_keys(value):
    with pytest.raises(ValueError, match=r"key is .*, expected a key, as jax.random.key"):
        random_key(value, "key")


def test_what_may_be_given():
    for value in (3, np.int8(3), np.array(3), jnp.array(3)):
        assert whole_number(value, "steps", 3) == 3
    for value in (3, 2.5, np.float32(3), np.array(3), jnp.array(2.5)):
        assert number(value, "tol", least=2.0) is value
    for key in (jax.random.key(0), jax.random.PRNGKey(0), np.array([0, 1], np.uint32)):
        random_key(key, "key")
    with pytest.raises(ValueError, match="tol is 1, expected one number >= 2"):
        number(1, "tol", least=2.0)


def test_what_is_traced():
    def traced(value):
        with pytest.raises(ValueError, match="steps is traced, expected a whole number >= 1"):
            whole_number(value, "steps", 1)
        return number(value, "tol", least=0.0)

    assert jax.jit(traced)(2) == 2
    keys = jax.random.split(jax.random.key(0), 3)
    assert jax.vmap(lambda key: random_key(key, "key"))(keys).shape == (3,)


EM = [
    *(("max_steps", value) for value in BAD_COUNTS),
    *(("restarts", value) for value in BAD_COUNTS),
    *(("tol", value) for value in BAD_NUMBERS),
    *(("unlabelled_weight", value) for value in [*BAD_NUMBERS, -1.0, -1]),
    *(("key", value) for value in BAD_KEYS),
    *(("init", value) for value in ("kmeans", None, 3, np.ones(3), {"mean": 1.0})),
]


@pytest.mark.parametrize(("name", "value"), EM, ids=repr)
def test_em_names_the_argument(name, value):
    given = {"key": jax.random.key(0)} | {name: value}
    with pytest.raises(ValueError, match=rf"^{name} "):
        unchecked(gcf.em)(gcf.qda(K), X, Y, **given)


ADAPT = [
    *(("max_steps", value) for value in BAD_COUNTS),
    *(("tol", value) for value in [*BAD_NUMBERS, -1.0]),
]


@pytest.mark.parametrize(("name", "value"), ADAPT, ids=repr)
def test_adapt_prior_names_the_argument(name, value):
    params = gcf.fit(gcf.lda(K), X, Y)
    with pytest.raises(ValueError, match=rf"^{name} "):
        unchecked(gcf.adapt_prior)(params, X, **{name: value})


KEY = jax.random.key(0)
ASCENT = [
    *(("max_steps", {"max_steps": value}) for value in BAD_COUNTS if not isinstance(value, int)),
    *(("tol", {"tol": value}) for value in [*BAD_NUMBERS, -1.0] if value is not None),
    *(("key", {"key": value, "batch_size": 7}) for value in BAD_KEYS if value is not None),
    *(
        ("batch_size", {"key": KEY, "batch_size": value})
        for value in BAD_COUNTS
        if value is not None
    ),
    *(("optimizer", {"optimizer": value}) for value in ("adam", 0.1, optax.adam)),
]


@pytest.mark.parametrize(("name", "given"), ASCENT, ids=repr)
def test_fit_gradient_names_the_argument(name, given):
    with pytest.raises(ValueError, match=rf"^{name} "):
        unchecked(gcf.fit_gradient)(gcf.lda(K), X, Y, **given)


def peak(t):
    return -(t**2).sum()


START = np.zeros(3, np.float32)
CONSTRAINED = [
    ("objective", {"objective": 3.0}),
    ("objective", {"objective": None}),
    ("objective", {"objective": lambda t: t}),
    ("constraints", {"constraints": 1.0}),
    *(("init", {"init": value}) for value in (None, "0", {}, ["a"], np.arange(3), 1j)),
    *(("lower", {"lower": value}) for value in ({"a": -1.0}, "0", np.full(2, -1.0), [-1.0])),
    *(("upper", {"upper": value}) for value in ((1.0, 2.0), np.ones((3, 1)))),
    *(("block_size", {"block_size": value}) for value in BAD_COUNTS if value is not None),
    *(("max_steps", {"max_steps": value}) for value in BAD_COUNTS),
    *(("tol", {"tol": value}) for value in [*BAD_NUMBERS, -1.0] if value is not None),
]


@pytest.mark.parametrize(("name", "given"), CONSTRAINED, ids=repr)
def test_solve_constrained_names_the_argument(name, given):
    given = {"objective": peak, "constraints": None, "init": START} | given
    with pytest.raises(ValueError, match=rf"^{name} "):
        unchecked(gcf.solve_constrained)(**given)
