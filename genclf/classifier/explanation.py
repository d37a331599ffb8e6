"""Which features speak for the class of a row: the terms of its log-odds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float, Int, PyTree

from genclf.arguments.domains import shown
from genclf.arguments.module import static
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments, optional
from genclf.classifier.conversion import as_arrays, widen
from genclf.classifier.model import Fitted
from genclf.classifier.pieces import on_host
from genclf.numerics.namespace import Array
from genclf.sums.sparse import is_sparse


class Explanation(ShowsNumbers):
    """The log-odds of two classes as a sum over the features, from `explain`.

    Attributes:
        of: the class in the numerator of the odds, for each row, shape (...).
        against: the class that it is compared with, shape (...).
        features: the term of each feature in nats, shape (..., d), in the structure of x: > 0 if
            the feature speaks for `of`, < 0 if it speaks for `against`, 0 if the cell is missing.
            A part of a `Product` that is not such a sum has one term, (..., 1).
        constant: the term that does not depend on x, such as the log-ratio of the class priors,
            shape (...).
        class_names: names of the classes if an estimator has them, or None.
        feature_names: names of the d columns if an estimator has them, or None.
    """

    of: Int[Array | np.ndarray, "*batch"]
    against: Int[Array | np.ndarray, "*batch"]
    features: PyTree[Float[Array | np.ndarray, "*batch _"]]
    constant: Float[Array | np.ndarray, "*batch"]
    class_names: tuple[str, ...] | None = static(default=None)
    feature_names: tuple[str, ...] | None = static(default=None)

    @property
    def log_odds(self) -> Any:
        """`log p(of | x) - log p(against | x)`: the constant plus the sum of all terms."""
        return self.constant + sum(a.sum(-1) for a in jax.tree.leaves(self.features))


def explained(
    params: Fitted, x: PyTree, classes: np.ndarray, of: object, against: object
) -> Explanation:
    """`explain` in float64, for classes given by their labels, as NumPy arrays with their names."""
    indices = {"of": _index(of, classes, "of"), "against": _index(against, classes, "against")}
    with jax.enable_x64(True):
        found = on_host(explain(params, x, **indices))
    return replace(found, class_names=tuple(str(label) for label in classes))


def _index(given: object, classes: np.ndarray, name: str) -> int | None:
    """The index of the class with this label; None for None."""
    if given is None:
        return None
    found = [k for k, label in enumerate(classes) if label == given]
    if len(found) != 1:
        raise ValueError(f"{name} is {shown(given)}, expected one of {classes.tolist()}")
    return found[0]


def _rows(value: object, name: str) -> Any:
    if is_sparse(value):
        raise ValueError(f"{name} is sparse, expected dense rows: give a few, as {name}.toarray()")
    return as_arrays(value, name)


def _classes(value: object, name: str) -> Any:
    """Integers."""
    found = as_arrays(value, name)
    if not isinstance(found, jax.Array) or not jnp.issubdtype(found.dtype, jnp.integer):
        raise ValueError(
            f"{name} is {value!r}, expected classes 0..K-1, one or one per row, or None"
        )
    return found


@checked_arguments(any_model=True, x=_rows, of=optional(_classes), against=optional(_classes))
def explain(
    params: Fitted, x: PyTree, *, of: ArrayLike | None = None, against: ArrayLike | None = None
) -> Explanation:
    """Which features speak for the class of each row, and how much: a sum that is exact.

    `log p(a | x) - log p(b | x) = log π_a / π_b + Σ_j term_j(x)`, natural logarithms, with

    ::

        density                         term_j
        independent features            log p(x_j | a) - log p(x_j | b)
        Gaussian, shared Σ              c_j (x_j - ½ (μ_a + μ_b)_j),  c = Σ⁻¹ (μ_a - μ_b)
        multinomial                     x_j (log θ_aj - log θ_bj); of `Tokens`, of each position
        von Mises-Fisher                (κ_a μ_a - κ_b μ_b)_j x_j
        softmax regression              (coef_a - coef_b)_j (x_j - centre_j)

    Independent features are those of naive Bayes, `Independent`, `Product` and Poisson counts. With
    a shared covariance a term is zero where x_j is midway between the class means, and depends
    neither on the units nor on the origin of x; but if features are correlated, terms of opposite
    sign may cancel. If cells are missing, the covariance is that of the observed ones.

    Args:
        params: a fitted classifier.
        x: one example, or any leading batch axes; dense.
        of: a, a class or one per row; None for the most probable one other than `against`.
        against: b, a class or one per row; None for the most probable one other than `of`.

    Returns:
        `Explanation`. It is NaN for a row with an invalid cell, and for a feature that is
        impossible in both classes.

    Raises:
        ValueError: the log-odds are not such a sum (QDA, mixtures, kernel densities); x is sparse;
            there is one class; or a class is outside 0..K-1.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0, 1], [0, 0], [1, 1], [1, 0]]), jnp.array([0, 0, 1, 1])
        >>> params = gcf.fit(gcf.bernoulli_nb(2), x, y)
        >>> found = gcf.explain(params, jnp.array([[1, 1]]))
        >>> print(found.of, found.features, found.log_odds)
        [1] [[1.099 0.   ]] [1.099]

    References:
        Good (1950), Probability and the Weighing of Evidence, ch. 6: a term is the weight of
        evidence of x_j in favour of a over b.
    """
    if params.num_classes < 2:
        raise ValueError("the model has one class, and log-odds compare two")
    batch = jax.eval_shape(type(params).discriminant, params, x).shape[:-1]
    for name, classes in (("of", of), ("against", against)):
        _check_classes(classes, name, batch, params.num_classes)
    return _explain(params, x, of, against)


def _check_classes(given: Array | None, name: str, batch: tuple, num_classes: int) -> None:
    """Raise unless there is one class or one per row, and all are classes if they are concrete."""
    if given is None:
        return
    if given.shape not in ((), batch):
        raise ValueError(
            f"{name} has shape {given.shape}, expected one class, or one per row, {batch}"
        )
    if isinstance(given, Tracer):
        return
    values = np.ravel(np.asarray(given))
    for row in np.flatnonzero((values < 0) | (values >= num_classes))[:1]:
        index = f"[{row}]" if given.ndim else ""
        raise ValueError(f"{name}{index} is {values[row]}, expected 0..{num_classes - 1}")


@compiled
def _explain(params: Fitted, x: PyTree, of: Array | None, against: Array | None) -> Explanation:
    score = params.discriminant(x)
    of, against = (
        None if a is None else jnp.broadcast_to(widen(a).astype(jnp.int32), score.shape[:-1])
        for a in (of, against)
    )
    of = _best_but(score, against) if of is None else of
    against = _best_but(score, of) if against is None else against
    features, constant = params.terms(x, of, against)
    known = (0 <= of) & (of < score.shape[-1]) & (0 <= against) & (against < score.shape[-1])
    known = known & ~jnp.isnan(score).any(-1)
    features = jax.tree.map(lambda a: jnp.where(known[..., None], a, jnp.nan), features)
    return Explanation(of, against, features, jnp.where(known, constant, jnp.nan))


def _best_but(score: Float[Array, "*batch K"], other: Array | None) -> Int[Array, "*batch"]:
    """The class of the highest score, other than `other`."""
    if other is not None:
        classes = jnp.arange(score.shape[-1], dtype=other.dtype).reshape((1,) * other.ndim + (-1,))
        possible = jnp.maximum(score, jnp.finfo(score.dtype).min)  # also for an impossible class
        score = jnp.where(classes == other[..., None], -jnp.inf, possible)
    return score.argmax(-1).astype(jnp.int32)
