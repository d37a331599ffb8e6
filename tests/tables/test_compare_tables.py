"""`compare` on tables of pandas and polars, and what its best model reads."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import genclf as gcf
from genclf.tables.frames import cells_of
from genclf.tables.labels import usable_rows
from genclf.tables.remarks import table_notes
from tests.cli.test_cli import mixed

pytestmark = pytest.mark.xdist_group("compare")  # one worker makes the comparison that they share


@pytest.fixture(scope="module")
def table():
    """Numbers, categories, text and holes, with few enough columns to be quick."""
    return mixed().drop(columns=["[red]weight", "sparse", "rooms"])


@pytest.fixture(scope="module")
def found(table):
    return gcf.compare(table, label="kind", num_folds=3)


def test_what_is_found_does_not_depend_on_the_library_of_the_table(table, found):
    seen = gcf.compare(pl.from_pandas(table), "kind", num_folds=3)
    assert seen.models == found.models and seen.notes == found.notes
    assert isinstance(seen.table, pl.DataFrame) and isinstance(found.table, pd.DataFrame)
    assert seen.table["model"].to_list() == found.table["model"].to_list()
    assert [(c.name, c.kind, c.detail) for c in seen.columns] == [
        (c.name, c.kind, c.detail) for c in found.columns
    ]
    np.testing.assert_array_equal(
        seen.best.predict(pl.from_pandas(table)), found.best.predict(table)
    )
    nullable = table.convert_dtypes()  # holes are pd.NA, which has no truth value
    assert nullable.isna().to_numpy().any()
    np.testing.assert_array_equal(seen.best.predict(nullable), found.best.predict(table))


def test_the_best_model_is_the_first_of_the_table_fitted_to_all_rows(table, found):
    labelled = table[table.kind.notna()]
    assert found.best.name == found.models[0].model == found.table["model"].iloc[0]
    assert found.models[0].log_loss == min(m.log_loss for m in found.models if not m.problem)
    classes, y = np.unique(labelled.kind, return_inverse=True)
    np.testing.assert_array_equal(found.best.classes, classes)
    log_p = found.best.log_posterior(labelled)
    assert log_p.dtype == np.float64
    np.testing.assert_allclose(np.exp(log_p).sum(1), 1.0, rtol=1e-12)
    # Better on the rows that it was fitted to than on rows held out.
    assert -log_p[np.arange(len(y)), y].mean() < found.models[0].log_loss
    x = found.best.read(labelled)
    own = gcf.log_posterior(found.best.params, x)
    np.testing.assert_allclose(own, log_p, rtol=1e-4, atol=1e-4)
    params = gcf.fit(found.best.classifier, x, y)
    np.testing.assert_allclose(gcf.log_posterior(params, x), log_p, rtol=1e-3, atol=1e-3)


def test_a_table_is_read_by_the_names_of_its_columns(table, found):
    expected = found.best.log_posterior(table)
    shuffled = table[table.columns[::-1]].assign(more="ignored").drop(columns="kind")
    np.testing.assert_array_equal(found.best.log_posterior(shuffled), expected)


def test_an_unknown_value_is_no_evidence(found, table):
    row = table.iloc[[0]].astype({"city": object})
    unknown = found.best.log_posterior(row.assign(city="Atlantis", note="zzz zzz"))
    cities = [found.best.log_posterior(row.assign(city=c, note="")) for c in ("Oslo", "Rome")]
    assert np.isfinite(unknown).all()
    assert not np.allclose(cities[0], cities[1])
    log_p = found.best.params.log_prior
    nothing = row.assign(city="Atlantis", note="", height=np.nan, member=None)
    np.testing.assert_allclose(found.best.log_posterior(nothing)[0], log_p, atol=1e-12)


def test_what_the_best_model_cannot_read_is_named(found, table):
    with pytest.raises(ValueError, match="no column 'height'"):
        found.best.predict(table.drop(columns="height"))
    with pytest.raises(ValueError, match="column 'height': strings, expected numbers"):
        found.best.predict(table.iloc[:2].assign(height=["1.5", "tall"]))
    with pytest.raises(ValueError, match="expected a table of pandas"):
        found.best.predict([[1, 2]])


@pytest.mark.slow
def test_a_missing_number_is_named_if_the_model_does_not_take_it():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 61)
    x = rng.normal(size=(61, 2)) @ [[1.0, 0.9], [0.0, 0.3]] + 2 * y[:, None] * [1.0, -1.0]
    table = pd.DataFrame(x, columns=["a", "b"]).assign(label=y)
    found = gcf.compare(table, "label", num_folds=3)
    assert found.best.name in ("LDA", "QDA")
    assert found.best.predict(table).dtype.kind == "i"
    with pytest.raises(ValueError, match="row 1, column 'b': nan, expected a number; or"):
        found.best.predict(pd.DataFrame({"a": [0.5, 1.0], "b": [0.0, None]}))


@pytest.mark.slow
def test_labels_keep_their_type():
    x = np.repeat([0.0, 5.0], 11) + np.arange(22) / 7
    for labels, kind in (
        (np.repeat([3, 8], 11), "i"),
        (np.repeat([False, True], 11), "b"),
        (np.repeat([0.5, 1.5], 11), "f"),
        (np.repeat(["a", "b"], 11), "U"),
    ):
        table = pd.DataFrame({"x": x, "y": labels})
        guess = gcf.compare(table, "y", num_folds=2).best.predict(table)
        assert guess.dtype.kind == kind
        np.testing.assert_array_equal(guess, labels)


@pytest.mark.parametrize(("number", "words"), [(2, "s0, s1."), (11, "s6, s7, s8 and 1 more.")])
def test_many_classes_of_one_row_are_not_all_named(number, words):
    label = pd.Series(["a", "a", "b", "b", *(f"s{i}" for i in range(number))], name="y")
    usable = usable_rows(cells_of({"y": label}, "table")["y"], "y")
    (note,) = table_notes(usable, {}, [], 2, 2)
    assert note.startswith("Left out, classes of one row") and note.endswith(words)


@pytest.mark.slow
def test_dates_are_dropped_and_the_kind_that_reads_them_is_named():
    table = pl.DataFrame(
        {
            "day": pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 22), eager=True),
            "x": np.arange(22) / 7,
            "y": ["a", "b"] * 11,
        }
    )
    found = gcf.compare(table, "y", num_folds=2)
    assert (found.columns[0].kind, found.columns[0].detail) == (
        "drop",
        'dates: the kind "date" reads year, month, weekday, hour',
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([[1, 2]], "table is .*expected a table"),
        (pd.DataFrame({"a": [], "y": []}), "table has no rows"),
        (pd.DataFrame({"a": [1.5, 2.5]}), "no column 'y'; the columns are 'a'"),
        (pd.DataFrame({"a": [1.5, 2.5], "y": [None, None]}), "label 'y' is missing in every row"),
        (pd.DataFrame([[1, "p", "p"]] * 5, columns=["a", "y", "y"]), "y"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(given, problem):
    with pytest.raises(ValueError, match=problem):
        gcf.compare(given, "y")
