"""Calibrated posteriors: a temperature, and a bias for each class, fitted to held-out rows."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float

from genclf.arguments.domains import FINITE_OR_NAN, FLAG, LOGARITHMS, NOT_NEGATIVE_OR_NAN, Domain
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.calibrated import CalibratedParams, uncalibrated
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments, optional
from genclf.classifier.conversion import as_arrays, float_dtype
from genclf.classifier.labels import valid_weights
from genclf.classifier.model import Fitted
from genclf.fitting.slope_and_bias import Problem, minimum
from genclf.numerics import loops
from genclf.numerics.logarithms import safe_log
from genclf.numerics.namespace import Array, is_traced
from genclf.numerics.scores.posterior import with_slope_and_bias
from genclf.select.calibration import check_probabilities, sums_to_one
from genclf.select.cross_validation import CrossValidation
from genclf.select.groups import checked_folds
from genclf.select.score import held_out_rows

_GROUPS = 10  # of folds, at most, each left out of a calibration in turn


class Recalibration(ShowsNumbers):
    """A map from posteriors to calibrated ones, as `recalibrate` returns it.

    Called with log-posteriors (..., K), it gives `log q(k | x)`, (..., K), with
    `q(k | x) ∝ exp(slope · log p(k | x) + bias_k)`. `with_calibration` puts it into params.

    Attributes:
        slope: β >= 0, 1 over the temperature; 1 changes nothing, and below 1 posteriors become less
            extreme. At 0 the posteriors are no better than none, and q is the shares of the classes
            (with `bias=False`, it is the same for all).
        bias: b, (K,), with sum 0; all 0 with `bias=False`, and -inf for a class without rows.
        log_prior: logarithms of the shares of the classes among the rows, (K,).
        converged: whether the likelihood has its maximum at (β, b). It has none if larger β and b
            are always better, as where no row is on the wrong side; q is then near 0 and 1.
        log_loss_before: mean of `-log p(y | x)` over the rows, in nats.
        log_loss_after: mean of `-log q(y | x)`, over the same rows that (β, b) were fitted to.
        log_loss_nested: mean of `-log q(y | x)`, by a q for each fold that was fitted without it;
            NaN if no folds are known, and inf if all rows of a class are in one fold.
        gain_error: standard error over the folds of `gain`, sd / √F, where sd has the divisor
            F - 1; NaN as before. A gain below two of it may as well be a loss for other rows.
    """

    domains: ClassVar = {
        "bias": LOGARITHMS,
        "log_prior": LOGARITHMS,
        **dict.fromkeys(("log_loss_before", "log_loss_after", "log_loss_nested"), FINITE_OR_NAN),
        "gain_error": NOT_NEGATIVE_OR_NAN,
    }

    slope: Float[Array, ""]
    bias: Float[Array, "K"]
    log_prior: Float[Array, "K"]
    converged: Bool[Array, ""]
    log_loss_before: Float[Array, ""]
    log_loss_after: Float[Array, ""]
    log_loss_nested: Float[Array, ""]
    gain_error: Float[Array, ""]

    @property
    def gain(self) -> Float[Array, ""]:
        """`log_loss_before - log_loss_nested`: what to expect of rows like these."""
        return self.log_loss_before - self.log_loss_nested

    @property
    def temperature(self) -> Float[Array, ""]:
        """1 / slope."""
        return 1 / self.slope

    def __call__(self, log_posterior: ArrayLike) -> Float[Array, "*batch K"]:
        given = as_arrays(log_posterior, "log_posterior")
        if given.shape[-1:] != self.bias.shape or not jnp.issubdtype(given.dtype, jnp.floating):
            raise ValueError(
                f"log_posterior has shape {given.shape} and dtype {given.dtype}, expected "
                f"(..., {self.bias.shape[0]}) logarithms of probabilities"
            )
        return _applied(given, self.slope, self.bias)


@compiled
def _applied(log_p: Array, slope: Array, bias: Array) -> Array:
    slope, bias = slope.astype(log_p.dtype), bias.astype(log_p.dtype)
    return jax.nn.log_softmax(with_slope_and_bias(log_p, slope, bias), -1)


@checked_arguments(log_posterior=None, bias=FLAG, folds=optional(checked_folds))
def recalibrate(
    log_posterior: CrossValidation | Float[ArrayLike, "n K"],
    y: ArrayLike,
    *,
    bias: bool = True,
    weights: ArrayLike | None = None,
    folds: ArrayLike | None = None,
) -> Recalibration:
    """Fit a temperature, and a bias for each class, to posteriors of rows that were held out.

    `q(k | x) ∝ exp(β log p(k | x) + b_k)`, β >= 0, with (β, b) the maximum of
    `Σ_n w_n log q(y_n | x_n)`, which is concave. It is found by Newton's method from β = 0, and has
    implicit derivatives. The posteriors of rows that a model was fitted to are too extreme:
    calibrate those of `cross_validate`.

    With biases the mean of q over the rows is the share of each class, `Σ_n w_n q(k | x_n) / W =
    n_k / W`.
    A gain is not certain, even where p is far off: `gain` and `gain_error` say what to expect of
    rows like these.

    Args:
        log_posterior: the result of `cross_validate` or `leave_one_out`, whose held-out rows
            count; or natural logarithms of posteriors, (n, K).
        y: labels 0..K-1, (n,); rows labelled -1 do not count.
        bias: whether each class has a bias; without, β alone is fitted.
        weights: weight of each row, >= 0, (n,); None for ones.
        folds: the fold of each row, (n,), for `log_loss_nested`; None for those of the
            `CrossValidation`, if it is one. Folds beyond ten are joined, fold f to fold f mod 10.

    Returns:
        A `Recalibration`, all NaN for traced arrays with an invalid row: a posterior that is NaN or
        does not sum to 1, a label that is neither a class nor -1, an invalid weight, or a true
        class of probability 0.

    Raises:
        ValueError: a shape does not fit; no row counts; or, outside traced code, a row is invalid.

    Example:
        >>> import jax, genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> folds = gcf.kfold(jax.random.key(0), vowel.y_train, 10)
        >>> cv = gcf.cross_validate(gcf.gaussian_nb(11), vowel.x_train, vowel.y_train, folds)
        >>> found = gcf.recalibrate(cv, vowel.y_train)
        >>> print(found.slope.round(2))
        0.8
        >>> print(found.log_loss_before.round(2), found.log_loss_nested.round(2))
        0.93 0.89

    References:
        Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural networks"; with a
        bias: Alexandari, Kundaje & Shrikumar (2020), "Maximum likelihood with bias-corrected
        calibration is hard-to-beat at label shift adaptation".
    """
    log_p, label, weight = held_out_rows(log_posterior, y, weights, "log_posterior")
    if folds is None and isinstance(log_posterior, CrossValidation):
        folds = np.asarray(log_posterior.folds) if not is_traced(log_posterior.folds) else None
    if folds is not None and len(folds) != len(label):
        raise ValueError(f"folds has length {len(folds)}, expected {len(label)}: one for each row")
    if not is_traced(log_p, label, weight):
        _check_rows(np.asarray(log_p), np.asarray(label), np.asarray(weight))
    num_groups, group = groups_of(folds)
    return recalibrated(log_p, label, weight, group, bias, num_groups)[0]


def groups_of(folds: np.ndarray | None) -> tuple[int, Array | None]:
    """The number of groups that a calibration leaves out in turn, and the group of each row."""
    if folds is None:
        return 0, None
    return min(int(folds.max()) + 1, _GROUPS), jnp.asarray(np.where(folds < 0, -1, folds % _GROUPS))


def _check_rows(log_p: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
    """Raise unless a calibration has finite log-losses."""
    counts = w != 0
    if not counts.any():
        raise ValueError("no row counts, expected rows with a label, a weight and a posterior")
    check_probabilities(log_p, counts)
    for row in np.flatnonzero(np.isnan(log_p).any(1) & counts)[:1]:
        raise ValueError(
            f"log_posterior[{row}] is NaN: the model cannot score row {row}; leave it out, or give "
            "it the label -1"
        )
    own = np.take_along_axis(log_p, np.maximum(y, 0)[:, None], 1)[:, 0]
    for row in np.flatnonzero(np.isneginf(own) & counts)[:1]:
        raise ValueError(
            f"log_posterior[{row}, {y[row]}] is -inf, the true class of row {row}, so every "
            "calibration has an infinite log-loss: smooth the model, with alpha > 0"
        )


@partial(compiled, static_argnums=(4, 5), fast_compile=2**17)
def recalibrated(
    log_p: Array, y: Array, weight: Array, group: Array | None, bias: bool, num_groups: int
) -> tuple[Recalibration, Float[Array, "n K"]]:
    """The calibration, and the posteriors of each row by the one without its group."""
    dtype = float_dtype(log_p)
    num_classes = log_p.shape[1]
    counts = weight != 0
    # The contents of a row of weight 0 must not reach the sums or their derivatives.
    equal = -jnp.log(jnp.asarray(num_classes, dtype))
    log_p = jnp.where(counts[:, None], log_p.astype(dtype), equal)
    known = (y >= 0) & (y < num_classes)
    label = jnp.where(known & counts, y, 0).astype(jnp.int32)
    own = jnp.take_along_axis(log_p, label[:, None], 1)
    valid = known & sums_to_one(log_p) & valid_weights(weight) & jnp.isfinite(own[:, 0])
    is_valid = jnp.where(counts, valid, True).all() & counts.any()
    w = jnp.where(is_valid, weight.astype(dtype), jnp.nan)
    hot = jax.nn.one_hot(label, num_classes, dtype=dtype)

    def fitted(state: tuple[Array, Array], w: Array) -> tuple[tuple[Array, Array], Any]:
        """(β, b) with these weights, begun at that of all rows, which come first."""
        is_first, of_all = state
        share = (w[:, None] * hot).sum(0) / w.sum()
        log_prior = safe_log(share)
        present = share > 0
        possible = jnp.isfinite(log_p) & (present | (not bias))[None]
        odds = jnp.where(possible, log_p - own, 0)
        is_biased = (present & bias).astype(dtype)
        problem = Problem(odds, possible, label, w / w.sum(), is_biased)

        def centred(slope: Array, of_class: Array) -> Array:
            mean = (is_biased * of_class).sum() / jnp.maximum(is_biased.sum(), 1)
            return jnp.concatenate([slope[None], is_biased * (of_class - mean)])

        # The objective is convex: if its minimum is below β = 0, that from 0 on is at 0.
        at_zero = centred(jnp.zeros((), dtype), jnp.where(present & bias, log_prior, 0))
        start = jnp.where(is_first, at_zero, centred(of_all[0], of_all[1:]))
        at, converged = minimum(problem, lax.stop_gradient(start))
        is_worse = at[0] < 0
        at, converged = jnp.where(is_worse, at_zero, at), converged | is_worse
        of_class = jnp.where(present | (not bias), at[1:], -jnp.inf)
        of_all = jnp.where(is_first, lax.stop_gradient(at), of_all)
        return (jnp.zeros_like(is_first), of_all), (at[0], of_class, log_prior, converged)

    groups = jnp.arange(num_groups, dtype=jnp.int32)
    group = jnp.full(len(w), -1, jnp.int32) if group is None else group.astype(jnp.int32)
    without = jnp.where(group[None] == groups[:, None], 0, w[None])
    state = jnp.ones((), bool), jnp.zeros(num_classes + 1, dtype)
    every = jnp.concatenate([w[None], without])
    slope, of_class, log_prior, converged = loops.scan(fitted, state, every)[1]
    # Each row by the calibration without its group; a row of none, by that of all rows.
    nested = jax.vmap(_applied)(log_p, slope[1 + group], of_class[1 + group])
    before, after = (_losses(p, label, counts) for p in (log_p, nested))
    held = jnp.where(group >= 0, w, 0)
    size, gained = (
        jnp.zeros(num_groups, dtype).at[group].add(a, mode="drop", wrap_negative_indices=False)
        for a in (held, held * (before - after))
    )
    nan = jnp.where(is_valid, jnp.asarray(0, dtype), jnp.nan)
    found = Recalibration(
        slope[0] + nan,
        of_class[0] + nan,
        log_prior[0] + nan,
        converged[0] & is_valid,
        (w * before).sum() / w.sum(),
        (w * _losses(_applied(log_p, slope[0], of_class[0]), label, counts)).sum() / w.sum(),
        (held * after).sum() / held.sum(),
        (gained / size).std(ddof=1) / max(num_groups, 1) ** 0.5,
    )
    return found, nested + nan


def _losses(log_p: Array, label: Array, counts: Array) -> Array:
    """`-log p(y | x)` of each row; 0 for one that does not count."""
    own = jnp.take_along_axis(log_p, label[:, None], 1)[:, 0]
    return jnp.where(counts, -own, 0)


@checked_arguments(
    any_model=True,
    recalibration=Domain(
        "a Recalibration, as genclf.recalibrate returns it",
        lambda given: isinstance(given, Recalibration) and given.bias.ndim == 1,
    ),
)
def with_calibration(params: Fitted, recalibration: Recalibration) -> CalibratedParams:
    """The same model with calibrated posteriors, which `predict` and `log_posterior` then use.

    Args:
        params: a fitted model, of any kind; one with calibrated posteriors is calibrated anew.
        recalibration: from `recalibrate`, of posteriors of the same classes.

    Returns:
        `CalibratedParams`.

    Raises:
        ValueError: the numbers of classes differ.

    Example:
        >>> import jax, genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> clf, x, y = gcf.qda(11), vowel.x_train, vowel.y_train
        >>> cv = gcf.cross_validate(clf, x, y, gcf.kfold(jax.random.key(0), y, 10))
        >>> params = gcf.with_calibration(gcf.fit(clf, x, y), gcf.recalibrate(cv, y))
        >>> print(gcf.predict(params, vowel.x_test[:3]), params.slope.round(2))
        [0 1 5] 0.37
    """
    if recalibration.bias.shape != (params.num_classes,):
        raise ValueError(
            f"recalibration.bias has shape {recalibration.bias.shape}, expected "
            f"({params.num_classes},): one number per class of params"
        )
    params = uncalibrated(params)
    # The dtype of the scores is the widest, also of NumPy arrays that are wider than JAX's.
    dtypes = [a.dtype for a in jax.tree.leaves(params) if hasattr(a, "dtype")]
    dtype = max((a for a in dtypes if jnp.issubdtype(a, jnp.floating)), key=lambda a: a.itemsize)
    given = recalibration.slope, recalibration.bias, recalibration.log_prior
    return CalibratedParams(params, *(a.astype(dtype) for a in given))
