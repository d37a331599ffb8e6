"""Engines of several processes: each row counts once, whatever fails, and workers need no JAX."""

import os
import shutil
import signal
import sys
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import genclf as gcf
from genclf.engines.partitions import part_of_partition, parts_in, to_chunks
from genclf.stream.on_device import arrays_of
from genclf.stream.part import merged
from genclf.stream.reading import host_part
from genclf.tables.place import Place

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning"),
    # Java is started by a fork, which does nothing but start it.
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
]

N, K, PARTS = 401, 3, 5
RNG = np.random.default_rng(0)
Y = np.where(np.arange(N) < 7, 2, RNG.integers(0, 2, N))  # the last class is in one partition
FRAME = pd.DataFrame(
    {
        "an.id": np.arange(N),
        "si.z`e": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(1e3 + Y)),
        "colour": np.array(["red", "green", "blue"])[RNG.integers(0, 3, N)],
        "y": np.array(["u", "v", "w"])[Y],
        "w": RNG.integers(0, 4, N),
    }
)
SCHEMA = gcf.Schema.of(None, FRAME, label="y", weight="w", kinds={"an.id": "drop"})
CLF = SCHEMA.model()
WHOLE = host_part(SCHEMA, FRAME, "whole")
ROWS = SCHEMA.read(pa.Table.from_pandas(FRAME), Place("whole"), labelled=False)


def assert_whole(part, parts=PARTS):
    assert part.rows == N and len(part.part_ids) == parts
    np.testing.assert_array_equal(part.labels.count, WHOLE.labels.count)
    for name, own in part.conditional.items():
        for field, value in vars(own).items():
            expected = getattr(WHOLE.conditional[name], field)
            if field in ("count", "total"):
                np.testing.assert_array_equal(value, expected)
            else:
                np.testing.assert_allclose(value, expected, 1e-12)


def assert_predicted(frame, params):
    x = arrays_of(ROWS)[0]
    classes = np.array(SCHEMA.classes)[np.asarray(gcf.predict(params, x))]
    assert frame["prediction"].tolist() == classes.tolist()
    found = np.stack(frame["posterior"].to_numpy())
    np.testing.assert_allclose(found, np.exp(gcf.log_posterior(params, x)), 1e-10, 1e-10)


def pieces():
    ends = np.linspace(0, N, PARTS + 1).astype(int)
    return [FRAME.iloc[i:j] for i, j in pairwise(ends)]


# What Spark and Dask do with messages, without them.


def chunks_of_parts():
    return [
        chunk
        for i, piece in enumerate(pieces())
        for chunk in to_chunks(f"partition-{i:05d}", part_of_partition(SCHEMA, i, piece))
    ]


def test_chunks_join(monkeypatch):
    monkeypatch.setattr("genclf.engines.partitions.SIZE", 1000)
    chunks = chunks_of_parts()
    assert len(chunks) >= 2 * PARTS and max(len(chunk.bytes) for chunk in chunks) == 1000
    parts = list(parts_in(chunks, range(PARTS)))
    assert merged(parts).to_bytes() == gcf.combine(parts).to_bytes()
    assert_whole(merged(parts))


