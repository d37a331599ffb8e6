"""Statistics from plain sums that somebody else added up, and back."""

from __future__ import annotations

import warnings
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
from genclf.families.base import Family
from genclf.families.capabilities import SharesScatter
from genclf.families.combined.independent import Independent
from genclf.families.combined.product import Product
from genclf.numerics.namespace import Array, is_traced, namespace
from genclf.sums.plain import PlainSums, from_plain, in_dtype, to_plain, whole
from genclf.sums.problems import problem_of_stats
from genclf.sums.statistics import ClassifierStats, Moments, Sums, is_statistic

_DIGITS = 1e-3  # relative rounding of a variance, above which it is called lost


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
        centre: c, (d,); None for 0.
        cells: weight of the observed cells, (K, d), if cells may be missing.

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
    labels, _ = _array(count, "count")
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
        return found
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
    total, eps = _array(given.total, f"total{of}")
    at_front = int(isinstance(family, Independent))
    if total.ndim != 2 + at_front or total.shape[-2] != given.count.shape[0]:
        axes = "(columns, K, 1)" if at_front else "(K, features)"
        raise ValueError(
            f"total{of} has shape {total.shape}, expected {axes} with K = {given.count.shape[0]}"
        )
    if given.cells is None:
        count = namespace(given.count).broadcast_to(given.count, total.shape[:-1])
    else:
        count = _shaped(given.cells, f"cells{of}", total.shape)[0]
    if given.products is None:
        if given.centre is not None:
            raise ValueError(f"centre{of} is given, but products{of} are not")
        return from_plain(count, total, None, None, eps)
    products, more = _products(family, given.products, total.shape, of)
    centre = given.centre
    if centre is not None:
        centre = _shaped(centre, f"centre{of}", total.shape[-1:])[0]
    found: Any = from_plain(count, total, products, centre, max(eps, more))
    if not is_traced(found):
        _check_scatter(found, products, max(eps, more), of)
    return found


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
    inner = family.family if isinstance(family, Independent) else family
    (*front, classes, d), name = shape, f"products{of}"
    shares = isinstance(inner, SharesScatter) and inner.shared  # type: ignore[attr-defined]
    own = (classes, 1) if shares else (classes,)
    found, eps = _shaped(given, name, *((*front, k, *more) for k in own for more in ((d,), (d, d))))
    xp, full = namespace(found), found.ndim > len(shape)
    if full and not is_traced(found):
        gap = np.abs(found - np.swapaxes(found, -1, -2)).max((-2, -1))
        if (gap > np.sqrt(eps) * np.abs(found).max((-2, -1))).any():
            k = np.argwhere(gap > np.sqrt(eps) * np.abs(found).max((-2, -1)))[0].tolist()
            raise ValueError(f"{name}[{', '.join(map(str, k))}] is not symmetric")
    if full and not getattr(getattr(inner, "structure", None), "is_full", False):
        found, full = xp.diagonal(found, axis1=-2, axis2=-1), False
    return found.sum(-3 if full else -2, keepdims=True) if shares else found, eps


def _check_scatter(found: Moments, products: Any, eps: float, of: str) -> None:
    """Raise for products that no rows have; warn where the subtraction lost the digits."""
    size = np.diagonal(products, axis1=-2, axis2=-1) if found.is_full else products
    variance = found.diagonal
    entries = np.isnan(found.scatter)
    if entries.any():
        at = np.argwhere(entries)[0].tolist()
        raise ValueError(
            f"products{of}[{', '.join(map(str, at))}] is {products[tuple(at)]:.6g}, less than the "
            "products of the means: no rows have these sums; expected Σ w (x - c)(x - c)ᵀ about "
            "the same centre c as total"
        )
    # Of all classes together: a feature may well be constant in one of them.
    size, variance = size.sum(-2), variance.sum(-2)
    lost = (size > 0) & (variance < eps / _DIGITS * size)
    if lost.any():
        at = ", ".join(map(str, np.argwhere(lost)[0].tolist()))
        warnings.warn(
            f"fewer than three digits are left of the variance of feature {at} in products{of}: "
            "it is constant, or the centre is far from the rows; sum about a centre among the "
            "rows, in float64",
            stacklevel=5,
        )


def _array(given: Any, name: str) -> tuple[Array, float]:
    """Numbers in float64 unless they are traced, and their relative rounding."""
    if is_traced(given):
        found: Any = jnp.asarray(given)
    else:
        found = np.asarray(given)
        if found.dtype.kind not in "iuf":
            raise ValueError(f"{name} is {shown(given)}, expected an array of numbers")
    eps = float(jnp.finfo(found.dtype if found.dtype.kind == "f" else np.float64).eps)
    found = found if is_traced(found) else found.astype(np.float64)
    if not is_traced(found) and not np.isfinite(found).all():
        raise ValueError(f"{name} holds NaN or an infinite number, expected finite sums")
    return found, eps


def _shaped(given: Any, name: str, *shapes: tuple[int, ...]) -> tuple[Array, float]:
    """`_array`, which must have one of these shapes."""
    found, eps = _array(given, name)
    if found.shape not in shapes:
        expected = " or ".join(map(str, dict.fromkeys(shapes)))
        raise ValueError(f"{name} has shape {found.shape}, expected {expected}")
    return found, eps


def _to_parts(node: PyTree, count: Array, centre: Any, of: str) -> PlainSums:
    """The plain sums of statistics of x, or of each part of them."""
    if isinstance(node, dict):
        if centre is not None and not isinstance(centre, Mapping):
            raise ValueError(f"centre is {shown(centre)}, expected a dict by part")
        own = centre or {}
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
    if centre is not None and isinstance(node, Moments):
        centre = _shaped(centre, f"centre{of}", node.mean.shape[-1:])[0]
    total, products = to_plain(node, centre)
    weight = whole(node, "count", 0)
    by_cell = weight.shape == total.shape
    return PlainSums(count, total, products, centre, weight if by_cell else None)
