"""Read a user's file as a table, or raise an error with the reason on one line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import zipfile
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from genclf.cli.text_tables import HOLES, FileTable, ParseError, parsed, parsed_arff

_PARQUET, _FEATHER = (".parquet", ".pq"), (".feather", ".arrow")
_BINARY = _PARQUET + _FEATHER


class InputError(Exception):
    """The file or an option cannot be used; the message is one line for the user."""

    def __init__(self, message: str):
        """Characters that cannot be printed on one line are escaped."""
        super().__init__(printable(message))


def printable(text: str) -> str:
    """The text on one line, with every non-printable character escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def table_of(options: Namespace, label: str = "") -> FileTable:
    """The table of the file that the command line names, read as its options say."""
    holes = HOLES if options.holes is None else ("", *options.holes)
    how: dict[str, Any] = {"separator": options.sep, "header": options.header, "holes": holes}
    return read_table(options.file, label, **how)


def check_outputs(options: Namespace) -> None:
    """Raise `InputError` if a file to be written has no folder, or is one that is read."""
    given = [getattr(options, name, "") for name in ("file", "model")]
    read = {os.path.realpath(path) for path in given if os.path.exists(path)}
    for name in ("html", "save", "output"):
        path = getattr(options, name, None)
        if not path:
            continue
        if os.path.realpath(path) in read:
            raise InputError(f"{path}: is read, so --{name} cannot write it; give another name")
        if os.path.isdir(path):
            raise InputError(f"{path}: is a folder, expected the name of a file for --{name}")
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise InputError(f"{path}: No such file or directory")


def read_table(
    path: str,
    label: str,
    *,
    separator: str | None = None,
    header: bool = True,
    holes: Sequence[str] = HOLES,
) -> FileTable:
    """The table in a file; the cells of a text are numbers, truth values or strings.

    A repeated column name is followed by its column number; raise if it is the label's name.

    Args:
        path: the file: CSV, ARFF, Parquet or Feather, perhaps compressed.
        label: the name of the column of labels, of which only an empty cell is missing.
        separator: what separates the columns of CSV; None to find out.
        header: whether the first line of CSV holds names.
        holes: the spellings of a missing cell in CSV.
    """
    try:
        data = _read(path)
        if path.lower().endswith(_BINARY):
            return FileTable(_binary(path, data))
        text, remarks = _decode(_unpack(path, data))
        if ".arff" in Path(path.lower()).suffixes:
            found = parsed_arff(text)
        else:
            is_tabs = {".tsv", ".tab"} & {*Path(path.lower()).suffixes}
            separator = "\t" if separator is None and is_tabs else separator
            found = parsed(text, separator, header, label, holes)
    except (InputError, ParseError) as error:
        raise InputError(f"{path}: {error}") from None
    except ImportError as error:
        raise InputError(
            f"{path}: needs the package {error.name}: pip install {error.name}, or unpack the file"
        ) from None
    # Given bytes of another format, decompressors and the parser raise exceptions of many types.
    except Exception as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(f"{path}: {reason or type(error).__name__}") from None
    return FileTable(found.columns, remarks + found.remarks)


def _binary(path: str, data: bytes) -> Any:
    """A table of Parquet or Feather with its column types, read by polars or else by pyarrow."""
    what = "parquet" if path.lower().endswith(_PARQUET) else "feather"
    if find_spec("polars") is not None:
        polars = import_module("polars")
        scan = polars.scan_parquet if what == "parquet" else polars.scan_ipc
        lazy = scan(io.BytesIO(data))
        rows = lazy.select(polars.len()).collect().item()
        _check_size(_CELL * rows * len(lazy.collect_schema()), data)
        return lazy.collect()
    if find_spec("pyarrow") is None:
        raise InputError(f"a {what} file needs polars or pyarrow: pip install polars")
    if what == "parquet":
        found = import_module("pyarrow.parquet").ParquetFile(io.BytesIO(data))
        _check_size(_CELL * found.metadata.num_rows * found.metadata.num_columns, data)
        return found.read()
    return import_module("pyarrow.feather").read_table(io.BytesIO(data))


def _read(path: str) -> bytes:
    if "://" in path:
        raise InputError("URLs are not fetched; download the file, and give the path of the copy")
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise InputError("no such file") from None
    for is_kind, kind in [
        (stat.S_ISDIR, "directory"),
        (stat.S_ISCHR, "device"),
        (stat.S_ISBLK, "device"),
        (stat.S_ISSOCK, "socket"),
    ]:
        if is_kind(mode):
            raise InputError(f"is a {kind}, expected a CSV file")
    with open(path, "rb") as file:
        return file.read()


def _unpack(path: str, data: bytes) -> bytes:
    """The bytes of the only file inside; the file name extension gives the format."""
    name = path.lower()
    try:
        for ending, opened in _COMPRESSED.items():
            if name.endswith((ending, {".gz": ".tgz"}.get(ending, ending))):
                data = _bounded(opened(io.BytesIO(data)), data)
        if name.endswith(_TAR):
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
                file = tar.extractfile(_only([m for m in tar.getmembers() if m.isfile()]))
                return file.read() if file else b""
        if name.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                only = _only([m for m in archive.infolist() if not m.is_dir()])
                with archive.open(only) as inside:
                    return _bounded(inside, data)
    except (InputError, ImportError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"cannot be unpacked: {reason}") from None
    return data


def _bounded(unpacked: Any, data: bytes) -> bytes:
    """The bytes of an unpacked stream; raise if they exceed the limit."""
    found = unpacked.read(_limit(data) + 1)
    _check_size(len(found), data)
    return found


def _limit(data: bytes) -> int:
    """The largest number of bytes that these bytes of a file may unpack to."""
    given = os.environ.get(_SETTING, "")
    return int(given) if given.isdecimal() else max(_LEAST, _RATIO * len(data))


def _check_size(size: int, data: bytes) -> None:
    if size > _limit(data):
        raise InputError(
            f"unpacks to more than {_limit(data):,} bytes, from {len(data):,}; if you trust it, "
            f"set the environment variable {_SETTING} to the most bytes to unpack"
        )


_COMPRESSED: dict[str, Any] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": lambda file: import_module("zstandard").ZstdDecompressor().stream_reader(file),
}
_TAR = (".tar", ".tgz", *(f".tar{ending}" for ending in _COMPRESSED))
_CELL = 8  # bytes of a cell in memory
_SETTING = "GENCLF_MOST_BYTES"
_LEAST, _RATIO = 2**26, 100  # a file may unpack to this many bytes, or to this many times its size


def _only(members: list[Any]) -> Any:
    if len(members) != 1:
        raise InputError(f"holds {len(members)} files, expected one; unpack it first")
    return members[0]


def _decode(data: bytes) -> tuple[str, list[str]]:
    """The text, and remarks: bytes that are not UTF-8 are read as Latin-1 if they may be text."""
    remarks = []
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        if _CONTROL.search(data):
            raise InputError(f"is not UTF-8 text (line {line}); save the file as UTF-8") from None
        text = data.decode("cp1252", "replace")
        remarks = [f"The file is not UTF-8 (line {line}); it is read as Latin-1."]
    if (end := text.find("\0")) >= 0:
        line = text.count("\n", 0, end) + 1
        raise InputError(f"is not UTF-8 text: line {line} has a NUL; save the file as UTF-8")
    return text, remarks


_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # bytes that no text has
