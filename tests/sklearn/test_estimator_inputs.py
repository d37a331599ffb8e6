"""What estimators are given: labels and priors of any kind, impossible rows, odd arrays."""

import datetime
import decimal
import enum
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import genclf as gcf
from genclf import sklearn as estimators
from genclf.families.conjugate.class_prior import PROBABILITIES
from tests.sklearn.test_estimators import CLASSES, GENERATIVE, made

PRIORS = [one for one in CLASSES if "class_prior" in one().get_params()]
ALPHAS = [estimators.BernoulliNB, estimators.MultinomialNB, estimators.CategoricalNB]
Colour = enum.Enum("Colour", ["GREEN", "RED", "BLUE"])
Size = enum.IntEnum("Size", ["SMALL", "MEDIUM", "LARGE"])
DAYS = [datetime.date(2020, 1, day) for day in (1, 2, 3)]
KINDS = {  # each in the order of its classes
    "str": ["a", "b", "c"],
    "int": [2, 7, 11],
    "large int": [2**63 + 1, 2**70, 2**80],
    "float": [1.0, 2.0, 5.0],
    "bytes": [b"a", b"b", b"c"],
    "tuple": [("a", 1), ("a", 2), ("b", 1)],
    "date": DAYS,
    "datetime64": np.array(DAYS, "datetime64[D]"),
    "timestamp": [pd.Timestamp(day, tz="UTC") for day in DAYS],
    "decimal": [decimal.Decimal(k) for k in ("0.1", "0.2", "1.5")],
    "enum": [Colour.BLUE, Colour.GREEN, Colour.RED],
    "interval": list(pd.interval_range(0, 3)),
}


def data(n=31):
    """Counts of three classes, which every estimator takes, and the numbers of their classes."""
    y = np.arange(n) % 3
    x = np.random.default_rng(0).poisson(1 + 3 * (y[:, None] == np.arange(4) % 3), (n, 4))
    return np.minimum(x, 8).astype(float), y


def of_kind(kind, number):
    """Labels of a kind as a list, or as an array where they are one."""
    found = KINDS[kind]
    return found[number] if isinstance(found, np.ndarray) else [found[k] for k in number]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [list, pd.Series])
def test_labels_of_any_kind_come_back(kind, form):
    x, number = data()
    y = form(of_kind(kind, number))
    found = estimators.GaussianNB().fit(x, y)
    expected = estimators.GaussianNB().fit(x, number)
    assert list(found.classes_) == list(KINDS[kind])
    assert [found.classes_[k] for k in expected.predict(x)] == list(found.predict(x))
    assert found.score(x, y) == expected.score(x, number) > 0.5
    copy = pickle.loads(pickle.dumps(clone(found).fit(x, y)))
    assert list(copy.predict(x)) == list(found.predict(x))
    parts = estimators.GaussianNB()
    for rows in np.split(np.arange(31), [11]):
        parts.partial_fit(x[rows], of_kind(kind, number[rows]), classes=list(KINDS[kind])[::-1])
    assert list(parts.classes_) == list(KINDS[kind]) and parts.score(x, y) == found.score(x, y)
    explained = found.explain(x[:1], of=found.classes_[2], against=found.classes_[0])
    assert explained.of == 2 and explained.against == 0
    assert set(found.sample(5, random_state=0)[1]) <= set(found.classes_)


@pytest.mark.slow("MixtureDiscriminant")
@pytest.mark.parametrize("one", CLASSES)
def test_every_estimator_takes_labels_of_any_kind(one):
    x, number = data()
    found, expected = (made(one).fit(x, y) for y in (of_kind("tuple", number), number))
    assert (found.predict(x) == expected.classes_[expected.predict(x)]).sum() == 0
    assert [KINDS["tuple"][k] for k in expected.predict(x)] == list(found.predict(x))
    assert found.score(x, of_kind("tuple", number)) == expected.score(x, number)


@pytest.mark.parametrize(
    "mixed",
    [[1, "1"], [True, 1], ["a", ("a",)], [DAYS[0], "2020-01-01"], [Colour.RED, "RED"]],
    ids=repr,
)
def test_labels_of_two_kinds_are_named(mixed):
    x, number = data()
    column = np.empty(31, object)
    column[:] = [mixed[k % 2] for k in number]
    for y in (column, column.tolist(), pd.Series(column)):
        with pytest.raises(ValueError, match="expected labels of one kind") as raised:
            estimators.GaussianNB().fit(x, y)
        assert all(repr(label) in str(raised.value) for label in mixed)


def test_members_of_enumerations_of_numbers_stay_what_they_are():
    x, number = data()
    found = estimators.GaussianNB().fit(x, [list(Size)[k] for k in number])
    assert all(type(label) is Size for label in [*found.classes_, *found.predict(x)])


