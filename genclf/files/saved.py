"""`save` and `load`: one kind of file for params, models, statistics and estimators."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from genclf.entry.verb import verb
from genclf.files.container import FileError, from_bytes, replace_file, to_bytes
from genclf.files.meaning import problem
from genclf.files.structure import Writer, read


def _path(given: Any, name: str) -> Any:
    if not isinstance(given, str | os.PathLike):
        raise ValueError(f"{name} is {given!r:.80}, expected the path of a file")
    return given


@verb(path=_path, given=None)
def save(path: str | os.PathLike[str], given: Any) -> None:
    """Write params, a model, statistics or an estimator to a file.

    The file is versioned and has a checksum: `load` returns what was saved, bit for bit, or raises
    an error that states the problem. Arrays are stored by safetensors, the structure as JSON. An
    older file is replaced atomically, once the new one is on the disk.

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
    if wrong := problem(given, "given"):
        raise ValueError(f"{wrong}: not saved")
    if not (folder := Path(path).absolute().parent).is_dir():
        raise FileNotFoundError(f"path is {str(path)!r}, and there is no folder {str(folder)!r}")
    writer = Writer()
    structure = writer.node(given, "given")
    replace_file(Path(path), to_bytes(structure, writer.arrays))


@verb(path=_path)
def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote.

    No code in a file is run, and no class is looked up by a name in it: a file holds arrays,
    numbers, strings and a closed list of kinds. The checksum, shapes and dtypes are checked, and so
    are the values: probabilities have the sum 1, scales are positive, shapes fit each other.

    Args:
        path: the path of the file.

    Returns:
        The same object. Arrays keep their dtypes; a 64-bit array of JAX becomes one of NumPy if
        `jax_enable_x64` is not set.

    Raises:
        ValueError: the file is not one of `save`, or is damaged; the message says how.
        FileNotFoundError: there is no file.
        ImportError: safetensors is not installed, or scikit-learn for an estimator.
    """
    content = Path(path).read_bytes()
    try:
        structure, arrays = from_bytes(content)
        try:
            found = read(structure, arrays)
        except FileError:
            raise
        except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise FileError(f"its structure is of no object: {error}") from error
        if arrays:
            raise FileError(f"{len(arrays)} of its arrays are of no object")
        if wrong := problem(found, "it"):
            raise FileError(f"it is not what it says: {wrong}")
    except FileError as error:
        raise FileError(f"{path}: {error}") from error
    return found
