"""EM: the same fit, with weights that are expected where labels or parts of x are not seen.

The state of the iteration is the statistics. A step reads params off them (`estimate`), and makes
the statistics that complete data would have on average under those params.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PyTree

from genclf.arguments.domains import FINITE_NUMBER, NON_NEGATIVE, Domain, whole
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.blocks import ClassWeights, Hard, fold_rows
from genclf.classifier import (
    Classifier,
    ClassifierParams,
    estimate,
    log_prior_density,
)
from genclf.entry.rows import check_examples, check_labels, check_rows, float_dtype
from genclf.entry.verb import ArrayLike, verb
from genclf.families.base import Init, Scalar
from genclf.families.mixture import most_components
from genclf.families.seeding import initial_weights, one_hot
from genclf.latent.fixed_point import Climb, climb
from genclf.model import valid_labels, valid_weights, widen
from genclf.numerics.logarithms import without_traces
from genclf.statistics import ClassifierStats, Sums

_TOL_OF_FIT = 1e-8  # of `fit`, from which more digits are expected


class EMSolution(ShowsNumbers):
    """What `em` and `adapt_prior` found.

    Attributes:
        params: the fitted classifier.
        objective: log-likelihood, plus the log of the prior density up to a constant, at the params
            of every step, shape (max_steps,); NaN after the last, which is that of `params`.
        converged: whether the last step gained no more than the tolerance: of slow EM a sign that
            little more is gained in a few steps, not that the maximum is as near. Of `adapt_prior`,
            whether the maximum is as near.
        steps: number of steps.
        values: where each of the restarts ended, shape (restarts,); the others are of the best.
    """

    params: ClassifierParams
    objective: Float[Array, "*batch max_steps"]
    converged: Bool[Array, "*batch"]
    steps: Int[Array, "*batch"]
    values: Float[Array, "*batch restarts"]

    @property
    def value(self) -> Float[Array, "*batch"]:
        """The objective at `params`; by hyper-parameters and data its derivative is exact."""
        last = jnp.expand_dims(self.steps - 1, -1)
        return jnp.take_along_axis(self.objective, last, axis=-1)[..., 0]


def solution(params: ClassifierParams, found: Climb) -> EMSolution:
    """Of one start."""
    value = found.objective[found.steps - 1]
    return EMSolution(params, found.objective, found.converged, found.steps, value[None])


class Expectation(eqx.Module):
    """The E step: what complete data would be on average, given what is seen and the params.

    Attributes:
        clf: the model.
        x: rows.
        w: their class weights; a row of label -1 is latent, with its weight.
    """

    clf: Classifier
    x: PyTree
    w: ClassWeights

    @property
    def weight(self) -> Float[Array, "n"]:
        """Weight of each row."""
        return self.w.weight if isinstance(self.w, Hard) else self.w.sum(1)

    def __call__(self, params: ClassifierParams) -> tuple[Float[Array, ""], ClassifierStats]:
        """The objective at the params, and the statistics that are expected under them."""
        log_lik, expected = self.of_rows(params)
        return log_lik + log_prior_density(self.clf, params, expected), expected

    def of_rows(self, params: ClassifierParams) -> tuple[Float[Array, ""], ClassifierStats]:
        """The log-likelihood alone, and those statistics."""
        family = self.clf.family
        # A row without weight may hold anything: a copy of one that has some has derivatives.
        stand_in = jax.tree.map(lambda a: a[jnp.argmax(self.weight > 0)][None], self.x)

        def block(x: PyTree, w: ClassWeights) -> tuple[Sums, ClassifierStats]:
            used = (w.weight if isinstance(w, Hard) else w.sum(1)) != 0
            x = jax.tree.map(lambda a, other: jnp.where(used[:, None], a, other), x, stand_in)
            log_p, completion = family.complete(params.conditional, x)
            score = params.with_log_prior(log_p)
            r, log_lik = _responsibilities(score, params.log_prior, w)
            count = r.sum(0)
            expected = family.expected_stats(params.conditional, completion, x, r)
            seen = Sums(count.sum()[None], log_lik[None])
            return seen, ClassifierStats(Sums(count, count), expected, family.statistic(expected))

        # With what a step makes of a row a block stays in the cache.
        made = jax.tree.leaves(jax.eval_shape(family.complete, params.conditional, stand_in))
        width = self.clf.num_classes + sum(a.shape[-1] for a in jax.tree.leaves(self.x))
        row_size = 8 * width + sum(a.size for a in made)
        found, expected = fold_rows(block, self.x, self.w, row_size)
        return found.total[0], expected


def _responsibilities(
    score: Float[Array, "n K"], log_prior: Float[Array, "K"], w: ClassWeights
) -> tuple[Float[Array, "n K"], Float[Array, ""]]:
    """Expected class weights of rows, and the log-likelihood of what is seen of them."""
    # Classes first and rows last, so that the arithmetic is in vectors of rows.
    score = score.T
    if not isinstance(w, Hard):
        return w, jnp.where(w > 0, w * jnp.where(w > 0, score.T, 0), 0).sum()
    highest = lax.stop_gradient(score.max(0))
    possible = highest > -jnp.inf  # also False on NaN
    ratio = jnp.exp(score - jnp.where(possible, highest, 0)[None])
    # A row that is impossible in all classes tells none from another.
    ratio = jnp.where(jnp.isneginf(highest)[None], jnp.exp(log_prior)[:, None], ratio)
    total = ratio.sum(0)
    hot = w.label[None] == jnp.arange(len(score), dtype=w.label.dtype)[:, None]
    used, latent = w.weight > 0, w.label < 0
    share = jnp.where(latent[None], without_traces(ratio / total[None]), hot.astype(score.dtype))
    log_p = jnp.where(latent, highest + jnp.log(total), jnp.where(hot, score, 0).sum(0))
    r = jnp.where(used[None], share * w.weight[None], 0)
    return r.T, jnp.where(used, w.weight * jnp.where(used, log_p, 0), 0).sum()


@verb(
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
    key: Array,
    weights: ArrayLike | None = None,
    unlabelled_weight: Scalar = 1.0,
    max_steps: int = 1000,
    tol: Scalar = 1e-6,
    init: str | ClassifierParams = "k-means++",
    restarts: int = 1,
) -> EMSolution:
    """Fit with labels, components or cells that are not seen, by expectation-maximisation.

    Maximises `Σ_labelled w_n log p(x_n, y_n) + λ Σ_unlabelled w_n log p(x_n)`, λ =
    `unlabelled_weight`, plus the log-density of the prior where the model has one. Each step does
    not decrease it. With all rows labelled it is `fit`; with none a mixture model: Gaussian
    mixture, latent class analysis, mixture of multinomials. It finds a local maximum; where labels
    do not say which class is which, classes come in any order.

    A likelihood has no bound where a class may shrink onto a row (a Gaussian's variance, a
    probability of 0): then give a prior, such as `NormalInverseWishart()`, which is relative to the
    spread of the data. It bounds the objective; the best maximum may still be one with a small
    class. `ridge` and `ddof` of a Gaussian are no priors and are not taken.

    It begins with the labelled rows alone where every class has some. Otherwise, and in restarts
    after the first, unlabelled rows take part: classes begin at rows of their own or, without any,
    at rows that are far from each other ("k-means++"), or at random shares of the unlabelled rows
    ("random"); so do the components of a `Mixture`. A start, or a solution, in which a class has
    too few rows for its covariance is singular, and of the highest likelihood: `validate` with
    `latent=True` names the first, and `diagnose(clf, x, exp(log_posterior(params, x)))` the second.

    Derivatives of `params` are those of the implicit function: exact at a converged solution, by a
    linear solve, whatever the number of steps, and of no meaning at another. So are those of
    `value`. Nothing flows through the rest of `objective`, or through `init`.

    A step scores each row in all K classes, labelled or not, and in all J components of each: with
    a diagonal covariance it takes about n K J d operations, with a full one n K J d². Where cells
    are missing, each row has a covariance of its own to eliminate, n K J d³ (n d³, if shared).

    Args:
        clf: the model.
        x: rows, as for `fit`; unlabelled rows count.
        y: labels (n,), -1 where latent; or responsibilities (n, K) that are known.
        key: a `jax.random` key, for where to begin.
        weights: weight of each row, (n,).
        unlabelled_weight: λ >= 0, on top of the weight of each unlabelled row. Text, where words
            are not as independent as the model says, may need one below 1.
        max_steps: the most steps.
        tol: stop when a step gains no more than this in the mean log-likelihood of a row; below 0
            never. Where EM is slow, gains shrink by little from step to step, and the maximum is
            many of them away: `objective` shows it, and a smaller `tol` goes on. In float32 a gain
            of about 1e-7 is the least that can be seen, so there `converged` says no more.
        init: "k-means++", "random", or params to start from.
        restarts: number of starts, all in one call; the best solution is returned.

    Returns:
        An `EMSolution`, of the best start. In traced code invalid labels, weights or cells make
        it NaN.

    Raises:
        ValueError: a shape or dtype does not fit, an argument or a hyper-parameter is invalid, or
            there are fewer rows than classes or components to begin at them.

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
    check_labels(y, clf.num_classes)
    given = init if isinstance(init, ClassifierParams) else None
    way = "k-means++" if isinstance(init, ClassifierParams) else init
    data = clf, x, y, weights, unlabelled_weight, tol
    if given is None:
        check_rows(clf.support, x, y, weights, clf.num_classes)
        check_clusters(clf, y, weights, unlabelled_weight)
    elif restarts > 1:
        raise ValueError("restarts begin at different places, but init gives params: one place")
    if restarts == 1:
        return _em(*data, key, given, True, way, max_steps)
    return _best_of(*data, jax.random.split(key, restarts), way, max_steps)