def test_a_score_of_labels_of_another_kind_is_an_error():
    x, number = data()
    found = estimators.GaussianNB().fit(x, number)
    with pytest.raises(ValueError, match="y has the label '0' and classes_ has 0"):
        found.score(x, number.astype(str))
    assert found.score(x, number + 9) == 0


@pytest.mark.parametrize("library", [pd.Series, pd.array, pl.Series])
def test_nullable_integers_and_truth_values_come_back_as_they_are(library):
    x, number = data()
    whole = {pd.Series: {"dtype": "Int64"}, pd.array: {"dtype": "Int64"}}.get(library, {})
    holes = [None if k == 7 else int(v) for k, v in enumerate(number)]
    for y in (library(number.tolist(), **whole), library(holes, **whole)):
        found = estimators.GaussianNB(semi_supervised=True).fit(x, y)
        assert found.classes_.dtype.kind == "i" and found.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="Input y contains NaN: row 7 has no label"):
        estimators.GaussianNB().fit(x, library(holes, **whole))
    found = estimators.GaussianNB().fit(x, library((number > 0).tolist()))
    assert found.classes_.dtype == bool
    with pytest.raises(ValueError, match="row 1 has no label"):
        estimators.GaussianNB().fit(x[:3], ["a", np.nan, "b"])


@pytest.mark.slow("MixtureDiscriminant")
@pytest.mark.parametrize("one", PRIORS)
def test_a_prior_with_labels_is_read_by_label(one):
    x, number = data()
    y = pd.Series(np.array(["ham", "eggs", "spam"])[np.minimum(number + (number > 1), 2)])
    y[:9] = "spam"
    shares = y.value_counts(normalize=True)
    assert list(shares.index) != sorted(shares.index)
    for prior in (shares, shares.to_dict(), shares.sort_index().to_numpy()):
        found = made(one).set_params(class_prior=prior).fit(x, y)
        np.testing.assert_allclose(found.class_prior_, shares.sort_index(), rtol=1e-12)
    assert clone(found.set_params(class_prior=shares)).class_prior is not None


def test_a_prior_with_other_labels_names_one():
    x, number = data()
    fit = lambda prior: estimators.GaussianNB(class_prior=prior).fit(x, number)  # noqa: E731
    with pytest.raises(ValueError, match="class_prior is read by label and lacks 2"):
        fit({0: 0.5, 1: 0.5})
    with pytest.raises(ValueError, match="has 3, expected a probability for each"):
        fit({0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25})
    with pytest.raises(ValueError, match="a label twice"):
        fit(pd.Series([0.5, 0.5, 0.5], index=[0, 0, 1]))
    unused = {0: 0.5, 1: 0.25, 2: 0.25, 3: 0.0}  # as value_counts of categories has it
    np.testing.assert_allclose(fit(unused).class_prior_, [0.5, 0.25, 0.25])


@pytest.mark.parametrize("prior", [{0: 0.5, 1: 0.5}, pd.Series([0.5, 0.5])], ids=type)
def test_the_core_does_not_read_labels_of_priors(prior):
    x, y = np.array([[0.0], [1.0], [5.0], [7.0]]), np.array([0, 0, 1, 1])
    message = "class_prior is .*in the order of the classes .*labels of a dict or a Series"
    with pytest.raises(ValueError, match=message):
        gcf.fit(gcf.Classifier(gcf.Gaussian(), 2, class_prior=prior), x, y)
    assert re.match(message, PROBABILITIES.problem(prior, "class_prior"))  # of with_prior


@pytest.mark.slow("MixtureDiscriminant")
@pytest.mark.parametrize("one", CLASSES)
def test_a_row_without_a_posterior_is_no_class(one):
    x, y = data()
    found = made(one).fit(x, y)
    prior = "log_prior" if one in GENERATIVE else "intercept"
    broken = np.full_like(getattr(found.params_, prior), np.nan)  # by whatever made it NaN
    object.__setattr__(found.params_, prior, broken)
    found._cache = {}
    calls = [found.predict, found.predict_proba, found.predict_log_proba, found.decision_function]
    for call in [*calls, lambda x: found.score(x, y)]:
        with pytest.raises(ValueError, match="row 0 of X has no posterior"):
            call(x)


@pytest.mark.parametrize("one", ALPHAS)
def test_a_row_that_is_impossible_in_every_class_is_named(one):
    x, y = np.array([[1, 0], [1, 0], [0, 1], [0, 1]]), np.array(["a", "a", "b", "b"])
    found = one(alpha=0.0).fit(x, y)
    assert (found.predict(x) == y).all()
    seen = np.array([[1, 0], [0, 1], [1, 1]])
    for call in (found.predict, found.predict_proba, lambda x: found.score(x, ["a", "b", "b"])):
        with pytest.raises(ValueError, match=r"row 2 of X is impossible .*alpha is 0: give alpha"):
            call(seen)
    assert np.isneginf(found.score_samples(seen)).tolist() == [False, False, True]


