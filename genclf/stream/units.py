"""The units of a stream: files, or batches, each with a name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from genclf.stream.batches import Unit, is_batch

_UNNAMED = "batch-"


def units(batches: Any) -> Iterator[tuple[str, Unit]]:
    """Each file or batch with its name; raise for a file that is given twice."""
    seen = set()
    for number, given in enumerate([batches] if is_file(batches) or is_batch(batches) else batches):
        if not is_file(given):
            yield f"{_UNNAMED}{number:09d}", given
            continue
        name = os.fspath(given)
        key = unit_key(name)
        if key in seen:
            raise ValueError(f"the file {name!r} occurs twice")
        seen.add(key)
        yield name, given


def unit_key(name: str) -> str:
    """The name of a batch, or the real path of a file, however its path is written."""
    return name if is_unnamed(name) else os.path.realpath(name.removeprefix("file://"))


def is_file(given: object) -> bool:
    """Whether this is the path of a file."""
    return isinstance(given, str | os.PathLike)


def is_unnamed(name: str) -> bool:
    """Whether the name was generated from a batch number and is not a path."""
    return name.startswith(_UNNAMED)