def fit_hidden(
    clf: Classifier, x: PyTree, y: Array, weights: Array | None, init: ClassifierParams | None
) -> ClassifierParams:
    """What `fit` is of a model with hidden parts: `em` without the unlabelled rows."""
    check_for_em(clf)
    check_rows(clf.support, x, y, weights, clf.num_classes)
    if init is None:
        _check_components(clf, len(y))
    if y.ndim == 1:  # known responsibilities: no class has to look for where to begin
        valid = valid_labels(y, clf.num_classes)[:, None]
        y = jnp.where(valid, one_hot(widen(y), clf.num_classes, float_dtype(x)), jnp.nan)
    key = jax.random.key(0)
    return _em(clf, x, y, weights, 1.0, _TOL_OF_FIT, key, init, True, "k-means++", 1000).params


def check_for_em(clf: Classifier) -> None:
    """Raise where EM cannot be a fit of the model."""
    if clf.family.keeps_examples:
        raise ValueError(f"{clf.family} keeps the examples: it has no statistics to expect")
    if clf.inference == "predictive":
        raise ValueError('inference is "predictive", expected "map" or "ml": EM finds parameters')
    rules = clf.family.not_monotone()
    if rules and clf.inference == "map":
        raise ValueError(
            f"{', '.join(rules)}: with this rule of a closed form EM would have nothing to "
            "maximise; give the Gaussian prior=NormalInverseWishart() instead"
        )


