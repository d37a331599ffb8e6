"""Naive Bayes of tables of pandas and of polars beside the model of the core."""

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB, MultinomialNB

import genclf as gcf
from genclf.sklearn import (
    GaussianNB as GaussianNaiveBayes,
    LinearDiscriminant,
    MixedNB,
    MultinomialNB as OurMultinomialNB,
    QuadraticDiscriminant,
)
from genclf.text import learn_vocabulary

N = 151


def table():
    """Numbers, strings, booleans, categories and counts, some of them missing; and labels."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % 3
    found = pd.DataFrame(
        {
            "size": rng.normal(size=N) + y,
            "colour": np.array(["red", "green", "blue"])[(y + (rng.random(N) < 0.3)) % 3],
            "indoors": rng.random(N) < 0.2 + 0.3 * y,
            "hello": rng.poisson(2 + y),
            "grade": rng.integers(1, 4, N),
            "bye": rng.poisson(4 - y),
        }
    )
    found.loc[::7, "size"] = np.nan
    found.loc[::5, "colour"] = None
    found["grade"] = found["grade"].astype("Int64")
    found.loc[3, "grade"] = pd.NA
    return found, np.array(["x", "y", "z"])[y]


KINDS = {"hello": "count", "bye": "count", "grade": "categorical"}


def test_the_model_is_a_product_of_the_core(x64):
    x, y = table()
    found = MixedNB(0.5, kinds=KINDS).fit(x, y)
    code = lambda values, names: np.array([names.get(v, -1) for v in values])  # noqa: E731
    grade = [-1 if v is pd.NA else v - 1 for v in x["grade"]]
    colour = code(x["colour"], {"blue": 0, "green": 1, "red": 2})
    rows = {
        "numeric": x[["size"]].to_numpy(),
        "categorical": np.stack([colour, x["indoors"].astype(int), grade], 1),
        "count": x[["hello", "bye"]].to_numpy(),
    }
    family = gcf.Product(
        {
            "numeric": gcf.Gaussian("diag", missing="marginalize"),
            "categorical": gcf.Categorical((3, 2, 3), alpha=0.5, missing="marginalize"),
            "count": gcf.Multinomial(alpha=0.5),
        }
    )
    params = gcf.fit(gcf.Classifier(family, 3), rows, np.searchsorted(["x", "y", "z"], y))
    expected = gcf.log_posterior(params, rows)
    np.testing.assert_allclose(found.predict_log_proba(x), expected, rtol=1e-9, atol=1e-9)


def test_all_tables_are_read_alike():
    x, y = table()
    other = pl.from_pandas(x)
    found, of_polars = MixedNB(kinds=KINDS).fit(x, y), MixedNB(kinds=KINDS).fit(other, y)
    expected = found.predict_proba(x)
    np.testing.assert_array_equal(of_polars.predict_proba(other), expected)
    as_category = x.assign(colour=pd.Categorical(x["colour"]), indoors=x["indoors"].astype(str))
    again = MixedNB(kinds=KINDS).fit(as_category, y).predict_proba(as_category)
    np.testing.assert_array_equal(again, expected)
    nullable = x.convert_dtypes()  # holes are pd.NA, which has no truth value
    assert nullable.isna().to_numpy().any()
    again = MixedNB(kinds=KINDS).fit(nullable, y).predict_proba(nullable)
    np.testing.assert_array_equal(again, expected)
    assert (of_polars.feature_names_in_ == found.feature_names_in_).all()
    drawn, labels = found.sample(5, random_state=0)
    assert list(drawn) == list(x) and len(labels) == 5
    assert isinstance(of_polars.sample(5)[0], pl.DataFrame)
    folds = cross_val_predict(MixedNB(kinds=KINDS), x, y, cv=3)
    assert (folds == y).mean() > 0.7


def test_values_that_were_not_seen_have_the_smoothing_alone():
    x = pd.DataFrame({"colour": ["red", "red", "blue", None]})
    y = ["a", "a", "b", "b"]
    seen = pd.DataFrame({"colour": ["green", None, "red"]})
    # Counts (blue, red) + 1 are (1, 3) of 4 in a, and (2, 1) of 3 in b.
    np.testing.assert_allclose(MixedNB().fit(x, y).predict_proba(seen)[:, 0], [0.5, 0.5, 9 / 13])
    # Counts (blue, red, other) + 1 are (1, 3, 1) of 5 in a, and (2, 1, 1) of 4 in b.
    other = MixedNB(unseen="other").fit(x, y).predict_proba(seen)
    np.testing.assert_allclose(other[:, 0], [4 / 9, 0.5, 12 / 17])
    # Counts (blue, red, missing) + 1 are (1, 3, 1) of 5 in a, and (2, 1, 2) of 5 in b.
    value = MixedNB(missing="value", kinds={"colour": "categorical"}).fit(x, y).predict_proba(seen)
    np.testing.assert_allclose(value[:, 0], [0.5, 1 / 3, 3 / 4])
    with pytest.raises(ValueError, match="row 0, column 'colour': 'green', expected one of 'blue'"):
        MixedNB(unseen="error").fit(x, y).predict(seen)
    with pytest.raises(ValueError, match="'green', expected one of 'blue', 'red'"):
        MixedNB().partial_fit(x, y, ["a", "b"]).partial_fit(seen, ["a", "b", "b"])
    declared = MixedNB(kinds={"colour": ["red", "blue", "green"]}).fit(x, y)
    assert declared.columns_[0].values == ("red", "blue", "green")


def test_parts_of_a_table_are_the_whole():
    x, y = table()
    whole, parts = MixedNB(kinds=KINDS).fit(x, y), MixedNB(kinds=KINDS)
    for rows in np.split(np.arange(N), [70, 90]):
        parts.partial_fit(x.iloc[rows], y[rows], ["x", "y", "z"])
    np.testing.assert_allclose(parts.predict_log_proba(x), whole.predict_log_proba(x), atol=1e-12)


def test_rows_without_a_label_take_part():
    x, y = table()
    few = np.where(np.arange(N) % 4 > 0, None, y)
    found = MixedNB(kinds={name: "drop" for name in KINDS}, semi_supervised=True).fit(x, few)
    assert found.n_iter_ > 1 and found.score(x, y) > 0.7
    assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(found.params_))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.assign(hello=-1), "row 0, column 'hello': -1, expected a count"),
        (lambda x: x.assign(hello="many"), "column 'hello' holds strings, expected numbers"),
        (lambda x: x.assign(size=np.inf), "row 0, column 'size': inf, expected finite numbers"),
        (lambda x: x.drop(columns="hello"), "kinds names the column 'hello'"),
    ],
)
def test_errors_name_the_column(change, message):
    x, y = table()
    with pytest.raises(ValueError, match=message):
        MixedNB(kinds=KINDS).fit(change(x), y)


def test_columns_that_say_nothing_are_dropped_with_the_reason():
    x, y = table()
    x = x.assign(when=pd.Timestamp("2020-01-01"), id=[f"u{i}" for i in range(N)], copy=y, one="a")
    with pytest.warns(UserWarning, match="columns are not read: 'when' .*'id' .*'copy'"):
        found = MixedNB(kinds=KINDS).fit(x, y)
    assert [c.detail for c in found.columns_ if c.kind == "drop"] == [
        'dates: the kind "date" reads year, month, weekday, hour',
        f"{N} strings in {N} rows: they rarely repeat",
        "a copy of the label",
        "constant",
    ]
    expected = MixedNB(kinds=KINDS).fit(table()[0], y).predict_proba(x[table()[0].columns])
    np.testing.assert_array_equal(found.predict_proba(x), expected)


def test_other_errors():
    x, y = table()
    found = MixedNB(kinds=KINDS).fit(x, y)
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(x.drop(columns="size"))
    with pytest.raises(ValueError, match="column 'colour': numbers, expected strings, as 'blue'"):
        found.predict(x.assign(colour=1.0))
    with pytest.raises(ValueError, match="X is an array, expected a table"):
        found.predict(np.zeros((2, 6)))
    with pytest.raises(ValueError, match="kinds is given, but X is not a table"):
        MixedNB(kinds={"size": "numeric"}).fit(x[["size"]].to_numpy(), y)
    with pytest.raises(ValueError, match="no column to read"):
        MixedNB(kinds={"size": "drop"}).fit(x[["size"]], y)
    with pytest.raises(ValueError, match=r"kinds\['size'\] is 'number'"):
        MixedNB(kinds={"size": "number"}).fit(x, y)


def with_texts(n=101):
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, n)
    words = np.array(["alpha", "beta", "gamma", "delta"])
    shares = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.2, 0.1, 0.6]])
    notes = [" ".join(rng.choice(words, 5, p=shares[k])) for k in y]
    table = pd.DataFrame({"height": rng.normal(y), "note": notes, "other": notes[::-1]})
    table.loc[3, "note"] = None
    return table, np.array(["a", "b"])[y]


@pytest.mark.slow("DataFrame")
@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas])
def test_each_text_is_a_document(library):
    """The posterior is the sum of the scores of models of one column each."""
    x, y = with_texts()
    table = library(x)
    found = MixedNB(0.5).fit(table, y)
    assert [c.kind for c in found.columns_] == ["numeric", "text", "text"]
    expected = (
        GaussianNB(var_smoothing=0.0).fit(x[["height"]], y).predict_joint_log_proba(x[["height"]])
    )
    for name in ("note", "other"):
        counts = CountVectorizer().fit_transform(x[name].fillna(""))
        model = MultinomialNB(alpha=0.5).fit(counts, y)
        expected = expected + counts @ model.feature_log_prob_.T
    expected -= np.logaddexp.reduce(expected, 1)[:, None]
    np.testing.assert_allclose(found.predict_log_proba(table), expected, rtol=1e-9, atol=1e-9)
    parts = MixedNB(0.5).partial_fit(table[:50], y[:50], classes=["a", "b"])
    parts.partial_fit(table[50:], y[50:])
    np.testing.assert_allclose(parts.predict_log_proba(table), expected, rtol=1e-9, atol=1e-9)
    drawn, _ = found.sample(7, random_state=0)
    assert type(drawn) is type(table) and list(drawn.columns) == list(table.columns)
    assert {word for text in drawn["note"] for word in text.split()} <= {
        "alpha",
        "beta",
        "gamma",
        "delta",
    }


def test_a_text_that_cannot_be_read_is_named():
    x, y = with_texts()
    assert MixedNB(kinds={"note": "categorical"}).fit(x, y).columns_[1].kind == "categorical"
    with pytest.raises(ValueError, match="column 'height' holds numbers, expected strings"):
        MixedNB(kinds={"height": "text"}).fit(x, y)
    with pytest.raises(ValueError, match=r"column .note. is read as text, but has no word"):
        MixedNB(kinds={"note": "text"}).fit(x.assign(note="?"), y)


def test_terms_of_columns_add_up_to_the_log_odds():
    x, y = table()
    x["note"] = [f"row {i} says {'win' if k == 'x' else 'lose'} or not" for i, k in enumerate(y)]
    found = MixedNB(kinds=KINDS | {"grade": "drop"}).fit(x, y)
    log_p = found.predict_log_proba(x)
    why = found.explain(x, of="z", against="x")
    assert why.features.shape == (N, len(found.feature_names_in_))
    np.testing.assert_allclose(why.log_odds, log_p[:, 2] - log_p[:, 0], atol=1e-9)
    assert (why.features[:, list(x).index("grade")] == 0).all()
    assert (why.features[::7, 0] == 0).all() and (why.features[1::7, 0] != 0).all()
    alone = found.explain(x[:1].assign(note=None))
    assert alone.features[0, -1] == 0
    with pytest.raises(ValueError, match="against is 'w', expected one of"):
        found.explain(x, against="w")


def test_terms_of_sparse_words_and_of_numbers():
    words = CountVectorizer().fit_transform(["win cash", "see you", "cash", "you and you"] * 5)
    y = np.array([1, 0, 1, 0] * 5)
    found = OurMultinomialNB().fit(words, y)
    log_p = found.predict_log_proba(words)
    assert found.explain(words, of=1).features.shape == words.shape
    np.testing.assert_allclose(found.explain(words, of=1).log_odds, log_p[:, 1] - log_p[:, 0])
    numbers = np.random.default_rng(0).normal(size=(20, 3)) + y[:, None]
    found = LinearDiscriminant().fit(numbers, y)
    log_odds = found.explain(numbers, of=1, against=0).log_odds
    np.testing.assert_allclose(log_odds, found.decision_function(numbers))


def test_rows_of_weight_0_leave_no_trace():
    """Neither in values, words and bins nor by what their cells hold."""
    x, y = table()
    x["note"] = [f"word{i % 7} is here" for i in range(N)]
    x["far"] = x["size"].fillna(0)
    w = (np.arange(N) % 4 > 0) * (1.0 + np.arange(N) % 3)
    x.loc[w == 0, "note"] = "other words altogether"
    x.loc[w == 0, "colour"] = "violet"
    x.loc[w == 0, "far"] = np.inf
    kinds = KINDS | {"note": "text", "size": "binned", "far": "numeric"}
    found = MixedNB(kinds=kinds).fit(x, y, sample_weight=w)
    used = w > 0
    expected = MixedNB(kinds=kinds).fit(x[used], y[used], sample_weight=w[used])
    assert found.columns_ == expected.columns_
    np.testing.assert_array_equal(found.predict_proba(x[used]), expected.predict_proba(x[used]))


def test_words_that_come_later_are_left_out_with_a_warning():
    first = pd.DataFrame({"note": ["win cash", "see you", "win you", "see cash"]})
    later = pd.DataFrame({"note": ["win soon", "see later"]})
    y = ["a", "b", "a", "b"]
    model = MixedNB(kinds={"note": "text"}).partial_fit(first, y, classes=["a", "b"])
    with pytest.warns(UserWarning, match="2 words of column 'note', such as 'later', are not"):
        model.partial_fit(later, ["a", "b"])
    known = learn_vocabulary([*first["note"], *later["note"]])
    whole = MixedNB(kinds={"note": known}).fit(pd.concat([first, later]), [*y, "a", "b"])
    model = MixedNB(kinds={"note": known}).partial_fit(first, y, classes=["a", "b"])
    model.partial_fit(later, ["a", "b"])
    np.testing.assert_allclose(
        model.predict_proba(later), whole.predict_proba(later), rtol=1e-12, atol=1e-12
    )


def test_wrong_cells_labels_and_weights_are_located():
    with pytest.raises(ValueError, match="X has 6 rows and y 5 labels"):
        MixedNB().fit(pd.DataFrame({"a": np.arange(6) + 0.5}), [0, 1, 0, 1, 0])
    model = MixedNB(kinds={"c": "categorical"}).fit(pd.DataFrame({"c": ["a", "b"] * 3}), [0, 1] * 3)
    with pytest.raises(ValueError, match="'X', row 1, column 'c': 3, expected strings, as 'a'"):
        model.predict(pd.DataFrame({"c": ["a", 3]}))
    x = np.array([[1.0, 2.0], [3.0, np.inf], [4.0, 5.0]])
    with pytest.raises(ValueError, match=r"X\[1, 1\] is inf"):
        LinearDiscriminant().fit(x, [0, 1, 1])
    for wrong in (-1.0, np.nan):
        with pytest.raises(ValueError, match=rf"sample_weight\[2\] is {wrong:g}"):
            LinearDiscriminant().fit(np.nan_to_num(x), [0, 1, 1], [1.0, 1.0, wrong])


@pytest.mark.parametrize(
    ("model", "of"),
    [
        (GaussianNaiveBayes(ddof=1), "class 'a'"),
        (QuadraticDiscriminant(ddof=1), "class 'a'"),
        (LinearDiscriminant(ddof=3), "all classes"),
    ],
)
def test_a_covariance_without_a_divisor_is_refused(model, of):
    x, y = np.array([[0.0], [1.0], [2.5]]), ["a", "b", "b"]
    with pytest.raises(ValueError, match=f"ddof is .* below the weight of the rows of {of}"):
        model.fit(x, y)
    clf = model._model(np.array(["a", "b"]))
    with pytest.raises(ValueError, match="ddof is not below the number of rows"):
        gcf.validate(clf, x, np.array([0, 1, 1]))
