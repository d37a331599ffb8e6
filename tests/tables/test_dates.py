"""A column of dates is its year, month, weekday and hour, at every door and in every container."""

import datetime

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import genclf as gcf
from genclf.sklearn import MixedNB
from genclf.stream import fit_batches, predict_batches
from genclf.tables import comparison
from genclf.tables.dates import PARTS, date_of
from tests.stream.batches import assert_equal

N = 97
KINDS = {"when": "date"}
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def dates(start="1931-02-03T04:05:06"):
    """Dates before and after 1970; some are missing."""
    rng = np.random.default_rng(4)
    found = np.datetime64(start, "us") + rng.integers(0, 10**9, N) * np.timedelta64(3, "s")
    found[::13] = "NaT"
    return found


WHEN = dates()
CELLS = [None if np.isnat(date) else date.item() for date in WHEN]
Y = np.array([cell is not None and cell.hour < 12 for cell in CELLS])


def parts():
    """The parts, by Python."""
    return pd.DataFrame(
        {
            "year": [np.nan if d is None else d.year for d in CELLS],
            "month": pd.Series([None if d is None else d.month for d in CELLS], dtype=object),
            "weekday": [None if d is None else WEEKDAYS[d.weekday()] for d in CELLS],
            "hour": pd.Series([None if d is None else d.hour for d in CELLS], dtype=object),
        }
    )


CONTAINERS = {
    "pandas": lambda: pd.DataFrame({"when": WHEN}),
    "pandas, objects": lambda: pd.DataFrame({"when": pd.Series(CELLS, dtype=object)}),
    "pandas, nanoseconds": lambda: pd.DataFrame({"when": pd.Series(WHEN.astype("M8[ns]"))}),
    "pandas, Arrow": lambda: pd.DataFrame({"when": pd.array(CELLS, "timestamp[us][pyarrow]")}),
    "pandas, time zone": lambda: pd.DataFrame(
        {"when": [None if c is None else c.replace(tzinfo=ZONE) for c in CELLS]}
    ),
    "polars": lambda: pl.DataFrame({"when": CELLS}),
    "Arrow": lambda: pa.table({"when": CELLS}),
    "Arrow, seconds": lambda: pa.table({"when": pa.array(CELLS, pa.timestamp("s"))}),
    "Arrow, time zone": lambda: pa.table(
        {"when": pa.array([c and c.replace(tzinfo=ZONE) for c in CELLS], IN_ZONE)}
    ),
    "strings": lambda: {"when": [None if c is None else c.isoformat() for c in CELLS]},
    "array": lambda: {"when": WHEN},
    "array, nanoseconds": lambda: {"when": WHEN.astype("M8[ns]")},
}
ZONE = datetime.timezone(datetime.timedelta(hours=9))
IN_ZONE = pa.timestamp("us", "+09:00")


@pytest.fixture(scope="module")
def expected():
    """The posterior of a model that is given the parts."""
    values = {"month": [*range(1, 13)], "weekday": WEEKDAYS, "hour": [*range(24)]}
    return MixedNB(kinds={"year": "numeric"} | values).fit(parts(), Y).predict_proba(parts())


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers(expected, container):
    table = CONTAINERS[container]()
    model = MixedNB(kinds=KINDS).fit(table, Y)
    assert [c.name for c in model.columns_] == [f"when {part}" for part in PARTS]
    assert [c.kind for c in model.columns_] == ["numeric", *["categorical"] * 3]
    assert [c.num_missing for c in model.columns_] == [8] * 4
    np.testing.assert_allclose(model.predict_proba(table), expected, rtol=1e-12, atol=1e-12)
    other = MixedNB(kinds=KINDS).fit(CONTAINERS["polars"](), Y)
    assert model.columns_ == other.columns_
    np.testing.assert_allclose(other.predict_proba(table), expected, rtol=1e-12, atol=1e-12)


@pytest.fixture
def mixed_alone(monkeypatch):
    """The class prior and the model of all columns are tried alone."""
    every = comparison.candidates
    monkeypatch.setattr(comparison, "candidates", lambda *a: [every(*a)[0], every(*a)[-1]])


