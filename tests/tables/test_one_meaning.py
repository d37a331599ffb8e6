"""One table has one schema and one posterior, whatever holds it and at whatever door it is read."""

import io
from contextlib import redirect_stdout
from decimal import Decimal

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import genclf as gcf
from genclf.cli.files import read_table
from genclf.cli.main import main
from genclf.sklearn import MixedNB
from genclf.stream import fit_batches, predict_batches
from genclf.tables import comparison

N = 97
LABELS = np.array(["no", "yes"])


def columns():
    """A column of each kind, and one that is dropped; cells of None are missing."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, N)
    words = np.array(["win", "cash", "see", "you"])
    shares = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    found = {
        "size": (rng.normal(size=N) + y).tolist(),
        "whole": rng.integers(0, 300, N).tolist(),
        "level": (rng.integers(0, 4, N) + y).tolist(),
        "flag": (rng.random(N) < 0.2 + 0.5 * y).tolist(),
        "colour": np.array(["red", "green", "blue"])[(y + rng.integers(0, 2, N)) % 3].tolist(),
        "code": np.array(["01", "1", "1.0"])[(y + rng.integers(0, 2, N)) % 3].tolist(),
        "note": [f"u{i} " + " ".join(rng.choice(words, 4, p=shares[k])) for i, k in enumerate(y)],
        "id": [f"row-{i}" for i in range(N)],
    }
    for j, name in enumerate(["size", "whole", "level", "flag", "colour", "code", "note"]):
        found[name][j::11] = [None] * len(range(j, N, 11))
    return found, LABELS[y].tolist()


CELLS, Y = columns()
KINDS = {
    "size": "numeric",
    "whole": "numeric",
    "level": "categorical",
    "flag": "binary",
    "colour": "categorical",
    "code": "categorical",
    "note": "text",
    "id": "drop",
}


def pandas_objects():
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in CELLS.items()})


def categories():
    frame = pd.DataFrame(CELLS)
    return frame.astype(dict.fromkeys(["colour", "code"], "category"))


def of_batches():
    return pa.Table.from_batches(pa.Table.from_pydict(CELLS).to_batches(max_chunksize=N // 3))


CONTAINERS = {
    "pandas": lambda: pd.DataFrame(CELLS),
    "pandas, objects": pandas_objects,
    "pandas, nullable": lambda: pd.DataFrame(CELLS).convert_dtypes(),
    "pandas, Arrow": lambda: pd.DataFrame(CELLS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas, categories": categories,
    "polars": lambda: pl.DataFrame(CELLS),
    "polars, categories": lambda: pl.DataFrame(CELLS).with_columns(
        pl.col("colour").cast(pl.Categorical), pl.col("code").cast(pl.Enum(["01", "1", "1.0"]))
    ),
    "Arrow": lambda: pa.Table.from_pydict(CELLS),
    "Arrow, chunks": of_batches,
    "record batch": lambda: pa.RecordBatch.from_pydict(CELLS),
    "dict of lists": lambda: dict(CELLS),
    "dict of arrays": lambda: {
        "size": np.array(CELLS["size"], float),
        **{name: np.array(cells, object) for name, cells in CELLS.items() if name != "size"},
    },
    "decimals": lambda: pd.DataFrame(CELLS).assign(
        whole=[None if cell is None else Decimal(cell) for cell in CELLS["whole"]]
    ),
}


@pytest.fixture(scope="module")
def expected():
    """The columns, and the posterior of the model of the core."""
    with pytest.warns(UserWarning, match="'id'"):
        model = MixedNB().fit(pd.DataFrame(CELLS), Y)
    code = {name: {v: i for i, v in enumerate(c.values)} for name, c in _named(model).items()}
    numbers = np.array([CELLS["size"], CELLS["whole"]], float).T
    coded = "level", "flag", "colour", "code"
    categorical = [[code[name].get(cell, -1) for cell in CELLS[name]] for name in coded]
    texts = ["" if cell is None else cell for cell in CELLS["note"]]
    counts = gcf.text.learn_vocabulary(texts).counts(texts, np.float64).toarray()
    x = {"numeric": numbers, "categorical": np.array(categorical, np.int32).T, "text note": counts}
    family = gcf.Product(
        {
            "numeric": gcf.Gaussian("diag", missing="marginalize"),
            "categorical": gcf.Categorical((5, 2, 3, 3), alpha=1.0, missing="marginalize"),
            "text note": gcf.Multinomial(alpha=1.0),
        }
    )
    with jax.enable_x64(True):
        y = np.searchsorted(LABELS, Y)
        log_p = gcf.log_posterior(gcf.fit(gcf.Classifier(family, 2), x, y), x)
        return tuple(model.columns_), np.exp(np.asarray(log_p))


def _named(model):
    return {column.name: column for column in model.columns_}


def _fitted(table):
    with pytest.warns(
        UserWarning, match=r"not read: 'id' \(97 strings in 97 rows: they rarely rep"
    ):
        return MixedNB().fit(table, Y)


def test_columns_have_the_kinds_of_the_rules(expected):
    assert {column.name: column.kind for column in expected[0]} == KINDS


@pytest.mark.parametrize("container", CONTAINERS)
def test_mixed_nb(expected, container):
    table = CONTAINERS[container]()
    model = _fitted(table)
    assert tuple(model.columns_) == expected[0]
    np.testing.assert_allclose(model.predict_proba(table), expected[1], rtol=1e-12, atol=1e-12)
    # A model that one container taught reads all others.
    other = _fitted(CONTAINERS["polars"]())
    np.testing.assert_allclose(other.predict_proba(table), expected[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("container", CONTAINERS)
def test_schema(expected, container):
    batch = _with_labels(CONTAINERS[container]())
    with pytest.warns(UserWarning, match="not read: 'id'"):
        schema = gcf.Schema.of(None, batch, "y")
    assert schema.columns == tuple(c for c in expected[0] if c.kind != "drop")
    clf = schema.model()
    with jax.enable_x64(True):
        params = fit_batches(clf, [batch], schema)
        found = [table["p"] for table in predict_batches(params, [batch], schema, posterior="p")]
    posterior = np.concatenate([np.array(cells.to_pylist()) for cells in found])
    np.testing.assert_allclose(posterior, expected[1], rtol=1e-12, atol=1e-12)


def _with_labels(table):
    if isinstance(table, dict):
        return table | {"y": Y}
    if isinstance(table, pd.DataFrame):
        return table.assign(y=Y)
    if isinstance(table, pl.DataFrame):
        return table.with_columns(pl.Series("y", Y))
    if isinstance(table, pa.RecordBatch):
        return pa.RecordBatch.from_arrays([*table.columns, pa.array(Y)], [*table.schema.names, "y"])
    return table.append_column("y", [Y])


@pytest.fixture
def mixed_alone(monkeypatch):
    """The class prior and the model of all columns are tried alone."""
    every = comparison.candidates
    monkeypatch.setattr(comparison, "candidates", lambda *a: [every(*a)[0], every(*a)[-1]])
    for name in ("on_columns", "on_terms"):
        monkeypatch.setattr(comparison, name, lambda *given: [])


@pytest.mark.slow("pandas")
@pytest.mark.parametrize("container", CONTAINERS)
def test_compare(expected, container, mixed_alone):
    table = _with_labels(CONTAINERS[container]())
    found = gcf.compare(table, "y", num_folds=2)
    assert found.columns == expected[0]
    assert found.best.name == "mixed naive Bayes"
    np.testing.assert_allclose(found.best.predict_proba(table), expected[1], rtol=1e-12, atol=1e-12)
    assert found.best.classes_.tolist() == LABELS.tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_command_line(expected, ending, mixed_alone, tmp_path, capsys):
    table, path = _with_labels(pl.DataFrame(CELLS)), tmp_path / f"in.{ending}"
    if ending == "csv":
        table.write_csv(path)
    else:
        pq.write_table(table.to_arrow(), path)
    assert main(["compare", str(path), "--label", "y", "--folds", "2"]) == 0
    said = [line.split()[:2] for line in capsys.readouterr().out.splitlines() if line]
    if ending == "csv":  # strings of which some have leading zeros stay strings
        assert [name for name, *kind in said if kind == ["drop"]] == ["id"]
    for name, kind in KINDS.items():
        assert [name, kind] in said
    found = gcf.compare(read_table(str(path), "y").columns, "y", num_folds=2)
    assert found.columns == expected[0]
    np.testing.assert_allclose(found.best.predict_proba(table), expected[1], rtol=1e-12, atol=1e-12)


def test_labels_come_back_as_they_are(mixed_alone):
    x = np.repeat([0.0, 5.0], 11) + np.arange(22) / 7
    for given in ([3, 8], [False, True], [0.5, 1.5], [1.0, 2.0], ["01", "1"], ["TRUE", "true"]):
        labels = np.repeat(np.array(given), 11)
        table = pd.DataFrame({"x": x, "y": labels})
        best = gcf.compare(table, "y", num_folds=2).best
        found = best.predict(table)
        assert found.dtype == labels.dtype and (found == labels).all()
        assert best.score(table, labels) == 1.0
        if given != [0.5, 1.5]:  # which scikit-learn takes for a regression
            model = MixedNB().fit(table[["x"]], table["y"])
            assert (model.predict(table[["x"]]) == labels).all()
        schema = gcf.Schema.of(None, table, "y")
        params = fit_batches(schema.model(), [table], schema)
        (rows,) = predict_batches(params, [table], schema)
        assert rows["prediction"].to_pylist() == labels.tolist()
    holes = pd.DataFrame({"x": x, "y": np.where(np.arange(22) == 3, np.nan, np.repeat([1, 2], 11))})
    assert gcf.compare(holes, "y", num_folds=2).best.classes.dtype.kind == "i"


def test_values_that_kinds_lack_and_missing_counts_are_errors(mixed_alone):
    table = _with_labels(pd.DataFrame(CELLS))
    kinds = {"colour": ["red", "green"]}
    for call in (
        lambda: gcf.compare(table, "y", kinds=kinds, num_folds=2),
        lambda: MixedNB(kinds=kinds).fit(table.drop(columns=["y", "id"]), Y),
        lambda: _summed(table, kinds),
    ):
        with pytest.raises(
            ValueError, match="column 'colour': 'blue', expected one of 'red', 'green'"
        ):
            call()
    with pytest.raises(ValueError, match="row 1, column 'whole': nan, expected a count >= 0"):
        gcf.compare(table, "y", kinds={"whole": "count"}, num_folds=2)
    values = {"flag": [False, True]}
    model = MixedNB(kinds=values, missing="value").fit(table[["flag"]], Y)
    assert model.columns_[0].values == (False, True, None)


def _summed(table, kinds):
    kinds = kinds | {"id": "drop"}
    schema = gcf.Schema.of(None, table, "y", kinds=kinds)
    gcf.partial(schema.model(), schema, table, part_id="p")


def test_whole_numbers_of_many_values_are_numbers_however_they_come():
    few = {"a": [1, 2, 3, 4] * 20_000, "y": ["u", "v"] * 40_000}
    many = {"a": list(range(100)), "y": ["u", "v"] * 50}
    schema = gcf.Schema.scan(None, [few, many], "y")
    assert (schema.columns[0].kind, schema.columns[0].values) == ("numeric", ())
    whole = gcf.Schema.scan(None, [many, few], "y")
    assert whole == schema
    given = gcf.Schema.scan(None, [few, many], "y", kinds={"a": "categorical"})
    assert len(given.columns[0].values) == 100


def test_names_of_any_kind(mixed_alone):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(31, 3))
    table = pd.DataFrame(x).assign(**{"y": rng.integers(0, 2, 31)}).rename(columns={2: (1, "b")})
    found = gcf.compare(table, "y", num_folds=2, drop=[1])
    assert [c.kind for c in found.columns] == ["numeric", "drop", "numeric"]
    assert found.best.log_posterior(table).shape == (31, 2)
    model = MixedNB().fit(table[[0, 1, (1, "b")]], table["y"])
    assert [c.name for c in model.columns_] == [0, 1, (1, "b")]


@pytest.mark.slow("ignore")
@pytest.mark.parametrize("missing", ["ignore", "value"])
def test_binned_numbers_are_categories_of_bins(missing, mixed_alone):
    from genclf.discretize import codes, quantile_edges

    size = np.array(CELLS["size"], float)
    hole = np.isnan(size)
    with jax.enable_x64(True):
        edges = quantile_edges(size[~hole], 10)
        binned = np.asarray(codes(size, edges))
    binned = np.where(hole, 10, binned) if missing == "value" else binned
    as_codes = [None if b < 0 else f"b{b:02}" for b in binned.tolist()]
    table = pd.DataFrame({"size": size, "flag": CELLS["flag"]})
    other = pd.DataFrame({"size": as_codes, "flag": CELLS["flag"]})
    how = {"size": "binned"}
    model = MixedNB(kinds=how, missing=missing).fit(table, Y)
    expected = MixedNB(missing=missing).fit(other, Y).predict_proba(other)
    np.testing.assert_allclose(model.predict_proba(table), expected, rtol=1e-12)
    assert model.columns_[0].detail.startswith("10 bins, cut from ")
    drawn = model.sample(5, random_state=0)[0]
    assert drawn["size"].notna().sum() > 0 and drawn["size"].max() <= edges[-1]
    labelled = table.assign(y=Y)
    best = gcf.compare(labelled, "y", kinds=how, missing=missing, num_folds=2).best
    np.testing.assert_allclose(best.predict_proba(table), expected, rtol=1e-12)
    schema = gcf.Schema.of(None, labelled, "y", kinds=how, missing=missing)
    assert gcf.Schema.from_json(schema.to_json()) == schema
    with jax.enable_x64(True):
        params = fit_batches(schema.model(), [labelled], schema)
        (found,) = predict_batches(params, [table], schema, posterior="p")
    np.testing.assert_allclose(found["p"].to_pylist(), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="holds strings, expected numbers, since kinds"):
        MixedNB(kinds={"size": "binned"}).fit(other, Y)


def test_kernel_densities_of_numbers(mixed_alone):
    size, whole = (np.array(CELLS[name], float) for name in ("size", "whole"))
    kinds = {"size": "kernel", "whole": "kernel"}
    table = pd.DataFrame({"size": size, "whole": whole})
    with jax.enable_x64(True):
        y = np.searchsorted(LABELS, Y)
        family = gcf.Independent(gcf.KernelDensity(missing="marginalize"))
        x = np.stack([size, whole], 1)
        log_p = gcf.log_posterior(gcf.fit(gcf.Classifier(family, 2), x, y), x)
    model = MixedNB(kinds=kinds).fit(table, Y)
    np.testing.assert_allclose(model.predict_proba(table), np.exp(log_p), rtol=1e-12)
    labelled = table.assign(y=Y)
    best = gcf.compare(labelled, "y", kinds=kinds, num_folds=2).best
    assert best.name == "kernel naive Bayes"
    np.testing.assert_allclose(best.predict_proba(table), np.exp(log_p), rtol=1e-12)
    with pytest.raises(ValueError, match="is 'kernel', but a kernel density needs all rows"):
        gcf.Schema.of(None, labelled, "y", kinds=kinds)
    with pytest.raises(ValueError, match="column 'flag' holds strings, expected numbers"):
        MixedNB(kinds={"flag": "kernel"}).fit(pd.DataFrame({"flag": Y}), Y)
    with pytest.raises(ValueError, match="partial_fit"):
        MixedNB(kinds=kinds).partial_fit(table, Y, classes=LABELS)


@pytest.mark.slow("pink")
@pytest.mark.parametrize("seen", ["pink", None])
def test_what_was_not_seen_is_no_evidence_at_any_door(seen, mixed_alone):
    """Three unseen categories do not make the rarest class certain."""
    rng = np.random.default_rng(5)
    y = (np.arange(1000) >= 990).astype(int)
    table = pd.DataFrame({name: rng.choice(["a", "b", "c"], 1000) for name in "uvw"})
    row = pd.DataFrame({name: [seen] for name in "uvw"}, dtype=object)
    prior = [[0.99, 0.01]]
    np.testing.assert_allclose(MixedNB().fit(table, y).predict_proba(row), prior, rtol=1e-12)
    best = gcf.compare(table.assign(y=y), "y", num_folds=2).best
    np.testing.assert_allclose(best.predict_proba(row), prior, rtol=1e-12)
    schema = gcf.Schema.of(None, table.assign(y=y), "y")
    params = fit_batches(schema.model(), [table.assign(y=y)], schema)
    (found,) = predict_batches(params, [row], schema, posterior="p")
    np.testing.assert_allclose(found["p"].to_pylist(), prior, rtol=1e-6)


def test_a_table_model_is_an_estimator(mixed_alone):
    from sklearn.base import clone, is_classifier
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import Pipeline

    table = _with_labels(pd.DataFrame(CELLS))
    best = gcf.compare(table, "y", num_folds=2, drop=["id"], kinds={"level": "numeric"}).best
    assert is_classifier(best) and clone(best) is not best
    scores = cross_val_score(best, table, table["y"], cv=3)
    assert scores.min() > 0.6
    again = Pipeline([("model", clone(best))]).fit(table, table["y"])
    np.testing.assert_allclose(again.predict_proba(table), best.predict_proba(table), rtol=1e-12)
    why = best.explain(table)
    assert list(why.feature_names) == [str(column.name) for column in best.columns]
    assert list(why.class_names) == ["no", "yes"]


def test_the_report_says_what_was_read_and_dropped(tmp_path, mixed_alone):
    path = tmp_path / "a.csv"
    pl.DataFrame(CELLS).with_columns(pl.Series("y", Y), pl.lit("?").alias("gone")).write_csv(path)
    out = io.StringIO()
    with redirect_stdout(out):
        arguments = ["--drop", "whole", "--kind", "level=numeric", "--missing", "value"]
        assert main(["compare", str(path), "--label", "y", "--folds", "2", *arguments]) == 0
    lines = ["  ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "whole  drop  by  kinds" in lines
    assert any(line.startswith("level  numeric") for line in lines)
    text = "\n".join(lines)
    assert "flag  categorical  3  values:  False,  True,  (missi" in text
    assert "Read  as  missing  cells:  gone  '?'  97." in text
