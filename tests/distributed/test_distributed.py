"""One fit by many JAX processes, which are started here on this machine."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

import genclf as gcf
from genclf import distributed
from genclf.stream import fit_batches

N, D, K = 1009, 3, 3
HEARTBEAT = 4  # seconds

WORKER = """
import hashlib, json, os, sys, time
import jax, numpy as np
settings = json.loads(sys.argv[1])
rank, count = int(sys.argv[2]), settings["count"]
if count > 1:
    address = f"127.0.0.1:{settings['port']}"
    limit = settings["heartbeat"]
    jax.distributed.initialize(address, count, rank, heartbeat_timeout_seconds=limit)
import genclf as gcf
from genclf import distributed
mesh = jax.make_mesh((len(jax.devices()),), ("rows",))
summed, estimate = [], distributed.estimate
distributed.estimate = lambda clf, stats: summed.append(stats) or estimate(clf, stats)
if rank == settings.get("late"):
    merge = distributed._over_processes
    distributed._over_processes = lambda *given: time.sleep(100) or merge(*given)
ridge = 0.1 if rank == settings.get("other") else 0.0
clf = gcf.lda(3, ridge=ridge) if settings["model"] == "lda" else gcf.qda(3)
options = {"timeout": settings["timeout"]}
if "files" in settings:
    options |= {"schema": gcf.Schema.from_json(settings["schema"]), "every": 0}
    folder = settings["folder"]
    options |= {"checkpoint": folder if isinstance(folder, str) else folder[rank]}
    own = settings["files"] if "all" in settings else settings["files"][rank::count]
    def batches():
        for number, file in enumerate(own):
            if rank == settings.get("killed") and number == 2:
                os.kill(os.getpid(), 9)
            if rank == settings.get("stalled") and number == 2:
                time.sleep(100)
            yield file
    local = own if settings.get("all") == "list" else batches()
else:
    data = np.load(settings["data"])
    x, y = data["x"], data["y"]
    cuts = np.linspace(0, len(y) ** 0.5, count + 1).round().astype(int) ** 2  # of other sizes
    cuts[-1] = len(y)
    cuts[1] = 0 if count == 4 else cuts[1]  # no batch at all
    mine = slice(cuts[rank], cuts[rank + 1])
    x, y = x[mine], y[mine]
    local = [(x[:0], y[:0]), *((x[i : i + 97], y[i : i + 97]) for i in range(0, len(y), 97))]
    local = [] if len(y) == 0 else local
    if rank == settings.get("heavy"):
        local += [(x[:1], y[:1], np.array([2.0**24])), (x[:1], y[:1])]
    if rank == settings.get("wrong"):
        local += [(x, y + 5)]
try:
    params = distributed.fit(clf, local, mesh, **options)
except (ValueError, RuntimeError, OSError) as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
    if isinstance(error, OSError):  # a process died or is late, and JAX would wait for it
        os._exit(3)
    sys.exit(3)
