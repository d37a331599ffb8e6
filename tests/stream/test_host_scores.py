"""Scores by NumPy are those of JAX in float64."""

import pickle
import re
import subprocess
import sys

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import genclf as gcf
from genclf.classifier.by_numpy import fit_by_numpy, log_posterior_by_numpy
from genclf.numerics.scores.posterior import most_probable, normalised
from genclf.stream import Predictor, predict_batches, reading
from genclf.stream.on_device import arrays_of
from genclf.stream.score_plan import host_scores
from genclf.tables.place import Place
from genclf.text import learn_vocabulary

N, K = 211, 3
RNG = np.random.default_rng(0)
Y = RNG.integers(0, K, N)


def holes(column):
    return np.where(RNG.random(N) < 0.2, np.nan, column)


TABLE = {
    "a": RNG.normal(size=N),
    "b": RNG.normal(1e3, 2, N) + Y,
    "c": RNG.normal(size=N) * (1 + Y),
    "far": RNG.normal(1e6 * Y, 1e-2),
    "holes": holes(RNG.normal(Y)),
    "bit": RNG.integers(0, 2, N),
    "never": np.where(Y == 0, 0, RNG.integers(0, 2, N)),
    "bits": holes(np.where(Y == 0, 1, RNG.integers(0, 2, N))),
    "count": RNG.poisson(3 + Y),
    "many": RNG.poisson(1e6 * (1 + Y)),
    "none": np.where(Y == 1, 0, RNG.poisson(2, N)),
    "counts": holes(RNG.poisson(2 + Y)),
    "colour": np.array(["red", "green", "blue", "grey"])[RNG.integers(0, 3 + (Y > 0), N)],
    "size": np.array(["S", "L", None], object)[RNG.integers(0, 3, N)],
    "sms": np.array([" ".join(w) for w in np.array(["free", "prize", "you"])[RNG.integers(
        0, 2 + (Y[:, None] > 0), (N, 5))]]),
    "y": np.array(["u", "v", "w"])[Y],
}  # fmt: skip
FULL, DIAG, ROUND = (gcf.Gaussian(c) for c in ("full", "diag", "spherical"))
SEEN = {"missing": "marginalize"}
COLOUR = gcf.Categorical((4,), alpha=0.0)
FAMILIES = {
    "full": (FULL, "a b c"),
    "full, one column": (FULL, "c"),
    "shared": (gcf.Gaussian(shared=True), "a b c"),
    "shared, far apart": (gcf.Gaussian(shared=True), "a far"),
    "diag": (DIAG, "a b c"),
    "diag, shared": (gcf.Gaussian("diag", shared=True), "a b c"),
    "spherical": (ROUND, "a c"),
    "spherical, shared": (gcf.Gaussian("spherical", shared=True), "a c"),
    "diag, seen": (gcf.Gaussian("diag", **SEEN), "a holes"),
    "diag, shared, seen": (gcf.Gaussian("diag", shared=True, **SEEN), "a holes"),
    "shrunken": (gcf.Gaussian(shared=True, shrinkage="ledoit-wolf"), "a b c"),
    "bernoulli": (gcf.Bernoulli(), "bit never"),
    "bernoulli of zeros": (gcf.Bernoulli(alpha=0.0), "bit never"),
    "threshold": (gcf.Bernoulli(threshold=0.1), "a b"),
    "bits": (gcf.Bernoulli(alpha=0.0, **SEEN), "bit bits"),
    "threshold, seen": (gcf.Bernoulli(threshold=0.1, **SEEN), "a holes"),
    "multinomial": (gcf.Multinomial(alpha=0.0), "count none"),
    "presence": (gcf.Multinomial(presence=True), "count none"),
    "words": (gcf.Multinomial(alpha=0.0), "sms"),
    "words, presence": (gcf.Multinomial(presence=True), "sms"),
    "poisson": (gcf.Poisson(alpha=0.0), "count none many"),
    "poisson, seen": (gcf.Poisson(alpha=0.0, **SEEN), "none counts"),
    "categorical": (COLOUR, "colour"),
    "categorical, seen": (gcf.Categorical((4, 2), **SEEN), "colour size"),
    "categorical, ignore": (gcf.Categorical((4, 2), unseen="ignore", **SEEN), "colour size"),
    "mixed": (None, "a holes colour size count"),
    "product": (gcf.Product({"rest": FULL, "colour": COLOUR}), "a b colour"),
}


