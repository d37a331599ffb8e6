"""Streams of files and batches: checkpoints that survive kills, passes of EM, progress."""

import os
import signal
import subprocess
import sys
import time
from itertools import islice, pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from scipy.stats import norm

import genclf as gcf
from genclf.engines.rank_files import RankFiles
from genclf.fitting.em import em_step
from genclf.stream import fit_batches, predict_batches, sum_batches
from genclf.stream.predicting import type_of_classes
from tests.stream.batches import TABLE, K, N, assert_equal, same_bits, told


@pytest.fixture
def files(tmp_path):
    """Seven files of the rows of "mixed", the last without any."""
    table = told("mixed")[2]
    cuts = [0, 17, 18, 43, 59, 83, N, N]
    paths = []
    for i, (start, end) in enumerate(pairwise(cuts)):
        paths.append(tmp_path / f"{i}.parquet")
        pq.write_table(table.slice(start, end - start), paths[-1])
    return paths


@pytest.mark.slow
def test_files_are_their_rows(files, tmp_path):
    clf, schema, table = told("mixed")
    whole = sum_batches(clf, files, schema)
    assert_equal(whole, gcf.partial(clf, schema, table, part_id="p"))
    assert whole.part_ids == tuple(map(os.fspath, files))
    assert same_bits(sum_batches(clf, files, schema, processes=2), whole)
    table.to_pandas().to_csv(tmp_path / "all.csv", index=False)
    of_csv = sum_batches(clf, [tmp_path / "all.csv"], schema)
    assert_equal(of_csv, whole)
    params = fit_batches(clf, files, schema)
    np.testing.assert_allclose(
        params.conditional.parts["numeric"].mean, gcf.estimate(clf, whole.stats).conditional
        .parts["numeric"].mean
    )  # fmt: skip
    for again in (files[0], f"file://{files[0]}"):
        with pytest.raises(ValueError, match=r"0.parquet' occurs twice"):
            sum_batches(clf, [files[0], again], schema)
    sum_batches(clf, files, schema, checkpoint=tmp_path / "sums")
    with pytest.raises(ValueError, match=r"the checkpoint is of files, .* would count twice"):
        sum_batches(clf, [table], schema, checkpoint=tmp_path / "sums")
    with pytest.raises(
        ValueError, match=r"includes files that were not given \(5\), such as '.*2.parquet': give"
    ):
        sum_batches(clf, files[:2], schema, checkpoint=tmp_path / "sums")
    frame = pa.table(told("mixed")[2])
    kinds = {"label": "y", "weight": "w"}
    assert gcf.Schema.scan(None, files, **kinds) == gcf.Schema.of(None, frame, **kinds)
    assert gcf.Schema.scan(None, tmp_path / "all.csv", **kinds) == schema
    one = gcf.partial(clf, schema, files[0], part_id="first")
    assert_equal(one, gcf.partial(clf, schema, table.slice(0, 17), part_id="p"))
    assert sum_batches(clf, [files[0], table.slice(17)], schema).rows == N


