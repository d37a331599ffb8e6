"""Group-level p-values beside NumPy, and their size without a signal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.many import group_test as module


def key():
    return jax.random.key(0)


def subjects(places, num=7, seed=0, shift=0.0, count=5):
    """Results with random scores, of which the observed ones are shifted."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        null = jnp.asarray(rng.normal(size=(num, *places)))
        score = jnp.asarray(rng.normal(size=places) + shift)
        found.append(gcf.Searchlight(score, score, score, null))
    return found


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
@pytest.mark.parametrize("places", [(13,), (3, 5)])
def test_as_numpy(metric, places, monkeypatch, x64):
    monkeypatch.setattr(module, "_TOGETHER", 4 * 101)  # several parts, the last one shorter
    given, num = subjects(places, shift=0.5), 101
    found = gcf.group_test(key(), given, metric, num=num)
    drawn = np.asarray(jax.random.randint(key(), (num, 5), 0, 7))
    means = np.stack([np.mean([s.null[i] for s, i in zip(given, row)], 0) for row in drawn])  # noqa: B905
    observed = np.mean([s.score for s in given], 0)
    sign = -1 if metric == "log_loss" else 1
    as_good = sign * means >= sign * observed
    best = (sign * means).reshape(num, -1).max(1).reshape(-1, *[1] * len(places))
    np.testing.assert_allclose(found.score, observed)
    np.testing.assert_allclose(found.p_value, (as_good.sum(0) + 1) / (num + 1))
    expected = ((best >= sign * observed).sum(0) + 1) / (num + 1)
    np.testing.assert_allclose(found.p_corrected, expected)


def test_permutation_tests_of_subjects(x64):
    """Two permutations of two subjects have four means, each equally likely."""
    one = gcf.PermutationTest(jnp.array(2.5), jnp.array([1.0, 2.0]), jnp.array(0.5))
    two = gcf.PermutationTest(jnp.array(3.5), jnp.array([3.0, 5.0]), jnp.array(0.5))
    found = gcf.group_test(key(), [one, two], num=9_999)
    assert float(found.score) == 3.0  # means of the null: 2, 3, 2.5, 3.5
    assert found.p_value.shape == () and abs(float(found.p_value) - 0.5) < 4 * 0.5 / 100
    assert float(found.p_corrected) == float(found.p_value)


def test_the_family_wise_error_without_a_signal():
    """In 400 groups of noise, .05 of the smallest corrected p-values are below .05."""
    smallest = [
        float(gcf.group_test(key(), subjects((11,), 50, seed), num=199).p_corrected.min())
        for seed in range(400)
    ]
    assert abs(np.mean(np.array(smallest) <= 0.05) - 0.05) < 4 * (0.05 * 0.95 / 400) ** 0.5


def test_a_place_without_a_score_is_nan_and_changes_no_other(x64):
    given = subjects((7,))
    nan = lambda a: a.at[..., 2].set(jnp.nan)  # noqa: E731
    worse = gcf.Searchlight(nan(given[0].score), None, None, nan(given[0].null))
    plain = gcf.group_test(key(), given, num=31)
    found = gcf.group_test(key(), [worse, *given[1:]], num=31)
    assert jnp.isnan(found.p_value[2]) and jnp.isnan(found.p_corrected[2])
    others = np.arange(7) != 2
    np.testing.assert_array_equal(found.p_value[others], plain.p_value[others])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "at least two subjects"),
        (subjects((3,), count=1), "at least two subjects"),
        ([*subjects((3,), count=1), "a"], r"subjects\[1\] is 'a'"),
        (
            [*subjects((3,), count=1), gcf.Searchlight(jnp.ones(3), None, None, None)],
            "permutations",
        ),
        ([*subjects((3,), count=1), *subjects((4,), count=1)], "the same permutations and places"),
    ],
)
def test_what_is_no_group(given, message):
    with pytest.raises(ValueError, match=message):
        gcf.group_test(key(), given)