@pytest.mark.parametrize("one", GENERATIVE)
def test_masked_arrays_and_dates_are_no_numbers(one):
    x, y = data()
    mask = np.ma.array(x, mask=x > 7)
    found = made(one).fit(x, y)
    for call in (lambda: made(one).fit(mask, y), lambda: found.predict(mask)):
        with pytest.raises(ValueError, match="X is a masked array"):
            call()
    for masked in (
        dict(y=np.ma.array(y, mask=y > 1)),
        dict(sample_weight=np.ma.array(y, mask=y > 1)),
    ):
        with pytest.raises(ValueError, match=f"{next(iter(masked))} is a masked array"):
            made(one).fit(**{"X": x, "y": y, **masked})
    dates = np.full((31, 4), np.datetime64("2020-01-01"))
    with pytest.raises(ValueError, match="X has dtype datetime64"):
        made(one).fit(dates, y)
    in_a_table = r"column .* has (the )?dtype|no column to read \(\w+: (dates: the kind|\w+: make)"
    for table in (pd.DataFrame(dates), pl.DataFrame({f"c{k}": dates[:, k] for k in range(4)})):
        with pytest.raises(ValueError, match=in_a_table):
            made(one).fit(table, y)
    with pytest.raises(ValueError, match="X has the column 'a' twice"):
        made(one).fit(pd.DataFrame(x, columns=list("abca")), y)


def test_a_table_without_rows():
    found = estimators.MixedNB().fit(
        pd.DataFrame({"a": [1.0, 2.0] * 2, "b": [*"xyyx"]}), [0, 1] * 2
    )
    with pytest.raises(ValueError, match="0 sample"):
        found.predict(pd.DataFrame({"a": [1.0], "b": ["x"]}).iloc[:0])


def with_duplicates(dtype=np.float64):
    """Sparse rows of 0, 1 and 2, with some cells in two entries and columns in no order."""
    rng = np.random.default_rng(0)
    rows, columns = np.sort(rng.integers(0, 31, 120)), rng.integers(0, 7, 120)
    starts = np.searchsorted(rows, np.arange(32))
    found = sp.csr_array((rng.integers(0, 3, 120).astype(dtype), columns, starts), shape=(31, 7))
    assert not found.has_canonical_format
    return found


@pytest.mark.parametrize("binarize", [0.0, 1.5, 2.5])
def test_duplicates_of_sparse_rows_are_summed_before_the_threshold(binarize):
    x, y = with_duplicates(), np.arange(31) % 3
    before = x.copy()
    found, expected = (
        estimators.BernoulliNB(binarize=binarize).fit(rows, y).predict_proba(rows)
        for rows in (x, x.toarray())
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert (x.indices == before.indices).all() and (x.data == before.data).all()


@pytest.mark.parametrize("form", ["csr", "bcoo"])
def test_sums_of_duplicates_fit_their_dtype(form):
    from jax.experimental.sparse import BCOO

    entries, cells = np.array([100, 100, 1], np.int8), np.array([[0, 0], [0, 0], [1, 1]])
    dense, y = np.array([[200, 0], [0, 1]]), np.array([0, 1])
    x = sp.csr_array((entries, cells[:, 1], [0, 2, 3]), shape=(2, 2))
    x = x if form == "csr" else BCOO((entries, cells), shape=(2, 2))
    found, expected = (gcf.stats(gcf.multinomial_nb(2), a, y).conditional.total for a in (x, dense))
    np.testing.assert_array_equal(found, expected)


def test_bits_are_0_and_1_and_answers_float64():
    dense = np.array([[0.5, 2.0], [-1.0, 0.0]])
    for x in (dense, sp.csr_array(dense)):
        with pytest.raises(ValueError, match=r"X\[0, 0\] is 0.5, expected 0 or 1: give binarize"):
            estimators.BernoulliNB(binarize=None).fit(x, [0, 1])
    bits = np.array([[1, 0], [0, 1]])
    for dtype in (bool, np.int8, np.float32):
        for x in (bits.astype(dtype), sp.csr_array(bits.astype(dtype))):
            for binarize in (None, 0.0):
                found = estimators.BernoulliNB(binarize=binarize).fit(x, [0, 1])
                assert found.predict_log_proba(x).dtype == np.float64
                np.testing.assert_allclose(found.predict_proba(x)[0], [0.8, 0.2], rtol=1e-12)


def test_the_number_of_values_of_categories():
    x = np.array([[0, 1], [1, 0]])
    for wrong in ([3, 3, 3], [3, 0], [2.5, 2.5]):
        with pytest.raises(ValueError, match=r"num_values is .*one for each of the 2 columns"):
            estimators.CategoricalNB(num_values=wrong).fit(x, [0, 1])


@pytest.mark.parametrize("one", [estimators.MultinomialNB, estimators.CategoricalNB])
def test_log_odds_rank_rows_where_probabilities_are_1(one):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 101)
    x = rng.poisson(6 + 6 * (y[:, None] == np.arange(199) % 2))
    found = one().fit(x, y)
    odds = found.decision_function(x)
    assert len(np.unique(odds)) > len(np.unique(found.predict_proba(x)[:, 1]))
    assert roc_auc_score(y, odds) >= roc_auc_score(y, found.predict_proba(x)[:, 1])
    assert not hasattr(one(), "decision_function")  # scikit-learn's check of it fits negative rows


