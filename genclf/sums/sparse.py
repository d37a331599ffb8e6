"""Rows whose cells are mostly zero: only the others are stored.

`SparseRows` are arrays of JAX, for compiled code and its transformations. `HostRows` hold a matrix
of SciPy without a copy; its products take half the time of compiled ones on a CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree, Shaped

from genclf.arguments.module import Module, static
from genclf.numerics.namespace import Array, is_traced, on_host
from genclf.sums.blocks import ClassWeights, Hard, row_weights

if TYPE_CHECKING:  # slow to import
    from jax.experimental.sparse import BCOO
    from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix

    Csr: TypeAlias = csr_array | csr_matrix
    Matrix: TypeAlias = sparray | spmatrix
else:
    BCOO = Csr = Matrix = object

R = TypeVar("R")


class SparseRows(Module):
    """Sparse rows as arrays of JAX, with each cell at most once.

    Attributes:
        values: the stored cells, shape (m,), which may include zeros; all other cells are 0.
        columns: their columns, shape (m,).
        rows: their rows, ascending, shape (m,).
        starts: the first cell of each row, and m at the end, shape (n + 1,).
        num_columns: d.
    """

    values: Shaped[Array, "m"]
    columns: Int[Array, "m"]
    rows: Int[Array, "m"]
    starts: Int[Array, "n_plus_1"]
    num_columns: int = static()

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts) - 1, self.num_columns

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    def with_values(self, f: Callable[[Array], Array]) -> SparseRows:
        """The same cells with values `f(values)`, for an f with f(0) = 0."""
        return SparseRows(f(self.values), self.columns, self.rows, self.starts, self.num_columns)

    def dot(self, table: Float[Array, "d m"]) -> Float[Array, "n m"]:
        """The product of the rows with a matrix."""
        from jax.experimental.sparse import BCSR  # slow to import

        values = self.values.astype(table.dtype)
        return BCSR((values, self.columns, self.starts), shape=self.shape) @ table

    def sums(self, w: ClassWeights) -> Float[Array, "K d"]:
        """`Σ_n w_nk x_nj`; rows without weight may hold anything."""
        weight = row_weights(w)
        used = weight[self.rows] != 0
        values = jnp.where(used, self.values.astype(weight.dtype), 0)
        if isinstance(w, Hard):
            total = jnp.zeros((w.num_classes, self.num_columns), weight.dtype)
            cell = total.at[jnp.maximum(w.label, 0)[self.rows], self.columns]
            return cell.add(weight[self.rows] * values, mode="promise_in_bounds")
        total = jnp.zeros((self.num_columns, w.shape[1]), weight.dtype)
        return total.at[self.columns].add(w[self.rows] * values[:, None]).T

    def only(self, used: Bool[Array, "n"]) -> SparseRows:
        """The same rows, with 0 in those outside the mask."""
        return self.with_values(lambda values: jnp.where(used[self.rows], values, 0))

    def row(self, i: Int[Array, ""]) -> Shaped[Array, "d"]:
        """One row, with its zeros."""
        own = jnp.where(self.rows == i.astype(self.rows.dtype), self.values, 0)
        return jnp.zeros(self.num_columns, self.dtype).at[self.columns].add(own)


class HostRows:
    """Sparse rows as a matrix of SciPy, whose values are converted on use, some rows at a time."""

    def __init__(self, matrix: Csr, convert: Callable[[np.ndarray], np.ndarray] = lambda a: a):
        """From a CSR matrix of numbers, with each cell at most once."""
        self.matrix, self.convert = matrix, convert
        self.shape: tuple[int, int] = matrix.shape
        self.dtype = jax.dtypes.canonicalize_dtype(matrix.dtype)

    def with_values(self, f: Callable[[np.ndarray], np.ndarray]) -> HostRows:
        """The same cells with values `f(values)`, for an f with f(0) = 0."""
        return HostRows(self.matrix, lambda values: f(self.convert(values)))

    def dot(self, table: np.ndarray) -> Float[np.ndarray, "n m"]:
        """The product of the rows with a matrix, in float64 unless both are float32."""
        table = np.ascontiguousarray(table, np.result_type(table, self.matrix.dtype))

        def part(rows: slice, cells: tuple[np.ndarray, ...]) -> np.ndarray:
            return self._matrix(rows, cells) @ table

        return np.concatenate(self._parts(part, _CELLS))

    def _matrix(self, rows: slice, cells: tuple[np.ndarray, ...]) -> Csr:
        return type(self.matrix)(cells, (rows.stop - rows.start, self.shape[1]))

    def _parts(self, f: Callable[[slice, tuple[np.ndarray, ...]], R], size: int) -> list[R]:
        """`f(rows, (values, columns, starts))` for parts of about `size` cells, in threads."""
        starts, matrix = self.matrix.indptr, self.matrix
        cuts = np.searchsorted(starts, np.arange(0, matrix.nnz, size), "right") - 1
        cuts = np.unique([0, *np.maximum(cuts, 0), self.shape[0]]).tolist()

        def part(first: int, last: int) -> R:
            cells, own = slice(starts[first], starts[last]), starts[first : last + 1]
            values = self.convert(matrix.data[cells])
            return f(slice(first, last), (values, matrix.indices[cells], own - starts[first]))

        if len(cuts) == 2:
            return [part(*cuts)]
        with ThreadPoolExecutor(THREADS) as pool:  # SciPy's products release the GIL
            return list(pool.map(part, cuts[:-1], cuts[1:]))

    def sums(self, w: ClassWeights) -> Any:
        """`Σ_n w_nk x_nj`, (K, d); rows without weight may hold anything."""
        weight = np.asarray(row_weights(w))
        total = self._sums(w, weight)
        if np.isnan(total).any():
            used = np.repeat(weight != 0, np.diff(self.matrix.indptr))
            matrix = self.matrix.copy()
            matrix.data = np.where(used, matrix.data, 0)
            total = HostRows(matrix, self.convert)._sums(w, weight)
        return total if on_host(row_weights(w)) else jnp.asarray(total, weight.dtype)

    def _sums(self, w: ClassWeights, weight: np.ndarray) -> np.ndarray:
        if not isinstance(w, Hard):
            soft = np.asarray(w, float)
            of_rows = lambda rows, cells: (self._matrix(rows, cells).T @ soft[rows]).T  # noqa: E731
            return sum(self._parts(of_rows, _CELLS), start=np.zeros((w.shape[1], self.shape[1])))
        d, label = self.shape[1], np.maximum(np.asarray(w.label), 0)
        size = w.num_classes * d
        integer = np.int32 if size <= np.iinfo(np.int32).max else np.int64
        weight = weight.astype(float)

        def part(rows: slice, cells: tuple[np.ndarray, ...]) -> np.ndarray:
            # A matrix with one column for each word of each class.
            values, columns, starts = cells
            of_class = np.repeat(label[rows].astype(integer) * integer(d), np.diff(starts))
            of_class += columns
            shape = rows.stop - rows.start, size
            return type(self.matrix)((values, of_class, starts), shape).T @ weight[rows]

        parts = self._parts(part, max(_CELLS, 2 * size))
        return sum(parts, start=np.zeros(size)).reshape(w.num_classes, d)

    def on_device(self) -> SparseRows:
        """The same rows as arrays of JAX."""
        matrix, n = self.matrix, self.shape[0]
        rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(matrix.indptr))
        with np.errstate(over="ignore"):  # numbers too large for float32 become infinite
            values = np.array(self.convert(matrix.data), self.dtype)
        arrays = values, matrix.indices.astype(np.int32), rows, matrix.indptr.astype(np.int32)
        with jax.ensure_compile_time_eval():
            values, columns, rows, starts = map(jax.device_put, arrays)
        return SparseRows(values, columns, rows, starts, self.shape[1])


Sparse = SparseRows | HostRows
THREADS = min(os.cpu_count() or 1, 8)
_CELLS = 2**19  # cells that are converted together, so that they stay in the cache


def is_sparse(given: object) -> bool:
    """Whether these are sparse rows, a sparse matrix of SciPy, or of JAX (`BCOO`)."""
    if isinstance(given, np.ndarray | jax.Array):
        return False
    return isinstance(given, Sparse) or hasattr(given, "tocsr") or _is_bcoo(given)


def sparse_rows(given: Any, name: str) -> Sparse:
    """Sparse rows from a matrix of SciPy, without a copy, or of JAX; raise for other kinds."""
    if isinstance(given, Sparse):
        return given
    if getattr(given, "ndim", 2) != 2:
        raise ValueError(f"{name} has shape {given.shape}, expected (n, d): one row per example")
    if given.dtype.kind not in "iufb":
        raise ValueError(f"{name} has dtype {given.dtype}, expected real numbers")
    if not _is_bcoo(given):
        return _of_scipy(given, name)
    if given.n_batch or given.n_dense:
        raise ValueError(f"{name} is {given}, expected a BCOO without batch and dense axes")
    if is_traced(given) or any(device.platform != "cpu" for device in given.data.devices()):
        return _of_bcoo(given)
    return _on_host(given, name)


def _is_bcoo(given: object) -> bool:
    return type(given).__name__ == "BCOO" and hasattr(given, "n_batch")


def _of_scipy(given: Matrix, name: str) -> HostRows:
    matrix = canonical(given)
    if matrix.nnz > np.iinfo(np.int32).max or max(matrix.shape) > np.iinfo(np.int32).max:
        raise ValueError(
            f"{name} has shape {matrix.shape} and {matrix.nnz} cells, expected fewer than 2**31 of "
            "each: take the statistics of its parts, and merge them"
        )
    if matrix.dtype.itemsize < 4 or matrix.dtype.itemsize > 8:
        matrix = matrix.astype(np.float32 if matrix.dtype.itemsize < 4 else np.float64)
    return HostRows(matrix)


def canonical(given: Matrix) -> Csr:
    """A CSR matrix of SciPy with the sum of the entries of each cell, and columns in order."""
    if given.dtype.kind in "iu" and given.dtype.itemsize < 4:
        given = given.astype(np.float32)  # a sum may not fit in the dtype of its terms
    matrix = given.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _on_host(given: BCOO, name: str) -> HostRows:
    from scipy.sparse import coo_array  # slow to import

    values, (rows, columns) = np.asarray(given.data), np.asarray(given.indices).T
    inside = (rows < given.shape[0]) & (columns < given.shape[1])  # other cells are padding
    cells = values[inside], (rows[inside], columns[inside])
    return _of_scipy(coo_array(cells, shape=given.shape), name)


def _of_bcoo(given: BCOO) -> SparseRows:
    if not given.unique_indices:
        # Sums of small integers may not fit, and the sum of truth values is whether one is true.
        small = given.data.dtype.itemsize < 4 and not jnp.issubdtype(given.dtype, jnp.floating)
        data = given.data.astype(jnp.int32) if small else given.data
        summed = type(given)((data, given.indices), shape=given.shape)
        summed = summed.sum_duplicates(nse=given.nse)
        data = summed.data != 0 if given.dtype == bool else summed.data
        given = type(given)((data, summed.indices), shape=given.shape)
    elif not given.indices_sorted:
        given = given.sort_indices()
    n, d = given.shape
    rows, columns = given.indices.T
    starts = jnp.searchsorted(rows, jnp.arange(n + 1, dtype=rows.dtype)).astype(rows.dtype)
    inside = (rows < n) & (columns < d)  # other cells are padding
    at = lambda index: jnp.where(inside, index, 0)  # noqa: E731
    data = given.data.astype(jnp.int8) if given.data.dtype == bool else given.data
    rows = jnp.where(inside, rows, n - 1)
    return SparseRows(jnp.where(inside, data, 0), at(columns), rows, starts, d)


def holds_sparse(x: PyTree) -> bool:
    """Whether some rows are sparse."""
    return any(map(is_sparse, jax.tree.leaves(x, is_leaf=is_sparse)))


def map_arrays(f: Callable, x: PyTree, *others: PyTree, sparse: Callable) -> PyTree:
    """Apply `f` to the dense arrays of x, and `sparse` to its sparse rows."""
    pick = lambda a, *more: (sparse if _is_rows(a) else f)(a, *more)  # noqa: E731
    return jax.tree.map(pick, x, *others, is_leaf=_is_rows)


def _is_rows(a: object) -> bool:
    return isinstance(a, SparseRows)
