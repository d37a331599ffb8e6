"""A document of a million words near a tie: its posterior is that of extended precision.

Rounding may be wrong in each word by itself. An error that all words of a class share would be
repeated as often as there are words.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import gammaln

import genclf as gcf

V, WORDS = 5003, 1e6


def near_tie(seed):
    """Counts of two classes, log θ with alpha = 1, and a document of log-odds below 1."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 3000, size=(2, V))
    smoothed = counts.astype(np.longdouble) + 1
    log_theta = np.log(smoothed / smoothed.sum(1, keepdims=True))
    odds = log_theta[1] - log_theta[0]
    document = rng.poisson(WORDS * np.exp(log_theta.mean(0).astype(float)))
    while abs(gap := document @ odds) > 1:
        j = rng.integers(V)
        if gap * odds[j] < 0:
            document[j] += int(min(97, abs(gap / odds[j]) + 1))
    assert document.sum() > 0.8 * WORDS
    return counts, log_theta, document


@pytest.mark.parametrize("seed", range(3))
def test_rounding_is_that_of_each_word(seed, dtype):
    counts, log_theta, document = near_tie(seed)
    clf = gcf.Classifier(gcf.Multinomial(), num_classes=2)
    params = gcf.fit(clf, counts.astype(dtype), np.arange(2))
    # Errors of words are independent, of a few units in the last place of log θ.
    allowed = 4 * np.finfo(dtype).eps * np.linalg.norm(document * log_theta[0])
    ids = np.repeat(np.arange(V), document)[None]
    tokens = gcf.Tokens(jnp.asarray(ids), jnp.ones(ids.shape, bool), V)
    for x in (document.astype(dtype)[None], np.stack([document] * 7).astype(dtype), tokens):
        found = np.asarray(gcf.log_posterior(params, x))[-1]
        off = found[1] - found[0] - document @ (log_theta[1] - log_theta[0])
        assert abs(off) < allowed, f"log-odds off by {off:.2g}"


def test_tables_are_right_in_each_entry(dtype):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 40, size=(2, V))
    x, y = np.repeat(np.tile(np.arange(V), 2), counts.ravel()), np.repeat([0, 1], counts.sum(1))
    clf = gcf.Classifier(gcf.Categorical(V), num_classes=2)
    found = gcf.fit(clf, x[:, None].astype(dtype), y).conditional.log_theta
    smoothed = counts.astype(np.longdouble) + 1
    off = np.asarray(found) - np.log(smoothed / smoothed.sum(1, keepdims=True))
    # One rounding of a logarithm near 10; of five thousand independent ones the mean is far less.
    eps = np.finfo(dtype).eps
    assert abs(off).max() < 10 * eps and abs(off.mean(1)).max() < eps


def test_a_document_too_long_for_the_dtype_is_named(dtype):
    """As counts, sparse counts and tokens; presence counts no word twice."""
    x, y = np.random.default_rng(0).integers(0, 5, (13, V)), np.arange(13) % 2
    clf = gcf.multinomial_nb(2)
    params = gcf.fit(clf, x, y)
    most = 8192
    ids = jnp.zeros((2, most + 1), jnp.int32)
    x[3] = 0
    for count in (most, most + 1):
        x[3, 4] = count
        tokens = gcf.Tokens(ids, jnp.arange(most + 1)[None] < jnp.array([[0], [count]]), V)
        for rows, row in ((x, 3), (csr_array(x), 3), (tokens, 1)):
            if count == most or dtype == np.float64:
                gcf.validate(params, rows)
                continue
            with pytest.raises(ValueError, match=f"x has counts of length 8.19e.03 in row {row}"):
                gcf.validate(params, rows)
        gcf.validate(gcf.Classifier(gcf.Multinomial(presence=True), 2), x, y)


@pytest.mark.parametrize("length", [1e2, 1e4, 1e6])
def test_predictive_of_long_documents(length):
    counts = np.array([[300, 100, 200], [150, 400, 5], [2000, 200, 500]])
    params = gcf.fit(gcf.multinomial_nb(3, inference="predictive"), counts, np.arange(3))
    a = np.asarray(params.conditional.concentration, np.float64)
    x = length * np.array([[1, 0, 0], [1, 1, 1], [1, 2, 0.01]]).round(2)
    rising = (gammaln(a + x[:, None]) - gammaln(a)).sum(-1)
    whole = a.sum(-1)
    expected = rising - gammaln(whole + x.sum(-1)[:, None]) + gammaln(whole)
    expected = expected - expected.max(-1, keepdims=True)
    found = np.asarray(gcf.discriminant(params, x.astype(np.float32)))
    found = found - found.max(-1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-3)
