"""EM: a fit in which unobserved labels and parts of x are replaced by their expectations.

The state of the iteration is the sufficient statistics. A step estimates params from them
(`estimate`), and computes the expected statistics of the complete data under those params.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float, Int, PyTree

from genclf.arguments.domains import FINITE_NUMBER, NON_NEGATIVE, Domain, whole
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments, optional_key
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.conversion import maybe_sparse
from genclf.classifier.estimation import estimated
from genclf.classifier.model import Solution
from genclf.classifier.rows import Rows, check_examples
from genclf.families.base import Scalar
from genclf.families.capabilities import Init
from genclf.families.gaussian.whole import whole_of_rows
from genclf.fitting.e_step import Expectation, expectation
from genclf.fitting.em_convergence import fixed_point
from genclf.fitting.em_start import check_clusters, check_for_em, check_init, check_latent, start_of
from genclf.numerics.members import ITERATED, in_cache
from genclf.numerics.namespace import Array
from genclf.sums.sparse import HostRows
from genclf.sums.statistics import ClassifierStats

_TOL_OF_FIT = 1e-8  # of `fit`, which should be more precise


class EMSolution(Solution):
    """The result of `em`; that of `adapt_prior` adds an interval.

    Attributes:
        params: the fitted classifier.
        objective: log-likelihood, plus the log of the prior density up to a constant, at the params
            of every step, shape (max_steps,). The last step's entry belongs to `params`; later
            entries are NaN.
        converged: whether the last step gained no more than the tolerance. If EM is slow, the
            maximum may still be further away than that.
        steps: number of steps.
        values: final objective of each restart, shape (restarts,); the other attributes are those
            of the best restart.
    """

    params: ClassifierParams
    objective: Float[Array, "*batch max_steps"]
    converged: Bool[Array, "*batch"]
    steps: Int[Array, "*batch"]
    values: Float[Array, "*batch restarts"]

    @property
    def value(self) -> Float[Array, "*batch"]:
        """The objective at `params`, with exact derivatives in hyper-parameters and data."""
        last = jnp.expand_dims(self.steps - 1, -1)
        return jnp.take_along_axis(self.objective, last, axis=-1)[..., 0]


@checked_arguments(
    x=maybe_sparse,
    key=optional_key,
    unlabelled_weight=NON_NEGATIVE,
    max_steps=whole(1),
    tol=FINITE_NUMBER,
    init=Domain(
        "'k-means++', 'random' or fitted params",
        lambda init: (
            init in ("k-means++", "random")
            if isinstance(init, str)
            else isinstance(init, ClassifierParams)
        ),
    ),
    restarts=whole(1),
)
def em(
    clf: Classifier,
    x: PyTree,
    y: ArrayLike,
    *,
    key: Array | None = None,
    weights: ArrayLike | None = None,
    unlabelled_weight: Scalar = 1.0,
    max_steps: int = 1000,
    tol: Scalar = 1e-6,
    init: Init | ClassifierParams = "k-means++",
    restarts: int = 1,
) -> EMSolution:
    """Fit with unobserved labels, components or cells, by expectation-maximisation.

    Maximises `Σ_labelled w_n log p(x_n, y_n) + λ Σ_unlabelled w_n log p(x_n)`, λ =
    `unlabelled_weight`, plus the log-density of the prior if the model has one. No step decreases
    this objective. If all rows are labelled, the result is that of `fit`; if no row is, the model
    is a mixture model: Gaussian mixture, latent class analysis, mixture of multinomials. The
    maximum is local; if no labels identify the classes, their order is arbitrary.

    The likelihood is unbounded if a class can shrink onto one row, as a Gaussian whose variance
    goes to 0. Then give a prior, such as `NormalInverseWishart()`, which is relative to the spread
    of the data. It bounds the objective, but a class at the best maximum may still be very small.
    `ridge` and `ddof` of a Gaussian are not priors, so EM does not accept them.

    The first start uses the labelled rows alone if every class has some. Otherwise, and in later
    restarts, unlabelled rows take part. With "k-means++" each joins its nearest seed: the seed of a
    class is one of its own rows or, if it has none, a row far from the other seeds. With "random"
    each has random weights in the classes. The components of a `Mixture` start in the same way. If
    a class has too few rows for its covariance, the covariance is singular and the likelihood
    unbounded: `validate` with `latent=True` reports this at the start, and
    `diagnose(clf, x, exp(log_posterior(params, x)))` at the solution.

    Derivatives of `params` follow from the implicit function theorem, by one linear solve whatever
    the number of steps. They are exact at a converged solution and meaningless elsewhere. The same
    holds for `value`. Derivatives of other entries of `objective`, and by `init`, are 0.

    A step scores each row in all K classes, labelled or not, and in all J components of each: with
    a diagonal covariance it takes about n K J d operations, with a full one n K J d², and n K d if
    the classes share a full covariance and none is further than 11 standard deviations (in float32)
    from the mean of all rows. If cells are missing, each row needs its own elimination, n K J d³ in
    all (n d³ if the covariance is shared).

    Args:
        clf: the model.
        x: rows, as for `fit`; unlabelled rows are used too.
        y: labels (n,), -1 if latent; or known responsibilities (n, K).
        key: a `jax.random` key, from which the start is drawn; None for `jax.random.key(0)`.
        weights: weight of each row, (n,).
        unlabelled_weight: λ >= 0, a factor on the weight of each unlabelled row. Text may need a
            value below 1, since words are less independent than the model assumes.
        max_steps: maximum number of steps.
        tol: stop when a step raises the mean log-likelihood of a row by no more than this; a
            negative value never stops early. If EM is slow, gains shrink slowly from step to step
            and the maximum is many steps away: `objective` shows this; use a smaller `tol`.
            float32 cannot resolve gains below about 1e-7, whatever `tol` is.
        init: "k-means++", "random", or params to start from.
        restarts: number of starts, all in one call; the best solution is returned.

    Returns:
        The `EMSolution` of the best start. In traced code invalid labels, weights or cells make
        it NaN.

    Raises:
        ValueError: a shape or dtype does not fit, an argument or a hyper-parameter is invalid, or
            there are fewer rows than the classes or components need to start from.

    Example:
        >>> import jax, jax.numpy as jnp, genclf as gcf
        >>> x = jnp.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
        >>> found = gcf.em(gcf.gaussian_nb(2), x, jnp.array([0, 0, -1, -1, 1, 1]),
        ...                key=jax.random.key(0))
        >>> print(found.params.conditional.mean.ravel(), found.converged)
        [ 1. 11.] True

    References:
        Dempster, Laird & Rubin (1977); Nigam, McCallum, Thrun & Mitchell (2000), "Text
        classification from labeled and unlabeled documents using EM", §5.3 (λ).
    """
    check_for_em(clf)
    given = init if isinstance(init, ClassifierParams) else None
    method = "k-means++" if isinstance(init, ClassifierParams) else init
    key = jax.random.key(0) if key is None else key
    if given is None:
        check_clusters(clf, y, weights, unlabelled_weight)
    elif restarts > 1:
        raise ValueError("init gives a single start: leave it out, or leave restarts at 1")
    else:
        check_examples(given, x)
    return _em(clf, x, y, weights, unlabelled_weight, tol, key, given, method, max_steps, restarts)


def fit_hidden(
    clf: Classifier, x: PyTree, y: Array, weights: Array | None, init: ClassifierParams | None
) -> ClassifierParams:
    """`fit` of a model with unobserved parts of examples: `em` on the labelled rows.

    Hyper-parameters that are not a prior, such as a ridge, apply to each estimate.
    """
    check_latent(clf)
    if init is None:
        check_clusters(clf, y, weights, 0.0)
    return _fit_hidden(clf, x.on_device() if isinstance(x, HostRows) else x, y, weights, init)


@partial(compiled, fast_compile=2**14)
@partial(in_cache, most=ITERATED)
def _fit_hidden(
    clf: Classifier, x: PyTree, y: Array, weights: Array | None, init: ClassifierParams | None
) -> ClassifierParams:
    rows = Rows.of(x, y, weights, clf.num_classes)
    # Labels become known responsibilities, so that no class needs a seed.
    rows = replace(rows, w=rows.responsibilities)
    found = _solution(clf, rows, _TOL_OF_FIT, jax.random.key(0), init, "k-means++", 1000)
    return rows.nan_if_invalid(found.params)


@partial(compiled, static_argnums=(8, 9, 10), fast_compile=2**16)
def _em(
    clf: Classifier,
    x: PyTree,
    y: Array,
    weights: Array | None,
    unlabelled_weight: Scalar,
    tol: Scalar,
    key: Array,
    given: ClassifierParams | None,
    init: Init,
    max_steps: int,
    restarts: int,
) -> EMSolution:
    rows = Rows.of(x, y, weights, clf.num_classes, unlabelled_weight)
    if restarts == 1:
        return _solution(clf, rows, tol, key, given, init, max_steps)

    def start(key: Array, labelled: Array) -> EMSolution:
        return _solution(clf, rows, tol, key, None, init, max_steps, labelled)

    keys = jax.random.split(key, restarts)
    found = jax.vmap(start)(keys, jnp.arange(restarts) == 0)
    values = found.values[:, 0]
    best = jnp.argmax(jnp.where(jnp.isnan(values), -jnp.inf, values))
    return replace(jax.tree.map(lambda a: a[best], found), values=values)


def _solution(
    clf: Classifier,
    rows: Rows,
    tol: Scalar,
    key: Array,
    given: ClassifierParams | None,
    init: Init,
    max_steps: int,
    labelled: bool | Array = True,
) -> EMSolution:
    """The solution from one start, for `labelled` see `start_of`."""
    expect = expectation(clf, rows)
    fresh = lambda: start_of(clf, rows, key, labelled, init)  # noqa: E731
    if given is None:
        start = fresh()
    else:
        check_init(clf, given, jax.eval_shape(lambda: estimated(clf, fresh())))
        start = expect.of_rows(lax.stop_gradient(given))[1]
    start = lax.stop_gradient(start)
    whole = whole_of_rows(expect.clf.family, expect.x, expect.weight)
    expect = replace(expect, clf=expect.clf.effective(), whole=whole)
    of_rows = expect, rows.invalid
    found = fixed_point(_step, of_rows, start, expect.weight.sum(), tol, max_steps)
    params, value = estimated(expect.clf, found.state), found.objective[found.steps - 1]
    return EMSolution(params, found.objective, found.converged, found.steps, value[None])


def _step(
    given: tuple[Expectation, Array], stats: ClassifierStats
) -> tuple[Array, ClassifierStats]:
    """The objective at the params of the statistics, and the expected statistics under them."""
    expect, invalid = given
    value, expected = expect(estimated(expect.clf, stats))
    return jnp.where(invalid, jnp.nan, value), expected


@checked_arguments(labels="unread", x=maybe_sparse)
def em_step(
    clf: Classifier,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    unlabelled_weight: Scalar = 1.0,
) -> Expectation:
    """The E step of `em`, as a function of params; `estimate` is the M step."""
    return expectation(clf, Rows.of(x, y, weights, clf.num_classes, unlabelled_weight))