def check_clusters(
    clf: Classifier, y: Array, weights: Array | None, unlabelled_weight: Scalar = 1.0
) -> None:
    """Raise where fewer rows take part than there are classes, or components, to begin at them.

    In traced code the number of rows alone is known; elsewhere also their labels and weights.
    """
    each, num_classes = most_components(clf.family), clf.num_classes
    if any(isinstance(a, Tracer) for a in (y, weights, unlabelled_weight)):
        if y.ndim == 2:
            _check_components(clf, len(y))
        elif len(y) < num_classes * each:
            raise ValueError(_too_few(clf, f"x has {len(y)} rows", num_classes * each))
        return
    weight = np.ones(len(y)) if weights is None else np.asarray(weights)
    labels = np.asarray(y)
    if labels.ndim == 2:
        own_rows, latent = ((labels > 0) & (weight > 0)[:, None]).sum(0), 0
    else:
        own_rows = np.bincount(labels[(labels >= 0) & (weight > 0)], minlength=num_classes)
        latent = int(((labels == -1) & (weight * np.asarray(unlabelled_weight) > 0)).sum())
    if latent == 0 and not own_rows.sum():
        raise ValueError(
            f"none of the {len(labels)} rows of x has a weight above 0 (weights, or "
            "unlabelled_weight where there is no label): there is nothing to learn from"
        )
    wanted = np.maximum(each - own_rows[:num_classes], 0)
    if latent == 0:  # then a class without rows stays empty
        few = np.flatnonzero((wanted > 0) & (own_rows[:num_classes] > 0))
        if len(few):
            here = f"class {few[0]} has {own_rows[few[0]]} rows of weight > 0"
            raise ValueError(_too_few(clf, here, each))
    elif wanted.sum() > latent:
        here = f"x has {latent} rows without label, of weight > 0,"
        raise ValueError(_too_few(clf, here, int(wanted.sum())))