@pytest.mark.slow("float32")
def test_a_column_far_from_0_is_named(dtype):
    """Sums keep it; params and rows in float32 do not."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 101)
    batch = {
        "near": rng.normal(size=101),
        "far": rng.normal(y) + 1e8,
        "constant": 1e8 + 0 * y,
        "y": y,
    }
    clf = gcf.gaussian_nb(2)
    schema = gcf.Schema.of(clf, batch, label="y")
    if dtype == np.float64:
        fit_batches(clf, [batch], schema)
        return
    of_far = "column 'far' lies .* standard deviations from 0"
    with pytest.warns(UserWarning, match=of_far):
        fit_batches(clf, [batch], schema)
    parts = {"two": gcf.Gaussian("diag"), "one": gcf.Gaussian(shared=True)}
    for model, rows, names in (
        (gcf.Classifier(gcf.Product(parts), 2), batch, {"one": ["far"], "two": ["near"]}),
        (gcf.lda(2), {"x": np.eye(101, 7), "far": batch["far"], "y": y}, None),
        (gcf.Classifier(gcf.Independent(gcf.Gaussian()), 2), batch, None),
    ):
        drop = {"constant": "drop"} if names else None
        own = gcf.Schema.of(model, rows, label="y", parts=names, kinds=drop)
        with pytest.warns(UserWarning, match=of_far):
            fit_batches(model, [rows], own)
        with pytest.warns(UserWarning, match=of_far):
            mesh = jax.make_mesh((1,), ("rows",), devices=jax.devices()[:1])
            gcf.distributed.fit(model, [rows], mesh, schema=own)


def test_files_that_differ_are_exact_or_named(files):
    clf, schema, _table = told("mixed")
    whole = sum_batches(clf, files, schema)
    first = pq.read_table(files[0])

    def written(changed):
        pq.write_table(changed, files[0])
        return sum_batches(clf, files, schema)

    other_order = first.select(sorted(first.column_names)[::-1])
    assert same_bits(written(other_order), whole)
    place = first.column_names.index("count")
    with_null = pa.array([None, *map(float, first["count"].to_pylist()[1:])])
    as_float = first.set_column(place, "count", pa.array(map(float, first["count"].to_pylist())))
    assert same_bits(written(as_float), whole)
    assert written(first.set_column(place, "count", with_null)).rows == N
    as_null = first.set_column(0, "a", pa.nulls(len(first)))
    assert written(as_null).rows == N
    with pytest.raises(
        ValueError, match=r"0.parquet': no column 'holes', expected one; the columns are 'a'"
    ):
        written(first.rename_columns({"holes": "other"}))
    labels = pa.array([0] * len(first))
    with pytest.raises(ValueError, match=r"0.parquet', column 'y': numbers, expected strings"):
        written(first.set_column(first.column_names.index("y"), "y", labels))
    content = files[1].read_bytes()
    pq.write_table(first, files[0])
    for length in (0, 3, len(content) // 2, len(content) - 1):
        files[1].write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"1.parquet' cannot be read"):
            sum_batches(clf, files, schema)
    with pytest.raises(ValueError, match="is a folder, expected a file: give the list sorted"):
        sum_batches(clf, files[0].parent, schema)
    with pytest.raises(ValueError, match=r"is a pattern, expected a file: give sorted\(glob.glob"):
        sum_batches(clf, files[0].parent / "*.parquet", schema)


def test_types_of_csv_are_those_of_the_schema_in_all_rows(tmp_path):
    """Arrow guesses them from the first megabyte."""
    path, count = tmp_path / "a.csv", 150_000
    lines = ["x,zip,y,w,day", *["1,007,,1,2026-01-01"] * count, "1.5,AB1,u,0.5,?", "2.5,,v,1,"]
    path.write_text("\n".join(lines))
    schema = gcf.Schema.of(None, {"x": [1.5, 2], "y": ["u", "v"], "w": [1, 1]}, "y", weight="w")
    part = sum_batches(schema.model(), path, schema)
    assert part.rows == count + 2 and part.labels.count.tolist() == [0.5, 1]
    params = gcf.estimate(schema.model(), part.stats)
    *_, last = predict_batches(params, path, schema)
    assert last["zip"].to_pylist()[-3:] == ["007", "AB1", None]
    assert last["day"].to_pylist()[-3:] == ["2026-01-01", "?", None]
    with pytest.raises(ValueError, match=r"a.csv' cannot be read: .*types are those of the first"):
        gcf.Schema.scan(None, path, "y", weight="w")
    path.write_text("\n".join(["x,zip,y,day", *["1,7,u,2026-01-01"] * count, "1.5,8,v,?"]))
    kinds = {"zip": "categorical", "day": "drop"}
    found = gcf.Schema.scan(None, path, "y", kinds=kinds)
    assert [c.name for c in found.columns] == ["x", "zip"] and found.columns[1].values == (7, 8)
    with pytest.raises(ValueError, match="the batch has no column 'days'"):
        gcf.Schema.scan(None, path, "y", kinds={**kinds, "days": "drop"})
    path.write_text("c,b,x,y\n1,true,1.5,0\n2,,2,1\n1,false,3,0\n2,true,4,1\n,true,5,\n")
    schema = gcf.Schema.scan(None, path, "y", kinds={"c": "categorical"})
    assert [column.values for column in schema.columns] == [(1, 2), (False, True), ()]
    params = fit_batches(schema.model(), path, schema)
    (scored,) = predict_batches(params, path, schema)
    assert scored["y"].to_pylist()[:4] == scored["prediction"].to_pylist()[:4] == [0, 1, 0, 1]
    (tmp_path / "a.gz").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"read as Parquet; other formats have the endings .*csv"):
        sum_batches(schema.model(), tmp_path / "a.gz", schema)


def test_strings_of_csv_that_look_like_numbers(tmp_path):
    frame = pd.DataFrame({"x": [1.5, 2, 3, 4.5], "zip": ["08001", "10115"] * 2, "y": list("0110")})
    frame.to_csv(tmp_path / "a.csv", index=False)
    schema = gcf.Schema.of(None, frame, "y")
    whole = gcf.partial(schema.model(), schema, frame, part_id="p")
    assert_equal(sum_batches(schema.model(), [tmp_path / "a.csv"], schema), whole)


@pytest.mark.parametrize("name", [None, "id"])
def test_the_index_of_pandas_is_no_column(name, tmp_path):
    frame = told("mixed")[2].to_pandas()
    mixed = frame.sample(frac=1, random_state=0).rename_axis(name)
    schemas = [gcf.Schema.of(None, one, "y", weight="w") for one in (frame, mixed)]
    assert schemas[0].digest == schemas[1].digest
    mixed.rename_axis(None).to_parquet(tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert gcf.Schema.of(None, table, "y", weight="w").digest == schemas[0].digest


def test_rows_in_another_order_are_the_same_rows(files):
    clf, schema, table = told("mixed")
    shuffled = table.take(np.random.default_rng(1).permutation(N))
    assert_equal(gcf.partial(clf, schema, shuffled, part_id="p"), sum_batches(clf, files, schema))


def test_a_class_in_one_part_alone(files):
    clf, schema, table = told("lda")
    y = np.array(table["y"].to_pylist(), object)
    table = table.set_column(2, "y", pa.array(np.where(np.arange(N) < 90, "u", "w")))
    schema = gcf.Schema.of(clf, table, "y", weight="w", classes=("u", "v", "w"))
    cuts = [gcf.partial(clf, schema, table.slice(i, 43), part_id=str(i)) for i in range(0, N, 43)]
    whole = gcf.partial(clf, schema, table, part_id="p")
    assert_equal(gcf.combine(cuts), whole)
    assert whole.labels.count[1] == 0 and len(y) == N


# Checkpoints.


def test_a_checkpoint_goes_on(files, tmp_path, monkeypatch):
    clf, schema, _ = told("mixed")
    whole = sum_batches(clf, files, schema)
    path = tmp_path / "state.genclf"
    with pytest.raises(ValueError, match="cannot be read"):
        content = files[4].read_bytes()
        files[4].write_bytes(b"")
        sum_batches(clf, files, schema, checkpoint=path, every=0)
    files[4].write_bytes(content)
    assert gcf.Part.from_bytes(path.read_bytes()).part_ids == tuple(map(os.fspath, files[:4]))
    for file in files[:4]:  # which are not read again
        file.write_bytes(b"")
    assert same_bits(sum_batches(clf, files, schema, checkpoint=path, processes=2), whole)
    assert same_bits(sum_batches(clf, files, schema, checkpoint=path), whole)
    monkeypatch.chdir(tmp_path)
    names = [file.name for file in files]
    assert same_bits(sum_batches(clf, names, schema, checkpoint=path), whole)
    with pytest.raises(ValueError, match=r"state.genclf' is damaged, or not one of several passes"):
        fit_batches(clf, files, schema, checkpoint=path, passes=2)
    for wrong, error in ((tmp_path, ValueError), (tmp_path / "none" / "state", FileNotFoundError)):
        with pytest.raises(error, match=r"checkpoint is .* folder"):
            sum_batches(clf, files, schema, checkpoint=wrong)
    other, its_schema, _ = told("mixed", unseen="other")
    with pytest.raises(ValueError, match=r"state.genclf' is of another schema"):
        sum_batches(other, files, its_schema, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"state.genclf' is damaged, .*: its checksum"):
        sum_batches(clf, files, schema, checkpoint=path)


PROGRAM = """
import sys, time
from pathlib import Path
from genclf.stream.checkpoint import PartFile, host_sum
from genclf.stream.schema import Schema
schema, path, *files = sys.argv[1:]
def slowly():
    for file in files:
        time.sleep(0.03)
        yield file
