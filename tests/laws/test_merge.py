"""S(A ∪ B) = S(A) + S(B): in any order, any split, by pairs or all at once, and back."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import FAMILIES, MODELS, N, assert_close, assert_same, take

pytestmark = pytest.mark.usefixtures("x64")
every_model = pytest.mark.parametrize("model", MODELS, ids=str)

TOLERANCE = 1e-12
PARTS = [slice(0, 29), slice(29, 58), slice(58, N)]


@pytest.fixture
def parts(model):
    x, y = model.example("float64")
    return [gcf.stats(model.classifier, take(x, part), y[part]) for part in PARTS]


@pytest.fixture
def whole(model):
    return gcf.stats(model.classifier, *model.example("float64"))


@every_model
def test_any_split_and_order(parts, whole):
    a, b, c = parts
    for merged in (
        gcf.merge(a, gcf.merge(b, c)),
        gcf.merge(gcf.merge(c, a), b),
        gcf.merge(gcf.merge(b, c), a),
    ):
        assert_close(merged, whole, TOLERANCE)


@pytest.mark.parametrize("model", FAMILIES, ids=str)
def test_nothing_adds_nothing(model, whole):
    x, y = model.example("float64")
    nothing = gcf.stats(model.classifier, take(x, slice(0, 0)), y[:0])
    assert float(nothing.count.sum()) == 0
    assert_close(gcf.merge(whole, nothing), whole, 0)
    assert_close(gcf.merge(nothing, whole), whole, 0)


@every_model
def test_remove_undoes_merge(parts, whole):
    a, b, c = parts
    assert_close(gcf.remove(whole, c), gcf.merge(a, b), TOLERANCE)
    assert_close(gcf.remove(gcf.remove(whole, a), b), c, TOLERANCE)


@every_model
def test_removing_everything_leaves_nothing(whole):
    count = np.asarray(gcf.remove(whole, whole).count)
    np.testing.assert_array_equal(count, np.zeros_like(count))


def batches(model):
    """Three batches of 33 rows, in order of class: each lacks at least one class."""
    x, y = model.example("float64")
    rows = np.argsort(y, kind="stable")[:99]
    x, y = take(x, rows), y[rows]
    stacked = jax.tree.map(lambda a: a.reshape(3, 33, *a.shape[1:]), (x, y))
    assert all(len(np.unique(batch)) < 3 for batch in stacked[1])
    return *stacked, gcf.stats(model.classifier, x, y)


@every_model
def test_pool_of_a_batch_axis(model):
    x, y, expected = batches(model)
    batched = jax.vmap(gcf.stats, (None, 0, 0))(model.classifier, x, y)
    assert_close(gcf.pool(batched), expected, TOLERANCE)
    last = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1), batched)
    assert_close(gcf.pool(last, axis=1), expected, TOLERANCE)


@pytest.mark.parametrize("model", FAMILIES, ids=str)
def test_pool_of_a_named_axis(model):
    x, y, expected = batches(model)

    def member(x, y):
        return gcf.pool(gcf.stats(model.classifier, x, y), "members")

    pooled = jax.vmap(member, axis_name="members")(x, y)
    for i in range(3):
        assert_close(take(pooled, i), expected, TOLERANCE)
    assert_same(take(pooled, 0), take(pooled, 2))


@pytest.mark.parametrize("model", FAMILIES, ids=str)
def test_statistics_without_a_description_go_wherever_theirs_go(model):
    clf, rows = model.classifier, model.example("float64")
    s = jax.eval_shape(gcf.stats, clf, *rows)
    by_hand, params = replace(s, statistic=None), jax.eval_shape(gcf.fit, clf, *rows)
    for verb in (gcf.merge, gcf.remove):
        for pair in ((by_hand, s), (s, by_hand), (s, s)):
            assert jax.eval_shape(verb, *pair).statistic == s.statistic
        assert jax.eval_shape(verb, by_hand, by_hand).statistic is None
    for verb in (partial(gcf.estimate, clf), partial(gcf.log_lik, params)):
        found, expected = (jax.tree.leaves(jax.eval_shape(verb, a)) for a in (by_hand, s))
        assert [a.shape for a in found] == [a.shape for a in expected]
