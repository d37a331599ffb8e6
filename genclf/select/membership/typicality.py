"""How far rows are from each class, p-values that they are of it, and sets of classes."""

from __future__ import annotations

from functools import partial
from typing import Literal

from jaxtyping import Float, PyTree

from genclf.arguments.domains import Domain, one_of
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams, ClassifierStats
from genclf.families.mode import deviance
from genclf.numerics.namespace import Array
from genclf.select.cross_validation import CrossValidation
from genclf.select.membership.f_test import FTest, f_test
from genclf.select.membership.folds_test import FoldsTest, folds_test
from genclf.select.membership.rows import by_rows_on_device

Method = Literal["f", "folds"]

_METHOD = one_of("f", "folds", optional=True)
_LEARNED = Domain(
    "statistics, as genclf.stats(clf, x, y) returns them, or the result of "
    "genclf.cross_validate(clf, x, y, folds, members=True)",
    lambda given: isinstance(given, ClassifierStats | CrossValidation),
)


@checked_arguments(x=None)
def distance(params: ClassifierParams, x: PyTree) -> Float[Array, "*batch K"]:
    """Squared Mahalanobis distance of each row from each class, `(x - μ_k)ᵀ Σ_k⁻¹ (x - μ_k)`.

    For other densities it is the deviance from the mode, `2 (max log p(· | k) - log p(x | k))`,
    which is the same thing for a Gaussian. Those of the parts of a `Product`, and of the columns of
    `Independent`, add up. A missing cell adds nothing. Σ_k is as it was fitted, with the divisor
    n_k or n unless `ddof` says otherwise, and no class prior enters.

    Args:
        params: a fitted classifier.
        x: one example, or any leading batch axes.

    Returns:
        Squared distances >= 0, shape (..., K); NaN for an example outside the support.

    Raises:
        ValueError: a density has no mode in closed form: mixtures, kernel densities, and word
            counts, whose mode depends on the length of a row.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [2.0], [4.0], [8.0]]), jnp.array([0, 0, 1, 1])
        >>> params = gcf.fit(gcf.qda(2), x, y)  # means 1 and 6, standard deviations 1 and 2
        >>> print(gcf.distance(params, jnp.array([[3.0], [6.0]])))
        [[ 4.    2.25]
         [25.    0.  ]]

    References:
        Mahalanobis (1936), "On the generalised distance in statistics".
    """
    return by_rows_on_device(_distances, params, x)


@partial(compiled, batch_of=1)
def _distances(params: ClassifierParams, x: PyTree) -> Array:
    return deviance(params.conditional, x)


@checked_arguments(learned=_LEARNED, x=None, method=_METHOD)
def typicality(
    clf: Classifier,
    learned: ClassifierStats | CrossValidation,
    x: PyTree,
    *,
    method: Method | None = None,
) -> Float[Array, "*batch K"]:
    """p-values that each row is of each class, from the rows that were learned.

    Where a row is of class k, its p-value for k is below α with probability α. So the classes with
    `p > α` are a set that lacks the true one with probability α; a row with an empty set is typical
    of none of the classes. The posterior cannot say so, since it sums to 1.

    "f" is exact if the classes are Gaussian, for any number of rows. With
    `T_k = n_k / (n_k + 1) (x - m_k)ᵀ S⁻¹ (x - m_k)`, S the unbiased covariance,

    ::

        T_k (ν - d + 1) / (ν d) ~ F(d, ν - d + 1),    ν = n - K shared, n_k - 1 of its own
        T_k / d ~ F(d, ν d)                           covariance="spherical"

    n_k the weight of class k, K the number of classes with rows. A χ² distribution of the distance
    (`distance`) would ignore the error of m_k and S.

    "folds" takes any density. The fit without a fold scores the members of that fold and x:

    ::

        p_k = (1 + Σ_f #{members i of class k in fold f: log p_f(x_i | k) <= log p_f(x | k)})
              / (n_k + 1)

    p_f the fit without fold f; members count by their weights. Its coverage is that of rows that
    are drawn like the members, close to 1 - α and at least 1 - 2α; the least p-value is
    1 / (n_k + 1). It takes F times the scores of x.

    Args:
        clf: the model.
        learned: `genclf.stats(clf, x, y)` for "f"; for "folds" the result of
            `genclf.cross_validate(clf, x, y, folds, members=True)`.
        x: one example, or any leading batch axes.
        method: "f" or "folds"; None for the one that `learned` is for.

    Returns:
        p-values from 0 to 1, shape (..., K); those of "f" are too large below 1e-30. NaN for an
        example outside the support, and for a class whose rows do not determine its density.

    Raises:
        ValueError: "f" for a model without an F distribution (a diagonal covariance, a ridge,
            pooling, shrinkage, a prior, missing cells), or rows that do not determine a covariance;
            "folds" without members, as from `leave_one_out`.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x = jnp.array([[-1.0], [0.0], [1.0], [9.0], [10.0], [11.0]])
        >>> clf, y = gcf.lda(2), jnp.array([0, 0, 0, 1, 1, 1])
        >>> p = gcf.typicality(clf, gcf.stats(clf, x, y), jnp.array([[0.5], [5.0], [12.0]]))
        >>> print(p.round(2))
        [[0.69 0.  ]
         [0.01 0.01]
         [0.   0.16]]
        >>> print(p > 0.05)  # the second row is of neither class
        [[ True False]
         [False False]
         [False  True]]

    References:
        McLachlan (1992), Discriminant Analysis and Statistical Pattern Recognition, §6.4; Vovk
        (2015), "Cross-conformal predictors"; Hechtlinger, Póczos & Wasserman (2018), "Cautious
        deep learning"; Guan & Tibshirani (2022), "Prediction and outlier detection in
        classification problems".
    """
    return _test(clf, learned, method)(x)


@checked_arguments(learned=_LEARNED, method=_METHOD)
def typicality_test(
    clf: Classifier, learned: ClassifierStats | CrossValidation, *, method: Method | None = None
) -> FTest | FoldsTest:
    """What `typicality` computes from the rows that were learned, to be used for many batches.

    Args:
        clf: the model.
        learned: as for `typicality`.
        method: as for `typicality`.

    Returns:
        An `FTest` or a `FoldsTest`: a pytree that is called with rows, saved by `genclf.save`, and
        given to `genclf.stream.predict_batches`.

    Raises:
        ValueError: as for `typicality`.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[-1.0], [0.0], [1.0], [9.0], [10.0], [11.0]]), [0, 0, 0, 1, 1, 1]
        >>> clf = gcf.lda(2)
        >>> test = gcf.typicality_test(clf, gcf.stats(clf, x, jnp.array(y)))
        >>> print(test(jnp.array([5.0])).round(3))
        [0.012 0.012]
    """
    return _test(clf, learned, method)


def _test(
    clf: Classifier, learned: ClassifierStats | CrossValidation, method: Method | None
) -> FTest | FoldsTest:
    by_sums = isinstance(learned, ClassifierStats)
    if method is not None and by_sums != (method == "f"):
        wanted = {
            "f": "genclf.stats(clf, x, y)",
            "folds": "genclf.cross_validate(..., members=True)",
        }
        raise ValueError(
            f"method is {method!r}, and learned is {type(learned).__name__}: expected "
            f"{wanted[method]}, or no method"
        )
    if isinstance(learned, ClassifierStats):
        return f_test(clf, learned)
    num_classes = learned.log_posterior.shape[-1]
    if num_classes != clf.num_classes:
        raise ValueError(f"learned is of {num_classes} classes, but clf has {clf.num_classes}")
    return folds_test(learned)
