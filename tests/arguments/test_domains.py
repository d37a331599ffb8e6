"""What single arguments may be, and what is said of those that may not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genclf.arguments import domains
from genclf.arguments.domains import number, random_key, whole_number
from tests.registry import BY_NAME

BAD_COUNTS = [2.5, "3", None, True, 0, -2, np.nan, np.ones(2), [1]]
BAD_NUMBERS = ["1", None, np.nan, np.inf, -np.inf, np.ones(2), [1.0], 1j, True, {}]
BAD_KEYS = [None, 0, "0", 1.5, np.zeros(3), np.zeros((2, 2), np.uint32), [0, 1]]
X, Y = BY_NAME["gaussian"].example("float32")


@pytest.mark.parametrize("value", BAD_COUNTS, ids=repr)
def test_whole_numbers(value):
    with pytest.raises(ValueError, match=r"steps is .*, expected >= 1, a whole number"):
        whole_number(value, "steps", 1)


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=repr)
def test_numbers(value):
    with pytest.raises(ValueError, match=r"tol is .*, expected one finite number"):
        number(value, "tol")


# Of each domain of numbers the largest one below it, its ends, and the smallest one above it.
TINY, MOST = np.finfo(float).tiny, np.finfo(float).max
NUMBERS = {
    "PROBABILITY": (0.0, TINY, 1 - 2**-53, 1.0),
    "SHARE": (-TINY, 0.0, 1.0, 1 + 2**-52),
    "OPTIONAL_SHARE": (-TINY, 0.0, 1.0, 1 + 2**-52),
    "NON_NEGATIVE": (-TINY, 0.0, MOST, np.inf),
    "OPTIONAL_NON_NEGATIVE": (-TINY, 0.0, MOST, np.inf),
    "POSITIVE": (0.0, TINY, MOST, np.inf),
    "POSITIVES": (0.0, TINY, MOST, np.inf),
    "FINITE_NUMBER": (-np.inf, -MOST, MOST, np.inf),
    "OPTIONAL_FINITE": (-np.inf, -MOST, MOST, np.inf),
    "FINITES": (-np.inf, -MOST, MOST, np.inf),
    "NON_NEGATIVES": (-TINY, 0.0, MOST, np.inf),
    "SHARES": (-TINY, 0.0, 1.0, 1 + 2**-52),
    "LOGARITHMS": (np.nan, -np.inf, MOST, np.inf),
    "FINITE_OR_NAN": (-np.inf, -MOST, MOST, np.inf),
    "NOT_NEGATIVE_OR_NAN": (-TINY, 0.0, np.inf, -np.inf),
}
ALSO_INSIDE = {
    "LOGARITHMS": [-np.inf],
    "FINITE_OR_NAN": [np.nan],
    "NOT_NEGATIVE_OR_NAN": [np.inf, np.nan],
}


def test_every_domain_of_numbers_has_its_ends():
    every = {name for name, of in vars(domains).items() if getattr(of, "valid", None) is not None}
    assert every == NUMBERS.keys()


@pytest.mark.parametrize("name", NUMBERS)
def test_the_ends_of_a_domain(name, x64):
    domain, (below, least, most, above) = getattr(domains, name), NUMBERS[name]
    inside = ALSO_INSIDE.get(name, [])
    outside = [a for a in (below, above, -np.inf, np.inf, np.nan) if a not in inside]
    assert not any(domain.problem(value, "a") for value in inside)
    assert domain.problem(least, "a") is None and domain.problem(most, "a") is None
    assert all(domain.problem(value, "a") for value in outside)
    traced = jax.jit(domain.nan_where_invalid)
    assert (traced(least), traced(most)) == (least, most)
    assert np.isnan([traced(value) for value in outside]).all()
    both = np.array([least, below])
    assert (domain.problem(both[:1], "a") is None) == domain.plural and domain.problem(both, "a")
    assert (domain.problem(None, "a") is None) == domain.optional == name.startswith("OPTIONAL")


@pytest.mark.parametrize("value", BAD_KEYS, ids=repr)
def test_keys(value):
    with pytest.raises(ValueError, match=r"key is .*, expected a key of jax.random"):
        random_key(value, "key")


def test_what_may_be_given():
    for value in (3, np.int8(3), np.array(3), jnp.array(3)):
        assert whole_number(value, "steps", 3) == 3
    for value in (3, 2.5, np.float32(3), np.array(3)):
        assert number(value, "tol", least=0.0) is value
    found = number(jnp.array(2.5), "tol", least=0.0)
    assert found == 2.5 and type(found) is float
    for key in (jax.random.key(0), jax.random.PRNGKey(0), np.array([0, 1], np.uint32)):
        random_key(key, "key")
    with pytest.raises(ValueError, match="tol is -1, expected >= 0, a finite number"):
        number(-1, "tol", least=0.0)


def test_what_is_traced():
    def traced(value):
        with pytest.raises(
            ValueError, match=r"steps is an array .*, expected >= 1, a whole number"
        ):
            whole_number(value, "steps", 1)
        return number(value, "tol", least=0.0)

    assert jax.jit(traced)(2) == 2
    keys = jax.random.split(jax.random.key(0), 3)
    assert jax.vmap(lambda key: random_key(key, "key"))(keys).shape == (3,)
