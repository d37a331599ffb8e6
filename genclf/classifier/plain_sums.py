"""Statistics from plain sums that somebody else added up, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from genclf.arguments.domains import shown
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier
from genclf.classifier.estimation import check_statistics
from genclf.classifier.plain_checks import (
    check_counts,
    check_scatter,
    impossible,
    of_shape,
    plain_array,
    refuse,
)
from genclf.families.base import Family
from genclf.families.capabilities import SharesScatter, is_hidden
from genclf.families.combined.independent import Independent
from genclf.families.combined.product import Product
from genclf.families.counts.categorical import Categorical
from genclf.families.counts.multinomial import Multinomial
from genclf.families.directions.von_mises_fisher import VonMisesFisher
from genclf.families.gaussian.gaussian import Gaussian
from genclf.numerics.namespace import Array, is_traced, namespace
from genclf.sums.plain import PlainSums, from_plain, in_dtype, to_plain, whole
from genclf.sums.problems import problem_of_stats
from genclf.sums.statistics import ClassifierStats, Moments, Sums, is_statistic, nan_if

_OF_MOMENTS = Gaussian, VonMisesFisher


@checked_arguments
def from_sums(
    clf: Classifier,
    count: PyTree,
    total: PyTree,
    products: PyTree = None,
    centre: PyTree = None,
    cells: PyTree = None,
) -> ClassifierStats:
    """Statistics from plain sums about one centre c: what a query or several parties can add up.

    With `n_k = Σ w`, `A_k = Σ w (x - c)` and `B_k = Σ w (x - c)(x - c)ᵀ` over the rows of class k,

        m_k = c + A_k / n_k,   S_k = B_k - A_k A_kᵀ / n_k.

    The subtraction cancels if c is many standard deviations from the class means: sum in float64,
    about a centre among the rows that all parties know. Known numbers are subtracted in float64
    whatever JAX's setting.

    Args:
        clf: the model.
        count: n, (K,).
        total: A, (K, d); for a model of counts the sums that `genclf.stats` has in `total`: a table
            for each column of `Categorical`, side by side; ones; words; events, and `Σ log x!`.
            A dict by part for a `Product`, as are the others; of columns first for `Independent`.
        products: B of a `Gaussian`, (K, d, d), or (K, d) for its diagonal; if classes share a
            covariance, the sum over the classes serves too, (1, d, d). None for counts.
        centre: c, (d,), or one number for each column of `Independent`; None for 0.
        cells: weight of the observed cells, (K, d), if cells may be missing; but of `Categorical`
            its tables tell.

    Returns:
        What `genclf.stats` returns for the same rows, up to the rounding of the sums; NaN for
        traced sums that no rows have.

    Raises:
        ValueError: a shape does not fit, a sum is not finite, B is not symmetric, or B - A Aᵀ / n
            is negative beyond rounding, as where total and products have different centres.

    Warns:
        UserWarning: fewer than three digits of a variance are left.

    Example:
        >>> import numpy as np, genclf as gcf
        >>> x, y = np.array([[1.0], [3.0], [8.0]]), np.array([0, 0, 1])
        >>> count, total, products = [2, 1], [[4.0], [8.0]], [[[10.0]], [[64.0]]]
        >>> s = gcf.from_sums(gcf.qda(2), count, total, products)
        >>> print(s.conditional.mean.ravel(), s.conditional.scatter.ravel())
        [2. 8.] [2. 0.]

    References:
        Chan, Golub & LeVeque (1983), "Algorithms for computing the sample variance", eq. 1.2.
    """
    labels, _ = plain_array(count, "count")
    refuse(labels < 0, labels, "count", "a weight >= 0")
    if labels.shape != (clf.num_classes,):
        raise ValueError(
            f"count has shape {labels.shape}, expected ({clf.num_classes},): the weight of each "
            "class of the model"
        )
    inside = _from_parts(clf.family, PlainSums(labels, total, products, centre, cells), "")
    of_jax = lambda s: in_dtype(s, jnp.result_type(float))  # noqa: E731
    inside = jax.tree.map(of_jax, inside, is_leaf=is_statistic)
    found = ClassifierStats(of_jax(Sums.quick(labels, labels)), inside)
    check_statistics(clf, found)
    found = replace(found, statistic=clf.family.statistic(inside))
    if is_traced(found):
        return nan_if(impossible(found), found)
    if wrong := problem_of_stats(found.labels, found.conditional, "the statistics"):
        raise ValueError(f"no rows have these sums: {wrong}")
    return found


@checked_arguments
def to_sums(stats: ClassifierStats, centre: PyTree = None) -> PlainSums:
    """Plain sums about a centre, which add up: the inverse of `from_sums`.

    `n_k`, `A_k = n_k (m_k - c)` and `B_k = S_k + n_k (m_k - c)(m_k - c)ᵀ`.

    Args:
        stats: statistics, as returned by `genclf.stats`.
        centre: c, (d,), the same for all whose sums will be added; a dict by part for a `Product`;
            None for 0.

    Returns:
        `PlainSums` (count, total, products, centre, cells), in float64 unless they are traced. Add
        count, total, products and cells of several parties, and give them to `from_sums`.

    Raises:
        ValueError: centre has another shape; or the statistics have third and fourth moments, for
            an estimated shrinkage.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> s = gcf.stats(gcf.gaussian_nb(1), jnp.array([[1.0], [3.0]]), jnp.array([0, 0]))
        >>> count, total, products, *_ = gcf.to_sums(s, centre=[2.0])
        >>> print(count, total, products)
        [2.] [[0.]] [[2.]]
    """
    count = whole(stats.labels, "count", 0)
    return _to_parts(stats.conditional, count, centre, "")


def _from_parts(family: Family, given: PlainSums, of: str) -> PyTree:
    """The statistics of a family from its sums; `of` is the part, in messages."""
    if isinstance(family, Product):
        return {
            name: _from_parts(part, _part(given, name, family), f"{of}[{name!r}]")
            for name, part in family.parts.items()
        }
    total, eps = plain_array(given.total, f"total{of}")
    at_front = int(isinstance(family, Independent))
    if total.ndim != 2 + at_front or total.shape[-2] != given.count.shape[0]:
        axes = "(columns, K, 1)" if at_front else "(K, features)"
        raise ValueError(
            f"total{of} has shape {total.shape}, expected {axes} with K = {given.count.shape[0]}"
        )
    inner = family.family if isinstance(family, Independent) else family
    by_cell = _is_by_cell(inner, of)
    if by_cell is not (given.cells is not None):
        expected = (
            "the weights of the observed cells" if by_cell else "None: no cell can be missing"
        )
        raise ValueError(f"cells{of} is {shown(given.cells)}, expected {expected}")
    count: Any = namespace(given.count).broadcast_to(given.count, total.shape[:-1])
    if by_cell:
        cells = of_shape(given.cells, f"cells{of}", total.shape)[0]
        more = (cells < 0) | (cells > count[..., None] * (1 + 1e-6))
        refuse(more, cells, f"cells{of}", "a weight from 0 to the count of the class")
        count = cells
    weight = count if by_cell else count[..., None]
    refuse((weight == 0) & (total != 0), total, f"total{of}", "0, as there are no rows")
    if not isinstance(inner, _OF_MOMENTS):
        for name in ("products", "centre"):
            if getattr(given, name) is not None:
                raise ValueError(f"{name}{of} is given, but {type(inner).__name__} sums counts")
        check_counts(inner, total, weight, f"total{of}")
        return from_plain(count, total, None, None, eps)
    products, more_eps = _products(inner, given.products, total.shape, of)
    centre = None if given.centre is None else _centre(given.centre, total.shape, of)
    found: Any = from_plain(count, total, products, centre, max(eps, more_eps))
    if not is_traced(found):
        check_scatter(found, products, max(eps, more_eps), of)
        if isinstance(inner, VonMisesFisher):
            refuse(np.abs(found.mean) > 1 + 1e-6, total, f"total{of}", "sums of unit vectors")
    shares = isinstance(inner, SharesScatter) and inner.shared
    return found.pool_classes() if shares else found


def _is_by_cell(family: Any, of: str) -> bool:
    """Whether the model counts the cells of each feature; raise if it has no sums at all."""
    missing = getattr(family, "missing", "error") == "marginalize"
    if is_hidden(family):
        raise ValueError(f"the model{of} has no sums of rows with missing cells: it needs EM")
    return missing and not isinstance(family, Categorical | Multinomial)


def _centre(given: Any, shape: tuple[int, ...], of: str) -> Array:
    """The centre of each feature; of the columns of `Independent`, one for each column."""
    if len(shape) == 2:
        return of_shape(given, f"centre{of}", shape[-1:])[0]
    return of_shape(given, f"centre{of}", shape[:1])[0][:, None, None]


def _part(given: PlainSums, name: str, family: Product) -> PlainSums:
    """The sums of a part of a product."""

    def of(tree: Any, what: str) -> Any:
        if tree is None:
            return None
        if not isinstance(tree, Mapping):
            raise ValueError(
                f"{what} is {shown(tree)}, expected a dict with the parts {sorted(family.parts)}"
            )
        if strange := tree.keys() - family.parts.keys():
            raise ValueError(
                f"{what} has {sorted(strange)[0]!r}, expected the parts {sorted(family.parts)}"
            )
        return tree.get(name)

    fields = given._asdict()
    return PlainSums(given.count, *(of(fields[what], what) for what in list(fields)[1:]))


def _products(family: Family, given: Any, shape: tuple[int, ...], of: str) -> tuple[Array, float]:
    """The products in the form of the family's scatter."""
    (*front, classes, d), name = shape, f"products{of}"
    shares = isinstance(family, SharesScatter) and family.shared  # type: ignore[attr-defined]
    is_full = getattr(getattr(family, "arithmetic", None), "is_full", False)
    forms = ((d, d),) if is_full else ((d,), (d, d))
    own = (classes, 1) if shares else (classes,)
    shapes = [(*front, k, *more) for k in own for more in forms]
    if given is None:
        raise ValueError(f"{name} is None, expected Σ w (x - c)(x - c)ᵀ of shape {shapes[0]}")
    found, eps = of_shape(given, name, *shapes)
    xp, full = namespace(found), found.ndim > len(shape)
    if full and not is_traced(found):
        gap = np.abs(found - np.swapaxes(found, -1, -2)).max((-2, -1))
        for k in np.argwhere(gap > np.sqrt(eps) * np.abs(found).max((-2, -1))):
            raise ValueError(f"{name}[{', '.join(map(str, k))}] is not symmetric")
    if full and not is_full:
        found = xp.diagonal(found, axis1=-2, axis2=-1)
    return found, eps


