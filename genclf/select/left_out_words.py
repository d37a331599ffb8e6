"""Leave-one-out of the multinomial event model: a document's words are subtracted from its class.

Let N be the number of words of the document's class, n_j the number of those that are word j, w the
weight of the document and L its length. Without the document, `log θ_j` is
`log (n_j - w x_j + α) - log (N - w L + V α)`. A difference loses precision if it is much smaller
than its first term: all of it, if the document holds nearly all words.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from genclf.arguments.hyperparameters import is_concrete
from genclf.classifier.classifier import Classifier, ClassifierStats
from genclf.classifier.model import Model
from genclf.families.counts.multinomial import Multinomial
from genclf.families.tokens import counts_of, is_dense
from genclf.numerics.namespace import matmul
from genclf.numerics.row_blocks import map_rows

# A difference is inaccurate if its first term is more than this many times larger.
_LARGEST_LOSS = 256.0


def can_leave_out_words(clf: Model, x: PyTree, y: Array) -> bool:
    """Whether `without_each_document` applies: to smoothed models of dense, observed counts."""
    if not isinstance(clf, Classifier) or clf.inference != "map" or y.ndim != 1:
        return False
    family = clf.family
    if not isinstance(family, Multinomial) or not is_dense(x) or family.hidden:
        return False
    return family.prior is None and is_concrete(family.alpha) and bool(family.alpha > 0)


def without_each_document(
    clf: Classifier,
    stats: ClassifierStats,
    x: Shaped[Array, "n V"],
    y: Int[Array, "n"],
    w: Float[Array, "n"],
) -> tuple[Float[Array, "n K"], Bool[Array, "n"]]:
    """Log-posterior of each document by the fit to all others, and whether it is accurate."""
    family, total = clf.family, stats.conditional.total
    label, w = jnp.maximum(y, 0), jnp.where(y >= 0, w, 0)
    alpha = jnp.asarray(family.alpha, total.dtype)
    whole, vocabulary = total.sum(1), total.shape[1]
    log_theta = jnp.log(total + alpha) - jnp.log(whole + vocabulary * alpha)[:, None]
    common = log_theta.mean(0)
    centred = log_theta - common[None]

    least, least_whole = _least(total, alpha), _least(whole, vocabulary * alpha)

    def some(rows: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        x, label, w = rows
        x = counts_of(x, family.presence).astype(total.dtype)
        length = x.sum(1)
        left, inexact = _subtracted(total[label], w[:, None] * x, least[label])
        rest, inexact_in_all = _subtracted(whole[label], w * length, least_whole[label])
        terms = jnp.where(inexact, jnp.inf, x * (jnp.log(left + alpha) - common[None]))
        own = jnp.where(x > 0, terms, 0).sum(1) - length * jnp.log(rest + vocabulary * alpha)
        exact = ~jnp.isposinf(own) & ~inexact_in_all
        is_own = jax.nn.one_hot(label, len(total), dtype=bool)
        return jnp.where(is_own, own[:, None], matmul(x, centred.T)), exact

    score, exact = map_rows(some, (x, label, w), vocabulary)
    own = jax.nn.one_hot(label, clf.num_classes, dtype=w.dtype) * w[:, None]
    count, inexact = _subtracted(stats.count[None], own, _least(stats.count, 0.0)[None])
    log_prior = jax.vmap(clf.log_prior)(count)
    return jax.nn.log_softmax(score + log_prior), exact & ~inexact.any(1)


def _subtracted(total: Array, part: Array, least: Array) -> tuple[Array, Array]:
    """`total - part`, 0 where that is only rounding; and whether it is below `least`."""
    eps = float(jnp.finfo(total.dtype).eps)
    left = jnp.where(total - part < 64 * eps * total, 0, total - part)
    return left, left < least


def _least(total: Array, added: Array | float) -> Array:
    """The smallest `total - part` that is accurate after `added` is added.

    It is 0 where `total` is an exactly represented integer.
    """
    is_whole = (total == jnp.round(total)) & (total < 0.5 / float(jnp.finfo(total.dtype).eps))
    return jnp.where(is_whole, 0, total / _LARGEST_LOSS - added)
