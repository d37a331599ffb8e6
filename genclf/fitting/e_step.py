"""The E step: expected statistics of the complete data, given the observed data."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, PyTree

from genclf.arguments.module import Module
from genclf.classifier.classifier import Classifier, ClassifierParams, log_prior_density
from genclf.classifier.rows import Rows
from genclf.numerics import loops
from genclf.numerics.compensated import add_to, rounded, zero_low
from genclf.numerics.double import product
from genclf.numerics.logarithms import drop_underflowing
from genclf.numerics.namespace import Array
from genclf.sums.blocks import ClassWeights, Hard, merge_over_blocks, row_weights
from genclf.sums.sparse import holds_sparse, map_arrays
from genclf.sums.statistics import ClassifierStats, Sums


class Expectation(Module):
    """The E step: expected statistics of the complete data, given the observed data and the params.

    Attributes:
        clf: the model.
        x: rows.
        w: class weights of the rows; a row with label -1 has a weight, and its label is latent.
        whole: what all rows give alike at all params; None to sum the rows at each params.
    """

    clf: Classifier
    x: PyTree
    w: ClassWeights
    whole: Any = None

    @property
    def weight(self) -> Float[Array, "n"]:
        """Weight of each row."""
        return row_weights(self.w)

    def __call__(self, params: ClassifierParams) -> tuple[Float[Array, ""], ClassifierStats]:
        """The objective at the params, and the expected statistics under them."""
        log_lik, expected = self.of_rows(params)
        return log_lik + log_prior_density(self.clf, params, expected), expected

    def of_rows(self, params: ClassifierParams) -> tuple[Float[Array, ""], ClassifierStats]:
        """The log-likelihood, without the prior density, and the expected statistics."""
        if self.whole is None:
            return self._by_rows(params)
        by_sums = partial(self._by_sums, params)
        nothing = lambda: jax.tree.map(jnp.zeros_like, jax.eval_shape(by_sums))  # noqa: E731
        is_likely = self.whole.is_precise(params.conditional)
        found = loops.unlikely(~is_likely, nothing, by_sums)
        is_precise = is_likely & self.whole.holds(found[1].conditional)
        return loops.unlikely(~is_precise, partial(self._by_rows, params), lambda: found)

    def _by_sums(self, params: ClassifierParams) -> tuple[Float[Array, ""], ClassifierStats]:
        """From class sums: scores of a row that differ by a term of all classes serve, too."""
        stand_in = self._stand_in()

        def block(x: PyTree, w: ClassWeights) -> tuple[Sums, Sums]:
            x = _used(x, w, stand_in)
            score = params.with_log_prior(params.conditional.discriminant(x))
            r, log_lik = _responsibilities(score, params.log_prior, w)
            sums, log_lik = self.whole.sums(x, r), log_lik[:, None]
            # Such scores are larger than the log-likelihood, so their sum keeps its low part.
            total, low = product(jnp.ones_like(log_lik), log_lik, exact=True)
            of_count = zero_low(log_lik[0])
            found = Sums(sums.count.sum()[None], total[0], of_count and (*of_count, low[0]))
            return found, sums

        row_size = 4 * (self.clf.num_classes + self.x.shape[-1])
        found, sums = merge_over_blocks(block, self.x, self.w, row_size)
        expected = self.clf.statistics(sums.count, self.whole.stats(sums))
        total = found.total, jnp.zeros_like(found.total)
        total = total if found.rounding is None else (found.total, found.rounding[1])
        return rounded(add_to(total, self.whole.log_lik(params.conditional)))[0], expected

    def _by_rows(self, params: ClassifierParams) -> tuple[Float[Array, ""], ClassifierStats]:
        family, stand_in = self.clf.family, self._stand_in()

        def block(x: PyTree, w: ClassWeights) -> tuple[Sums, ClassifierStats]:
            log_p, completed = family.complete(params.conditional, _used(x, w, stand_in))
            score = params.with_log_prior(log_p)
            r, log_lik = _responsibilities(score, params.log_prior, w)
            count = r.sum(0)
            expected = completed.stats(r)
            observed = Sums(count.sum()[None], log_lik.sum()[None])
            return observed, self.clf.statistics(count, expected)

        if holds_sparse(self.x):  # sparse rows are not cut into blocks
            found, expected = block(self.x, self.w)
            return found.total[0], expected
        # `row_size` counts the temporaries of a row too, so that a block of rows fits in the cache.
        _, made = found = jax.eval_shape(family.complete, params.conditional, stand_in)
        width = self.clf.num_classes + sum(a.shape[-1] for a in jax.tree.leaves(self.x))
        row_size = 4 * width + sum(a.size for a in jax.tree.leaves(found) if a.shape[:1] == (1,))
        row_size = width // 2 if made.has_blocks else row_size
        found, expected = merge_over_blocks(block, self.x, self.w, row_size)
        return found.total[0], expected

    def _stand_in(self) -> PyTree:
        """A row with weight, of length 1; all rows if they are sparse."""
        some = jnp.argmax(self.weight > 0)
        return map_arrays(lambda a: a[some][None], self.x, sparse=lambda a: a)


def _used(x: PyTree, w: ClassWeights, stand_in: PyTree) -> PyTree:
    """The rows with weight. Others may hold anything: for finite gradients they are replaced.

    A sparse row without weight is emptied.
    """
    used = row_weights(w) != 0
    choose = lambda a, other: jnp.where(used[:, None], a, other)  # noqa: E731
    return map_arrays(choose, x, stand_in, sparse=lambda a, _: a.only(used))


def expectation(clf: Classifier, rows: Rows) -> Expectation:
    """The E step of a model whose prior is complete, for rows that all have a weight."""
    family = clf.family.resolve_prior(rows.x, row_weights(rows.w), clf.num_classes)
    return Expectation(replace(clf, family=family), rows.x, rows.w)


def _responsibilities(
    score: Float[Array, "n K"], log_prior: Float[Array, "K"], w: ClassWeights
) -> tuple[Float[Array, "n K"], Float[Array, "n"]]:
    """Expected class weights of the rows, and the log-likelihood of what is observed of each."""
    # Class axis first and row axis last, so that the arithmetic vectorises over rows.
    score = score.T
    if not isinstance(w, Hard):
        return w, jnp.where(w > 0, w * jnp.where(w > 0, score.T, 0), 0).sum(1)
    highest = lax.stop_gradient(score.max(0))
    possible = highest > -jnp.inf  # also False on NaN
    ratio = jnp.exp(score - jnp.where(possible, highest, 0)[None])
    # A row that is impossible in every class gets the class prior as responsibilities.
    ratio = jnp.where(jnp.isneginf(highest)[None], jnp.exp(log_prior)[:, None], ratio)
    total = ratio.sum(0)
    hot = w.label[None] == jnp.arange(len(score), dtype=w.label.dtype)[:, None]
    used, latent = w.weight > 0, w.label < 0
    share = jnp.where(latent[None], drop_underflowing(ratio / total[None]), hot.astype(score.dtype))
    log_p = jnp.where(latent, highest + jnp.log(total), jnp.where(hot, score, 0).sum(0))
    r = jnp.where(used[None], share * w.weight[None], 0)
    return r.T, jnp.where(used, w.weight * jnp.where(used, log_p, 0), 0)