def read(family, columns, **options):
    """A fitted model, its schema, and the rows."""
    columns = columns.split()
    table = pa.table({name: pa.array(TABLE[name], from_pandas=True) for name in [*columns, "y"]})
    kinds = {"sms": learn_vocabulary(TABLE["sms"])} if "sms" in columns else None
    clf = None if family is None else gcf.Classifier(family, K, **options)
    schema = gcf.Schema.of(clf, table, label="y", kinds=kinds)
    rows = schema.read(table, Place("a table"))
    x, y, _ = arrays_of(rows)
    return gcf.fit(clf or schema.model(), x, y), schema, rows


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_are_those_of_jax(name, x64, tmp_path):
    params, schema, rows = read(*FAMILIES[name])
    scores = pickle.loads(pickle.dumps(host_scores(params, schema)))
    found = scores.log_joint(rows)
    x = arrays_of(rows)[0]
    with jax.numpy_dtype_promotion("standard"):
        expected = np.asarray(gcf.log_joint(params, x))
        posterior = np.asarray(gcf.log_posterior(params, x))
        classes = np.asarray(gcf.predict(params, x))
    assert found.shape == (N, K) and found.dtype == np.float64
    np.testing.assert_allclose(found, expected, 1e-10, 1e-10)
    np.testing.assert_allclose(normalised(found), posterior, 1e-10, 1e-10)
    np.testing.assert_array_equal(most_probable(found), classes)
    Predictor.of(params, schema).save(tmp_path / "model")
    served = Predictor.load(tmp_path / "model")
    columns = {name: TABLE[name] for name in schema.sources}
    np.testing.assert_array_equal(served.scores.log_joint(rows), found)
    np.testing.assert_allclose(served.predict_proba(columns), np.exp(posterior), 1e-10, 1e-10)
    assert served.predict(columns) == [("u", "v", "w")[k] for k in classes]


def test_scores_of_float32_params_keep_the_digits_of_the_means():
    x = RNG.normal(1e4 + Y[:, None], 1, (N, 2))
    schema = gcf.Schema.of(gcf.lda(K), {"x": x, "y": Y}, label="y")
    part = gcf.partial(gcf.lda(K), schema, {"x": x, "y": Y}, part_id="p")
    rows = schema.read(pa.table({"x": pa.FixedSizeListArray.from_arrays(x.ravel(), 2)}), Place("p"),
                       labelled=False)  # fmt: skip
    single = host_scores(gcf.estimate(gcf.lda(K), part.stats), schema)
    with jax.enable_x64(True):
        double = host_scores(gcf.estimate(gcf.lda(K), part.stats), schema)
    np.testing.assert_allclose(single.log_joint(rows), double.log_joint(rows), 1e-4)


def test_rows_in_blocks_and_no_rows(x64, monkeypatch):
    params, schema, rows = read(*FAMILIES["mixed"])
    scores = host_scores(params, schema)
    whole = scores.log_joint(rows)
    monkeypatch.setattr("genclf.stream.scoring._BLOCK", 7)
    np.testing.assert_allclose(scores.log_joint(rows), whole, 1e-13)
    assert scores.log_joint(schema.no_rows()).shape == (0, K)


