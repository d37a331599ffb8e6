"""`save` and `load`: one kind of file for params, models, statistics and estimators."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from genclf.classifier.checked_arguments import checked_arguments
from genclf.files.container import FileError, from_bytes, replace_file, to_bytes
from genclf.files.structure import Writer, read
from genclf.files.values import problem


def _path(given: object, name: str) -> str | os.PathLike:
    if not isinstance(given, str | os.PathLike):
        raise ValueError(f"{name} is {given!r:.80}, expected the path of a file")
    return given


@checked_arguments(path=_path, given=None)
def save(path: str | os.PathLike[str], given: object) -> None:
    """Write params, a model, statistics or an estimator to a file.

    The file is versioned and has a checksum: `load` returns what was saved, bit for bit, or raises
    an error that states the problem. Arrays are stored by safetensors, the structure as JSON. An
    existing file is replaced atomically, once the new one is on the disk; a symbolic link is
    followed.

    A family, params or prior of another package is stored under the full name of its class, with
    the `file_version` of the class, by default 1.

    Args:
        path: the path of the file; by custom it ends in `.genclf`.
        given: a `Classifier`, `SoftmaxRegression`, fitted params of any model, statistics, a prior,
            a `Vocabulary`, an estimator of `genclf.sklearn`, the best model of `compare`, or a
            dict, list or tuple of such objects, of arrays, numbers and strings.

    Raises:
        ValueError: `given` holds an object of another kind, or params that are NaN or outside
            their sets.
        FileNotFoundError: there is no such folder.
        ImportError: safetensors is not installed.

    Example:
        >>> import os, tempfile, jax.numpy as jnp, genclf as gcf
        >>> params = gcf.fit(gcf.gaussian_nb(2), jnp.array([[0.0], [1.0], [8.0], [9.5]]),
        ...                  jnp.array([0, 0, 1, 1]))
        >>> path = os.path.join(tempfile.mkdtemp(), "two.genclf")
        >>> gcf.save(path, params)
        >>> print(gcf.predict(gcf.load(path), jnp.array([[0.7], [7.0]])))
        [0 1]
    """
    writer = Writer()
    try:
        structure = writer.node(given, "given")
        if wrong := problem(given, "given"):
            raise ValueError(f"{wrong}: not saved")
        content = to_bytes(structure, writer.arrays)
    except RecursionError:
        raise ValueError("given holds itself, or is nested too deeply: not saved") from None
    replace_file(Path(path), content)


@checked_arguments(path=_path)
def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote.

    No code in a file is run and nothing is imported: a file holds arrays, numbers, strings, the
    kinds of this library, and families, params and priors of modules that you have imported. The
    checksum and every field are checked: type, dtype, shape, and the set that its values must be
    in. Loading takes a small multiple of the size of the file in memory.

    Args:
        path: the path of the file.

    Returns:
        The same object. Arrays keep their dtypes, but a 64-bit array of JAX becomes one of NumPy if
        `jax_enable_x64` is not set, and an array of strings becomes one of dtype object if the
        longest is more than about 16 times the mean length.

    Raises:
        ValueError: `save` did not write the file, it is damaged, it holds a value outside its set,
            or the module of a class is not imported. The message says what is wrong and where.
        FileNotFoundError: there is no file.
        ImportError: safetensors is not installed, or scikit-learn for an estimator.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe may never end
        what = "a folder" if os.path.isdir(path) else "a pipe or a device"
        raise ValueError(f"path is {str(path)!r}, {what}: expected a file")
    content = Path(path).read_bytes()
    try:
        structure, arrays = from_bytes(content)
        try:
            found = read(structure, arrays)
            wrong = problem(found, "it")
        except (FileError, ImportError):
            raise
        except Exception as error:  # wrong values can raise any error
            raise FileError(f"its structure does not describe an object: {error}") from error
        if wrong:
            raise FileError(f"it is invalid: {wrong}")
        if arrays:
            raise FileError(f"it has {len(arrays)} arrays that no object uses")
    except FileError as error:
        raise FileError(f"{path}: {error}") from error
    return found