labels, low = summed[0].labels, summed[0].labels.rounding
exact = np.asarray(labels.count, float) + (0 if low is None else np.asarray(low[0], float))
leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((params, summed))]
digest = hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest()
print(json.dumps({
    "digest": digest, "devices": len(jax.devices()), "dtype": str(leaves[0].dtype),
    "count": exact.tolist(), "mean": params.conditional.mean.tolist(),
    "scatter": summed[0].conditional.scatter.tolist(),
}), flush=True)
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(count, devices=1, x64=True, **settings):
    """The processes of a fit."""
    settings = {"timeout": 60, "heartbeat": 100, "model": "lda"} | settings
    told = json.dumps(settings | {"count": count, "port": free_port()})
    flags = os.environ.get("XLA_FLAGS", "")
    flags += f" --xla_force_host_platform_device_count={devices}"
    env = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    env |= {"JAX_ENABLE_X64": str(int(x64)), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", WORKER, told]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [subprocess.Popen([*command, str(rank)], env=env, **pipes) for rank in range(count)]


def answers(processes):
    """What each process says, None if it ended without a word."""
    found = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        found.append(json.loads(lines[-1]) if lines else None)
        assert lines or process.returncode != 0, err[-2000:]
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    x = rng.normal(size=(N, D)) + y[:, None] + 100
    path = tmp_path_factory.mktemp("data") / "rows.npz"
    np.savez(path, x=x, y=y)
    return str(path), x, y


def of_one_fit(clf, x, y, weights=None):
    with jax.enable_x64(True):
        summed = gcf.stats(clf, x, y, weights)
        moments = summed.conditional
        found = {"count": summed.count, "mean": moments.mean, "scatter": moments.scatter}
        return {name: np.asarray(a) for name, a in found.items()}


def assert_exact(found, one):
    assert len({each["digest"] for each in found}) == 1  # the same bits
    np.testing.assert_array_equal(found[0]["count"], one["count"])
    np.testing.assert_allclose(found[0]["mean"], one["mean"], 1e-12)
    np.testing.assert_allclose(found[0]["scatter"], one["scatter"], 1e-12, 1e-12 * N)


@pytest.mark.slow("1-1-lda", "1-8-qda", "4-1-lda")
@pytest.mark.scale
@pytest.mark.parametrize(
    "count, devices, model", [(1, 1, "lda"), (1, 8, "qda"), (2, 2, "qda"), (4, 1, "lda")]
)
def test_as_one_fit(data, count, devices, model):
    path, x, y = data
    found = answers(start(count, devices, data=path, model=model))
    assert found[0]["devices"] == count * devices and found[0]["dtype"] == "float64"
    assert_exact(found, of_one_fit(gcf.lda(K) if model == "lda" else gcf.qda(K), x, y))


@pytest.mark.slow
@pytest.mark.scale
def test_float32_keeps_the_digits(data):
    path, x, y = data
    found = answers(start(2, 1, x64=False, data=path, heavy=0))
    assert len({one["digest"] for one in found}) == 1 and found[0]["dtype"] == "float32"
    x, y = np.vstack([x, x[:1], x[:1]]), np.append(y, [y[0], y[0]])
    weights = np.append(np.ones(N), [2.0**24, 1])
    one = of_one_fit(gcf.lda(K), x.astype(np.float32).astype(float), y, weights)
    np.testing.assert_array_equal(found[0]["count"], one["count"])
    np.testing.assert_allclose(found[0]["mean"], one["mean"], 1e-7)
    np.testing.assert_allclose(found[0]["scatter"], one["scatter"], 1e-6, 1e-6 * N)


@pytest.mark.slow
@pytest.mark.scale
def test_another_model_is_named_on_all(data):
    for one in answers(start(2, data=data[0], other=1)):
        assert one["error"] == "ValueError"
        assert one["message"].startswith(
            "the processes sum different statistics: model is Classifier("
        )
        assert re.search(r"ridge=0.0.*on processes \[0\]; .*ridge=0.1.* on process", one["message"])


@pytest.mark.scale
def test_a_wrong_batch_is_an_error_on_all(data):
    found = answers(start(2, data=data[0], wrong=1, timeout=60))
    assert found[1]["error"] == "ValueError" and found[0]["error"] == "RuntimeError"
    assert found[1]["message"].startswith("y[0] is 5 (row 0), expected a label in 0..2")
    assert found[0]["message"].startswith("process 1 failed: ValueError: y[0] is 5")


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    _, x, y = data
    folder = tmp_path_factory.mktemp("files")
    paths = []
    for i, rows in enumerate(np.array_split(np.arange(N), 11)):
        table = pa.table({f"x{j}": x[rows, j] for j in range(D)} | {"y": y[rows]})
        paths.append(str(folder / f"{i:02d}.parquet"))
        pq.write_table(table, paths[-1])
    whole = pa.concat_tables([pq.read_table(path) for path in paths])
    schema = gcf.Schema.of(gcf.lda(K), whole, label="y")
    return {"files": paths, "schema": schema.to_json()}, of_one_fit(gcf.lda(K), x, y)


@pytest.mark.slow
@pytest.mark.scale
def test_a_killed_process_ends_all_and_a_run_goes_on(files, tmp_path):
    told, one = files
    told = told | {"folder": str(tmp_path)}
    running = start(2, killed=1, heartbeat=HEARTBEAT, timeout=60, **told)
    running[1].wait(60)
    begin = time.monotonic()
    found = answers(running)
    assert found[0]["error"] == "ConnectionError" and found[1] is None
    assert found[0]["message"].startswith("a process ended: ")
    assert time.monotonic() - begin < 2 * HEARTBEAT + 5
    assert running[1].returncode == -signal.SIGKILL
    left = [gcf.Part.from_bytes(path.read_bytes()) for path in tmp_path.glob("*.genclf")]
    assert {len(part.part_ids) for part in left} == {2, 6}
    assert_exact(answers(start(3, **told)), one)  # another number of processes


@pytest.mark.slow
@pytest.mark.scale
@pytest.mark.parametrize("where", ["stalled", "late"])  # as it reads, or in the collective
def test_a_stalled_process_is_an_error_in_time(files, tmp_path, where):
    told = files[0] | {"folder": str(tmp_path)}
    running = start(2, timeout=3, **told, **{where: 1})
    found = answers(running[:1])[0]
    running[1].kill()
    answers(running[1:])
    assert found["error"] == "TimeoutError"
    assert found["message"].startswith("a process did not reach the barrier within 3 s (timeout=)")


@pytest.mark.slow
@pytest.mark.scale
def test_folders_that_differ_are_refused(files, tmp_path):
    told, one = files
    told = told | {"folder": [str(tmp_path / "0"), str(tmp_path / "1")]}
    assert_exact(answers(start(2, **told)), one)
    for found in answers(start(2, **told)):
        assert found["error"] == "ValueError" and "differs between processes" in found["message"]


@pytest.mark.slow
@pytest.mark.scale
@pytest.mark.parametrize("given", ["list", "iterator"])
def test_a_file_of_two_processes_is_refused(files, tmp_path, given):
    told = files[0] | {"folder": str(tmp_path), "files": files[0]["files"][:2], "all": given}
    for found in answers(start(2, **told)):
        said = r"processes 0 and 1 both have the file '.*\.parquet': give each file to one process"
        assert found["error"] == "ValueError" and re.match(said, found["message"])


def one_mesh():
    return jax.make_mesh((1,), ("rows",))


def test_one_process_as_one_fit(x64):
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, 101)
    x, weights = rng.normal(size=(101, D)) + y[:, None] + 100, rng.uniform(0.5, 2, 101)
    cuts = [slice(0, 0), slice(0, 29), slice(29, 30), slice(30, 101)]
    batches = ((x[cut], y[cut], weights[cut]) for cut in cuts)
    found = distributed.fit(gcf.qda(K), batches, one_mesh())
    expected = gcf.fit(gcf.qda(K), x, y, weights)
    for of in (lambda p: p.log_prior, lambda p: p.conditional.mean, lambda p: p.conditional.scale):
        np.testing.assert_allclose(of(found), of(expected), rtol=1e-11, atol=1e-11)


