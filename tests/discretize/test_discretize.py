"""Bins: which side an edge is on, ties stay together, weights are repetitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import genclf.discretize
from genclf.discretize import codes, quantile_edges

# Few distinct values and many ties, and values float32 holds exactly.
VALUES = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=29)


def counts(x, edges, num_bins, weights=None):
    return np.bincount(np.asarray(codes(x, edges)), weights, minlength=num_bins)


@pytest.mark.parametrize(
    ("area", "value"),
    [(0, 1), (399.9, 1), (400, 2), (799, 2), (800, 3), (890, 3), (1200, 4), (1600, 5), (9e9, 5)],
)
def test_house_sizes(area, value):
    assert codes(area, [400, 800, 1200, 1600]) + 1 == value


@pytest.mark.slow
def test_codes_are_int32_of_the_shape_of_x():
    for shape in [(), (7,), (5, 3), (2, 3, 5)]:
        result = codes(jnp.zeros(shape), jnp.arange(3.0))
        assert result.shape == shape and result.dtype == jnp.int32
        assert (result == 1).all()


def test_special_values():
    x = [jnp.nan, -jnp.inf, -0.0, 0.0, 1.0, jnp.inf]
    assert codes(x, [0.0, 1.0]).tolist() == [-1, 0, 1, 1, 2, 2]
    assert codes(x, [-0.0, 1.0]).tolist() == [-1, 0, 1, 1, 2, 2]
    assert codes(x, [-jnp.inf, jnp.inf]).tolist() == [-1, 1, 1, 1, 1, 2]


def test_equal_edges_leave_a_bin_empty():
    assert codes([0.0, 1.0, 2.0], [1.0, 1.0]).tolist() == [0, 2, 2]


def test_no_edges_are_one_bin():
    assert codes([0.0, jnp.nan, 2.0], []).tolist() == [0, -1, 0]


@pytest.mark.slow
@given(x=VALUES, edges=st.lists(st.integers(-5, 5).map(float), max_size=7).map(sorted))
def test_code_is_the_number_of_edges_not_above(x, edges):
    expected = [sum(edge <= value for edge in edges) for value in x]
    assert codes(x, edges).tolist() == expected


def test_jit_and_vmap_agree_with_eager():
    x = jax.random.normal(jax.random.key(0), (11, 5))
    edges = jnp.array([-1.0, 0.0, 0.5])
    expected = codes(x, edges)
    assert len(np.unique(expected)) == 4
    for result in (jax.jit(codes)(x, edges), jax.vmap(codes, (0, None))(x, edges)):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.slow
def test_columns_have_their_own_edges():
    x = jax.random.normal(jax.random.key(1), (2, 11, 5))
    edges = jnp.sort(jax.random.normal(jax.random.key(2), (3, 5)), axis=0)
    expected = np.stack([codes(x[..., i], edges[:, i]) for i in range(5)], axis=-1)
    for result in (codes(x, edges), jax.jit(codes)(x, edges), jax.vmap(codes, (0, None))(x, edges)):
        np.testing.assert_array_equal(result, expected)


def test_types_are_compared_in_the_wider():
    # 400.3 is 400 in bfloat16: edges rounded to the type of x would give code 1.
    edges = jnp.array([400.3], jnp.float32)
    assert codes(jnp.array(400, jnp.bfloat16), edges) == 0
    assert codes(jnp.array(400, jnp.int32), edges) == 0
    assert codes(np.float64(400.0), edges) == 0
    assert codes(jnp.array(400.3, jnp.float32), jnp.array([400], jnp.bfloat16)) == 1
    # 2**40 as an int32 is 0.
    assert codes(np.array(2**40), [1.0, 2.0]) == 2
    assert codes(np.array(True), np.array([False, True])) == 2


def test_traced_edges_poison_only_their_column():
    edges = jnp.array([[0.0, 1.0, jnp.nan], [1.0, 0.0, 1.0]])
    assert jax.jit(codes)(jnp.full(3, 0.5), edges).tolist() == [1, -1, -1]
    assert jax.jit(codes)(0.5, jnp.array([jnp.nan])) == -1


@pytest.mark.parametrize(
    ("x", "edges", "message"),
    [
        (0.0, [1.0, 3.0, 2.0], "must not decrease: row 2 is 2.0"),
        (0.0, [1.0, np.nan], "must not be NaN: row 1 is nan"),
        ([0.0, 0.0], [[1.0, 1.0], [2.0, 0.0]], "row 1, column 1 is 0.0"),
        (0.0, 1.0, r"got \(\)"),
        (0.0, np.zeros((2, 3, 5)), r"got \(2, 3, 5\)"),
        ([0.0, 0.0], np.zeros((2, 3)), r"x must have shape \(\.\.\., 3\), got \(2,\)"),
        (0.0, np.zeros((2, 3)), r"got \(\)"),
    ],
)
def test_codes_rejects(x, edges, message):
    with pytest.raises(ValueError, match=message):
        codes(x, edges)


def test_edges_known_while_tracing_are_checked():
    with pytest.raises(ValueError, match="must not decrease"):
        jax.jit(lambda x: codes(x, np.array([1.0, 0.0])))(0.5)


def test_ties_stay_together():
    x = [0, 0, 0, 0, 0, 1, 1, 1, 2, 3]
    edges = quantile_edges(x, 3)
    assert edges.tolist() == [1.0, 2.0]
    assert counts(x, edges, 3).tolist() == [5, 3, 2]


def test_without_ties_bins_are_equal():
    x = np.random.default_rng(0).permutation(35.0 * np.arange(35))
    assert counts(x, quantile_edges(x, 5), 5).tolist() == [7] * 5
    assert counts(x, quantile_edges(x, 35), 35).tolist() == [1] * 35
    assert counts(x[x < 350], quantile_edges(x[x < 350], 3), 3).tolist() == [3, 4, 3]


def test_the_lower_of_two_equally_near_cuts():
    assert quantile_edges([1, 2, 3], 2).tolist() == [2.0]
    assert quantile_edges([0, 1, 2, 2, 2, 2], 2, [1, 1, 1, 0, 0, 0]).tolist() == [1.0]


@pytest.mark.parametrize(
    ("x", "num_bins", "expected"),
    [
        ([0] * 6 + [1, 2, 3, 4], 4, [6, 1, 1, 2]),
        ([1, 2, 3, 4] + [9] * 6, 4, [2, 1, 1, 6]),
        ([0] + [1] * 9, 2, [1, 9]),
        ([0] * 9 + [1], 2, [9, 1]),
        ([0, 1, 1, 1, 1, 1, 2], 3, [1, 5, 1]),
        ([0, 1] + [5] * 8 + [8, 9], 4, [2, 8, 1, 1]),
    ],
)
def test_heavy_ties_leave_no_bin_empty(x, num_bins, expected):
    assert counts(x, quantile_edges(x, num_bins), num_bins).tolist() == expected


@pytest.mark.slow
@given(x=VALUES, num_bins=st.integers(2, 7))
def test_laws_of_quantile_edges(x, num_bins):
    if len(set(x)) < num_bins:
        with pytest.raises(ValueError, match=f"{len(set(x))} distinct values"):
            quantile_edges(x, num_bins)
        return
    edges = quantile_edges(x, num_bins)
    assert edges.shape == (num_bins - 1,) and edges.dtype == np.float64
    assert (np.diff(edges) > 0).all() and set(edges) <= set(x)
    assert (counts(x, edges, num_bins) > 0).all()


@pytest.mark.slow
@given(data=st.data(), x=VALUES, num_bins=st.integers(2, 3))
def test_weight_is_repetition_and_zero_is_absence(data, x, num_bins):
    weights = data.draw(st.lists(st.integers(0, 3), min_size=len(x), max_size=len(x)))
    repeated = np.repeat(x, weights)
    assume(len(set(repeated)) >= num_bins)
    expected = quantile_edges(repeated, num_bins)
    np.testing.assert_array_equal(quantile_edges(x, num_bins, weights), expected)
    # Only ratios of weights matter; a power of two scales them without rounding.
    halved = np.array(weights) / 2
    np.testing.assert_array_equal(quantile_edges(x, num_bins, halved), expected)


@pytest.mark.slow
@given(x=VALUES, num_bins=st.integers(2, 5))
def test_monotone_maps_move_the_edges(x, num_bins):
    assume(len(set(x)) >= num_bins)
    edges = quantile_edges(x, num_bins)
    cube = lambda a: a * a * a / 8  # noqa: E731  # rounded alike everywhere; powers are not
    np.testing.assert_array_equal(quantile_edges(cube(np.array(x)), num_bins), cube(edges))


def test_columnwise():
    x = np.random.default_rng(3).integers(0, 7, (101, 5)).astype(np.float32)
    weights = np.random.default_rng(4).integers(0, 3, 101)
    edges = quantile_edges(x, 3, weights)
    assert edges.shape == (2, 5) and edges.dtype == np.float32
    for i in range(5):
        np.testing.assert_array_equal(edges[:, i], quantile_edges(x[:, i], 3, weights))
    np.testing.assert_array_equal(edges, quantile_edges(jnp.asarray(x), 3, jnp.asarray(weights)))
    assert set(np.unique(codes(x, edges))) == {0, 1, 2}


def test_learned_edges_cut_float32_data_where_they_cut_float64():
    # An edge is an observed value, so rounding both keeps it on its side.
    x = 1.0 + 1e-7 * np.arange(101)
    edges = quantile_edges(x.astype(np.float32), 5)
    kept = codes(x.astype(np.float32), edges)
    np.testing.assert_array_equal(kept, np.searchsorted(edges, x.astype(np.float32), side="right"))


def test_a_missing_value_of_weight_zero_is_absent():
    assert quantile_edges([0.0, np.nan, 1.0], 2, [1, 0, 1]).tolist() == [1.0]


def test_infinities_are_ordered_values():
    assert quantile_edges([-np.inf, 0.0, np.inf], 3).tolist() == [0.0, np.inf]


@pytest.mark.parametrize(
    ("x", "num_bins", "weights", "message"),
    [
        ([0.0, 1.0, np.nan], 2, None, "x must not be NaN: row 2 is nan"),
        ([[0.0, 1.0], [1.0, np.nan]], 2, None, "x must not be NaN: row 1, column 1"),
        ([0.0, 1.0], 1, None, "num_bins is 1, expected >= 2, a whole number"),
        ([0.0, 1.0], 2, [1.0, -2.0], "finite and not negative: row 1 is -2.0"),
        ([0.0, 1.0], 2, [np.inf, 1.0], "finite and not negative: row 0 is inf"),
        ([0.0, 1.0], 2, [1.0], r"weights must have shape \(2,\), got \(1,\)"),
        ([0.0, 1.0, 1.0], 3, None, "x has 2 distinct values, which cannot fill 3 bins"),
        ([[0.0, 1.0], [1.0, 1.0]], 2, None, "column 1 of x has 1 distinct"),
        ([0.0, 1.0, 2.0], 3, [1, 1, 0], "x has 2 distinct values"),
        ([], 2, None, "x has 0 distinct values"),
        (0.0, 2, None, r"x must have shape \(n,\) or \(n, d\), got \(\)"),
    ],
)
def test_quantile_edges_rejects(x, num_bins, weights, message):
    with pytest.raises(ValueError, match=message):
        quantile_edges(x, num_bins, weights)


def test_public_names():
    assert genclf.discretize.__all__ == ["codes", "quantile_edges"]


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "u2"])
def test_numbers_of_either_byte_order(order, kind):
    x = np.array([1, 5, 3, 2], dtype=order + kind)
    edges = quantile_edges(x, 2)
    assert edges.tolist() == [3]
    assert codes(x, edges).tolist() == [0, 1, 1, 0]
    assert codes(x, edges.astype(np.longdouble)).tolist() == [0, 1, 1, 0]
