"""Batches of arrays of one process, and their sums on its devices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from genclf.classifier.classifier import Classifier
from genclf.classifier.estimation import stats
from genclf.classifier.labels import check_labels
from genclf.classifier.pieces import ArrayRows, padded
from genclf.sums.sparse import holds_sparse, is_sparse
from genclf.sums.statistics import ClassifierStats

sum_rows = jax.jit(stats)


def own_devices(mesh: Mesh) -> list[jax.Device]:
    """The devices of a mesh that belong to this process; raise if there is none."""
    own = [d for d in mesh.devices.flat if d.process_index == jax.process_index()]
    if not own:
        raise ValueError(
            f"mesh has no device of process {jax.process_index()}: give a mesh with devices of "
            "every process"
        )
    return own


def array_rows(clf: Classifier, batch: Any, name: str) -> ArrayRows:
    """A batch of arrays, with weights; raise if their numbers of rows differ."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise ValueError(
            f"{name} of local_batches is a {type(batch).__name__}, expected (x, y) or "
            "(x, y, weights)"
        )
    dense = lambda a: a if is_sparse(a) else np.asarray(a)  # noqa: E731
    x, y = jax.tree.map(dense, batch[0], is_leaf=is_sparse), np.asarray(batch[1])
    w = np.ones(y.shape[:1]) if len(batch) == 2 else np.asarray(batch[2])
    found = [a.shape for a in (*jax.tree.leaves(x, is_leaf=is_sparse), y, w)]
    if len({shape[:1] for shape in found}) > 1 or () in found:
        raise ValueError(f"{name} of local_batches has arrays {found}, expected equal lengths")
    check_labels(jnp.asarray(y), clf.num_classes)
    return x, y, w


def form_of(x: PyTree) -> str:
    """The path, dtype and shape of each array of x, without its number of rows."""
    return ", ".join(
        f"x{jax.tree_util.keystr(path)} of "
        f"{jax.dtypes.canonicalize_dtype(a.dtype).name}{['n', *a.shape[1:]]}"
        for path, a in jax.tree_util.tree_leaves_with_path(x, is_leaf=is_sparse)
    )


def sums_over(
    clf: Classifier, devices: list[jax.Device], x: PyTree, y: np.ndarray, w: np.ndarray
) -> ClassifierStats:
    """The statistics of a piece; rows of weight 0 are added so that devices have equal shares."""
    if holds_sparse(x):
        return stats(clf, x, y, w)
    over = NamedSharding(Mesh(np.array(devices), ("rows",)), PartitionSpec("rows"))
    return sum_rows(clf, *jax.device_put(padded(x, y, w, len(devices)), over))
