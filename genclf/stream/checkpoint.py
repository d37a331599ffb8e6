"""Sums over a stream in one pass, with checkpoints from which an interrupted run resumes."""

from __future__ import annotations

import abc
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from genclf.arguments.extras import imported
from genclf.files.container import FileError, replace_file
from genclf.stream.batches import Batches, Unit
from genclf.stream.part import Part, added
from genclf.stream.reading import host_part
from genclf.stream.schema import Schema
from genclf.stream.units import is_unnamed, unit_key, units

Summed = Callable[[str, Unit], Part]
"""A function from the name of a unit and the unit itself to the part of its rows."""


class Store(abc.ABC):
    """A store for the sum of a stream.

    Attributes:
        shared: whether the sum may include units of other processes.
    """

    shared = False

    @abc.abstractmethod
    def read(self, digest: str) -> Part | None:
        """The stored sum, None if there is none yet; raise if it has another digest."""

    @abc.abstractmethod
    def write(self, part: Part) -> None:
        """Replace the stored sum."""


@dataclass(frozen=True)
class PartFile(Store):
    """A file that holds one part, and is replaced atomically."""

    path: Path

    def read(self, digest: str) -> Part | None:
        if not is_there(self.path):
            return None
        try:
            found = Part.from_bytes(self.path.read_bytes())
        except FileError as error:
            raise not_of(self.path, "a single pass", error) from error
        check_digest(found.digest, digest, self.path)
        return found

    def write(self, part: Part) -> None:
        replace_file(self.path, part.to_bytes())


def is_there(path: Path) -> bool:
    """Whether the checkpoint exists; raise if it is a folder, or its folder does not exist."""
    if path.is_dir():
        raise ValueError(f"checkpoint is {os.fspath(path)!r}, a folder: expected a file")
    if not path.parent.is_dir():
        message = f"checkpoint is {os.fspath(path)!r}, but there is no folder"
        raise FileNotFoundError(f"{message} {os.fspath(path.parent)!r}")
    return path.exists()


def not_of(path: Path, what: str, error: FileError) -> FileError:
    """The error for a file that is not a checkpoint of such a run, or is damaged."""
    name = os.fspath(path)
    return FileError(f"checkpoint {name!r} is damaged, or not one of {what}: {error}")


def check_digest(found: str, digest: str, path: Path) -> None:
    """Raise if a checkpoint is of another schema."""
    if found != digest:
        raise ValueError(
            f"checkpoint {os.fspath(path)!r} is of another schema, {found[:12]}, not "
            f"{digest[:12]}: use another file"
        )


def host_sum(schema: Schema, batches: Batches, **options: Any) -> Part:
    """`sum_units` without JAX."""
    empty = host_part(schema, [], "nothing")
    summed = partial(of_unit, host_part, schema)
    return sum_units(batches, empty=empty, summed=summed, **options)


def of_unit(function: Callable[..., Any], schema: Schema, name: str, given: Unit) -> Any:
    """What a function of the schema, its tables and its name makes of a file or batch."""
    return function(schema, schema.reader.tables(name, given), name)


def sum_units(
    batches: Batches,
    *,
    empty: Part,
    summed: Summed,
    store: Store | None,
    every: float | int = 60,
    progress: bool = False,
    processes: int = 1,
) -> Part:
    """The part of all units, merged in their order; see `genclf.stream.sum_batches`.

    `empty` is the part of zero rows, and `summed` computes that of a unit. The sum is kept in
    `store`; None to write no checkpoint.
    """
    total = (store and store.read(empty.digest)) or replace(empty, part_ids=())
    ids = list(total.part_ids)
    left, last = {unit_key(name): name for name in ids}, time.monotonic()
    todo = (
        unit
        for unit in (units(batches) if store is None else _like(ids, units(batches)))
        if left.pop(unit_key(unit[0]), None) is None
    )
    tqdm = imported("tqdm", "stream", "streams need").tqdm
    with tqdm(initial=total.rows, unit=" rows", unit_scale=True, disable=not progress) as bar:
        for part in _parts(todo, summed, processes):
            ids += part.part_ids
            total = added(total, part)
            bar.update(part.rows)
            if store is not None and time.monotonic() - last >= every:
                store.write(replace(total, part_ids=tuple(ids)))
                last = time.monotonic()
    total = replace(total, part_ids=tuple(ids))
    if store is not None:
        store.write(total)
        if left and not store.shared:
            first = next(iter(left.values()))
            what, them = ("batches", "them") if is_unnamed(first) else ("files", "their names")
            raise ValueError(
                f"the checkpoint includes {what} that were not given ({len(left)}), such as "
                f"{first!r}: give {them} too (they are not read again), or use another checkpoint"
            )
    return total


def _like(ids: list[str], given: Iterator[tuple[str, Unit]]) -> Iterator[tuple[str, Unit]]:
    """The units; raise for files if the checkpoint is of numbered batches, or vice versa."""
    for name, unit in given:
        if ids and is_unnamed(name) != is_unnamed(ids[0]):
            kinds = ("files", "batches that are not files")
            here, there = kinds if is_unnamed(ids[0]) else kinds[::-1]
            raise ValueError(
                f"the checkpoint is of {there}, such as {ids[0]!r}, but these are {here}: use "
                "another checkpoint, since the same rows might count twice"
            )
        yield name, unit


def _parts(todo: Iterator[tuple[str, Unit]], summed: Summed, processes: int) -> Iterator[Part]:
    """The parts of the units, in the order of the units."""
    if processes == 1:
        return (summed(name, given) for name, given in todo)
    joblib = imported("joblib", "stream", "several processes need")
    run = joblib.Parallel(n_jobs=processes, return_as="generator", pre_dispatch="2*n_jobs")
    return run(joblib.delayed(summed)(name, given) for name, given in todo)
