"""The formats of files, by their ending, and how a file is read in record batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genclf.stream.batches import ArrowTable, Batches, as_tables
from genclf.stream.units import is_file, units
from genclf.tables.arrow_cells import ArrowType

ROWS = 65_536  # rows that are read at a time
_READAHEAD = 4  # batches that Arrow reads ahead, so that its memory is bounded


@dataclass(frozen=True)
class Reader:
    """How files are read.

    Attributes:
        columns: the columns to read; None for all.
        codes: columns of strings that are read as codes, if the file is of Parquet.
        types: types of columns of a file of CSV, by the names of Arrow; other columns are strings.
            None to guess the types from the first rows. Integer columns are then read as floats,
            because later rows may hold fractions. Dates are read as strings.
        ignored: columns of a file of CSV whose cells do not matter.
    """

    columns: tuple[str, ...] | None = None
    codes: tuple[str, ...] = ()
    types: Mapping[str, str] | None = None
    ignored: frozenset[str] = frozenset()

    def all_tables(self, batches: Batches) -> Iterator[tuple[str, ArrowTable]]:
        """The tables of files or batches, each with the name of its unit."""
        for name, given in units(batches):
            for table in self.tables(name, given):
                yield name, table

    def tables(self, name: str, given: Any) -> Iterator[ArrowTable]:
        """The tables of a unit."""
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
        try:
            data = self._opened(os.fspath(given))
            found = data.schema.names
            wanted = found if self.columns is None else self.columns
            if lacking := [column for column in wanted if column not in found]:
                raise ValueError(
                    f"{name!r}: no column {lacking[0]!r}, expected one; the columns are "
                    f"{', '.join(map(repr, found)):.200}"
                )
            limits = {"batch_size": ROWS, "batch_readahead": _READAHEAD, "fragment_readahead": 1}
            yield from as_tables(data.to_batches(columns=list(wanted), **limits))
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise FileNotFoundError(f"there is no file {name!r}") from error
            raise ValueError(f"{name!r} cannot be read: {error}{self._hint(name)}") from error

    def _opened(self, path: str) -> Any:
        """The Arrow dataset of one file."""
        from pyarrow import dataset, parquet

        found = _FORMATS.get(Path(path).suffix.lower(), "parquet")
        if found == "csv":
            return dataset.dataset(path, format=_csv(self._types(path)))
        if found != "parquet" or not self.codes:
            return dataset.dataset(path, format=found)
        own = parquet.read_schema(path)
        strings = {field.name for field in own if str(field.type) in ("string", "large_string")}
        options = {"dictionary_columns": [name for name in self.codes if name in strings]}
        return dataset.dataset(path, format=dataset.ParquetFileFormat(read_options=options))

    def _types(self, path: str) -> dict[str, ArrowType]:
        """The types of the columns of a file of CSV."""
        import pyarrow as pa
        from pyarrow import dataset, types

        given = {name: getattr(pa, own)() for name, own in (self.types or {}).items()}
        if self.types is not None and self.columns is not None:
            return given
        guessed = dataset.dataset(path, format=_csv({})).schema
        if self.types is not None:
            return dict.fromkeys(guessed.names, pa.string()) | given
        found = dict.fromkeys(self.ignored, pa.string())
        for field in guessed:
            if field.name in found:
                continue
            if types.is_integer(field.type):
                found[field.name] = pa.float64()
            elif types.is_temporal(field.type):
                found[field.name] = pa.string()
        return found

    def _hint(self, name: str) -> str:
        """What may be wrong with a file that cannot be read."""
        found = _FORMATS.get(Path(name).suffix.lower())
        if found is None:
            endings = ", ".join(_FORMATS)
            return f" (it was read as Parquet; other formats have the endings {endings})"
        guessed = found == "csv" and self.types is None
        return " (types are those of the first rows)" if guessed else ""


_FORMATS = {
    ".parquet": "parquet",
    ".arrow": "feather",
    ".feather": "feather",
    ".csv": "csv",
    ".orc": "orc",
}


def _csv(types: dict[str, ArrowType]) -> Any:
    """How CSV is read: an empty cell is null, and strings stay as they are written."""
    from pyarrow import csv, dataset

    options = csv.ConvertOptions(
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        column_types=types,
    )
    return dataset.CsvFileFormat(convert_options=options)
