"""Fits on many JAX processes: GPU and TPU clusters, or hosts without accelerators.

Each process sums its own rows on its own devices, at its own pace, and one collective merges the
sums. Start the processes with `jax.distributed.initialize(..., heartbeat_timeout_seconds=30)`. When
a process dies or freezes, the others detect it when the heartbeat timeout (100 s by default) has
passed. They raise a `ConnectionError`, or JAX ends them. JAX always ends them if the first process
dies, since it coordinates the others. A process cannot rejoin. End all processes by `os._exit`: a
normal exit would wait for the dead process. A new run resumes from the checkpoints.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from genclf.arguments.domains import NON_NEGATIVE, POSITIVE, Domain
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.estimation import estimate
from genclf.classifier.pieces import cut
from genclf.engines.barriers import Barriers, agreed
from genclf.engines.local_rows import array_rows, form_of, own_devices, sum_rows, sums_over
from genclf.engines.rank_files import RankFiles
from genclf.stream.checkpoint import sum_units
from genclf.stream.convert import as_host, as_stats
from genclf.stream.on_device import arrays_of, checked_pieces, no_sums
from genclf.stream.part import Part, part_of
from genclf.stream.partial import check_schema, warn_of_precision
from genclf.stream.schema import Schema
from genclf.stream.units import is_file, is_unnamed
from genclf.sums.host import HostClassifier
from genclf.sums.merging import merge_at_once, pool
from genclf.sums.statistics import ClassifierStats


@checked_arguments(
    mesh=Domain("a jax.sharding.Mesh", lambda mesh: isinstance(mesh, Mesh)),
    schema=Domain("a genclf.Schema, or None", lambda s: isinstance(s, Schema), optional=True),
    checkpoint=Domain(
        "the path of a folder, or None", lambda p: isinstance(p, str | os.PathLike), optional=True
    ),
    every=NON_NEGATIVE,
    timeout=POSITIVE,
)
def fit(
    clf: Classifier,
    local_batches: Iterable[Any],
    mesh: Mesh,
    *,
    schema: Schema | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float | int = 60,
    timeout: float | int = 600,
) -> ClassifierParams:
    """Fit a model to the rows of all processes together.

    All processes make the same call, each with any number of rows of its own, even zero. Rows are
    summed in the dtype of JAX's setting. A batch is padded with rows of weight 0 to one of a few
    sizes and spread over the process's devices; sparse rows are summed by one device. Before
    reading, the processes check that they sum the same statistics; after it, one all-reduce in
    float64 merges them: K d numbers for naive Bayes, d² for a shared covariance, K d² for
    covariances of the classes. All processes then have the same bits. On TPUs the all-reduce is in
    float32, as high and low parts, so counts are exact only up to 2²⁴.

    Args:
        clf: the model.
        local_batches: this process's batches, (x, y) or (x, y, weights) as `genclf.fit` takes them;
            with a schema, files or batches as `genclf.stream.fit_batches` takes them.
        mesh: a mesh of devices of all processes.
        schema: how the model reads the columns; None for arrays.
        checkpoint: a folder that all processes see, for the sums of each; None for no checkpoints.
            A resumed run does not sum again what is summed there: files, even if the number of
            processes has changed; and batches, which are identified by their number within a
            process.
        every: seconds between checkpoints.
        timeout: seconds to wait for the slowest process, at each barrier.

    Returns:
        `ClassifierParams`, the same on all processes.

    Raises:
        ValueError: the processes sum different statistics (the message says how); two have
            a file of the same name; a batch of this process is wrong; or no row has a label.
        RuntimeError: another process failed; the message says which and how.
        TimeoutError: a process did not reach a barrier in time.
        ConnectionError: a process ended; JAX detects this by a missing heartbeat.

    Example:
        >>> import jax, numpy as np, genclf as gcf
        >>> from genclf import distributed
        >>> mesh = jax.make_mesh((len(jax.devices()),), ("rows",))
        >>> x, y = np.array([[0.0], [1.0], [8.0], [9.0]]), np.array([0, 0, 1, 1])
        >>> params = distributed.fit(gcf.lda(2), [(x[:3], y[:3]), (x[3:], y[3:])], mesh)
        >>> print(params.conditional.mean.ravel())
        [0.5 8.5]
    """
    barriers = Barriers.of_call(timeout)
    with barriers.before("start"):
        devices = own_devices(mesh)
        batches, example = _begun(clf, local_batches, schema)
        own = _description(clf, example, schema, mesh, checkpoint)
        zeros = None if example is None else no_sums(partial(sum_rows, clf), example)
    messages = [json.loads(each) for each in barriers.exchange("start", json.dumps(own).encode())]
    digest = _digest(agreed(messages))
    if isinstance(local_batches, list | tuple):  # files of an iterator are known after reading it
        _check_once(barriers, "files", [os.fspath(b) for b in local_batches if is_file(b)])
    empty = _empty_part(barriers, messages, zeros, digest)
    store = None if checkpoint is None else _opened(barriers, Path(checkpoint), digest)
    done = frozenset() if store is None else store.elsewhere
    todo = (b for b in batches if not (is_file(b) and os.fspath(b) in done))
    summed = partial(_part, clf, schema, own["rows"], devices, empty)
    with barriers.before("sums"):
        part = sum_units(todo, empty=empty, summed=summed, store=store, every=every)
    _check_once(barriers, "sums", [name for name in part.part_ids if not is_unnamed(name)])
    barriers.end()
    total = barriers.collective(partial(_over_processes, part, mesh))
    if float(total.labels.count.sum()) == 0:
        raise ValueError("no row of any process has both a label and a weight above 0")
    if schema is not None:
        warn_of_precision(total.conditional, schema)
    return estimate(clf, as_stats(total))


def _begun(
    clf: Classifier, local_batches: Iterable[Any], schema: Schema | None
) -> tuple[Iterable[Any], PyTree | None]:
    """The batches, and example rows; None if there is no batch."""
    if schema is not None:
        check_schema(clf, schema)
        return local_batches, arrays_of(schema.no_rows())
    batches = iter(local_batches)
    first = next(batches, None)
    if first is None:
        return (), None
    return chain([first], batches), array_rows(clf, first, "batch-000000000")


def _description(
    clf: Classifier, example: PyTree | None, schema: Schema | None, mesh: Mesh, checkpoint: object
) -> dict[str, str | None]:
    """A description of what this process sums, the same on all; "rows" is None without batches."""
    values = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(clf)]
    whole = hashlib.sha256(repr((jax.tree.structure(clf), values)).encode()).hexdigest()
    model = f"{' '.join(repr(clf).split()):.300} ({whole[:16]})"
    return {
        "model": model,
        "schema": "none" if schema is None else schema.digest,
        "dtype of JAX": jnp.result_type(float).name,
        "mesh": str(dict(mesh.shape)),
        "checkpoint": "none" if checkpoint is None else "a folder",
        "rows": None if example is None else form_of(example[0]),
    }


def _digest(description: dict[str, str | None]) -> str:
    """A hash of what is summed, without the mesh: the number of processes may change."""
    if description["rows"] is None:
        raise ValueError("local_batches is empty: give a batch of no rows, x of shape (0, d)")
    summed = {what: own for what, own in description.items() if what not in ("mesh", "checkpoint")}
    return hashlib.sha256(json.dumps(summed, sort_keys=True).encode()).hexdigest()


def _empty_part(
    barriers: Barriers, messages: list[dict[str, Any]], zeros: ClassifierStats | None, digest: str
) -> Part:
    """The part of zero rows; a process without batches receives it from another one."""
    own = None if zeros is None else part_of(as_host(zeros), 0, "nothing", digest)
    has_rows = [message["rows"] is not None for message in messages]
    if all(has_rows) and own is not None:
        return own
    sent = b"" if own is None else zlib.compress(own.to_bytes(), 1)
    content = barriers.exchange("nothing", sent)[has_rows.index(True)]
    return Part.from_bytes(zlib.decompress(content))


def _opened(barriers: Barriers, folder: Path, digest: str) -> RankFiles:
    """The checkpoints, read by all processes before any writes; raise if they differ."""
    with barriers.before("checkpoint"):
        store = RankFiles.open(folder, jax.process_index(), jax.process_count(), digest)
    own = () if store.start is None else store.start.part_ids
    seen = "\n".join(sorted(store.elsewhere.union(own)))
    views = barriers.exchange("checkpoint", hashlib.sha256(seen.encode()).digest())
    if len(set(views)) > 1:
        raise ValueError(
            f"checkpoint {str(folder)!r} differs between processes: copy its files to a folder "
            "that all processes see"
        )
    return store


def _check_once(barriers: Barriers, topic: str, names: list[str]) -> None:
    """Raise if two processes have a file of the same name."""
    short = [hashlib.blake2b(name.encode(), digest_size=_SHORT).digest() for name in names]
    own = dict(zip(short, names, strict=True))
    first: dict[bytes, int] = {}
    for rank, message in enumerate(barriers.exchange(topic, b"".join(short))):
        for start in range(0, len(message), _SHORT):
            key = message[start : start + _SHORT]
            if (before := first.setdefault(key, rank)) != rank:
                what = f"the file {own[key]!r}" if key in own else "one file"
                raise ValueError(
                    f"processes {before} and {rank} both have {what}: give each file to one "
                    "process, and files of each host names of their own"
                )


_SHORT = 12  # bytes of the hash of a file name


def _part(
    clf: Classifier,
    schema: Schema | None,
    form: str | None,
    devices: list[Any],
    empty: Part,
    name: str,
    given: object,
) -> Part:
    """The part of a unit, summed by the devices of this process."""
    total, rows = None, 0
    if schema is None:
        x, y, w = array_rows(clf, given, name)
        if (found := form_of(x)) != form:
            raise ValueError(f"{name} of local_batches has {found}, but the first one {form}")
        each: Iterable[Any] = cut(x, y, w)
    else:
        each = map(arrays_of, checked_pieces(clf, schema, schema.reader.tables(name, given), name))
    for x, y, w in each:
        if len(y):
            one = sums_over(clf, devices, x, y, w)
            total, rows = one if total is None else merge_at_once(total, one), rows + len(y)
    if total is None:
        return replace(empty, part_ids=(name,))
    return part_of(as_host(total), rows, name, empty.digest)


def _over_processes(own: Part, mesh: Mesh) -> HostClassifier:
    """The statistics of all processes, merged on one device per process."""
    if jax.process_count() == 1:
        return HostClassifier(own.labels, own.conditional, own.statistic)
    devices = {d.process_index: d for d in reversed(mesh.devices.ravel().tolist())}
    each = Mesh(np.array([devices[i] for i in sorted(devices)]), ("processes",))
    over = PartitionSpec("processes")
    of_one = lambda s: pool(jax.tree.map(lambda a: a[0], s), "processes")  # noqa: E731
    merge = jax.shard_map(of_one, mesh=each, in_specs=over, out_specs=PartitionSpec())
    # Sums in float32 would lose the exactness of counts past 2²⁴; some TPUs cannot sum float64.
    with jax.enable_x64(each.devices[0].platform != "tpu"):
        sharded = jax.tree.map(
            lambda a: jax.make_array_from_process_local_data(
                NamedSharding(each, over), np.asarray(a)[None]
            ),
            own.stats,
        )
        return as_host(jax.tree.map(lambda a: a.addressable_data(0), jax.jit(merge)(sharded)))