@pytest.mark.parametrize("count", range(1, 20))
def test_a_running_merge_is_in_pairs(count):
    cuts = np.array_split(np.arange(N), count)
    parts = [part_of_partition(SCHEMA, i, FRAME.iloc[at]) for i, at in enumerate(cuts)]
    level = parts
    while len(level) > 1:
        pairs = [level[i].merge(level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    assert merged(parts).to_bytes() == gcf.combine(parts).to_bytes() == level[0].to_bytes()


def test_what_did_not_come_exactly_once_is_refused(monkeypatch):
    monkeypatch.setattr("genclf.engines.partitions.SIZE", 1000)
    chunks = chunks_of_parts()
    own = [chunk for chunk in chunks if chunk.part_id == "partition-00001"]
    others = [chunk for chunk in chunks if chunk.part_id != "partition-00001"]
    wrong = {
        "chunk 1 arrived twice": [*chunks, chunks[-1]._replace(sequence=1)],
        "chunk 0 of . did not arrive": chunks[1:],
        "'partition-00002' arrived, expected 'partition-00001'": others,
        "'partition-00004' of 5 did not arrive": [c for c in chunks if c.part_id[-1] != "4"],
        "'partition-00001' arrived, expected 'none'": [*chunks, *own],
    }
    for what, given in wrong.items():
        with pytest.raises(ValueError, match=what):
            list(parts_in(given, range(PARTS)))


# Spark.


@pytest.fixture(scope="module")
def session():
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = sql.SparkSession.builder.master("local[2,4]")  # 2 cores, 4 attempts
    for name, value in options.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def spark_frame(session):
    """The rows in their order; the nulls are where NaN was."""
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    rows = table.to_pylist()
    fields = "`an.id` long, `si.z``e` double, colour string, y string, w long"
    made = session.sparkContext.parallelize([tuple(row.values()) for row in rows], PARTS)
    return session.createDataFrame(made, fields)


@pytest.fixture
def spark(session):
    from genclf.engines import spark

    return spark


@pytest.mark.scale
def test_spark_sums_each_row_once(spark, spark_frame):
    part = spark.partial(SCHEMA, spark_frame)
    assert_whole(part)
    assert part.part_ids == tuple(f"partition-{i:05d}" for i in range(PARTS))
    assert_whole(spark.partial(SCHEMA, spark_frame.repartition(3, "`an.id`")), 3)


@pytest.mark.slow
@pytest.mark.scale
def test_spark_workers_merge_large_parts_to_the_same_bits(spark, spark_frame, monkeypatch):
    part = spark.partial(SCHEMA, spark_frame)
    monkeypatch.setattr(spark, "_AT_DRIVER", 1)
    monkeypatch.setattr(spark, "_TOGETHER", 2)
    assert spark.partial(SCHEMA, spark_frame).to_bytes() == part.to_bytes()


@pytest.mark.slow
@pytest.mark.scale
def test_spark_tasks_that_fail_after_they_have_summed(spark, spark_frame, monkeypatch):
    summing = spark.Summing

    def fails_once(schema):
        inner = summing(schema)

        def run(batches):
            from pyspark import TaskContext

            chunks = list(inner(batches))
            if TaskContext.get().attemptNumber() == 0:
                yield from chunks
                raise RuntimeError("the first attempt")
            yield from chunks

        return run

    monkeypatch.setattr(spark, "Summing", fails_once)
    assert_whole(spark.partial(SCHEMA, spark_frame))


@pytest.mark.scale
def test_spark_refuses_twins_and_gaps_at_the_driver(spark, spark_frame, monkeypatch):
    rows = spark._chunks(SCHEMA, spark_frame).collect()
    assert_whole(spark._at_driver(rows, PARTS))
    with pytest.raises(ValueError, match="'partition-00000': chunk 0 arrived twice"):
        spark._at_driver([*rows, rows[0]], PARTS)
    with pytest.raises(ValueError, match="'partition-00004' of 5 did not arrive"):
        spark._at_driver(rows[:-1], PARTS)


@pytest.mark.scale
def test_spark_partitions_without_rows(spark, spark_frame, session):
    none = spark_frame.where("`an.id` < 0")
    assert_whole(spark.partial(SCHEMA, spark_frame.union(none)), 2 * PARTS)
    nothing = spark.partial(SCHEMA, session.createDataFrame([], spark_frame.schema))
    assert nothing.rows == nothing.weight == 0 and nothing.digest == WHOLE.digest
    with pytest.raises(ValueError, match="no row of 0 has both a label and a weight above 0"):
        spark.fit(CLF, none, SCHEMA)


@pytest.mark.scale
def test_spark_fits_and_predicts(spark, spark_frame, x64):
    params = spark.fit(CLF, spark_frame, SCHEMA)
    expected = gcf.estimate(CLF, WHOLE.stats)
    for name in ("numeric", "categorical"):
        one, other = (vars(p.conditional.parts[name]) for p in (params, expected))
        field = "mean" if name == "numeric" else "log_theta"
        np.testing.assert_allclose(one[field], other[field], 1e-12)
    found = spark.predict(params, spark_frame, SCHEMA, posterior="posterior")
    assert found.columns == [*FRAME.columns, "prediction", "posterior"]
    assert found.schema["prediction"].dataType.simpleString() == "string"
    frame = pd.DataFrame([row.asDict() for row in found.collect()])
    assert_predicted(frame, params)
    pd.testing.assert_frame_equal(frame[list(FRAME)], FRAME, check_dtype=False)
    with pytest.raises(ValueError, match="df has a column 'y', expected a new name"):
        spark.predict(params, spark_frame, SCHEMA, prediction="y")


@pytest.mark.scale
def test_spark_workers_need_no_jax(spark, spark_frame, monkeypatch, x64):
    params = spark.fit(CLF, spark_frame, SCHEMA)

    def without_jax(inner):
        def run(batches):
            import sys

            yield from inner(batches)
            assert "genclf" in sys.modules and "jax" not in sys.modules

        return run

    for name in ("Summing", "Predicting"):
        own = getattr(spark, name)
        monkeypatch.setattr(spark, name, lambda *given, own=own: without_jax(own(*given)))
    assert_whole(spark.partial(SCHEMA, spark_frame))
    assert spark.predict(params, spark_frame, SCHEMA).count() == N


@pytest.mark.slow
@pytest.mark.scale
def test_spark_says_which_cell_does_not_fit(spark, spark_frame):
    from pyspark.sql import functions

    wrong = spark_frame.withColumn("colour", functions.expr("if(`an.id` = 92, 'pink', colour)"))
    with pytest.raises(Exception, match="'partition-00001', row 12, column 'colour': 'pink'"):
        spark.partial(SCHEMA, wrong)
    with pytest.raises(ValueError, match="df has no column 'colour'"):
        spark.partial(SCHEMA, spark_frame.drop("colour"))
    with pytest.raises(ValueError, match="df has several columns 'colour', expected one"):
        spark.partial(SCHEMA, spark_frame.select("*", "colour"))
    with pytest.raises(ValueError, match=r"df is .*, expected a DataFrame of Spark"):
        spark.partial(SCHEMA, FRAME)


@pytest.mark.slow
@pytest.mark.scale
def test_spark_reads_arrays_of_numbers(spark, session):
    table = {"x": np.arange(12.0).reshape(4, 3), "y": [0, 1, 0, 1]}
    schema = gcf.Schema.of(gcf.gaussian_nb(2), table, label="y")
    rows = [(x.tolist(), y) for x, y in zip(table["x"], table["y"], strict=True)]
    frame = session.createDataFrame(rows, "x array<double>, y long")
    part = spark.partial(schema, frame)
    np.testing.assert_allclose(part.conditional.mean, [[3, 4, 5], [6, 7, 8]], 1e-12)
    params = spark.fit(gcf.gaussian_nb(2), frame, schema)
    assert spark.predict(params, frame, schema).schema["prediction"].dataType.typeName() == "long"


# Dask.


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        distributed.LocalCluster(host="127.0.0.1", dashboard_address=None, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def dask(client):
    from genclf.engines import dask

    return dask


@pytest.fixture(scope="module")
def dask_frame(client):
    from dask import dataframe

    return dataframe.from_pandas(FRAME, npartitions=PARTS)


@pytest.mark.scale
def test_dask_sums_each_row_once(dask, dask_frame):
    assert_whole(dask.partial(SCHEMA, dask_frame))


@pytest.mark.scale
def test_dask_merges_to_the_bits_of_combine(dask):
    from dask import delayed

    parts = [part_of_partition(SCHEMA, i, piece) for i, piece in enumerate(pieces())]
    found = dask.partial(SCHEMA, [delayed(piece) for piece in pieces()])
    assert found.to_bytes() == gcf.combine(parts).to_bytes()


@pytest.mark.scale
def test_dask_workers_that_die(dask, tmp_path):
    from dask import delayed

    def dies_once(piece, path):
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            return piece
        os.kill(os.getpid(), signal.SIGKILL)

    given = [delayed(piece) for piece in pieces()]
    given[3] = delayed(partial(dies_once, path=tmp_path / "died"))(given[3])
    assert_whole(dask.partial(SCHEMA, given))
    assert (tmp_path / "died").exists()


@pytest.mark.scale
def test_dask_fits_and_predicts(dask, dask_frame, x64):
    params = dask.fit(CLF, dask_frame, SCHEMA)
    found = dask.predict(params, dask_frame, SCHEMA, posterior="posterior")
    assert list(found.columns) == [*FRAME.columns, "prediction", "posterior"]
    frame = found.compute()
    assert_predicted(frame, params)
    pd.testing.assert_frame_equal(frame[list(FRAME)], FRAME, check_dtype=False)


@pytest.mark.scale
def test_dask_workers_need_no_jax(dask, dask_frame, client, x64):
    params = dask.fit(CLF, dask_frame, SCHEMA)
    assert len(dask.predict(params, dask_frame, SCHEMA).compute()) == N
    loaded = client.run(lambda: sorted({"genclf", "jax"} & sys.modules.keys()))
    assert all(names in ([], ["genclf"]) for names in loaded.values())
    assert ["genclf"] in loaded.values()


@pytest.mark.scale
@pytest.mark.parametrize("name", ["spark", "dask"])
def test_models_of_jax_alone_are_refused(name, request):
    engine = request.getfixturevalue(name)
    frame = request.getfixturevalue(f"{name}_frame")
    clf = gcf.Classifier(gcf.Gaussian(missing="marginalize"), K)
    schema = gcf.Schema.of(clf, FRAME[["si.z`e", "y"]], label="y")
    with pytest.raises(ValueError, match="only JAX can compute the statistics of the model"):
        engine.partial(schema, frame)
    with pytest.raises(ValueError, match="the schema is of another model"):
        engine.fit(gcf.lda(K), frame, gcf.Schema.of(gcf.qda(K), FRAME[["an.id", "y"]], label="y"))