def test_what_cannot_be_scored_is_nan_as_in_jax(x64):
    with_holes = {"a": np.array([0.5, np.nan]), "y": [0, 1]}
    clf = gcf.Classifier(gcf.Gaussian("diag", missing="marginalize"), 2)
    schema = gcf.Schema.of(clf, with_holes, label="y")
    strict = gcf.fit(gcf.gaussian_nb(2), np.array([[0.0], [1.0], [4.0], [6.0]]), [0, 0, 1, 1])
    rows = schema.read(pa.table(with_holes), Place("p"), labelled=False)
    joint = host_scores(strict, schema).log_joint(rows)
    assert most_probable(joint).tolist() == [0, -1]
    assert np.isnan(normalised(joint)[1]).all()
    # A class of probability 0 stays impossible, whatever x is.
    never = gcf.with_prior(strict, np.array([1.0, 0.0]))
    joint = host_scores(never, schema).log_joint(rows)
    expected = np.asarray(gcf.log_joint(never, rows.x))
    np.testing.assert_array_equal(joint[:, 1], expected[:, 1])


@pytest.mark.slow(
    "family2-a holes-Gaussians of full covariance",
    "family1-a b-only JAX can score params of MixtureParams",
)
@pytest.mark.parametrize(
    ("family", "columns", "what"),
    [
        (gcf.Independent(DIAG), "a b", "only JAX can score params of IndependentParams"),
        (gcf.Mixture(DIAG, 2), "a b", "only JAX can score params of MixtureParams"),
        (gcf.Gaussian(missing="marginalize"), "a holes", "Gaussians of full covariance"),
        (gcf.Multinomial(missing="marginalize"), "count none", "Multinomials with missing counts"),
    ],
)
def test_other_params_are_refused(family, columns, what):
    _, schema, rows = read(DIAG if "holes" not in columns else FAMILIES["diag, seen"][0], columns)
    clf = gcf.Classifier(family, K)
    x, y, _ = arrays_of(rows)
    fit = gcf.em if isinstance(family, gcf.Mixture) else gcf.fit
    more = {"key": jax.random.key(0)} if isinstance(family, gcf.Mixture) else {}
    params = fit(clf, x, y, **more)
    params = params.params if hasattr(params, "params") else params
    with pytest.raises(ValueError, match=what):
        host_scores(params, schema)


