"""The bytes of a file: a first line with a checksum, then a safetensors file.

    genclf file 1 sha256:<64 hexadecimal digits>
    <a safetensors file, whose metadata holds the structure as JSON>

The checksum is of all bytes after the first line. A file cannot name code to run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from genclf.arguments.extras import imported

Kinds = Mapping[str, type]

VERSION = 1
_FIRST_LINE = re.compile(rb"genclf file (\d{1,4}) sha256:([0-9a-f]{64})\n")
_LONGEST_HEADER = 2**26  # bytes: enough for a vocabulary, which is in the structure


class FileError(ValueError):
    """A file that cannot be read: of another format, of a later version, or damaged."""


def to_bytes(structure: object, arrays: dict[str, np.ndarray]) -> bytes:
    """The content of a file."""
    numpy = _safetensors()
    text = json.dumps(structure, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    try:
        body = numpy.save(arrays, metadata={"structure": text})
    except UnicodeEncodeError as error:
        excerpt = text[max(error.start - 20, 0) : error.end + 20]
        raise ValueError(f"the text {excerpt!r} is not Unicode: it has a lone surrogate") from error
    return b"genclf file %d sha256:%s\n%s" % (VERSION, _checksum(body), body)


def from_bytes(content: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """The structure and the arrays; `FileError` if any byte differs from what was written."""
    found = _FIRST_LINE.match(content)
    if found is None:
        raise FileError("genclf did not write it")
    if not 1 <= int(found[1]) <= VERSION:
        raise FileError(f"it has version {int(found[1])}: a later genclf wrote it")
    body = content[found.end() :]
    if _checksum(body) != found[2]:
        raise FileError("its checksum does not match: it is truncated or damaged")
    header = _header(body)
    try:
        arrays = _safetensors().load(body)
    except Exception as error:  # the library has errors of its own
        raise FileError(f"its arrays cannot be read: {error}") from error
    return _json(header["__metadata__"]["structure"]), arrays


def put(
    node: Any, arrays: dict[str, np.ndarray], kinds: Kinds, scales: Mapping[Any, object]
) -> Any:
    """The structure of a tree of values; its arrays are put in `arrays`, under numbers.

    Objects of `kinds`, dataclasses or named tuples, and those of `scales` are put by their names.
    """
    inside = partial(put, arrays=arrays, kinds=kinds, scales=scales)
    if isinstance(node, np.ndarray | np.generic):
        arrays[name := str(len(arrays))] = np.ascontiguousarray(node).reshape(np.shape(node))
        return ["array", name]
    if isinstance(node, dict):
        return {key: inside(item) for key, item in node.items()}
    if type(node) is tuple:
        return ["tuple", [inside(item) for item in node]]
    for kind, cls in kinds.items():
        if isinstance(node, cls):
            return [kind, {name: inside(getattr(node, name)) for name in signature(cls).parameters}]
    return next((["scale", form] for form, own in scales.items() if own is node), node)


def take(
    node: Any, arrays: dict[str, np.ndarray], kinds: Kinds, scales: Mapping[Any, object]
) -> Any:
    """The tree of a structure that `put` made."""
    inside = partial(take, arrays=arrays, kinds=kinds, scales=scales)
    if isinstance(node, dict):
        return {key: inside(item) for key, item in node.items()}
    if not isinstance(node, list):
        return node
    kind, found = node
    if kind == "array":
        return arrays[found]
    if kind == "scale":
        return scales[found]
    if kind == "tuple":
        return tuple(inside(item) for item in found)
    return kinds[kind](**inside(found))


def _header(body: bytes) -> dict[str, Any]:
    """The header of the safetensors file; `FileError` if names repeat or it has no structure."""
    size = int.from_bytes(body[:8], "little")
    if len(body) < 8 or size > min(len(body) - 8, _LONGEST_HEADER):
        raise FileError(f"its header claims to have {size} bytes, more than possible")
    header: Any = _json(body[8 : 8 + size])
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("structure"), str):
        raise FileError("it has no structure")
    return header


def _json(text: str | bytes) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise FileError(f"its structure cannot be read: {str(error) or 'it is too deep'}") from None


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"it holds {constant}")


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: after a crash it holds all the old or all the new content.

    A symbolic link is followed.
    """
    given, path = str(path), Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path is {given!r}, but there is no folder {str(path.parent)!r}")
    if path.is_dir():
        raise ValueError(f"path is {given!r}, a folder: expected a file")
    # The temporary file has a short name, because file names have a maximum length.
    handle, temporary = tempfile.mkstemp(prefix=".genclf-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if os.name == "posix":  # flush the folder too, which holds the name
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _mode(path: Path) -> int:
    """The permissions of the existing file, or the default of a new one."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _safetensors() -> ModuleType:
    return imported("safetensors.numpy", "files", "files need")