def _to_parts(node: PyTree, count: Array, centre: Any, of: str) -> PlainSums:
    """The plain sums of statistics of x, or of each part of them."""
    if isinstance(node, dict):
        if centre is not None and not isinstance(centre, Mapping):
            raise ValueError(f"centre is {shown(centre)}, expected a dict by part")
        own = centre or {}
        if strange := own.keys() - node.keys():
            raise ValueError(f"centre has {sorted(strange)[0]!r}, expected parts of {sorted(node)}")
        parts = {
            name: _to_parts(part, count, own.get(name), f"{of}[{name!r}]")
            for name, part in node.items()
        }
        return PlainSums(
            count, *({name: part[i] for name, part in parts.items()} for i in range(1, 5))
        )
    if type(node) not in (Sums, Moments):
        raise ValueError(
            f"the statistics{of} are {type(node).__name__}: their third and fourth moments cannot "
            "be plain sums; take those of a model with a given shrinkage"
        )
    if centre is not None and isinstance(node, Sums):
        raise ValueError(f"centre{of} is given, but the statistics are sums of counts")
    about = centre if centre is None else _centre(centre, node.mean.shape, of)
    total, products = to_plain(node, about)
    weight = whole(node, "count", 0)
    by_cell = weight.shape == total.shape
    return PlainSums(count, total, products, centre, weight if by_cell else None)
