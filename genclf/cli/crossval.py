"""Cross-validation by merging: the statistics of each fold once, then all but one merged."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, PyTree

import genclf as gcf
from genclf.families.base import Parametric, Params
from genclf.families.capabilities import is_additive
from genclf.families.support import Support
from genclf.latent.em import em_step
from genclf.sums.blocks import ClassWeights

EM_TOL = 1e-8  # gain in the mean log-likelihood of a row, as in `fit`
EM_STEPS = 200


@dataclass(frozen=True)
class Folds:
    """F folds as one rectangular array of row indices, so that one compiled function serves all.

    Attributes:
        rows: the rows of each fold, shape (F, m); a shorter fold is padded with row 0.
        weight: 1 for a row, 0 for padding, shape (F, m).
    """

    rows: np.ndarray
    weight: np.ndarray


def stratified_folds(y: np.ndarray, num_folds: int, seed: int) -> Folds:
    """The folds of scikit-learn's `StratifiedKFold(num_folds, shuffle=True, random_state=seed)`."""
    from sklearn.model_selection import StratifiedKFold

    with warnings.catch_warnings():
        # A class with fewer rows than folds has at most one row in each fold.
        warnings.filterwarnings("ignore", "The least populated class")
        split = StratifiedKFold(num_folds, shuffle=True, random_state=seed).split(y, y)
        tests = [test for _, test in split]
    size = np.array([len(test) for test in tests])
    weight = np.arange(size.max()) < size[:, None]
    rows = np.zeros(weight.shape, int)
    rows[weight] = np.concatenate(tests)
    return Folds(rows, weight.astype(np.float32))


@dataclass(frozen=True)
class Scores:
    """Scores of a model on rows that it was not fitted to; one number per fold.

    Attributes:
        accuracy: share of rows predicted correctly, shape (F,); an undecided row counts as wrong.
        log_loss: mean of -log p(y | x), nats, shape (F,); inf if the true class of a row, or the
            row itself, was given probability 0.
        undecided: share of rows impossible in every class, for which no class is predicted, (F,).
        impossible: number of rows with infinite log-loss.
        singular: folds in which the training rows do not determine a covariance, shape (F,).
        fold_sizes: rows in each fold, shape (F,).
        converged: folds in which EM reached its tolerance or was not needed, shape (F,).
    """

    accuracy: np.ndarray
    log_loss: np.ndarray
    undecided: np.ndarray
    impossible: int
    singular: np.ndarray
    fold_sizes: np.ndarray
    converged: np.ndarray

    def overall(self, name: str) -> float:
        """`accuracy`, `log_loss` or `undecided` over all rows."""
        return float(np.average(getattr(self, name), weights=self.fold_sizes))

    def error(self, name: str) -> float:
        """Standard error of that score over the folds: sd / √F, where sd has the divisor F - 1."""
        values = getattr(self, name)
        if not np.isfinite(values).all():
            return float("nan")
        return float(values.std(ddof=1) / np.sqrt(len(values)))


def cross_validate(clf: gcf.Classifier, x: PyTree, y: np.ndarray, folds: Folds) -> Scores:
    """For each fold, fit on all others and score it; all folds in one compiled call."""
    return cross_validate_blocks(clf, in_folds(x, folds), y[folds.rows], folds)


def in_folds(x: PyTree, folds: Folds) -> PyTree:
    """The rows of x with the axes (F, m) in front; do it once where several models share x."""
    return jax.tree.map(lambda leaf: leaf[folds.rows], x)


def cross_validate_blocks(clf: gcf.Classifier, x: PyTree, y: np.ndarray, folds: Folds) -> Scores:
    """`cross_validate` for x and y that are `in_folds` already."""
    raw = _cross_validate(clf, x, jnp.asarray(y, jnp.int32), jnp.asarray(folds.weight))
    loss, predicted, singular, converged = (np.asarray(a) for a in raw)
    real = folds.weight > 0
    sizes = real.sum(1)
    loss = np.where(np.isnan(loss), np.inf, loss)  # 0/0: the row is impossible in every class

    def per_fold(values: np.ndarray) -> np.ndarray:
        return np.where(real, values, 0).sum(1) / sizes

    return Scores(
        accuracy=per_fold(predicted == y),
        log_loss=per_fold(loss),
        undecided=per_fold(predicted == -1),
        impossible=int((real & np.isinf(loss)).sum()),
        singular=singular,
        fold_sizes=sizes,
        converged=converged,
    )


@jax.jit
def _cross_validate(clf: gcf.Classifier, x: PyTree, y: Array, weight: Array) -> tuple:
    train = _merged if is_additive(clf.family) else _by_em
    training = train(clf, x, y, weight)

    def one(fold: tuple[Array, PyTree, Array]) -> tuple[Array, ...]:
        held_out, x, y = fold
        learned = training(held_out)
        log_posterior = gcf.log_posterior(learned.params, x)
        # The rule of `predict`; calling `predict` as well would compile the scores twice.
        possible = ~jnp.isnan(log_posterior).any(1)
        predicted = jnp.where(possible, log_posterior.argmax(1), -1)
        loss = -jnp.take_along_axis(log_posterior, y[:, None], axis=1)[:, 0]
        return loss, predicted, learned.singular, learned.converged

    return lax.map(one, (jnp.arange(len(y)), x, y))


