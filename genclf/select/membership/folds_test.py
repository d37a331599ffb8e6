"""Typicality by cross-validation: the rank of a row among the members of each class."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from genclf.arguments.domains import NON_NEGATIVES, Domain
from genclf.arguments.sharding import compiled
from genclf.numerics import loops
from genclf.numerics.namespace import is_traced
from genclf.select.cross_validation import CrossValidation
from genclf.select.membership.rows import MembershipTest

_ROUNDING = 64  # units in the last place by which two programs may differ for one row


class FoldsTest(MembershipTest):
    """p-values by folds, as `typicality_test` returns it; call it with rows.

    Attributes:
        conditional: the densities of the fit without each fold, with a first axis of length F.
        score: the log-density of each member in its class under the fit without its fold, in the
            order of folds, classes and scores; rows that are no members come last, (n,).
        before: the weight of the members before each of them, and of all, (n + 1,).
        start: the first member of each class of each fold, (F, K).
        end: one after the last, (F, K).
        count: the weight of the members of each class, (K,).
    """

    domains: ClassVar = {
        **dict.fromkeys(("before", "start", "end", "count"), NON_NEGATIVES),
        "score": Domain("numbers", lambda given: True),
    }

    conditional: Any
    score: Float[Array, "n"]
    before: Float[Array, "n_plus_1"]
    start: Int[Array, "F K"]
    end: Int[Array, "F K"]
    count: Float[Array, "K"]

    @property
    def density(self) -> Any:
        """Those of the fit without the first fold."""
        return jax.tree.map(lambda a: a[0], self.conditional)

    @property
    def num_classes(self) -> int:
        return self.count.shape[-1]

    def p_values(self, x: PyTree) -> Float[Array, "*batch K"]:

        def add(total: Array, fold: tuple[Any, Array, Array]) -> tuple[Array, None]:
            density, start, end = fold
            score = density.log_prob(x)
            last = _first_above(_rounded_up(lax.stop_gradient(score)), self.score, start, end)
            less = self.before[last] - jnp.broadcast_to(self.before[start], score.shape)
            return total + jnp.where(jnp.isnan(score), jnp.nan, less), None

        one = jax.eval_shape(lambda x: self.density.log_prob(x), x)
        total = jnp.ones(one.shape, one.dtype)
        each = self.conditional, self.start, self.end
        total, _ = loops.scan(add, total, each)
        # A class without members has no p-value.
        count = jnp.where(self.count > 0, 1 + self.count, jnp.nan)
        return jnp.minimum(total / jnp.broadcast_to(count, total.shape), 1)  # weights round


def _rounded_up(score: Float[Array, "..."]) -> Float[Array, "..."]:
    """The score plus what rounding may take from it, so that equal rows have equal scores."""
    slack = _ROUNDING * jnp.finfo(score.dtype).eps * jnp.maximum(jnp.abs(score), 1)
    return jnp.where(jnp.isfinite(score), score + slack, score)


def _first_above(
    score: Float[Array, "*batch K"],
    among: Float[Array, "n"],
    start: Int[Array, "K"],
    end: Int[Array, "K"],
) -> Int[Array, "*batch K"]:
    """The first place in `start..end` whose number is above the score; `end` if there is none.

    Steps of halving length forward, each a single pass over the scores.
    """
    longest = jnp.left_shift(1, 32 - lax.clz((end - start).max(initial=0)))
    end = jnp.broadcast_to(end, score.shape)

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        last, length = state  # the last place that is known not to be above the score
        ahead = last + length
        inside = jnp.minimum(ahead, len(among) - 1)
        below = (ahead < end) & (among.at[inside].get(mode="promise_in_bounds") <= score)
        return jnp.where(below, ahead, last), length // 2

    before = jnp.broadcast_to(start - 1, score.shape)
    return loops.while_loop(lambda state: state[1] > 0, step, (before, longest))[0] + 1


def folds_test(found: CrossValidation) -> FoldsTest:
    """The test; raise unless members were kept, and each class has one."""
    if found.members is None or found.params is None:
        raise ValueError(
            "learned has no members: give genclf.cross_validate(clf, x, y, folds, members=True)"
        )
    made = _folds_test(found.params, found.members, jnp.asarray(found.folds))
    if not is_traced(made.count):
        for k in np.flatnonzero(np.isnan(np.asarray(made.count)))[:1]:
            raise ValueError(
                f"a member of class {k} has no log-density: its cells are outside the support of "
                "the model, or the fit without its fold is NaN"
            )
    return made


@partial(compiled, fast_compile=2**17)
def _folds_test(params: Any, members: Any, folds: Array) -> FoldsTest:
    num_folds, num_classes = params.log_prior.shape
    score, weight = members.log_density, members.weight
    is_member = weight != 0
    label, folds = members.y.astype(jnp.int32), folds.astype(jnp.int32)
    pair = jnp.where(is_member, folds * num_classes + label, num_folds * num_classes)
    score = jnp.where(is_member, score, jnp.inf)
    order = jnp.lexsort((score, pair))
    ends = jnp.searchsorted(
        pair[order], jnp.arange(num_folds * num_classes + 1, dtype=jnp.int32)
    ).astype(jnp.int32)
    sorted_weight = jnp.where(is_member, weight, 0)[order]
    before = jnp.concatenate([jnp.zeros(1, weight.dtype), jnp.cumsum(sorted_weight)])
    shape = num_folds, num_classes
    # A member without a density would be below or above all others.
    weighed = jnp.where(is_member & jnp.isnan(score), jnp.nan, weight)
    # Rows that are no members may have the label -1; their weight is 0.
    count = jnp.zeros(num_classes, weight.dtype).at[jnp.maximum(label, 0)].add(weighed)
    return FoldsTest(
        params.conditional,
        score[order],
        before,
        ends[:-1].reshape(shape),
        ends[1:].reshape(shape),
        count,
    )
