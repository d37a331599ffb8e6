"""Checkpoints of many processes in one folder; a later run may have another number of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from genclf.stream.checkpoint import PartFile, Store
from genclf.stream.part import Part, combine
from genclf.stream.units import is_unnamed

_NAME = re.compile(r"process-(\d+)-of-(\d+)\.genclf")


@dataclass(frozen=True)
class RankFiles(Store):
    """The file of one process, in a folder with the files of all processes.

    Attributes:
        path: the file of this process.
        start: the sum to resume from: this process's checkpoint, and its share of the checkpoints
            of runs with another number of processes; None if there is none.
        elsewhere: the units in the sums that other processes resume from.
    """

    path: Path
    start: Part | None
    elsewhere: frozenset[str]
    shared = True

    @staticmethod
    def open(folder: Path, rank: int, count: int, digest: str) -> RankFiles:
        """The files of a folder as they are now; all processes open it before any writes."""
        found = _largest(folder, digest)
        own = [part for process, part in found if process == (rank, count)]
        others = [part for (other, of), part in found if of == count and other != rank]
        orphans = [part for (_, of), part in found if of != count]
        if any(is_unnamed(name) for part in orphans for name in part.part_ids):
            raise ValueError(
                f"checkpoint {str(folder)!r} was written by another number of processes, from "
                "batches that are not files: use that number again, or give files"
            )
        mine = own + orphans[rank::count]
        theirs = others + [part for i, part in enumerate(orphans) if i % count != rank]
        elsewhere = frozenset(name for part in theirs for name in part.part_ids)
        path = folder / f"process-{rank:05d}-of-{count:05d}.genclf"
        return RankFiles(path, combine(mine) if mine else None, elsewhere)

    def read(self, digest: str) -> Part | None:
        return self.start

    def write(self, part: Part) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        PartFile(self.path).write(part)


def _largest(folder: Path, digest: str) -> list[tuple[tuple[int, int], Part]]:
    """The checkpoints whose units are not all in a larger checkpoint.

    Each comes with its process and its number of processes.
    A process that resumes from files of others includes them whole in its own, so two files have
    no unit in common, or one contains the other.
    """
    found = []
    for path in sorted(folder.glob("process-*.genclf")):
        name, part = _NAME.fullmatch(path.name), PartFile(path).read(digest)
        if name is not None and part is not None:
            found.append(((int(name[1]), int(name[2])), part))
    found.sort(key=lambda one: -len(one[1].part_ids))
    kept: list[tuple[tuple[int, int], Part]] = []
    seen: set[tuple[tuple[int, int] | None, str]] = set()
    for process, part in found:
        # A batch without a name is identified by its process and its number there.
        ids = {(process if is_unnamed(name) else None, name) for name in part.part_ids}
        if not ids <= seen:
            kept.append((process, part))
            seen |= ids
    return sorted(kept, key=lambda one: one[0])
