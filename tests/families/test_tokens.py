"""Tokens: what may be given for ids, lengths and the size of the vocabulary, and what is said."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_matrix

import genclf as gcf

IDS, LENGTHS, V = np.array([[2, 0, 4], [1, 3, 99]]), np.array([3, 2]), 5


@pytest.mark.parametrize("vocab_size", [0, -1, 2.5, "3", True, None])
def test_vocab_size_is_a_number_of_words(vocab_size):
    with pytest.raises(ValueError, match=f"vocab_size is {vocab_size!r}, expected"):
        gcf.Tokens.from_lengths(IDS, LENGTHS, vocab_size)
    with pytest.raises(ValueError, match=f"vocab_size is {vocab_size!r}, expected"):
        gcf.Tokens(jnp.asarray(IDS), jnp.asarray(IDS) < V, vocab_size)


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        (IDS, [3, 4], r"lengths\[1\] is 4, expected 0\.\.3"),
        (IDS, [-1, 2], r"lengths\[0\] is -1, expected 0\.\.3"),
        (IDS[0], 7, "lengths is 7, expected 0..3"),
        (IDS, [3, 2, 1], r"ids has shape \(2, 3\) and lengths \(3,\)"),
        (IDS, 3, r"ids has shape \(2, 3\) and lengths \(\)"),
        (4, 1, r"ids has shape \(\)"),
        (IDS * 1.0, LENGTHS, "ids is a ndarray of dtype float64"),
        (IDS, LENGTHS * 1.0, "lengths is a ndarray of dtype float64"),
        (None, LENGTHS, "ids is a NoneType of dtype object"),
        (IDS, None, "lengths is a NoneType of dtype object"),
        (["to be", "or not"], LENGTHS, "ids is a list of dtype <U6"),
        (csr_matrix(IDS), LENGTHS, "ids is a csr_matrix of dtype object"),
        (np.ma.masked_equal(IDS, 99), LENGTHS, "ids is a masked array"),
        ([[2, 0, 4], [1, 3]], LENGTHS, "ids is not an array"),
    ],
)
def test_from_lengths_names_what_is_wrong(ids, lengths, message):
    with pytest.raises(ValueError, match=message):
        gcf.Tokens.from_lengths(ids, lengths, V)


def test_ids_too_large_for_jax_do_not_wrap_around():
    assert not jax.config.jax_enable_x64
    with pytest.raises(ValueError, match=f"ids has {2**32 + 4}, expected integers that fit int32"):
        gcf.Tokens.from_lengths(IDS + 2**32 * (IDS == 4), LENGTHS, V)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
def test_from_lengths_of_every_integer_dtype(dtype):
    found = gcf.Tokens.from_lengths(IDS.astype(dtype), LENGTHS.astype(dtype), V)
    np.testing.assert_array_equal(found.counts(), [[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]])


@pytest.mark.parametrize("length", [4, -1])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_an_invalid_length_in_traced_code_makes_its_row_nan(length, dtype):
    params = gcf.fit(
        gcf.multinomial_nb(2), gcf.Tokens.from_lengths(IDS, LENGTHS, V), np.array([0, 1])
    )

    @jax.jit
    def score(lengths):
        return gcf.log_joint(params, gcf.Tokens.from_lengths(IDS.astype(dtype), lengths, V))

    expected = score(LENGTHS)
    assert np.isfinite(expected).all()
    found = score(np.array([length, 2]))
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1], expected[1])