def _check_components(clf: Classifier, num_rows: int) -> None:
    """The same where each class has rows of its own, of which the number alone is known."""
    each = most_components(clf.family)
    if 0 < num_rows < each:
        raise ValueError(_too_few(clf, f"x has {num_rows} rows", each))


def _too_few(clf: Classifier, here: str, wanted: int) -> str:
    each = most_components(clf.family)
    parts = f" of {each} components" if each > 1 else ""
    return (
        f"{here}, expected at least {wanted}, where the model's {clf.num_classes} classes{parts} "
        "begin: give more rows, or a model of fewer classes or components"
    )


@partial(compiled, static_argnums=(7, 8))
def _best_of(
    clf: Classifier,
    x: PyTree,
    y: Array,
    weights: Array | None,
    unlabelled_weight: Scalar,
    tol: Scalar,
    keys: Array,
    init: Init,
    max_steps: int,
) -> EMSolution:
    def start(key: Array, labelled: Array) -> EMSolution:
        return _em(clf, x, y, weights, unlabelled_weight, tol, key, None, labelled, init, max_steps)

    found = jax.vmap(start)(keys, jnp.arange(len(keys)) == 0)
    values = found.values[:, 0]
    best = jnp.argmax(jnp.where(jnp.isnan(values), -jnp.inf, values))
    return replace(jax.tree.map(lambda a: a[best], found), values=values)


@partial(compiled, static_argnums=(9, 10))
def _em(
    clf: Classifier,
    x: PyTree,
    y: Array,
    weights: Array | None,
    unlabelled_weight: Scalar,
    tol: Scalar,
    key: Array,
    given: ClassifierParams | None,
    labelled: bool | Array,
    init: Init,
    max_steps: int,
) -> EMSolution:
    expect, invalid = _expectation(clf, x, y, weights, unlabelled_weight)
    if given is None:
        start = _start(clf, x, expect.w, key, labelled, init)
    else:
        check_examples(given, x)
        fresh = jax.eval_shape(lambda: estimate(clf, _start(clf, x, expect.w, key, labelled, init)))
        _check_init(clf, given, fresh)
        start = expect.of_rows(lax.stop_gradient(given))[1]
    start = lax.stop_gradient(start)
    if clf.inference == "ml":
        expect = replace(expect, clf=clf.plain(start))
    found = climb(_step, (expect, invalid), start, expect.weight.sum(), tol, max_steps)
    return solution(estimate(expect.clf, found.state), found)


