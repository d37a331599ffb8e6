"""`validate` names what is wrong and where; `diagnose` counts it, in compiled code too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf

N, D, K, V = 29, 5, 3, 7


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)


@pytest.fixture
def y():
    return (np.arange(N) % K).astype(np.int32)


def bits(x):
    return (x > 0).astype(np.int32)


@pytest.mark.slow
def test_good_data_pass(x, y):
    gcf.validate(gcf.lda(K), x, y)
    gcf.validate(gcf.qda(K), x, np.eye(K)[y], np.ones(N))
    gcf.validate(gcf.lda(K), x)
    gcf.validate(gcf.fit(gcf.lda(K), x, y), x)
    gcf.validate(gcf.fit(gcf.lda(K), x, y), x[0])
    gcf.validate(gcf.bernoulli_nb(K), bits(x), y)
    gcf.validate(gcf.multinomial_nb(K), bits(x), y)
    gcf.validate(gcf.categorical_nb(K, V), bits(x), y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_cell_that_is_not_finite(x, y, value):
    x[7, 3] = value
    expected = rf"x\[7, 3\] is {value} \(row 7, column 3\), expected a finite number"
    for clf in (gcf.lda(K), gcf.gaussian_nb(K), gcf.Classifier(gcf.Bernoulli(threshold=0.0), K)):
        with pytest.raises(ValueError, match=expected):
            gcf.validate(clf, x, y)
        with pytest.raises(ValueError, match=expected):
            gcf.validate(clf, x)
    with pytest.raises(ValueError, match=r"x\[3\] is .*expected a finite number"):
        gcf.validate(gcf.fit(gcf.lda(K), np.nan_to_num(x), y), x[7])


def test_all_offenders_are_counted_and_some_named(x, y):
    x[[1, 3, 5, 7, 11, 13, 17], 2] = np.nan
    expected = r"x\[1, 2\] .* 7 such cells in all; the next are \[3, 2\], \[5, ."
    with pytest.raises(ValueError, match=expected):
        gcf.validate(gcf.lda(K), x, y)


@pytest.mark.parametrize(
    ("clf", "value", "expected"),
    [
        (gcf.bernoulli_nb(K), 2, "expected 0 or 1"),
        (gcf.bernoulli_nb(K), 0.5, r"expected 0 or 1 .*threshold"),
        (gcf.multinomial_nb(K), -1, "expected a count >= 0"),
        (gcf.categorical_nb(K, V), 7, "expected an integer code in 0..num_values-1"),
        (gcf.categorical_nb(K, V), -1, "expected an integer code"),
        (gcf.categorical_nb(K, V), 0.7, "expected an integer code"),
        (gcf.categorical_nb(K, (V, V, V, 2, V)), 2, "expected an integer code"),
    ],
    ids=str,
)
def test_a_cell_outside_the_support(x, y, clf, value, expected):
    x = bits(x).astype(np.float32)
    x[7, 3] = value
    with pytest.raises(ValueError, match=rf"x\[7, 3\] is {value}.*, {expected}"):
        gcf.validate(clf, x, y)


def test_a_word_that_is_not_in_the_vocabulary(y):
    ids = jnp.zeros((N, 13), jnp.int32).at[7, 3].set(V)
    mask = jnp.ones((N, 13), bool)
    with pytest.raises(ValueError, match=r"x\[7, 3\] is 7 .*expected .*word id in 0..vocab_size-1"):
        gcf.validate(gcf.multinomial_nb(K), gcf.Tokens(ids, mask, V), y)
    gcf.validate(gcf.multinomial_nb(K), gcf.Tokens(ids, mask.at[7, 3].set(False), V), y)


def test_a_block_is_named(x, y):
    clf = gcf.Classifier(gcf.Product({"size": gcf.Gaussian(), "word": gcf.Bernoulli()}), K)
    block = bits(x)
    gcf.validate(clf, {"size": x, "word": block}, y)
    block[7, 3] = 5
    with pytest.raises(ValueError, match=r"x\['word'\]\[7, 3\] is 5 .*expected 0 or 1"):
        gcf.validate(clf, {"size": x, "word": block}, y)


@pytest.mark.parametrize("label", [3, 5, -2, 127, -128])
def test_a_label_that_is_no_class(x, y, label):
    y[7] = label
    expected = rf"y\[7\] is {label} \(row 7\), expected a label in 0..2 .*num_classes = 3.*-1"
    with pytest.raises(ValueError, match=expected):
        gcf.validate(gcf.lda(K), x, y)
    with pytest.raises(ValueError, match=expected):
        gcf.validate(gcf.lda(K), x, y.astype(np.int8))


@pytest.mark.parametrize("value", [-0.5, np.nan, np.inf])
def test_a_responsibility_or_weight_that_is_none(x, y, value):
    soft, weights = np.eye(K, dtype=np.float32)[y], np.ones(N, np.float32)
    soft[7, 1], weights[7] = value, value
    with pytest.raises(ValueError, match=rf"y\[7, 1\] is {value}.*a finite responsibility >= 0"):
        gcf.validate(gcf.lda(K), x, soft)
    with pytest.raises(ValueError, match=rf"weights\[7\] is {value}.*a finite number >= 0"):
        gcf.validate(gcf.lda(K), x, y, weights)


@pytest.mark.slow
def test_rows_that_do_not_count_may_hold_anything(x, y):
    x[7], x[8], y[7] = np.nan, np.inf, -1
    weights = np.ones(N)
    weights[8] = 0
    gcf.validate(gcf.lda(K), x, y, weights)
    with pytest.raises(ValueError, match=r"x\[8, 0\] is inf"):
        gcf.validate(gcf.lda(K), x, y)
    soft = np.eye(K)[np.maximum(y, 0)]
    soft[7] = 0
    gcf.validate(gcf.lda(K), x, soft, weights)


def test_no_row_counts(x, y):
    with pytest.raises(ValueError, match="no row has both a label and a weight"):
        gcf.validate(gcf.lda(K), x, np.full(N, -1))
    with pytest.raises(ValueError, match="no row has both a label and a weight"):
        gcf.validate(gcf.lda(K), x, y, np.zeros(N))
    with pytest.raises(ValueError, match="no row has both a label and a weight"):
        gcf.validate(gcf.bernoulli_nb(K), np.zeros((0, D)), np.zeros(0, int))


def test_arguments_that_do_not_go_together(x, y):
    with pytest.raises(ValueError, match="weights were given without y"):
        gcf.validate(gcf.lda(K), x, None, np.ones(N))
    with pytest.raises(ValueError, match="with fitted params"):
        gcf.validate(gcf.fit(gcf.lda(K), x, y), x, y)


def test_a_singular_covariance_names_class_rank_and_features(x, y):
    constant = x.copy()
    constant[y == 1, 2] = 4
    with pytest.raises(ValueError, match=r"class 1 has rank 4 of 5; features \[2\] are constant"):
        gcf.validate(gcf.qda(K), constant, y)
    duplicate = x.copy()
    duplicate[:, 4] = 2 * duplicate[:, 0]
    for clf in (gcf.lda(K), gcf.qda(K)):
        with pytest.raises(ValueError, match=r"rank 4 of 5.*set shrinkage, .* or ridge > 0"):
            gcf.validate(clf, duplicate, y)
    for clf in (gcf.lda(K, ridge=1e-3), gcf.qda(K, ridge=1e-3), gcf.gaussian_nb(K)):
        gcf.validate(clf, duplicate, y)
    few = np.where(np.arange(N) < 3, 2, np.arange(N) % 2)
    with pytest.raises(ValueError, match=r"class 2 has rank 2 of 5.*shared=True"):
        gcf.validate(gcf.qda(K), x, few)


@pytest.mark.slow
def test_a_singular_column_of_naive_bayes_is_named(x, y):
    x[y == 2, 3] = -1
    clf = gcf.Classifier(gcf.Independent(gcf.Gaussian()), K)
    with pytest.raises(ValueError, match="class 2 in column 3 has rank 0 of 1"):
        gcf.validate(clf, x, y)
    clf = gcf.Classifier(gcf.Product({"size": gcf.Gaussian("diag")}), K)
    with pytest.raises(ValueError, match=r"x\['size'\]: .*class 2 has rank 4 of 5; features \[3\]"):
        gcf.validate(clf, {"size": x}, y)


def test_diagnose_counts(x, y):
    x[1, 2], x[3, 4], y[5], y[6] = np.nan, np.inf, 3, -2
    weights = np.ones(N)
    weights[7] = -1
    found = gcf.diagnose(gcf.lda(K), x, y, weights)
    assert (found.invalid_cells, found.invalid_labels, found.invalid_weights) == (2, 2, 1)
    assert np.isnan(found.count).all()
    soft = np.eye(K)[np.arange(N) % K]
    soft[0, 0], soft[1, 1] = np.nan, -1
    assert gcf.diagnose(gcf.lda(K), np.nan_to_num(x), soft).invalid_labels == 2


def test_diagnose_of_good_data(x, y):
    found = gcf.diagnose(gcf.qda(K), x, np.where(y == 1, -1, y))
    assert (found.invalid_cells, found.invalid_labels, found.invalid_weights) == (0, 0, 0)
    np.testing.assert_array_equal(found.count, [10, 0, 9])
    np.testing.assert_array_equal(found.empty, [False, True, False])
    np.testing.assert_array_equal(found.conditional.too_few, [False, True, False])
    assert not np.asarray(found.conditional.constant)[[0, 2]].any()
    np.testing.assert_array_equal(np.asarray(found.conditional.rank)[[0, 2]], [D, D])
    # The condition number is that of the correlations of the class.
    own = np.linalg.cond(np.corrcoef(x[y == 0].T))
    np.testing.assert_allclose(found.conditional.condition[0], own, rtol=1e-3)


def test_diagnose_of_a_shared_covariance(x, y):
    x[:, 4] = 2 * x[:, 0]
    found = gcf.diagnose(gcf.lda(K), x, y).conditional
    np.testing.assert_array_equal(found.rank, [4, 4, 4])
    assert np.isinf(found.condition).all()


@pytest.mark.slow
def test_diagnose_of_other_families(x, y):
    assert gcf.diagnose(gcf.bernoulli_nb(K), bits(x), y).conditional is None
    clf = gcf.Classifier(gcf.Product({"a": gcf.Gaussian(), "b": gcf.Bernoulli()}), K)
    wrong = bits(x)
    wrong[0, 0] = 7
    found = gcf.diagnose(clf, {"a": x, "b": wrong}, y)
    assert sorted(jax.tree.leaves(found.invalid_cells)) == [0, 1]
    assert found.conditional["b"] is None and found.conditional["a"].rank.shape == (K,)
    columns = gcf.diagnose(gcf.Classifier(gcf.Independent(gcf.Gaussian()), K), x, y).conditional
    assert columns.rank.shape == (D, K)


@pytest.mark.parametrize("power", [-30, 30])
def test_diagnose_does_not_know_the_unit(x, y, power):
    x[:, 4] = 2 * x[:, 0]
    here = gcf.diagnose(gcf.qda(K), x, y).conditional
    there = gcf.diagnose(gcf.qda(K), x * np.float32(2.0**power), y).conditional
    np.testing.assert_array_equal(here.rank, there.rank)
    np.testing.assert_array_equal(here.constant, there.constant)


@pytest.mark.slow
def test_diagnose_compiled_and_mapped(x, y):
    alone = gcf.diagnose(gcf.qda(K), x, y)
    compiled = jax.jit(gcf.diagnose)(gcf.qda(K), x, y)
    bad = x.copy()
    bad[:, 4] = 2 * bad[:, 0]
    bad[3, 1] = np.nan
    mapped = jax.vmap(gcf.diagnose, (None, 0, None))(gcf.qda(K), np.stack([x, bad]), y)
    for a, b, c in zip(*map(jax.tree.leaves, (alone, compiled, mapped)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)
        np.testing.assert_allclose(a, np.asarray(c)[0], rtol=1e-4)
    np.testing.assert_array_equal(mapped.invalid_cells, [0, 1])
    # Never a wrong number: class 0, to which row 3 belongs, is flagged or NaN.
    assert not (np.asarray(mapped.conditional.condition)[1] < 1e6).any()