def test_a_batch_of_any_number_of_rows_is_predicted_in_pieces(monkeypatch, x64):
    params, schema, _ = read(*FAMILIES["shared"])
    names = [column.name for column in schema.columns]
    table = pa.table({key: pa.array(TABLE[key], from_pandas=True) for key in names})
    monkeypatch.setattr(reading, "ROWS", 16)
    code = np.asarray(gcf.predict(params, arrays_of(schema.read(table, Place("all"), False))[0]))
    for n in (0, 1, 15, 16, 17, 80):
        pieces = list(predict_batches(params, table.slice(0, n), schema))
        assert [len(piece) for piece in pieces[:-1]] == [16] * (max(n - 1, 0) // 16)
        found = pa.concat_tables(pieces)["prediction"].to_pylist()
        assert found == [("u", "v", "w")[k] for k in code[:n]]


def test_params_of_another_schema_are_refused():
    params, schema, _ = read(DIAG, "a b")
    mixed, of_mixed, _ = read(None, "a colour")
    _, colours, _ = read(COLOUR, "colour")
    two = gcf.fit(gcf.gaussian_nb(2), np.eye(2), [0, 1])
    wrong = [
        (params.conditional, schema, "params is .*, expected"),
        (two, schema, re.escape("has shape (2,), but the schema has 3 classes: expected (3,)")),
        (params, read(DIAG, "a b c")[1], "'a', 'b', 'c' have a width of 3, but params 2"),
        (params, of_mixed, "the parts .one without a name., but the schema 'categorical'"),
        (mixed, schema, "the parts 'categorical', 'numeric', but the schema .one without a name."),
        (params, colours, "'colour' have the kind categorical, but params are GaussianParams"),
    ]
    for given, of, what in wrong:
        with pytest.raises(ValueError, match=what):
            host_scores(given, of)


# Streams.


@pytest.mark.slow("mixture")
@pytest.mark.parametrize("name", ["shared", "mixed", "words", "mixture"])
def test_predictions_of_a_stream_are_those_of_its_rows(name, tmp_path, x64):
    families = FAMILIES | {"mixture": (gcf.Mixture(gcf.Gaussian(), 2), "a b")}
    params, schema, _ = read(*families[name])
    names = [column.name for column in schema.columns]
    table = pa.table({key: pa.array(TABLE[key], from_pandas=True) for key in [*names, "bit"]})
    x = arrays_of(schema.read(table, Place("all"), labelled=False))[0]
    pq.write_table(table.slice(0, 101), tmp_path / "0.parquet")
    pq.write_table(table.slice(101).select([*names, "bit"][::-1]), tmp_path / "1.parquet")
    files = sorted(tmp_path.glob("*.parquet"))
    for batches in (files, table, [table.slice(0, 0), table]):
        whole = pa.concat_tables(
            one.select([*table.column_names, "class", "p"])
            for one in predict_batches(params, batches, schema, prediction="class", posterior="p")
        )
        assert whole.select(table.column_names) == table
        code = np.asarray(gcf.predict(params, x))
        assert whole["class"].to_pylist() == [("u", "v", "w")[k] for k in code]
        expected = np.exp(np.asarray(gcf.log_posterior(params, x)))
        np.testing.assert_allclose(whole["p"].to_pylist(), expected, 1e-9, 1e-12)
    again = predict_batches(params, table, schema, prediction="bit")
    with pytest.raises(ValueError, match="column 'bit': exists already"):
        next(again)
    with pytest.raises(ValueError, match=f"no column '{names[0]}', expected one"):
        next(predict_batches(params, table.drop_columns(names[0]), schema))


@pytest.mark.slow("mixture")
@pytest.mark.parametrize("name", ["shared", "mixture"])
def test_streams_take_calibrated_posteriors_and_p_values(name, x64):
    families = FAMILIES | {"mixture": (gcf.Mixture(gcf.Gaussian(), 2), "a b")}
    family, columns = families[name]
    params, schema, rows = read(family, columns)
    x, y, _ = arrays_of(rows)
    cal = gcf.recalibrate(gcf.log_posterior(params, x), y)
    calibrated, clf = gcf.with_calibration(params, cal), gcf.Classifier(family, 3)
    if name == "shared":
        test = gcf.typicality_test(clf, gcf.stats(clf, x, y))
    else:
        folds = np.arange(len(y)) % 3
        test = gcf.typicality_test(clf, gcf.cross_validate(clf, x, y, folds, members=True))
    names = [column.name for column in schema.columns]
    table = pa.table({key: pa.array(TABLE[key], from_pandas=True) for key in names})
    more = {"posterior": "p", "typicality": test}
    batches = [table.slice(0, 0), table.slice(0, 61), table.slice(61)]
    found = pa.concat_tables(predict_batches(calibrated, batches, schema, **more))
    x = arrays_of(schema.read(table, Place("all"), labelled=False))[0]
    np.testing.assert_allclose(found["typicality"].to_pylist(), test(x), rtol=1e-9)
    expected = np.exp(np.asarray(gcf.log_posterior(calibrated, x)))
    np.testing.assert_allclose(found["p"].to_pylist(), expected, 1e-9, 1e-12)
    if name == "shared":
        own = host_scores(calibrated, schema)
        rows = schema.read(table, Place("all"), labelled=False)
        p = np.exp(normalised(own.discriminant(rows)))
        np.testing.assert_allclose(p, expected, 1e-9, 1e-12)
        with pytest.raises(ValueError, match="the posteriors of these scores are calibrated"):
            own.log_joint(rows)
    code = np.asarray(gcf.predict(calibrated, x))
    assert found["prediction"].to_pylist() == [("u", "v", "w")[k] for k in code]
    with pytest.raises(ValueError, match="column 'typicality': exists already"):
        next(predict_batches(params, found.drop_columns(["prediction", "p"]), schema, **more))
    with pytest.raises(ValueError, match="posterior is 'typicality', the name of the column of"):
        predict_batches(params, [], schema, posterior="typicality", typicality=test)
    two = gcf.lda(2)
    with pytest.raises(ValueError, match="typicality is of 2 classes, but params of 3"):
        other = gcf.typicality_test(two, gcf.stats(two, np.eye(7)[:, :2], np.arange(7) % 2))
        predict_batches(params, [], schema, typicality=other)


def test_jax_scores_a_calibrated_softmax_regression(x64):
    _, schema, rows = read(*FAMILIES["shared"])
    x, y, _ = arrays_of(rows)
    params = gcf.fit(gcf.SoftmaxRegression(3, l2=0.1), x, y)
    calibrated = gcf.with_calibration(params, gcf.recalibrate(gcf.log_posterior(params, x), y))
    names = [column.name for column in schema.columns]
    table = pa.table({key: pa.array(TABLE[key], from_pandas=True) for key in names})
    found = pa.concat_tables(predict_batches(calibrated, table, schema, posterior="p"))
    x = arrays_of(schema.read(table, Place("all"), labelled=False))[0]
    expected = np.exp(np.asarray(gcf.log_posterior(calibrated, x)))
    np.testing.assert_allclose(found["p"].to_pylist(), expected, 1e-9, 1e-12)


def test_params_of_another_schema_predict_no_stream(x64):
    params, schema, _ = read(*FAMILIES["shared"])
    _, other, _ = read(*FAMILIES["mixed"])
    with pytest.raises(ValueError, match="expected params of the model that the schema"):
        predict_batches(params, [], other)
    with pytest.raises(ValueError, match="prediction and posterior are both 'p'"):
        predict_batches(params, [], schema, prediction="p", posterior="p")


WITHOUT_JAX = """
import pickle, sys
sys.modules["jax"] = None
import numpy as np
with open(sys.argv[1], "rb") as file:
    given = pickle.load(file)
found = {name: (s.log_joint(rows), s.discriminant(rows)) for name, (s, rows) in given.items()}
with open(sys.argv[1], "wb") as file:
    pickle.dump(found, file)
"""


ALONE = (
    "full",
    "shared",
    "diag",
    "diag, seen",
    "diag, shared, seen",
    "spherical",
    "bits",
    "words, presence",
    "poisson, seen",
    "mixed",
)


def test_workers_score_without_jax(tmp_path):
    """Also rows so far that their squares overflow."""
    given, expected = {}, {}
    for name in ALONE:
        family, columns = FAMILIES[name]
        columns, kinds = columns.split(), None
        if "sms" in columns:
            kinds = {"sms": learn_vocabulary(TABLE["sms"])}
        table = {c: pa.array(TABLE[c], from_pandas=True) for c in [*columns, "y"]}
        clf = None if family is None else gcf.Classifier(family, K)
        schema = gcf.Schema.of(clf, pa.table(table), label="y", kinds=kinds)
        clf = clf or schema.model()
        rows = schema.read(pa.table(table), Place("a table"))
        x, y, w = arrays_of(rows)
        params = fit_by_numpy(clf, x, y, w)[1]
        if "a" in table:
            far = TABLE["a"] * np.where(np.arange(N) % 7 == 0, 1e200, 1)
            rows = schema.read(pa.table(table | {"a": far}), Place("a table"))
        x = arrays_of(rows)[0]
        given[name] = host_scores(params, schema), rows
        expected[name] = log_posterior_by_numpy(params, x)
    path = tmp_path / "scores"
    path.write_bytes(pickle.dumps(given))
    subprocess.run([sys.executable, "-c", WITHOUT_JAX, str(path)], check=True)
    for name, (joint, discriminant) in pickle.loads(path.read_bytes()).items():
        assert joint.shape == (N, K)
        np.testing.assert_allclose(
            normalised(discriminant), expected[name], rtol=1e-9, atol=1e-9, err_msg=name
        )
