"""Pad NumPy batches to a few sizes, so that few programs are compiled.

A compiled program is for one number of rows. NumPy batches may have any number of rows, so they are
scored in pieces of one of six sizes, with the last piece padded. JAX arrays are not padded: a
program is compiled for each of their sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float, PyTree

from genclf.arguments.module import static
from genclf.arguments.remembered import Remembered
from genclf.classifier.conversion import host_arrays, host_or_device, maybe_sparse
from genclf.classifier.rows import check_examples
from genclf.families.base import Density
from genclf.families.support import Support
from genclf.families.tokens import is_dense
from genclf.numerics.namespace import Array, is_traced
from genclf.numerics.sizes import LARGEST, padded_size
from genclf.sums.sparse import HostRows

_traced = Remembered()


def by_rows(
    f: Callable[[PyTree, PyTree], Array], params: PyTree, x: PyTree, form: str = "discriminant"
) -> Array:
    """`f(params, x)` for a compiled function that works row by row.

    Args:
        f: a function of params and rows; its result has the leading axes of the rows.
        params: the first argument of f.
        x: one example, or an array with leading batch axes, from NumPy or JAX; or sparse rows,
            which are scored on the host by NumPy and SciPy if they are SciPy's.
        form: the method of a density that f uses, "discriminant" or "log_prob".
    """
    traced = _traced.of(params, is_traced)
    on_host = not traced and _is_host_batch(x)
    convert = host_arrays if on_host else maybe_sparse if traced else host_or_device
    x = convert(x, "x")
    check_examples(params, x)
    if isinstance(x, HostRows):
        x = getattr(params.conditional, form)(x)
        density, stub = params.conditional, _Scores(x.shape[1])
        is_density = lambda node: node is density  # noqa: E731
        params = jax.tree.map(lambda a: stub if a is density else a, params, is_leaf=is_density)
        on_host = _is_host_batch(x)
    if not on_host:
        return f(params, x)
    found = [(f(params, piece), rows) for piece, rows in pieces(x)]
    if any(isinstance(values, Tracer) for values, _ in found):  # called inside jit
        return jnp.concatenate([values[:rows] for values, rows in found])
    # Cut on the host: a cut on the device would compile a program for each number of rows.
    cut = [np.asarray(values)[:rows] for values, rows in found]
    return jax.device_put(cut[0] if len(cut) == 1 else np.concatenate(cut))


class _Scores(Density):
    """A density whose examples are their own scores of the K classes."""

    num_classes: int = static()

    @property
    def support(self) -> Support:
        return Support(jnp.ones_like, "a score")

    @property
    def num_features(self) -> int:
        return self.num_classes

    def log_prob(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        """X itself."""
        return x

    def sample(self, key: Array, y: Array) -> Array:
        raise NotImplementedError("scores of given examples cannot be sampled")


def _is_host_batch(x: PyTree) -> bool:
    """Whether x holds rows of NumPy arrays, whose number of rows is not a size of programs."""
    if isinstance(x, jax.Array):
        return False
    leaves = jax.tree.leaves(x)
    if not is_dense(x) or not all(type(a) is np.ndarray for a in leaves):
        return False
    rows = {a.shape[0] if a.ndim == 2 else 0 for a in leaves}
    if len(rows) != 1:
        return False
    (n,) = rows
    return n > LARGEST or 0 < n != padded_size(n, few=True)


def pieces(x: PyTree, *, single: bool = False) -> Iterator[tuple[PyTree, int]]:
    """Pieces of x padded to one of a few sizes, and the number of rows of each before padding.

    With `single`, a single row has a size of its own.
    """
    n = len(jax.tree.leaves(x)[0])
    for start in range(0, n, LARGEST):
        rows = min(n - start, LARGEST)
        more = 0 if single and rows == 1 else padded_size(rows, few=True) - rows
        at = slice(start, start + rows)
        yield jax.tree.map(lambda a, at=at, more=more: longer(a[at], more), x), rows


def longer(a: np.ndarray, more: int) -> np.ndarray:
    """The rows, then `more` copies of the first, as an invented cell might not be valid."""
    return np.concatenate([a, a[:1].repeat(more, 0)]) if more else a
