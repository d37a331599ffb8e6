"""`indicators`: 0/1 features of codes, made in the memory of the result alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.families.counts.categorical_params import indicator_columns

SIZES = (2, 3, 7)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float32])
def test_one_where_the_value_stands(dtype):
    x = np.random.default_rng(0).integers(0, SIZES, (11, 5, 3))
    expected = np.concatenate([np.eye(v)[x[..., j]] for j, v in enumerate(SIZES)], axis=-1)
    np.testing.assert_array_equal(gcf.indicators(x.astype(dtype), SIZES), expected)


def test_a_code_without_a_place_has_no_indicator():
    x = np.array([[-1.0, 3.0, np.nan], [0.5, np.inf, 7.0]])
    np.testing.assert_array_equal(gcf.indicators(x, SIZES), np.zeros((2, 12)))
    np.testing.assert_array_equal(gcf.indicators(np.array([200], np.uint8), 211).argmax(-1), 200)


@pytest.mark.parametrize("x", ["a", None, 1j, ["a", "b"], np.array([[1j]]), 3, {"a": [[1]]}])
def test_x_that_is_no_array_of_codes(x):
    with pytest.raises(ValueError, match=r"^x"):
        gcf.indicators(x, SIZES)


def test_memory_is_that_of_the_result():
    x = jax.ShapeDtypeStruct((10007, 5), jnp.int32)
    used = indicator_columns.trace(x, (31,) * 5).lower().compile().memory_analysis()
    assert used.temp_size_in_bytes < used.output_size_in_bytes / 2