def test_compare_and_its_model(expected, mixed_alone):
    table = pd.DataFrame({"when": WHEN, "y": Y})
    found = gcf.compare(table, "y", kinds=KINDS, num_folds=2)
    assert [(c.name, c.source) for c in found.columns] == [(f"when {p}", "when") for p in PARTS]
    np.testing.assert_allclose(found.best.predict_proba(table), expected, rtol=1e-12, atol=1e-12)
    assert found.best.feature_names_in_.tolist() == ["when"]
    assert found.best.explain(table.iloc[:3]).feature_names == tuple(f"when {p}" for p in PARTS)
    assert "softmax regression (baseline)" in [model.model for model in found.models]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_streams(expected, ending, tmp_path):
    path = tmp_path / f"in.{ending}"
    table = pl.DataFrame({"when": CELLS, "y": Y.tolist()})
    table.write_csv(path) if ending == "csv" else table.write_parquet(path)
    schema = gcf.Schema.scan(None, [path], "y", kinds=KINDS)
    assert schema.names == ["when", "y"] and schema.sources == ["when"]
    assert gcf.Schema.from_json(schema.to_json()) == schema == schema.extend([path])
    assert schema.columns == tuple(MixedNB(kinds=KINDS).fit(table[["when"]], Y).columns_)
    with jax.enable_x64(True):
        params = fit_batches(schema.model(), [path], schema)
        (found,) = predict_batches(params, [path], schema, posterior="p")
    np.testing.assert_allclose(found["p"].to_pylist(), expected, rtol=1e-12, atol=1e-12)
    assert found["prediction"].to_pylist() == (expected[:, 1] > 0.5).tolist()


def test_parts_of_a_model():
    batch = {"when": WHEN, "size": np.arange(N) / 7, "y": Y}
    family = gcf.Product(
        {
            "numbers": gcf.Gaussian("diag", missing="marginalize"),
            "rest": gcf.Categorical((12, 7, 24), alpha=1.0, missing="marginalize"),
        }
    )
    schema = gcf.Schema.of(gcf.Classifier(family, 2), batch, "y", kinds=KINDS)
    assert [(c.name, c.part) for c in schema.columns] == [
        ("when year", "numbers"),
        ("when month", "rest"),
        ("when weekday", "rest"),
        ("when hour", "rest"),
        ("size", "numbers"),
    ]


def test_a_part_that_does_not_vary_is_dropped():
    days = np.datetime64("2024-05-01") + np.arange(31).astype("timedelta64[D]")
    model = MixedNB(kinds=KINDS).fit({"when": days}, np.arange(31) % 2)
    assert [(c.date_part, c.kind) for c in model.columns_] == [
        ("year", "drop"),
        ("month", "drop"),
        ("weekday", "categorical"),
        ("hour", "drop"),
    ]
    drawn = model.sample(7, random_state=0)[0]["when"]
    assert set(drawn.astype("M8[M]").tolist()) == {datetime.date(2024, 5, 1)}
    schema = gcf.Schema.of(None, {"when": days, "y": np.arange(31) % 2}, "y", kinds=KINDS)
    assert [c.date_part for c in schema.columns] == ["weekday"]


def test_sampled_tables_hold_dates():
    x = pd.DataFrame({"when": WHEN, "size": np.arange(N) / 7})
    model = MixedNB(kinds=KINDS).fit(x, Y)
    drawn, _ = model.sample(31, random_state=0)
    assert [*drawn.columns] == ["when", "size"]
    assert (model.predict_proba(drawn).sum(1) > 0.99).all()


