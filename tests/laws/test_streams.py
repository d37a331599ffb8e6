"""Streams of any length lose nothing; what cannot be a part is noticed; weights can be scaled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.families.capabilities import is_additive
from tests.registry import (
    BY_NAME,
    DISTINCT,
    MODELS,
    WITH_HOLES,
    K,
    N,
    assert_close,
    leaves_of,
    spoil,
    take,
)

ADDITIVE = [model for model in [*DISTINCT, *WITH_HOLES] if is_additive(model.family)]
STREAMS = ["gaussian", "gaussian-diag", "bernoulli", "categorical", "multinomial-tokens"]
every_statistic = pytest.mark.parametrize("model", ADDITIVE, ids=str)


@pytest.mark.parametrize("power", [24, 27])
@pytest.mark.parametrize("name", STREAMS)
def test_no_row_is_lost_among_many(name, power):
    # 2^24 + 1 is the first whole number that float32 does not hold.
    model, rows = BY_NAME[name], 10**5
    x, y = model.example("float32")
    many = gcf.scale(gcf.stats(model.classifier, x, y), 2**power / N)
    one = gcf.stats(model.classifier, take(x, slice(3, 4)), y[3:4])

    @jax.jit
    def stream(total):
        merged = lambda total, _: (gcf.merge(total, one), None)  # noqa: E731
        return jax.lax.scan(merged, total, None, length=rows)[0]

    found, k = stream(many), y[3]
    expected = gcf.merge(many, gcf.scale(one, rows))
    unit = np.spacing(np.asarray(expected.count))
    assert (np.abs(np.asarray(found.count) - np.asarray(expected.count)) <= unit).all()
    assert float(found.count[k]) - float(many.count[k]) == pytest.approx(
        rows, abs=2 * float(unit[k])
    )
    # What the rows have moved, which float32 sums lose: to a thousandth of it.
    for (path, a), (_, b), (_, before) in zip(
        leaves_of(found.conditional), leaves_of(expected.conditional), leaves_of(many.conditional),
        strict=True,
    ):  # fmt: skip
        if "rounding" in path:
            continue
        moved = np.abs(b.astype(np.float64) - before).max()
        assert np.abs(a.astype(np.float64) - b).max() <= 1e-3 * moved + 2 * np.spacing(
            np.abs(b).max()
        ), path


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_small_batches_are_not_lost_beside_a_large_one(name):
    model, batches = BY_NAME[name], 2003
    x, y = model.example("float32")
    many = gcf.scale(gcf.stats(model.classifier, x, y), 2**27 / N)
    five = gcf.stats(model.classifier, take(x, slice(5)), y[:5])
    stacked = jax.tree.map(
        lambda a, b: jnp.asarray(
            np.concatenate([a[None], np.broadcast_to(b, (batches, *b.shape))])
        ),
        many,
        five,
    )
    expected = np.asarray(many.count, np.float64) + batches * np.asarray(five.count)
    found = np.asarray(gcf.pool(stacked).count)
    assert (np.abs(found - expected) <= np.spacing(found)).all()


@pytest.mark.slow("float32-poisson")
@every_statistic
def test_scale_is_the_weight_of_the_rows(model, dtype):
    x, y = model.example(dtype)
    weights = np.random.default_rng(5).uniform(0.5, 2, N).astype(dtype)
    s = gcf.stats(model.classifier, x, y, weights)
    tolerance = 1e-12 if dtype == np.float64 else 2e-6
    for weight in (0.25, 3.0, 0.0):
        expected = gcf.stats(model.classifier, x, y, dtype.type(weight) * weights)
        assert_close(without_rounding(gcf.scale(s, weight)), without_rounding(expected), tolerance)
    traced = jax.jit(gcf.scale)(s, -1.0)
    assert np.isnan(np.asarray(traced.count)).all()


@pytest.mark.parametrize("weight", [-0.5, np.nan, np.inf])
def test_scale_takes_one_number(weight):
    s = gcf.stats(gcf.lda(K), *BY_NAME["gaussian"].example("float32"))
    with pytest.raises(ValueError, match=r"weight is .*expected >= 0"):
        gcf.scale(s, weight)


@every_statistic
def test_empty_is_the_identity_of_merge(model, dtype):
    x, y = model.example(dtype)
    s = gcf.stats(model.classifier, x, y)
    nothing = gcf.empty(model.classifier, x)
    assert float(nothing.count.sum()) == 0
    for merged in (gcf.merge(nothing, s), gcf.merge(s, nothing)):
        assert_close(merged, s, 0)
    shapes = jax.eval_shape(lambda x: x, jax.tree.map(jnp.asarray, x))
    assert_close(gcf.empty(model.classifier, shapes), nothing, 0)


@pytest.mark.slow("float32-gaussian-shared", "float32-poisson", "float32-product")
@every_statistic
def test_what_was_never_added_cannot_be_removed(model, dtype):
    x, y = model.example(dtype)
    few = np.arange(N) < 29
    s = gcf.stats(model.classifier, x, np.where(few, y, -1))
    other = gcf.stats(model.classifier, x, np.where(few, -1, y))
    removed = gcf.remove(s, other)
    assert_close(jax.jit(gcf.remove)(s, other), removed, 0)
    params = gcf.estimate(model.classifier, removed)
    assert (np.asarray(gcf.predict(params, x)) == -1).all()
    fixed = gcf.Classifier(model.family, K, class_prior=np.full(K, 1 / K))
    undecided = np.asarray(gcf.predict(gcf.estimate(fixed, removed), x)) == -1
    assert undecided[holds_something(x)].all()


@pytest.mark.parametrize("model", [m for m in MODELS if "product" not in m.name], ids=str)
def test_removing_half_and_half_leaves_little(model, dtype):
    # What may be taken away may be taken away: rounding is no evidence of the contrary.
    x, y = model.example(dtype)
    weights = np.random.default_rng(6).uniform(0.1, 3, N).astype(dtype)
    rest = gcf.stats(model.classifier, x, y, weights)
    alone = lambda rows: gcf.stats(  # noqa: E731
        model.classifier, x, y, np.where(np.isin(np.arange(N), rows), weights, 0).astype(dtype)
    )
    for rows in np.array_split(np.arange(N - 3), 7):
        rest = gcf.remove(rest, alone(rows))
    expected = alone(np.arange(N - 3, N))
    tolerance = 1e-11 if dtype == np.float64 else 2e-3
    np.testing.assert_allclose(rest.count, expected.count, atol=tolerance)
    for path, leaf in leaves_of(rest):
        assert not np.isnan(leaf).any(), path


def test_rows_that_could_be_a_part_are_not_noticed():
    s = gcf.Sums(jnp.array([5.0]), jnp.array([[7.0, 3.0]]))
    for total, noticed in (([2.0, 1.0], False), ([8.0, 1.0], True)):
        rest = gcf.remove(s, gcf.Sums(jnp.array([1.0]), jnp.array([total])))
        assert np.isnan(np.asarray(rest.total)).all() == noticed
        assert np.isfinite(np.asarray(rest.total)).all() == (not noticed)


@pytest.mark.slow
def test_one_far_row_that_was_never_added():
    x = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
    y = np.zeros(N, np.int32)
    s = gcf.stats(gcf.qda(1), x, y)
    assert np.isnan(
        np.asarray(gcf.remove(s, gcf.stats(gcf.qda(1), x[:1] + 50, y[:1])).conditional.scatter)
    ).all()


@every_statistic
def test_invalid_rows_stay_invalid(model):
    x, y = model.example("float32")
    if "holes" in model.name:
        pytest.skip("NaN is a missing cell")
    bad = gcf.stats(model.classifier, spoil(x, slice(3, 4)), y)
    merged = gcf.merge(bad, gcf.scale(bad, 0.5))
    assert any(np.isnan(leaf).any() for _, leaf in leaves_of(merged.conditional))


def holds_something(x):
    """Rows of which some cell is seen, or that have a word: others say nothing of their class."""
    if isinstance(x, dict):
        return np.any([holds_something(part) for part in x.values()], axis=0)
    if isinstance(x, gcf.Tokens):
        return x.mask.any(1)
    seen = ~np.isnan(x) if np.issubdtype(x.dtype, np.floating) else x >= 0
    return (seen & (x != 0)).any(1) if x.max() > 1 else seen.any(1)


def without_rounding(stats):
    """The statistics without what they have kept of the digits below the last."""
    is_node = lambda node: isinstance(node, gcf.Sums | gcf.Moments)  # noqa: E731
    main = lambda s: {name: getattr(s, name) for name in vars(s) if name != "rounding"}  # noqa: E731
    return jax.tree.map(main, stats, is_leaf=is_node).conditional