class Learned(NamedTuple):
    """Params; whether the training rows do not determine them; whether EM converged."""

    params: gcf.ClassifierParams
    singular: Array
    converged: Array


Training = Callable[[Array], Learned]  # given the fold that is held out


def _merged(clf: gcf.Classifier, x: PyTree, y: Array, weight: Array) -> Training:
    # One pass over the data. To hold out a fold, the statistics of the others are merged. Nothing
    # is subtracted, so no digits cancel.
    each = lax.map(lambda fold: gcf.stats(clf, *fold), (x, y, weight))
    index = jnp.arange(len(y))

    def training(held_out: Array) -> Learned:
        def without(leaf: Array) -> Array:  # zeros are the statistics of no examples
            own = (index == held_out).reshape(-1, *[1] * (leaf.ndim - 1))
            return jnp.where(own, 0, leaf)

        merged = gcf.pool(jax.tree.map(without, each))
        singular = _singular(clf.family.diagnose(merged.conditional))
        return Learned(gcf.estimate(clf, merged), singular, jnp.array(True))

    return training


def _by_em(clf: gcf.Classifier, x: PyTree, y: Array, weight: Array) -> Training:
    # The expectations of unseen cells depend on all training rows, so folds cannot be merged.
    rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), x)
    labels = jax.nn.one_hot(y.reshape(-1), clf.num_classes, dtype=weight.dtype)
    index = jnp.arange(len(y))

    def training(held_out: Array) -> Learned:
        w = jnp.where((index == held_out)[:, None], 0, weight).reshape(-1)
        found = gcf.em(
            clf, rows, labels, key=jax.random.key(0), weights=w, tol=EM_TOL, max_steps=EM_STEPS
        )
        expect = em_step(clf, rows, labels, w)
        family = expect.clf.family
        diagnosis = family.diagnose(expect(found.params)[1].conditional)
        singular = _singular(diagnosis)
        if isinstance(family, gcf.Gaussian) and family.prior is None and not family.shared:
            # Unseen cells add an expected variance, so full rank does not prove that rows suffice.
            singular |= diagnosis.too_few.any()
        return Learned(found.params, singular, found.converged)

    return training


def _singular(found: Any) -> Array:
    """Whether any Gaussian in a diagnosis has a covariance short of full rank."""
    parts = jax.tree.leaves(found, is_leaf=lambda node: isinstance(node, gcf.GaussianDiagnosis))
    short = [
        (part.rank < part.constant.shape[-1]).any()
        for part in parts
        if isinstance(part, gcf.GaussianDiagnosis)
    ]
    return jnp.stack(short).any() if short else jnp.array(False)


class TrainingWords(Parametric):
    """A model of word counts whose vocabulary is the words of its training texts.

    x has a column for every word of all texts, so that all folds have one shape. A word without a
    count in the statistics was not in the training texts: it is left out of the V that smoothing
    spreads over, and it says nothing about a text to be classified. The posteriors are those of
    the family fitted with the columns of the training words alone.

    Args:
        family: the model of the words.
        whole: treat every column as a word of the vocabulary, as the family alone does. It is a
            leaf, so that one compiled function serves both cases.
    """

    family: gcf.Bernoulli | gcf.Multinomial
    whole: bool | Bool[Array, ""] = False

    @property
    def support(self) -> Support:
        return self.family.support

    def stats(self, x: PyTree, w: ClassWeights) -> gcf.Sums:
        return self.family.stats(x, w)

    def estimate(self, stats: gcf.Sums) -> Params:
        seen = (stats.total.sum(0, keepdims=True) > 0) | self.whole
        if isinstance(self.family, gcf.Bernoulli):
            bernoulli = self.family.estimate(stats)
            # Logits equal in all classes cancel from the posterior.
            return replace(bernoulli, logits=jnp.where(seen, bernoulli.logits, 0))
        # Smoothing merges pseudo-counts; here only words in the training texts have one.
        imagined = jnp.broadcast_to(jnp.where(seen, self.family.alpha, 0), stats.total.shape)
        smoothed = gcf.merge(stats, gcf.Sums(jnp.zeros_like(stats.count), imagined))
        multinomial = replace(self.family, alpha=0.0).estimate(smoothed)
        return replace(multinomial, log_theta=jnp.where(seen, multinomial.log_theta, 0))

    def plain(self) -> TrainingWords:
        return replace(self, family=self.family.plain())

    def log_prior_density(self, params: Any, stats: gcf.Sums) -> Array:
        return self.family.log_prior_density(params, stats)

    def num_parameters(self, num_classes: int, d: Any) -> int:
        return self.family.num_parameters(num_classes, d)

    def problems(self, d: Any = None) -> list[str]:
        return self.family.problems(d)
