"""What fixes the structure of a model is a Python value, whatever was given."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.arguments.hyperparameters import Declared

MODELS = {
    "classifier": lambda n, flag: gcf.Classifier(gcf.Gaussian(shared=flag), n),
    "preset": lambda n, flag: gcf.gaussian_nb(n),
    "softmax": lambda n, flag: gcf.SoftmaxRegression(n),
    "mixture": lambda n, flag: gcf.Mixture(gcf.Gaussian(shared=flag), n),
    "categorical": lambda n, flag: gcf.Categorical(n, missing_code=n),
    "columns": lambda n, flag: gcf.Categorical([n, n]),
    "words": lambda n, flag: gcf.Multinomial(presence=flag, missing_code=n),
    "directions": lambda n, flag: gcf.VonMisesFisher(shared=flag),
    "kernels": lambda n, flag: gcf.KernelDensity(leave_one_out=flag),
    "tokens": lambda n, flag: gcf.Tokens(jnp.zeros((1, 1), jnp.int32), jnp.ones((1, 1), bool), n),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_numbers_of_numpy_and_jax_are_those_of_python(make):
    expected = make(3, True)
    for n, flag in (
        (np.int64(3), np.bool_(True)),
        (np.array(3), np.array(True)),
        (jnp.asarray(3), jnp.asarray(True)),
        (jnp.array([0, 1, 2]).max() + 1, jnp.asarray(1) > 0),
    ):
        found = make(n, flag)
        same = jax.tree.structure(found) == jax.tree.structure(expected)
        assert type(same) is bool and same
        if isinstance(found, Declared):
            assert hash(found) == hash(expected)


def test_a_number_of_classes_of_jax_spoils_no_later_fit():
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 3
    for n in (jnp.asarray(y).max() + 1, 3):
        params = gcf.fit(gcf.gaussian_nb(n), x, y)
        assert gcf.predict(params, x).shape == (6,)


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
def test_a_traced_number_is_refused_by_name():
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 3
    with pytest.raises(ValueError, match=r"num_classes is an array of shape .*, expected >= 1"):
        jax.jit(lambda n: gcf.fit(gcf.gaussian_nb(n), x, y))(3)