def test_the_first_date_with_these_parts():
    day = np.datetime64("1960-01-01T05", "us") + np.arange(5000) * np.timedelta64(25, "h")
    own = {name: part.cells(day) for name, part in PARTS.items()}
    given = {name: cells.take(np.arange(5000)) for name, cells in own.items()}
    values = {name: [cells.shown(row) for row in range(5000)] for name, cells in given.items()}
    found = date_of(values)
    for name, part in PARTS.items():
        again = part.cells(found)
        assert [again.shown(row) for row in range(5000)] == values[name]
    assert (found.astype("M8[D]") - found.astype("M8[M]")).astype(int).max() < 7
    holes = {name: [own[0], None if name != "year" else np.nan] for name, own in values.items()}
    assert np.isnat(date_of(holes)).tolist() == [False, True]


def test_dates_are_offered_their_parts():
    for name in CONTAINERS:
        table = CONTAINERS[name]()
        with pytest.warns(UserWarning, match="'when' .dates: the kind \"date\" reads year"):
            MixedNB(kinds={"size": "numeric"}).fit(_with_size(table), Y)


def _with_size(table):
    when = table["when"]
    when = when.to_pylist() if isinstance(table, pa.Table) else when
    return {"when": when, "size": np.arange(N) / 7}


def test_cells_that_are_no_dates():
    model = MixedNB(kinds=KINDS).fit({"when": WHEN}, Y)
    for cells, said in (
        (["2024-05-31", "31.5.2024"], "row 1, column 'when': '31.5.2024', expected a date, as"),
        ([1.0, 2.0], "column 'when': numbers, expected dates"),
    ):
        with pytest.raises(ValueError, match=said):
            model.predict({"when": cells})
    with pytest.raises(ValueError, match="column 'when' holds numbers, expected dates, or strings"):
        MixedNB(kinds=KINDS).fit({"when": np.arange(N)}, Y)
    with pytest.raises(ValueError, match="column 'when' holds 'soon', expected dates, as 2024"):
        MixedNB(kinds=KINDS).fit({"when": ["2024-05-31", "soon"] * 10}, np.arange(20) % 2)
    with pytest.raises(ValueError, match="'when hour' is a column, and a part of a date"):
        MixedNB(kinds=KINDS).fit({"when": WHEN, "when hour": np.arange(N) / 7}, Y)


@pytest.mark.parametrize("missing", ["ignore", "value"])
def test_a_missing_date_as_a_value(missing):
    model = MixedNB(kinds=KINDS, missing=missing).fit({"when": WHEN}, Y)
    holes = [None in column.values for column in model.columns_]
    assert holes == [False, *[missing == "value"] * 3]
    found = model.predict_proba({"when": WHEN})[::13]
    prior = np.bincount(Y) / N
    assert np.allclose(found, prior, rtol=1e-12) == (missing == "ignore")


def test_few_years_are_categories_and_grow():
    """By the rule of whole numbers; a Gaussian of two years would be narrow."""
    rng = np.random.default_rng(6)
    days = np.datetime64("2023-11-01") + rng.integers(0, 90, N).astype("timedelta64[D]")
    model = MixedNB(kinds=KINDS).fit({"when": days}, Y)
    years = model.columns_[0]
    assert (years.name, years.kind, years.values) == ("when year", "binary", (2023, 2024))
    assert set(model.sample(31, random_state=1)[0]["when"].astype("M8[Y]").astype(str)) <= {
        "2023",
        "2024",
    }
    batches = [{"when": days, "y": Y}, {"when": days + np.timedelta64(366, "D"), "y": Y}]
    schema = gcf.Schema.scan(None, batches, "y", kinds=KINDS)
    assert schema.columns[0].values == (2023, 2024, 2025)
    first = gcf.Schema.of(None, batches[0], "y", kinds=KINDS)
    longer = first.extend([batches[1]])
    assert longer.columns[0].values == (2023, 2024, 2025)
    assert longer.columns[0].detail == "3 values: 2023, 2024, 2025"
    parts = [
        gcf.partial(first.model(), first, batches[0], part_id="1").extend(first, longer),
        gcf.partial(longer.model(), longer, batches[1], part_id="2"),
    ]
    whole = gcf.partial(longer.model(), longer, batches, part_id="all")
    assert_equal(gcf.combine(parts), whole)