def test_one_process_goes_on_from_its_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    batch = {"a": rng.normal(size=13), "b": rng.normal(size=13), "y": np.arange(13) % 2}
    schema = gcf.Schema.of(gcf.gaussian_nb(2), batch, label="y")
    tables = [pa.table({name: a[rows] for name, a in batch.items()})
              for rows in (slice(0, 5), slice(5, 13))]  # fmt: skip
    paths = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path)
    clf, told = gcf.gaussian_nb(2), {"schema": schema, "checkpoint": tmp_path / "sums", "every": 0}
    half = distributed.fit(clf, paths[:1], one_mesh(), **told)
    os.remove(paths[0])  # what is summed is not read again
    whole = distributed.fit(clf, paths, one_mesh(), **told)
    for found, rows in ((half, [batch[name][:5] for name in batch]), (whole, batch.values())):
        *x, y = rows
        expected = gcf.fit(clf, np.stack(x, 1).astype(np.float32), y)
        np.testing.assert_allclose(found.conditional.mean, expected.conditional.mean, 1e-5)
        np.testing.assert_allclose(found.conditional.scale, expected.conditional.scale, 1e-5)
    with pytest.raises(ValueError, match="other"):
        distributed.fit(gcf.lda(2), paths[1:], one_mesh(), **told)


def test_sparse_rows_and_texts_are_summed():
    counts, y = scipy.sparse.csr_array(np.arange(20.0).reshape(5, 4) % 3), np.array([0, 1, 0, 1, 1])
    found = distributed.fit(gcf.multinomial_nb(2), [(counts, y), (counts[:2], y[:2])], one_mesh())
    whole = np.vstack([counts.toarray(), counts.toarray()[:2]]), np.append(y, y[:2])
    expected = gcf.fit(gcf.multinomial_nb(2), *whole)
    np.testing.assert_allclose(found.conditional.log_theta, expected.conditional.log_theta, 1e-6)
    batch = {"text": ["so it is", "it was so so", "is it"], "y": [0, 1, 1]}
    schema = gcf.Schema.of(None, batch, label="y", kinds={"text": "text"})
    found = distributed.fit(schema.model(), [batch], one_mesh(), schema=schema)
    expected = fit_batches(schema.model(), [batch], schema)
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, 1e-6)


def test_what_a_process_cannot_sum_is_said():
    x, y = np.ones((3, 2)), np.zeros(3, int)
    mesh, first = one_mesh(), "batch-000000000 of local_batches"
    for batches, said in (
        ([], "local_batches is empty: give a batch of no rows"),
        ([x], rf"{first} is a ndarray, expected \(x, y\)"),
        ([(x, y[:2])], rf"{first} has arrays \[\(3, 2\), \(2,\), \(2,\)\], expected equal"),
        ([(x, y), (x[:, :1], y)], r"batch-000000001 of local_batches has x of float32\['n', 1\]"),
        ([(x[:0], y[:0])], "no row of any process has both a label and a weight above 0"),
    ):
        with pytest.raises(ValueError, match=said):
            distributed.fit(gcf.lda(2), batches, mesh)
    with pytest.raises(ValueError, match=r"mesh is 1, expected a jax.sharding.Mesh"):
        distributed.fit(gcf.lda(2), [(x, y)], 1)
