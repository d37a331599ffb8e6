"""Sums and predictions of a partition of the rows on a worker of a cluster, without JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from genclf.stream.batches import ArrowTable, Batch, Batches, RecordBatch, as_tables
from genclf.stream.part import Part, merged
from genclf.stream.predicting import PredictedColumns
from genclf.stream.reading import host_part
from genclf.stream.schema import Schema
from genclf.tables.arrow_cells import ArrowColumn
from genclf.tables.place import Place

SIZE = 4 * 2**20  # bytes of a chunk


class Chunk(NamedTuple):
    """A piece of the bytes of a part.

    Attributes:
        part_id: the part.
        sequence: the number of the piece, from 0.
        of: how many pieces the part has.
        bytes: the piece.
    """

    part_id: str
    sequence: int
    of: int
    bytes: bytes


def to_chunks(name: str, part: Part) -> Iterator[Chunk]:
    """The pieces of a part, under this name."""
    content = part.to_bytes()
    starts = range(0, len(content), SIZE)
    for sequence, start in enumerate(starts):
        yield Chunk(name, sequence, len(starts), content[start : start + SIZE])


def from_chunks(chunks: Iterable[Chunk]) -> Part:
    """The part of these pieces; raise unless each is there exactly once."""
    found: dict[int, Chunk] = {}
    for chunk in chunks:
        if chunk.sequence in found:
            raise ValueError(
                f"part {chunk.part_id!r}: chunk {chunk.sequence} arrived twice, as if a task ran "
                "twice: nothing is summed"
            )
        found[chunk.sequence] = chunk
    if missing := sorted({*range(chunk.of)} - {*found}):
        raise ValueError(f"part {chunk.part_id!r}: chunk {missing[0]} of {chunk.of} did not arrive")
    return Part.from_bytes(b"".join(bytes(found[i].bytes) for i in range(chunk.of)))


def partition_name(number: int) -> str:
    """The name of the part of a partition."""
    return f"partition-{number:05d}"


def parts_in(chunks: Iterable[Chunk], numbers: range) -> Iterator[Part]:
    """The parts of these partitions, from their chunks.

    Args:
        chunks: chunks; those of one part are adjacent, and the parts are in order.
        numbers: the numbers of the partitions.

    Raises:
        ValueError: a part or one of its chunks is missing or repeated.
    """
    wanted = map(partition_name, numbers)
    for name, own in groupby(chunks, key=lambda chunk: chunk.part_id):
        if name != (expected := next(wanted, None)):
            raise ValueError(f"part {name!r} arrived, expected {expected or 'none'!r}, {numbers}")
        yield from_chunks(own)
    if (missing := next(wanted, None)) is not None:
        raise ValueError(f"part {missing!r} of {len(numbers)} did not arrive")


def part_of_partition(schema: Schema, number: int, batches: Batches) -> Part:
    """The part of a partition."""
    return host_part(schema, tables_of(schema, batches), partition_name(number))


def tables_of(schema: Schema, batches: Batches) -> Iterator[ArrowTable]:
    """The batches as tables; lists of numbers regain their fixed length, which engines drop."""
    import pyarrow as pa

    for table in as_tables(batches):
        for column in schema.columns:
            index = table.schema.get_field_index(column.source)
            if column.width == 1 or index < 0:
                continue
            dtype = table.schema.types[index]
            if not (pa.types.is_list(dtype) or pa.types.is_large_list(dtype)):
                continue
            try:
                cells = table[index].cast(pa.list_(pa.float64(), column.width))
            except pa.ArrowInvalid:  # another length: `schema.read` raises and names the column
                continue
            table = table.set_column(index, column.source, cells)
        yield table


@dataclass(frozen=True)
class Named:
    """A function that renames the columns of batches and then calls `work`."""

    names: list[str]
    work: Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]

    def __call__(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Rename the columns of a Spark partition's batches, and apply `work` to the batches."""
        return self.work(batch.rename_columns(self.names) for batch in batches)


@dataclass(frozen=True)
class Summing:
    """A function from the batches of a Spark partition to the chunks of its part."""

    schema: Schema

    def __call__(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """The chunks, each as a batch of one row."""
        import pyarrow as pa

        number = _own_partition()
        kinds = [pa.string(), pa.int32(), pa.int32(), pa.binary()]
        part = part_of_partition(self.schema, number, batches)
        for chunk in to_chunks(partition_name(number), part):
            cells = [pa.array([cell], kind) for cell, kind in zip(chunk, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(cells, list(Chunk._fields))


def _own_partition() -> int:
    """The number of the partition that this Spark task processes."""
    from pyspark import TaskContext

    task: Any = TaskContext.get()
    return task.partitionId()


def keyed(row: Any) -> tuple[tuple[int, int], Chunk]:
    """A chunk with its sort key: its partition and sequence."""
    chunk = Chunk(*row)
    return (int(chunk.part_id.rpartition("-")[2]), chunk.sequence), chunk


@dataclass(frozen=True)
class Merging:
    """A function from the chunks of consecutive parts to those of their sum.

    Attributes:
        together: how many parts are merged into one.
        total: how many parts there are.
    """

    together: int
    total: int

    def group_of(self, key: tuple[int, int]) -> int:
        """The group of a chunk, from its key."""
        return key[0] // self.together

    def __call__(self, group: int, chunks: Iterator[tuple[object, Chunk]]) -> Iterator[Chunk]:
        """The chunks of the sum of a group, from its sorted chunks with their keys."""
        first = group * self.together
        numbers = range(first, min(first + self.together, self.total))
        whole = merged(parts_in((chunk for _, chunk in chunks), numbers))
        return to_chunks(partition_name(group), whole)


@dataclass(frozen=True)
class Predicting:
    """A function from batches to the same batches with columns of predictions."""

    predictor: PredictedColumns

    def columns(self, table: Batch, place: Place) -> dict[str, ArrowColumn]:
        """The columns to add to a table."""
        (table,) = tables_of(self.predictor.schema, table)
        return self.predictor(table, place)

    def __call__(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """The batches of a partition of Spark, with predictions."""
        import pyarrow as pa

        source, first = partition_name(_own_partition()), 0
        for batch in batches:
            more = self.columns(batch, Place(source, first))
            names = [*batch.schema.names, *more]
            yield pa.RecordBatch.from_arrays([*batch.columns, *more.values()], names)
            first += len(batch)

    def of_frame(self, frame: Any, partition_info: Any = None) -> Any:
        """A Dask partition with predictions; Dask passes `partition_info`, with its number."""
        import pandas as pd

        number = (partition_info or {}).get("number", 0)
        (table,) = as_tables(frame[self.predictor.schema.sources])
        found = self.columns(table, Place(partition_name(number)))
        arrays = {k: pd.array(cells, pd.ArrowDtype(cells.type)) for k, cells in found.items()}
        return frame.assign(**arrays)
