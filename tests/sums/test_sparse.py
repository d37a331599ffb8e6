"""Sparse rows give what dense rows give, in every function that takes them."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.experimental.sparse import BCOO
from sklearn.naive_bayes import BernoulliNB, MultinomialNB

import genclf as gcf
from tests.registry import assert_close

N, V, K = 53, 31, 3
FAMILIES = {
    "multinomial": gcf.Multinomial(),
    "multinomial-ml": gcf.Multinomial(alpha=0.0),
    "presence": gcf.Multinomial(presence=True),
    "bernoulli": gcf.Bernoulli(),
    "bernoulli-ml": gcf.Bernoulli(alpha=0.0),
    "above": gcf.Bernoulli(threshold=1.5),
    "above-negative": gcf.Bernoulli(threshold=-0.5),
}
NAMED = pytest.mark.parametrize("name", FAMILIES)


def example(name="multinomial"):
    """Counts with empty rows and columns, labels, and weights of which some are 0."""
    rng = np.random.default_rng(0)
    x = rng.poisson(0.4, (N, V)).astype(float)
    x[7], x[:, 5] = 0, 0
    x = (x > 0).astype(float) if name in ("bernoulli", "bernoulli-ml") else x
    return x, np.arange(N) % K, rng.uniform(0, 1, N) * (np.arange(N) % 5 > 0)


def with_duplicates(x):
    """A COO matrix with cells that are given in two halves, in no order."""
    row, column = np.nonzero(x)
    order = np.random.default_rng(0).permutation(2 * len(row)) % len(row)
    row, column = row[order], column[order]
    return sp.coo_matrix((x[row, column] / 2, (row, column)), shape=x.shape)


def padded(x):
    """A BCOO with cells outside its shape, and in no order."""
    found = BCOO.fromdense(jnp.asarray(x), nse=np.count_nonzero(x) + 13)
    return BCOO((found.data[::-1], found.indices[::-1]), shape=x.shape, unique_indices=True)


FORMS = {
    "csr": sp.csr_matrix,
    "csc": sp.csc_array,
    "integers": lambda x: sp.coo_array(x.astype(np.int64)),
    "duplicates": with_duplicates,
    "bcoo": lambda x: BCOO.fromdense(jnp.asarray(x)),
    "padded": padded,
}


def forms_of(name):
    whole = [form for form in FORMS if form != "duplicates" or "bernoulli" not in name]
    return {form: FORMS[form] for form in whole}


@pytest.mark.slow
@NAMED
def test_fits_and_scores_are_those_of_dense_rows(name, x64):
    dense, y, weights = example(name)
    clf = gcf.Classifier(FAMILIES[name], K)
    soft = np.random.default_rng(1).uniform(size=(N, K))
    expected = gcf.fit(clf, dense, y, weights)
    for make in forms_of(name).values():
        x = make(dense)
        assert_close(gcf.fit(clf, x, y, weights), expected, 1e-12)
        assert_close(gcf.stats(clf, x, soft, weights), gcf.stats(clf, dense, soft, weights), 1e-12)
        for function in (gcf.predict, gcf.log_joint, gcf.log_posterior, gcf.log_marginal):
            assert_close(function(expected, x), function(expected, dense), 1e-11)


@pytest.mark.slow("bernoulli")
@NAMED
def test_empty_takes_the_rows_that_stats_takes(name, x64):
    dense, y, _ = example(name)
    clf = gcf.Classifier(FAMILIES[name], K)
    nothing, s = gcf.empty(clf, dense), gcf.stats(clf, sp.csr_matrix(dense), y)
    assert_close(gcf.merge(nothing, s), s, 0)
    for make in forms_of(name).values():
        assert_close(gcf.empty(clf, make(dense)), nothing, 0)
    parts = gcf.Classifier(gcf.Product({"a": FAMILIES[name], "b": gcf.Gaussian()}), K)
    found = gcf.empty(parts, {"a": sp.csr_matrix(dense), "b": dense})
    assert_close(found.conditional["a"], nothing.conditional, 0)
    with pytest.raises(ValueError, match="x is sparse, which only Multinomial and Bernoulli"):
        gcf.empty(gcf.lda(K), sp.csr_matrix(dense))


@NAMED
@pytest.mark.parametrize("form", ["csr", "padded"])
def test_em_on_unlabelled_documents(name, form, x64):
    dense, y, weights = example(name)
    x, clf = FORMS[form](dense), gcf.Classifier(FAMILIES[name], K, class_alpha=1.0)
    for labels in (np.where(np.arange(N) % 2, y, -1), np.full(N, -1)):
        how = dict(weights=weights, max_steps=4, tol=-1.0)
        found, expected = (gcf.em(clf, a, labels, key=jax.random.key(0), **how) for a in (x, dense))
        assert_close(found.objective, expected.objective, 1e-9)


@pytest.mark.parametrize("name", ["multinomial", "bernoulli"])
def test_gradients_by_the_values(name, x64):
    dense, y, weights = example(name)
    clf, x = gcf.Classifier(FAMILIES[name], K), BCOO.fromdense(jnp.asarray(dense))

    def loss(x):
        return gcf.log_marginal(gcf.fit(clf, x, y, weights), x)[y == 1].sum()

    by_cell = jax.grad(lambda a: loss(a))(jnp.asarray(dense))
    found = jax.jit(jax.grad(lambda data: loss(BCOO((data, x.indices), shape=x.shape))))(x.data)
    expected = by_cell[tuple(x.indices.T)]
    chex.assert_trees_all_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csr", "padded"])
def test_a_part_of_a_product(form, x64):
    dense, y, weights = example()
    more = np.random.default_rng(1).normal(size=(N, 2)) + y[:, None]
    clf = gcf.Classifier(gcf.Product({"words": gcf.Multinomial(), "more": gcf.Gaussian()}), K)
    x, labels = FORMS[form](dense), np.where(np.arange(N) % 3, y, -1)
    fits = [gcf.fit(clf, dict(words=a, more=more), y, weights) for a in (x, dense)]
    assert_close(*fits, 1e-12)
    scores = [gcf.log_posterior(fits[0], dict(words=a, more=more)) for a in (x, dense)]
    assert_close(*scores, 1e-11)
    found = [
        gcf.em(clf, dict(words=a, more=more), labels, key=jax.random.key(0), max_steps=3, tol=-1.0)
        for a in (x, dense)
    ]
    assert_close(found[0].objective, found[1].objective, 1e-9)


def test_rows_without_weight_may_hold_anything(x64):
    dense, y, weights = example()
    clf = gcf.multinomial_nb(K)
    expected = gcf.fit(clf, dense, y, weights)
    dense[weights == 0, 3] = np.nan
    assert np.isnan(dense).any()
    for form in ("csr", "csc", "duplicates", "bcoo"):
        assert_close(gcf.fit(clf, FORMS[form](dense), y, weights), expected, 1e-12)
    gcf.validate(clf, sp.csr_matrix(dense), y, weights)


@pytest.mark.parametrize("form", ["csr", "bcoo"])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_invalid_cells(form, value, x64):
    dense, y, _ = example()
    clf, params = gcf.multinomial_nb(K), gcf.fit(gcf.multinomial_nb(K), dense, y)
    dense[4, 2] = value
    x = FORMS[form](dense)
    assert np.isnan(gcf.fit(clf, x, y).conditional.log_theta[1]).any()
    expected = np.where(np.arange(N) == 4, -1, gcf.predict(params, dense))
    np.testing.assert_array_equal(gcf.predict(params, x), expected)
    with pytest.raises(ValueError, match=r"x\[4, 2\] is .* \(row 4, column 2\), expected a count"):
        gcf.validate(clf, x, y)


def test_as_scikit_learn():
    rng = np.random.default_rng(0)
    x = sp.random(1009, 211, 0.05, format="csr", random_state=0)
    x.data = np.ceil(4 * x.data)
    y = rng.integers(0, K, 1009)
    for clf, peer, rows in (
        (gcf.multinomial_nb(K), MultinomialNB(), x),
        (gcf.bernoulli_nb(K), BernoulliNB(), (x > 0).astype(float)),
    ):
        found = np.exp(gcf.log_posterior(gcf.fit(clf, rows, y), rows))
        np.testing.assert_allclose(found, peer.fit(rows, y).predict_proba(rows), atol=2e-5)


def test_many_words_and_a_long_document():
    v = 10**6
    rows = sp.csr_matrix(
        (np.ones(2 * v, np.float32), (np.repeat([0, 1], v), np.tile(np.arange(v), 2))), shape=(2, v)
    )
    rows.data[: v // 2] = 3
    params = gcf.fit(gcf.multinomial_nb(2), rows, np.array([0, 1]))
    np.testing.assert_array_equal(gcf.predict(params, rows), [0, 1])
    given = gcf.predict(params, BCOO.from_scipy_sparse(rows))
    np.testing.assert_array_equal(given, [0, 1])


def test_statistics_merge_with_those_of_dense_rows(x64):
    dense, y, _ = example()
    clf = gcf.multinomial_nb(K)
    found = gcf.merge(
        gcf.stats(clf, sp.csr_matrix(dense[:20]), y[:20]), gcf.stats(clf, dense[20:], y[20:])
    )
    assert_close(found, gcf.stats(clf, dense, y), 1e-13)


@pytest.mark.parametrize(
    ("clf", "make", "message"),
    [
        (gcf.lda(K), sp.csr_matrix, "x is sparse, which only Multinomial and Bernoulli without"),
        (gcf.multinomial_nb(K), lambda x: sp.csr_matrix(x[:9]), r"y has shape \(53,\), expected"),
        (gcf.multinomial_nb(K), lambda x: sp.csr_matrix(x * 1j), "dtype complex128, expected real"),
        (
            gcf.multinomial_nb(K),
            lambda x: BCOO.fromdense(jnp.asarray(x), n_batch=1),
            "expected a BCOO without batch and dense axes",
        ),
        (
            gcf.Classifier(gcf.Multinomial(missing="marginalize"), K),
            sp.csr_matrix,
            "without missing cells",
        ),
    ],
    ids=["gaussian", "rows", "complex", "batch", "missing"],
)
def test_what_is_not_taken(clf, make, message):
    dense, y, _ = example()
    with pytest.raises(ValueError, match=message):
        gcf.fit(clf, make(dense), y)


def test_other_verbs_say_what_to_do():
    dense, y, _ = example()
    with pytest.raises(ValueError, match="expected a dense array"):
        gcf.leave_one_out(gcf.multinomial_nb(K), sp.csr_matrix(dense), y)
    params = gcf.fit(gcf.multinomial_nb(K), dense, y)
    with pytest.raises(ValueError, match="fitted to 31 features"):
        gcf.predict(params, sp.csr_matrix(dense[:, :5]))
