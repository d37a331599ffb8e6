"""A fitted model in one file, served without JAX; its scores are those of `test_host_scores`."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import genclf as gcf
from genclf.files.container import from_bytes, to_bytes
from genclf.stream import Predictor, fit_batches
from tests.processes import run

N = 31
RNG = np.random.default_rng(0)
COLUMNS = {
    "size": RNG.normal(size=N),
    "weight": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
    "colour": [["red", "green", None][i % 3] for i in range(N)],
    "y": [f"class {i % 2}" for i in range(N)],
}
FAMILY = gcf.Product({
    "number": gcf.Gaussian("diag", missing="marginalize"),
    "value": gcf.Categorical(2, missing="marginalize"),
})  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    clf = gcf.Classifier(FAMILY, 2)
    schema = gcf.Schema.of(clf, COLUMNS, label="y")
    return fit_batches(clf, [COLUMNS], schema), schema


@pytest.fixture
def path(fitted, tmp_path):
    Predictor.of(*fitted).save(tmp_path / "model.genclf")
    return tmp_path / "model.genclf"


WITHOUT_JAX = """
import json, sys
for name in ("jax", "scipy.linalg", "pandas", "pyarrow", "narwhals", "sklearn"):
    sys.modules[name] = None
from genclf.stream import Predictor
served = Predictor.load(sys.argv[1])
row = {"size": [0.5, None], "weight": [None, 1.0], "colour": ["red", "green"]}
print(json.dumps([served.predict(row), served.predict_proba(row).tolist()]))
"""


def test_a_process_without_jax_predicts(path):
    done = run(WITHOUT_JAX, str(path))
    assert not done.returncode, done.stderr
    classes, posterior = json.loads(done.stdout)
    row = {"size": [0.5, None], "weight": [None, 1.0], "colour": ["red", "green"]}
    served = Predictor.load(path)
    assert classes == served.predict(row)
    np.testing.assert_allclose(posterior, served.predict_proba(row), 1e-14)
    np.testing.assert_allclose(np.sum(posterior, 1), 1)


def test_tables_of_every_library_and_the_order_of_columns(fitted):
    served = Predictor.of(*fitted)
    expected = served.predict_proba(COLUMNS)
    frame = pd.DataFrame(COLUMNS)
    for table in (frame, frame[frame.columns[::-1]], polars.from_pandas(frame), pa.table(COLUMNS)):
        np.testing.assert_allclose(served.predict_proba(table), expected, 1e-14)
    one = {name: cells[3:4] for name, cells in COLUMNS.items()}
    np.testing.assert_allclose(served.predict_proba(one), expected[3:4], 1e-14)


def test_threads_share_it(fitted):
    served = pickle.loads(pickle.dumps(Predictor.of(*fitted)))
    expected = served.predict(COLUMNS)
    rows = [{name: cells[i : i + 1] for name, cells in COLUMNS.items()} for i in range(N)]
    with ThreadPoolExecutor(7) as threads:
        assert [own for (own,) in threads.map(served.predict, rows)] == expected


def test_a_row_without_a_posterior_has_no_class():
    x = {"x": [0.0, 0.0, 1.0, 1.0], "y": ["a", "a", "b", "b"]}
    clf = gcf.Classifier(gcf.Bernoulli(alpha=0.0), 2)
    schema = gcf.Schema.of(clf, x, label="y")
    params = gcf.with_prior(fit_batches(clf, [x], schema), np.array([1.0, 0.0], np.float32))
    assert Predictor.of(params, schema).predict({"x": [0.0, 1.0]}) == ["a", None]


def test_calibrated_posteriors(fitted, tmp_path):
    params, schema = fitted
    held = np.log(Predictor.of(params, schema).predict_proba(COLUMNS)).astype(np.float32)
    calibrated = gcf.with_calibration(params, gcf.recalibrate(held, np.arange(N) % 2))
    Predictor.of(calibrated, schema).save(tmp_path / "calibrated")
    found = Predictor.load(tmp_path / "calibrated").predict_proba(COLUMNS)
    np.testing.assert_allclose(found, Predictor.of(calibrated, schema).predict_proba(COLUMNS))
    assert np.abs(found - np.exp(held)).max() > 1e-3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"size": [1.0], "weight": [1.0]}, r"no column 'colour', expected one; the columns are"),
        (COLUMNS | {"colour": ["pink"] * N}, r"row 0.*'colour'.*'pink'.*expected one of 'green'"),
        (COLUMNS | {"size": ["big"] * N}, r"column 'size': strings, expected numbers"),
        (COLUMNS | {"size": [np.inf] * N}, r"'size'.*inf.*expected finite numbers"),
        (COLUMNS | {"size": [1.0]}, "the columns of rows differ in length"),
        ({name: [] for name in COLUMNS}, "rows has no rows"),
        (np.ones((2, 3)), "rows is a ndarray|expected a table"),
    ],
)
def test_rows_that_do_not_fit(fitted, rows, message):
    strict = gcf.Classifier(gcf.Product(FAMILY.parts | {"value": gcf.Categorical(2)}), 2)
    given = COLUMNS | {"colour": [["red", "green"][i % 2] for i in range(N)]}
    schema = gcf.Schema.of(strict, given, label="y")
    served = Predictor.of(fit_batches(strict, [given], schema), schema)
    with pytest.raises(ValueError, match=message):
        served.predict(rows)


def of_lists():
    x = RNG.normal(size=(N, 3))
    given = {"x": x, "y": np.arange(N) % 2}
    schema = gcf.Schema.of(gcf.lda(2), given, label="y")
    return fit_batches(gcf.lda(2), [given], schema), schema, x


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[1.0, 2.0, "3"]], "lists of numbers and strings, expected lists of 3 numbers"),
        (np.array([[1.0, 2.0, "3"]], object), "lists of numbers and strings"),
        ([[[1.0], [2.0], [3.0]]], "lists of lists of numbers"),
        ([[1.0, 2.0, {}]], "lists of dict and numbers"),
        ([[1.0, 2.0, None]], "row 0, column 'x': None, item 2 of the list, expected a number"),
        ([[1.0, 2.0, 3.0], [0.0, np.inf, 0.0]], "row 1.*inf, item 1 of the list"),
        ([[1.0, 2.0, 10**400]], "column 'x': a whole number above 1.8e308"),
        (np.ma.masked_array(np.ones((1, 3)), [[0, 1, 0]]), "row 0.*nan, item 1 of the list"),
        ("three", "column 'x' is 'three', expected a list of cells"),
    ],
)
def test_lists_that_do_not_fit(cells, message):
    params, schema, _ = of_lists()
    with pytest.raises(ValueError, match=message):
        Predictor.of(params, schema).predict({"x": cells})


def test_lists_of_any_type_are_the_same_rows():
    params, schema, x = of_lists()
    served = Predictor.of(params, schema)
    expected = served.predict_proba({"x": x})
    for cells in (x.tolist(), list(x), np.ma.masked_array(x), x.astype(object)):
        np.testing.assert_array_equal(served.predict_proba({"x": cells}), expected)


def test_lists_hold_numbers_or_counts():
    counts, y = RNG.poisson(2, size=(N, 3)), np.arange(N) % 2
    given = {"x": counts, "y": y}
    words, codes, bits = gcf.multinomial_nb(2), gcf.categorical_nb(2, 9), gcf.bernoulli_nb(2)
    params = gcf.fit(words, counts, y)
    found = Predictor.of(params, gcf.Schema.of(words, given, label="y")).predict_proba(given)
    np.testing.assert_allclose(found, np.exp(gcf.log_posterior(params, counts)), atol=1e-6)
    with pytest.raises(ValueError, match="lists of numbers, but its part reads categorical: split"):
        gcf.Schema.of(codes, given, label="y")
    with pytest.raises(ValueError, match=r"item: bool.* expected numbers, lists of numbers, str"):
        gcf.Schema.of(bits, given | {"x": counts > 1}, label="y")


def test_rows_that_are_a_list_are_an_error_that_says_how_to_turn_them():
    params, schema, x = of_lists()
    rows = [{"x": own} for own in x.tolist()]
    served = Predictor.of(params, schema)
    with pytest.raises(ValueError, match="of a list of rows: ") as error:
        served.predict(rows)
    turned = eval(str(error.value).rpartition("of a list of rows: ")[2], {"rows": rows})
    assert served.predict(turned) == served.predict({"x": x})


def test_params_that_are_not_finite_are_refused():
    _, schema, x = of_lists()
    bad = gcf.fit(gcf.lda(2), np.where(x == x[0, 0], np.nan, x), np.arange(N) % 2)
    with pytest.raises(ValueError, match=r"params\.conditional\.mean is outside its set"):
        Predictor.of(bad, schema)


def test_it_is_saved_to_a_folder_that_exists(fitted, tmp_path):
    served = Predictor.of(*fitted)
    with pytest.raises(FileNotFoundError, match=r"there is no folder '.*none'"):
        served.save(tmp_path / "none" / "model.genclf")
    with pytest.raises(ValueError, match="a folder: expected a file"):
        served.save(tmp_path)
    with pytest.raises(
        ValueError, match="Predictor, which cannot be saved: use its own method `save`"
    ):
        gcf.save(tmp_path / "other.genclf", served)


def test_other_files_are_refused(path, tmp_path, fitted):
    content = path.read_bytes()
    structure, arrays = from_bytes(content)
    other = structure["predictor"] | {"parts": [["number", ["Popen", {"args": "id"}]]]}
    wrong = {
        "damaged": content[:-1] + b"?",
        "of other code": to_bytes({"predictor": other}, arrays),
        "without scores": to_bytes({"predictor": {}}, arrays),
        "no predictor: read it by genclf.load": to_bytes({}, {}),
    }
    for name, bad in wrong.items():
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(ValueError, match=name):
            Predictor.load(tmp_path / name)
    with pytest.raises(ValueError, match=r"genclf\.stream\.Predictor\.load reads it"):
        gcf.load(path)
    with pytest.raises(ValueError, match="only JAX can score params of SoftmaxParams"):
        x, y = np.eye(7)[:, :2].astype(np.float32), np.arange(7) % 2
        Predictor.of(gcf.fit(gcf.SoftmaxRegression(2, l2=0.1), x, y), fitted[1])
