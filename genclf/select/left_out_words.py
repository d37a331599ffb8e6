"""Leave-one-out of the multinomial event model: without a document its class has fewer words.

With N the words of the class of document i, n of them j, w the weight of the document and L its
length, `log θ_j` without it is `log (n_j - w x_j + α) - log (N - w L + V α)`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree, Shaped

from genclf.arguments.hyperparameters import is_concrete
from genclf.classifier import Classifier, ClassifierStats
from genclf.families.multinomial import Multinomial
from genclf.families.tokens import Tokens, counts_of
from genclf.model import Model
from genclf.sums.blocks import map_rows
from genclf.sums.products import matmul


def can_leave_out_words(clf: Model, x: PyTree, y: Array) -> bool:
    """Whether `without_each_document` is the leave-one-out of the model: smoothed, counts known."""
    if not isinstance(clf, Classifier) or clf.inference != "map" or y.ndim != 1:
        return False
    family = clf.family
    if not isinstance(family, Multinomial) or isinstance(x, Tokens) or family.hidden:
        return False
    return family.prior is None and is_concrete(family.alpha) and bool(family.alpha > 0)


def without_each_document(
    clf: Classifier,
    stats: ClassifierStats,
    x: Shaped[Array, "n V"],
    y: Int[Array, "n"],
    w: Float[Array, "n"],
) -> Float[Array, "n K"]:
    """Log-posterior of each document by the fit to all others."""
    family, total = clf.family, stats.conditional.total
    label, w = jnp.maximum(y, 0), jnp.where(y >= 0, w, 0)
    alpha = jnp.asarray(family.alpha, total.dtype)
    whole, vocabulary = total.sum(1), total.shape[1]
    log_theta = jnp.log(total + alpha) - jnp.log(whole + vocabulary * alpha)[:, None]
    common = log_theta.mean(0)
    centred = log_theta - common[None]

    def some(rows: tuple[Array, Array, Array]) -> Array:
        x, label, w = rows
        x = counts_of(x, family.presence).astype(total.dtype)
        left = _not_negative(total[label] - w[:, None] * x, total[label])
        terms = x * (jnp.log(left + alpha) - common[None])
        length = x.sum(1)
        rest = _not_negative(whole[label] - w * length, whole[label])
        own = jnp.where(x > 0, terms, 0).sum(1) - length * jnp.log(rest + vocabulary * alpha)
        is_own = jax.nn.one_hot(label, len(total), dtype=bool)
        return jnp.where(is_own, own[:, None], matmul(x, centred.T))

    score = map_rows(some, (x, label, w), vocabulary)
    own = jax.nn.one_hot(label, clf.num_classes, dtype=w.dtype) * w[:, None]
    count = _not_negative(stats.count[None] - own, stats.count[None])
    return jax.nn.log_softmax(score + jax.vmap(clf.label_prior.log_probs)(count))


def _not_negative(difference: Array, size: Array) -> Array:
    """A difference of sums, 0 where it is rounding."""
    eps = jnp.finfo(size.dtype).eps
    return jnp.where(difference < 64 * eps * size, 0, difference)
