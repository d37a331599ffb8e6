"""Scores of a model in each fold, and whether the training rows identify its covariances."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.by_numpy import by_numpy, fit_by_numpy, log_posterior_by_numpy, sums_by_numpy
from genclf.classifier.classifier import Classifier
from genclf.classifier.model import Model
from genclf.classifier.pieces import rows_of
from genclf.classifier.scores import log_posterior
from genclf.families.capabilities import is_hidden
from genclf.families.gaussian.gaussian import Gaussian, GaussianDiagnosis
from genclf.families.structure import nodes_of
from genclf.fitting.em import em, em_step
from genclf.numerics.logarithms import logsumexp
from genclf.numerics.namespace import Array
from genclf.select.cross_validation import cross_validate
from genclf.select.data import Data, data_of, take
from genclf.select.folds import folds as folds_of
from genclf.select.learning_curve import standard_error
from genclf.select.splits import Splits
from genclf.tables.features import dense
from genclf.tables.training_words import of_all_words

EM_TOL = 1e-8  # gain in the mean log-likelihood per row, as in `fit`
EM_STEPS = 200
_MOST = np.finfo(float).max


def stratified_folds(y: np.ndarray, num_folds: int, seed: int) -> Int[np.ndarray, "n"]:
    """The folds of scikit-learn's `StratifiedKFold(num_folds, shuffle=True, random_state=seed)`."""
    from sklearn.model_selection import StratifiedKFold

    with warnings.catch_warnings():
        # A class with fewer rows than folds has at most one row in each fold.
        warnings.filterwarnings("ignore", "The least populated class")
        split = StratifiedKFold(num_folds, shuffle=True, random_state=seed).split(y, y)
        return folds_of(list(split))


@dataclass(frozen=True)
class HeldOut:
    """Scores of a model on rows that it was not fitted to; one number per fold.

    Attributes:
        accuracy: share of rows predicted correctly, shape (F,); an undecided row counts as wrong.
        brier: mean of `Σ_k (p_k - [y = k])²`, shape (F,); 2 for an undecided row.
        log_loss: mean of -log p(y | x), nats, shape (F,); inf if the true class of a row, or the
            row itself, was given probability 0.
        undecided: share of rows impossible in every class, for which no class is predicted, (F,).
        impossible: number of rows with infinite log-loss.
        singular: folds in which the training rows do not determine a covariance, shape (F,).
        fold_sizes: weight of the rows in each fold, shape (F,).
        converged: folds in which EM reached its tolerance or was not needed, shape (F,).
        log_posterior: log p(y | x) of each row, (n, K).
        balanced_accuracy: mean of the accuracies within each class, over all rows.
        auc: area under the ROC curve of class 1, or the mean of those of each class against the
            others, over all rows.
        average_precision: that of the class of least weight against the others, over all rows.
    """

    accuracy: np.ndarray
    brier: np.ndarray
    log_loss: np.ndarray
    undecided: np.ndarray
    impossible: int
    singular: np.ndarray
    fold_sizes: np.ndarray
    converged: np.ndarray
    log_posterior: np.ndarray
    balanced_accuracy: float
    auc: float
    average_precision: float

    def overall(self, name: str) -> float:
        """`accuracy`, `brier`, `log_loss` or `undecided` over all rows."""
        return float(np.average(getattr(self, name), weights=self.fold_sizes))

    def error(self, name: str) -> float:
        """Standard error of that score over the folds: sd / √F, where sd has the divisor F - 1."""
        values = getattr(self, name)
        return float(standard_error(values)) if np.isfinite(values).all() else float("nan")


def held_out(
    clf: Model, x: PyTree, y: np.ndarray, folds: np.ndarray, w: np.ndarray | None = None
) -> HeldOut:
    """For each fold, fit on all others and score it; rows have weights in both."""
    num_folds = int(folds.max()) + 1
    w = np.ones(len(y)) if w is None else w
    own = of_all_words(clf.family) if isinstance(clf, Classifier) else None
    if isinstance(clf, Classifier) and by_numpy(own) and sums_by_numpy(replace(clf, family=own), x):
        return scored(*_by_numpy(clf, x, y, folds, w))
    singular, converged = np.zeros(num_folds, bool), np.ones(num_folds, bool)
    if isinstance(clf, Classifier) and is_hidden(clf.family):
        rows, label, weight = jax.tree.map(jnp.asarray, (dense(x), y, w))
        data = data_of(rows, label, Splits(folds, None), weight)
        log_p, singular, converged = map(np.asarray, _by_em(clf, data))
    else:
        found = cross_validate(clf, dense(x), y, folds, w, diagnosed=isinstance(clf, Classifier))
        log_p = np.asarray(found.log_posterior)
        if found.diagnosis is not None:
            singular = np.asarray(_singular(found.diagnosis.conditional, num_folds))
    return scored(log_p, y, folds, w, singular, converged)