def test_regularised_discriminants_do_not_depend_on_units():
    x, y = data()
    units = np.array([1e-3, 1.0, 1e3, 10.0])
    found, expected = (
        estimators.RegularizedDiscriminant().fit(a, y).predict_proba(a) for a in (x * units, x)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow("QuadraticDiscriminant")
@pytest.mark.parametrize("one", [estimators.LinearDiscriminant, estimators.QuadraticDiscriminant])
def test_missing_cells_of_discriminants(one):
    x, y = data()
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    shared = one is estimators.LinearDiscriminant
    model = gcf.Classifier(gcf.Gaussian(shared=shared, missing="marginalize"), 3)
    found, expected = one(missing="marginalize").fit(x, y), estimators.GenerativeClassifier(model)
    np.testing.assert_array_equal(found.predict_proba(x), expected.fit(x, y).predict_proba(x))
    with pytest.raises(ValueError, match="contains NaN"):
        one().fit(x, y)
    if shared:
        row, column = np.argwhere(np.isnan(x))[0]
        with pytest.raises(ValueError, match=rf"X\[{row}, {column}\] is missing, but an axis"):
            found.transform(x)


def test_no_more_axes_than_there_are():
    x, y = data()
    with pytest.raises(
        ValueError, match=r"n_components cannot be larger than .*is 7 for 4 columns"
    ):
        estimators.LinearDiscriminant(n_components=7).fit(x, y)


@pytest.mark.slow("QuadraticDiscriminant-5")
@pytest.mark.parametrize(
    ("one", "d"), [(estimators.LinearDiscriminant, 37), (estimators.QuadraticDiscriminant, 5)]
)
def test_the_shrinkage_is_in_one_place(one, d, x64):
    x, y = np.random.default_rng(0).normal(size=(31, d)), np.arange(31) % 3
    model = gcf.Classifier(
        gcf.Gaussian(shared=one is estimators.LinearDiscriminant, shrinkage="ledoit-wolf"), 3
    )
    expected = gcf.diagnose(model, x, y).conditional.shrinkage
    assert (expected > 0.1).all() and (expected < 1).any()
    np.testing.assert_allclose(one("ledoit-wolf").fit(x, y).shrinkage_, expected, rtol=1e-9)
    if d > 31:
        space = gcf.row_space(x)
        rotated = gcf.diagnose(space.model(model), space.rows, y).conditional
        np.testing.assert_allclose(rotated.shrinkage, expected, rtol=1e-9)


def test_a_fitted_vocabulary_is_its_fields():
    """The words alone are kept, as skops reads no bound methods."""
    texts = pd.DataFrame({"text": ["free prize for you", "see you there soon", "a prize for all"]})
    found = estimators.MixedNB(kinds={"text": "text"}).fit(texts, ["spam", "ham", "spam"])
    assert found.columns_[0].values[:2] == ("all", "for")
    copy = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(copy.predict_proba(texts), found.predict_proba(texts))


@pytest.mark.parametrize("name", ["GaussianNB", "MixedNB"])
def test_lengths_are_those_of_what_was_given(name):
    x, w = np.arange(10.0).reshape(5, 2), [0, 1, 1, 1]
    of_table = pd.DataFrame(x, columns=["a", "b"])
    for rows in [x, of_table]:
        with pytest.raises(ValueError, match="X has 5 rows and y 4 labels"):
            getattr(estimators, name)().fit(rows, [0, 0, 1, 1], sample_weight=w)


def test_infinity_is_not_a_class():
    x, y = np.eye(4), np.array([0.0, 1, 0, np.inf])
    with pytest.raises(ValueError, match="y contains infinity"):
        estimators.GaussianNB().fit(x, y)


def test_a_sparse_array_that_is_a_dict_of_cells_is_refused_as_sparse():
    with pytest.raises(TypeError, match="Sparse data"):
        estimators.MixedNB().fit(sp.dok_array(np.eye(4)), np.array([0, 1, 0, 1]))
