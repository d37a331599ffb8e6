"""The E step: expected statistics of the complete data, given the observed data."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, PyTree

from genclf.arguments.module import Module
from genclf.classifier.classifier import Classifier, ClassifierParams, log_prior_density
from genclf.classifier.rows import Rows
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
    """

    clf: Classifier
    x: PyTree
    w: ClassWeights

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
        family = self.clf.family
        # A row without weight may hold anything. For finite gradients it is replaced by a row with
        # weight, or emptied if it is sparse.
        some = jnp.argmax(self.weight > 0)
        stand_in = map_arrays(lambda a: a[some][None], self.x, sparse=lambda a: a)

        def block(x: PyTree, w: ClassWeights) -> tuple[Sums, ClassifierStats]:
            used = row_weights(w) != 0
            choose = lambda a, other: jnp.where(used[:, None], a, other)  # noqa: E731
            x = map_arrays(choose, x, stand_in, sparse=lambda a, _: a.only(used))
            log_p, completed = family.complete(params.conditional, x)
            score = params.with_log_prior(log_p)
            r, log_lik = _responsibilities(score, params.log_prior, w)
            count = r.sum(0)
            expected = completed.stats(r)
            observed = Sums(count.sum()[None], log_lik[None])
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


def expectation(clf: Classifier, rows: Rows) -> Expectation:
    """The E step of a model whose prior is complete, for rows that all have a weight."""
    family = clf.family.resolve_prior(rows.x, row_weights(rows.w), clf.num_classes)
    return Expectation(replace(clf, family=family), rows.x, rows.w)


def _responsibilities(
    score: Float[Array, "n K"], log_prior: Float[Array, "K"], w: ClassWeights
) -> tuple[Float[Array, "n K"], Float[Array, ""]]:
    """Expected class weights of the rows, and the log-likelihood of the observed data."""
    # Class axis first and row axis last, so that the arithmetic vectorises over rows.
    score = score.T
    if not isinstance(w, Hard):
        return w, jnp.where(w > 0, w * jnp.where(w > 0, score.T, 0), 0).sum()
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
    return r.T, jnp.where(used, w.weight * jnp.where(used, log_p, 0), 0).sum()