def _check_init(clf: Classifier, given: ClassifierParams, fresh: PyTree) -> None:
    """Raise unless the arrays of the params are those of the model's own, `fresh`.

    A scale may be shared, by classes or features, where that of the model is not, or the other way.
    """

    def outline(params: PyTree) -> list[tuple]:
        return jax.tree_util.tree_leaves_with_path(params)

    def alike(path: tuple, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        shared = getattr(path[-1], "name", None) == "scale" and len(a) == len(b)
        return a == b or (shared and all(i == j or 1 in (i, j) for i, j in zip(a, b, strict=True)))

    own, theirs = outline(fresh), outline(given)
    same = [path for path, _ in own] == [path for path, _ in theirs] and all(
        alike(path, a.shape, jnp.shape(b)) for (path, a), (_, b) in zip(own, theirs, strict=True)
    )
    if not same:
        shapes = {jax.tree_util.keystr(path): jnp.shape(a) for path, a in theirs}
        raise ValueError(
            f"init is {type(given.conditional).__name__} of {len(given.log_prior)} classes, with "
            f"which EM of {clf} cannot begin: its arrays are {shapes}, expected "
            f"{ {jax.tree_util.keystr(path): a.shape for path, a in own} }"
        )


def _step(
    given: tuple[Expectation, Array], stats: ClassifierStats
) -> tuple[Array, ClassifierStats]:
    """Params of the statistics, and what is expected under them."""
    expect, invalid = given
    value, expected = expect(estimate(expect.clf, stats))
    return jnp.where(invalid, jnp.nan, value), expected


@verb
def em_step(
    clf: Classifier,
    x: PyTree,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    unlabelled_weight: Scalar = 1.0,
) -> Expectation:
    """The E step of `em`, as a function of params; `estimate` is the M step."""
    return _expectation(clf, x, y, weights, unlabelled_weight)[0]


def _expectation(
    clf: Classifier, x: PyTree, y: Array, weights: Array | None, unlabelled_weight: Scalar
) -> tuple[Expectation, Array]:
    """The E step, where a row of label -1 keeps its weight; and whether a number is invalid."""
    check_rows(clf.support, x, y, weights, clf.num_classes)
    dtype, num_classes = float_dtype(x), clf.num_classes
    weight = jnp.ones(len(y), dtype) if weights is None else weights.astype(dtype)
    latent_share = jnp.asarray(unlabelled_weight, dtype)
    valid = valid_weights(weight).all() & valid_labels(y, num_classes).all()
    invalid = ~(valid & valid_weights(latent_share))
    if y.ndim == 2:
        expect = Expectation(clf, x, y.astype(dtype) * weight[:, None])
    else:
        y = widen(y)
        known = (y >= 0) & (y < num_classes)
        label = jnp.where(known, y, -1).astype(jnp.int32)
        w = Hard(label, jnp.where(known, weight, latent_share * weight), num_classes)
        expect = Expectation(clf, x, w)
    family = clf.family.settle(x, expect.weight, num_classes)
    return replace(expect, clf=replace(clf, family=family)), invalid


def _start(
    clf: Classifier, x: PyTree, w: ClassWeights, key: Array, labelled: bool | Array, init: Init
) -> ClassifierStats:
    """Statistics of the rows; of those with labels where `labelled` and every class has some."""
    key_labels, key_parts = jax.random.split(key)
    # A row without weight may hold anything: where clusters begin it is a copy of one with.
    used = w.weight > 0 if isinstance(w, Hard) else (w > 0).any(1)
    stand_in = jnp.where(used, jnp.arange(len(used)), jnp.argmax(used))
    x = jax.tree.map(lambda a: a[stand_in], x)
    if isinstance(w, Hard):
        shares = initial_weights(
            key_labels, clf.family.dissimilarity, x, w.label, w.weight, clf.num_classes, init
        )
        shares = shares * w.weight[:, None]
        known = jnp.where(w.label[:, None] >= 0, shares, 0)
        w = jnp.where((known.sum(0) > 0).all() & labelled, known, shares)
    count = w.sum(0)
    parts = clf.family.initial_stats(key_parts, x, w, init)
    return ClassifierStats(Sums(count, count), parts, clf.family.statistic(parts))