def _by_numpy(
    clf: Classifier, x: PyTree, y: np.ndarray, folds: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The arguments of `scored`, for a model that NumPy fits and scores."""
    num_folds = int(folds.max()) + 1
    log_p, singular = np.zeros((len(y), clf.num_classes)), np.zeros(num_folds, bool)
    for fold in range(num_folds):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        stats, params = fit_by_numpy(clf, rows_of(x, train), y[train], w[train])
        log_p[test] = log_posterior_by_numpy(params, rows_of(x, test))
        with np.errstate(all="ignore"):
            diagnosis = clf.family.diagnose(stats.conditional)
        singular[fold] = _singular(diagnosis)
    return log_p, y, folds, w, singular, np.ones(num_folds, bool)


def scored(
    log_p: np.ndarray,
    y: np.ndarray,
    folds: np.ndarray,
    w: np.ndarray,
    singular: np.ndarray,
    converged: np.ndarray,
) -> HeldOut:
    """The scores of these log-posteriors; the arguments are those of `HeldOut`."""
    undecided = np.isnan(log_p).any(1)
    loss = np.where(undecided, np.inf, -log_p[np.arange(len(y)), y])
    right = ~undecided & (np.where(undecided[:, None], 0, log_p).argmax(1) == y)
    p = np.exp(np.where(undecided[:, None], -np.inf, log_p))
    squared = np.where(undecided, 2, np.square(p - np.eye(p.shape[1])[y]).sum(1))
    sizes = np.bincount(folds, w)
    per_fold = lambda a: np.bincount(folds, a * w) / sizes  # noqa: E731
    weight = np.bincount(y, w)
    recall = np.bincount(y, right * w) / weight
    return HeldOut(
        accuracy=per_fold(right),
        brier=per_fold(squared),
        log_loss=per_fold(loss),
        undecided=per_fold(undecided),
        impossible=int(np.isinf(loss).sum()),
        singular=singular,
        fold_sizes=sizes,
        converged=converged,
        log_posterior=log_p,
        balanced_accuracy=float(recall.mean()),
        **_of_ranks(log_p, y, folds, w),
    )


def _of_ranks(
    log_p: np.ndarray, y: np.ndarray, folds: np.ndarray, w: np.ndarray
) -> dict[str, float]:
    """`auc` and `average_precision`; NaN if a row is undecided."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    if np.isnan(log_p).any():
        return {"auc": float("nan"), "average_precision": float("nan")}
    weight = np.bincount(y, w)
    rarest = int(weight.argmin())
    _, first, own = np.unique(folds, return_index=True, return_inverse=True)
    if (log_p == log_p[first][own]).all():  # all rows of a fold are alike, as to the class prior
        return {"auc": 0.5, "average_precision": float(weight[rarest] / weight.sum())}

    def of_class(metric: Callable[..., float], k: int) -> float:
        others = logsumexp(np.delete(log_p, k, 1))  # where p_k is rounded to 1, it decides
        margin = np.clip(log_p[:, k] - others, -_MOST, _MOST)
        return float(metric(y == k, margin, sample_weight=w))

    classes = [1] if log_p.shape[1] == 2 else range(log_p.shape[1])
    area = np.mean([of_class(roc_auc_score, k) for k in classes])
    return {"auc": float(area), "average_precision": of_class(average_precision_score, rarest)}


def p_value(one: HeldOut, other: HeldOut) -> float:
    """The p-value of equal log-losses and equal Brier scores, by Bonferroni's correction of two.

    The Brier score is bounded: it tells models apart whose log-loss a few rows decide.
    """
    each = [_paired(getattr(one, s) - getattr(other, s)) for s in ("log_loss", "brier")]
    return min(1.0, 2 * float(np.nanmin(each)))


def _paired(difference: np.ndarray) -> float:
    """The two-sided p-value of a mean of 0 over the folds, by a paired t-test.

    The variance of the mean difference is `(1 / F + 1 / (F - 1)) s²`, since training sets overlap
    (Nadeau & Bengio 2003). NaN if a difference is infinite, as of log-losses.
    """
    folds = len(difference)
    if not np.isfinite(difference).all():
        return float("nan")
    error = np.sqrt((1 / folds + 1 / (folds - 1)) * difference.var(ddof=1))
    if error == 0:
        return 1.0 if difference.mean() == 0 else 0.0
    from scipy.special import stdtr  # slow to import

    return float(2 * stdtr(folds - 1, -abs(difference.mean()) / error))


@partial(compiled, fast_compile=2**14)
def _by_em(
    clf: Classifier, data: Data
) -> tuple[Float[Array, "n K"], Bool[Array, "F"], Bool[Array, "F"]]:
    """The log-posterior of each row under the fit without its fold; singular and converged fits."""
    x, labels = data.x, jax.nn.one_hot(data.y, clf.num_classes, dtype=data.w.dtype)

    def one(w: Array, held: Array) -> tuple[Array, Array, Array]:
        found = em(clf, x, labels, key=jax.random.key(0), weights=w, tol=EM_TOL, max_steps=EM_STEPS)
        expect = em_step(clf, x, labels, w)
        family = expect.clf.family
        diagnosis = family.diagnose(expect(found.params)[1].conditional)
        # EM never lowers the objective except by rounding; a larger drop shows that the objective
        # is unbounded.
        before, last = found.objective[found.steps - jnp.array([2, 1], found.steps.dtype)]
        fell = (found.steps > 1) & (before - last > EM_TOL * w.sum())
        singular = _singular(diagnosis) | fell
        if isinstance(family, Gaussian) and family.prior is None and not family.shared:
            # EM adds a conditional variance for missing cells, so a covariance can have full rank
            # with too few rows.
            singular |= diagnosis.too_few.any()
        return log_posterior(found.params, take(x, held)), singular, found.converged

    log_p, singular, converged = data.each_fold(one)
    return data.in_row_order(log_p), singular, converged


def _singular(found: PyTree, *batch: int) -> Bool[Array, "..."]:
    """Whether any Gaussian in a diagnosis has a covariance without full rank."""
    singular: Any = np.zeros(batch, bool)
    for part in nodes_of(found, GaussianDiagnosis):
        deficient = part.rank < part.constant.shape[-1]
        singular |= deficient.reshape(*batch, -1).any(-1)
    return singular
