"""Models of words whose vocabulary is that of the training rows, for cross-validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
from jaxtyping import Bool

from genclf.families.base import Family, Params, Wrapping
from genclf.families.counts.bernoulli import Bernoulli
from genclf.families.counts.multinomial import Multinomial
from genclf.numerics.namespace import Array, namespace
from genclf.sums.merging import merged
from genclf.sums.statistics import Sums


class TrainingWords(Wrapping):
    """A model of word counts whose vocabulary is the words of its training texts.

    x has a column for every word of all texts, so that all folds have one shape. A word without a
    count in the statistics was not in the training texts: smoothing does not count it in V, and it
    has no effect on the class of a text. The posteriors are those of the family fitted with the
    columns of the training words alone.

    Args:
        family: the model of the words.
        whole: treat every column as a word of the vocabulary, as the family alone does. It is a
            leaf, so that one compiled function serves both cases.
    """

    family: Bernoulli | Multinomial
    whole: bool | Bool[Array, ""] = False

    def estimate(self, stats: Sums) -> Params:
        xp = namespace(stats.total)
        seen = (stats.total.sum(0, keepdims=True) > 0) | self.whole
        if isinstance(self.family, Bernoulli):
            bernoulli = self.family.estimate(stats)
            # Logits equal in all classes cancel from the posterior.
            return replace(bernoulli, logits=xp.where(seen, bernoulli.logits, 0))
        # Smoothing merges pseudo-counts; here only words of the training texts have them.
        alpha = xp.asarray(self.family.alpha, stats.total.dtype)
        pseudo_counts = xp.broadcast_to(xp.where(seen, alpha, 0), stats.total.shape)
        smoothed = merged(stats, Sums(xp.zeros_like(stats.count), pseudo_counts))
        multinomial = replace(self.family, alpha=0.0).estimate(smoothed)
        return replace(multinomial, log_theta=xp.where(seen, multinomial.log_theta, 0))

    def log_prior_density(self, params: Params, stats: Sums) -> Array:
        return self.family.log_prior_density(params, stats)

    def problems(self, d: Any = None) -> list[str]:
        return self.family.problems(d)


def of_all_words(family: Family | None) -> Family:
    """The same model, with each `TrainingWords` replaced by its family."""
    is_words = lambda node: isinstance(node, TrainingWords)  # noqa: E731
    return jax.tree.map(lambda a: a.family if is_words(a) else a, family, is_leaf=is_words)