host_sum(Schema.from_json(Path(schema).read_text()), slowly(), store=PartFile(Path(path)), every=0)
assert "jax" not in sys.modules
"""


def test_kills_lose_and_double_nothing(files, tmp_path):
    clf, schema, _ = told("mixed")
    whole = sum_batches(clf, files, schema)
    path, told_path = tmp_path / "state.genclf", tmp_path / "schema.json"
    told_path.write_text(schema.to_json())
    command = [sys.executable, "-c", PROGRAM, told_path, path, *files]
    rng, killed = np.random.default_rng(0), 0
    while True:
        running = subprocess.Popen(command)
        while killed < 5 and not path.exists() and running.poll() is None:
            time.sleep(0.005)
        if killed < 5:
            time.sleep(rng.uniform(0, 0.1))
            running.send_signal(signal.SIGKILL)
        if running.wait(60) == 0:
            break
        killed += 1
    assert killed >= 3
    assert same_bits(gcf.Part.from_bytes(path.read_bytes()), whole)


# EM in passes.


MIXTURE = gcf.Classifier(gcf.Mixture(gcf.Gaussian("diag"), 2), K)


@pytest.fixture(scope="module")
def mixture():
    table = pa.table({key: pa.array(TABLE[key], from_pandas=True) for key in ("a", "b", "y", "w")})
    schema = gcf.Schema.of(MIXTURE, table, "y", weight="w")
    batches = [table.slice(i, 43) for i in range(0, N, 43)]
    x = np.stack([TABLE["a"], TABLE["b"]], 1)
    y = np.array([-1 if v is None else "uvw".index(v) for v in TABLE["y"]])
    return schema, batches, (x, y, TABLE["w"].astype(float))


@pytest.mark.slow
def test_a_pass_is_a_step_of_em(mixture, x64):
    schema, batches, (x, y, w) = mixture
    start = gcf.em(MIXTURE, x, y, weights=w, key=jax.random.key(0), max_steps=2).params
    found = fit_batches(MIXTURE, batches, schema, passes=3, init=start)
    params = start
    for _ in range(3):
        params = gcf.estimate(MIXTURE, em_step(MIXTURE, x, y, w)(params)[1])
    for mine, theirs in zip(*map(jax.tree.leaves, (found, params)), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-11)
    part = gcf.partial(MIXTURE, schema, batches, part_id="p", params=start)
    again = gcf.Part.from_bytes(part.to_bytes())
    one = fit_batches(MIXTURE, batches, schema, passes=1, init=start)
    for mine, theirs in zip(
        *map(jax.tree.leaves, (gcf.estimate(MIXTURE, again.stats), one)), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, 1e-11)
    other = gcf.partial(MIXTURE, schema, batches, part_id="q", params=one)
    with pytest.raises(ValueError, match="expected the same params"):
        gcf.combine([part, other])


@pytest.mark.slow
@pytest.mark.parametrize("family", [gcf.Gaussian(shared=True), gcf.Gaussian(), gcf.Poisson()])
def test_em_of_params_in_float32(family, mixture):
    """The params that `fit` returns, where JAX is not set to float64."""
    _, batches, (x, y, w) = mixture
    clf = gcf.Classifier(family, K)
    if isinstance(family, gcf.Poisson):
        x = np.abs(x).round()
    batch = {"a": x[:, 0], "b": x[:, 1], "y": batches[0]["y"].to_pylist() and TABLE["y"], "w": w}
    schema = gcf.Schema.of(clf, batch, "y", weight="w")
    start = gcf.fit(clf, x, y, weights=w)
    found = fit_batches(clf, [batch], schema, passes=1, init=start)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda a: jnp.asarray(a, np.float64), start)
        step = gcf.estimate(clf, em_step(clf, x, y, w)(wide)[1])
    for mine, theirs in zip(found.log_prior, step.log_prior, strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-5)
    name = "log_rate" if isinstance(family, gcf.Poisson) else "mean"
    mine, theirs = (getattr(p.conditional, name) for p in (found, step))
    np.testing.assert_allclose(mine, theirs, 1e-5, 1e-5)


def test_a_checkpoint_of_other_batches_is_refused(tmp_path):
    batch, clf, path = (
        {"a": [0.5, 2.0, 1.0], "y": ["u", "v", "u"]},
        gcf.gaussian_nb(2),
        tmp_path / "s",
    )
    schema = gcf.Schema.of(clf, batch, "y")
    two = sum_batches(clf, [batch, batch], schema, checkpoint=path)
    assert two.rows == 6 and same_bits(sum_batches(clf, [batch] * 2, schema, checkpoint=path), two)
    with pytest.raises(
        ValueError, match=r"checkpoint includes batches that were not given \(1\), such as 'batch-"
    ):
        sum_batches(clf, [batch], schema, checkpoint=path)
    with pytest.raises(ValueError, match="the checkpoint is of batches that are not files, such"):
        sum_batches(clf, [tmp_path / "a.csv"], schema, checkpoint=path)


def test_the_farthest_of_few_columns_is_named():
    rng = np.random.default_rng(0)
    batch = {name: rng.normal(size=7) + at for name, at in (("b", 1e7), ("c", 1e9), ("a", 0.0))}
    batch["y"] = ["u", "v", "u", "v", "u", "v", "v"]
    clf = gcf.gaussian_nb(2)
    with pytest.warns(UserWarning, match=r"column 'c' lies \d.\de\+0[89] standard deviations"):
        fit_batches(clf, [batch], gcf.Schema.of(clf, batch, "y"))


def test_em_starts_from_first_rows_that_may_have_each_class(mixture):
    """A class without a row starts from rows without a label, if the first batch has any."""
    schema, _, (x, _, _) = mixture
    first = {"a": x[:40, 0], "b": x[:40, 1], "y": ["u", "v"] * 20, "w": np.ones(40)}
    with pytest.raises(ValueError, match="class 'w' has no row among the first 40, from which EM"):
        fit_batches(MIXTURE, [first], schema)
    found = fit_batches(MIXTURE, [first | {"y": ["u", "v", None, None] * 10}], schema, passes=1)
    assert np.isfinite(found.log_prior).all()


def test_a_mixture_that_loses_a_component_is_an_error():
    """Smoothed rates of a component without rows have no mode: EM ends in NaN."""
    x = np.random.default_rng(0).poisson(3, (60, 2)).astype(float)
    batch = {"a": x[:, 0], "b": x[:, 1], "y": ["p", "q"] * 30}
    clf = gcf.Classifier(gcf.Mixture(gcf.Poisson(), 2), 2)
    schema = gcf.Schema.of(clf, batch, "y")
    with pytest.raises(ValueError, match="are NaN, as if a component of a mixture lost its rows"):
        fit_batches(clf, [batch], schema)


def test_passes_go_on_from_a_checkpoint(mixture, tmp_path):
    schema, batches, _ = mixture
    whole = fit_batches(MIXTURE, batches, schema, passes=3)
    path = tmp_path / "em.genclf"

    class Broken(list):
        def __iter__(self):
            self.passes = getattr(self, "passes", 0) + 1
            stop = 2 if self.passes == 3 else None  # the first one reads the start
            yield from islice(super().__iter__(), stop)
            if stop:
                raise OSError("the disk is gone")

    with pytest.raises(OSError):
        fit_batches(MIXTURE, Broken(batches), schema, passes=3, checkpoint=path, every=0)
    state = gcf.load(path)
    assert state["step"] == 1
    assert gcf.Part.from_bytes(state["sums"].tobytes()).rows == 86
    found = fit_batches(MIXTURE, batches, schema, passes=3, checkpoint=path)
    for mine, theirs in zip(*map(jax.tree.leaves, (found, whole)), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(ValueError, match=r"is of pass 3, but passes is 2: expected at least 3"):
        fit_batches(MIXTURE, batches, schema, passes=2, checkpoint=path)
    with pytest.raises(ValueError, match=r"is of pass 3, but earlier passes read other files"):
        fit_batches(MIXTURE, [*batches, batches[0]], schema, passes=3, checkpoint=path)
    other = gcf.Classifier(gcf.Mixture(MIXTURE.family.family, 2, alpha=3.0), MIXTURE.num_classes)
    for clf, init in ((other, None), (MIXTURE, whole)):
        with pytest.raises(ValueError, match="of a model with other hyper-parameters, or of anoth"):
            fit_batches(clf, batches, schema, passes=3, checkpoint=path, init=init)
    with pytest.raises(ValueError, match=r"em.genclf' is damaged, or not one of a single pass"):
        lda, of_lda, table = told("lda")
        sum_batches(lda, [table], of_lda, checkpoint=path)
    with pytest.raises(ValueError, match="an iterator, which is read once"):
        fit_batches(MIXTURE, iter(batches), schema, passes=2)


@pytest.mark.slow
def test_one_pass_from_given_params_is_a_step(x64):
    clf, x = gcf.gaussian_nb(2), np.random.default_rng(0).normal(size=(31, 2)).round(3)
    batch = {"a": x[:, 0], "b": x[:, 1], "y": ["u", "v", None] * 10 + ["u"]}
    y = np.array([0, 1, -1] * 10 + [0])
    schema, start = gcf.Schema.of(clf, batch, "y"), gcf.fit(clf, x[:20], y[:20])
    found = fit_batches(clf, [batch], schema, passes=1, init=start)
    step = gcf.estimate(clf, em_step(clf, x, y, np.ones(31))(start)[1])
    for mine, theirs in zip(*map(jax.tree.leaves, (found, step)), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-11)


def test_one_pass_over_few_rows_is_a_step_by_numpy():
    x, y = np.array([0.0, 1, 5, 7, 2, 3, 6]), np.array([0, 0, 1, 1, -1, -1, -1])
    batch = {"a": x, "y": ["u", "u", "v", "v", None, None, None]}
    clf = gcf.gaussian_nb(2)
    mean, deviation, prior = np.array([1.0, 6.0]), np.array([2.0, 1.0]), np.array([0.25, 0.75])
    scale = deviation[:, None].astype(np.float32)
    start = gcf.ClassifierParams(
        jnp.log(jnp.asarray(prior)),
        gcf.GaussianParams(
            jnp.asarray(mean[:, None], jnp.float32), jnp.asarray(scale), "diag", False
        ),
    )
    found = fit_batches(clf, [batch], gcf.Schema.of(clf, batch, "y"), passes=1, init=start)
    joint = prior * norm.pdf(x[:, None], mean, deviation)
    share = np.where(y[:, None] >= 0, np.eye(2)[y], joint / joint.sum(1, keepdims=True))
    expected = (share * x[:, None]).sum(0) / share.sum(0)
    variance = (share * (x[:, None] - expected) ** 2).sum(0) / share.sum(0)
    np.testing.assert_allclose(np.exp(found.log_prior), share.sum(0) / 7, rtol=1e-5)
    np.testing.assert_allclose(found.conditional.mean[:, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(found.conditional.scale[:, 0] ** 2, variance, rtol=1e-5)


def test_progress_is_a_line_with_rows(files, capsys):
    clf, schema, _ = told("mixed")
    sum_batches(clf, files, schema, progress=True)
    assert "101 rows [" in capsys.readouterr().err.replace("101/? rows", "101 rows")


def test_forgetting_scales_the_sums():
    clf, schema, table = told("lda")
    stats = gcf.partial(clf, schema, table, part_id="p").stats
    recent = gcf.merge(gcf.scale(stats, 0.5), stats)
    np.testing.assert_allclose(recent.count, 1.5 * stats.count)
    np.testing.assert_allclose(
        gcf.estimate(clf, recent).conditional.mean, gcf.estimate(clf, stats).conditional.mean, 1e-5
    )
    assert jnp.isfinite(recent.conditional.scatter).all()


@pytest.mark.parametrize(
    "classes, kind",
    [
        (("a", "b"), pa.string()),
        ((False, True), pa.bool_()),
        ((0, 10**9), pa.int64()),
        ((0.5, 1), pa.float64()),
    ],
)
def test_the_type_of_classes_in_a_table(classes, kind):
    table = {"a": [0.5, 1.5, 2.5], "y": [classes[0], classes[1], classes[0]]}
    schema = gcf.Schema.of(gcf.gaussian_nb(2), table, "y", classes=classes)
    assert type_of_classes(schema) == kind


def test_files_of_a_process_are_in_a_folder_that_may_be_new(tmp_path):
    batch = {"a": [0.5, 1.5, 2.5], "y": ["u", "v", "u"]}
    clf = gcf.gaussian_nb(2)
    schema = gcf.Schema.of(clf, batch, "y")
    part = gcf.partial(clf, schema, [batch], part_id="p")
    files = RankFiles(tmp_path / "a" / "b" / "0.genclf", None, frozenset())
    files.write(part)
    assert files.path.exists()


def test_files_of_feather_with_categories(tmp_path):
    table = pa.table({"a": ["x", "y", "x", "y", "x"] * 3, "y": ["u", "v", "u", "u", "v"] * 3})
    feather.write_feather(table, tmp_path / "rows.feather")
    clf = gcf.Classifier(gcf.Categorical([2], alpha=1.0), 2)
    schema = gcf.Schema.of(clf, table, "y")
    found = fit_batches(clf, [tmp_path / "rows.feather"], schema)
    expected = fit_batches(clf, [table], schema)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
