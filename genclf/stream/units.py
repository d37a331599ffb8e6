"""The units of a stream: files, or batches, each with a name; and how a file is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from genclf.stream.columns import as_tables, is_batch
from genclf.stream.reading import ROWS
from genclf.stream.schema import Schema

_UNNAMED = "batch-"
_READAHEAD = 4  # batches that Arrow reads ahead, so that its memory is bounded


def units(batches: Any) -> Iterator[tuple[str, Any]]:
    """Each file or batch with its name; raise for a file that is given twice."""
    seen = set()
    for number, given in enumerate([batches] if is_file(batches) or is_batch(batches) else batches):
        if not is_file(given):
            yield f"{_UNNAMED}{number:09d}", given
            continue
        name = os.fspath(given)
        place = place_of(name)
        if place in seen:
            raise ValueError(f"the file {name!r} is there twice")
        seen.add(place)
        yield name, given


def place_of(name: str) -> str:
    """The name of a batch, or the real path of a file, however its path is written."""
    return name if is_unnamed(name) else os.path.realpath(name.removeprefix("file://"))


def is_file(given: Any) -> bool:
    """Whether this is the path of a file."""
    return isinstance(given, str | os.PathLike)


def is_unnamed(name: str) -> bool:
    """Whether this name is the number of a batch of a process, not a file."""
    return name.startswith(_UNNAMED)


def tables_of(schema: Schema, name: str, given: Any, labelled: bool = True) -> Iterator[Any]:
    """The batches of a unit; of a file, only the columns that the model reads."""
    if not is_file(given):
        yield from as_tables(given)
        return
    import pyarrow as pa

    if os.path.isdir(given):
        files = f"sorted(pathlib.Path({name!r}).glob('*.parquet'))"
        raise ValueError(f"{name!r} is a folder, expected a file: give the list {files}")
    if "*" in name and not os.path.exists(given):
        raise ValueError(
            f"{name!r} is a pattern, expected a file: give sorted(glob.glob({name!r}))"
        )
    wanted = schema.names if labelled else [column.name for column in schema.columns]
    try:
        data = _open(schema, given)
        if lacking := [column for column in wanted if column not in data.schema.names]:
            raise ValueError(
                f"{name!r}: no column {lacking[0]!r}; the columns are "
                f"{', '.join(map(repr, data.schema.names)):.200}"
            )
        limits = {"batch_size": ROWS, "batch_readahead": _READAHEAD, "fragment_readahead": 1}
        yield from data.to_batches(columns=wanted, **limits)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{name!r} cannot be read: {error}") from error


def _open(schema: Schema, path: Any) -> Any:
    """The Arrow dataset of one file; strings of categories in Parquet are read as codes."""
    from pyarrow import dataset, parquet

    kind = {".arrow": "feather", ".feather": "feather", ".csv": "csv", ".orc": "orc"}
    found = kind.get(Path(path).suffix.lower(), "parquet")
    if found == "csv":
        return dataset.dataset(os.fspath(path), format=_csv(schema))
    if found != "parquet":
        return dataset.dataset(os.fspath(path), format=found)
    own = parquet.read_schema(os.fspath(path))
    strings = {field.name for field in own if str(field.type) in ("string", "large_string")}
    codes = [c.name for c in schema.columns if c.kind == "categorical"] + [schema.label]
    options = {"dictionary_columns": [name for name in codes if name in strings]}
    return dataset.dataset(os.fspath(path), format=dataset.ParquetFileFormat(read_options=options))


def _csv(schema: Schema) -> Any:
    """How CSV is read: an empty cell is null, and strings stay as they are written."""
    import pyarrow as pa
    from pyarrow import csv, dataset

    values = {c.name: c.values for c in schema.columns if c.kind == "categorical"}
    values |= {c.name: ("",) for c in schema.columns if c.kind == "text"}
    values[schema.label] = schema.classes
    are_strings = [name for name, own in values.items() if all(isinstance(v, str) for v in own)]
    options = csv.ConvertOptions(
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        column_types=dict.fromkeys(are_strings, pa.string()),
    )
    return dataset.CsvFileFormat(convert_options=options)
