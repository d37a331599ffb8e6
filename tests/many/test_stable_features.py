"""Stability selection beside a loop, and its bound on features without information."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.many.stable_features import half_of_each_class


def key():
    return jax.random.key(0)


CORRELATED = gcf.Classifier(
    gcf.Gaussian(shared=True, shrinkage="james-stein", target="diagonal"), 3
)
MODELS = {
    "diagonal": gcf.Classifier(gcf.Gaussian("diag", shared=True), 3),
    "correlated": CORRELATED,
    "unshrunk": gcf.lda(3),
}


def data(n, d, dtype):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % 3)
    x = rng.normal(size=(n, d))
    x[:, :3] += y[:, None]
    return x.astype(dtype), y


@pytest.mark.slow(but=("float64-correlated-61",))
@pytest.mark.parametrize("d", [7, 61])
@pytest.mark.parametrize("name", MODELS)
def test_as_a_loop(name, d, dtype):
    """A ranking of each half; with more features than rows, in the row space."""
    if name == "unshrunk" and d == 61:
        pytest.skip("more features than rows need a shrinkage")
    (x, y), num, q = data(43, d, dtype), 5, 3
    counts, times = np.bincount(y), np.zeros(d)
    for number in range(num):
        drawn = half_of_each_class(
            jax.random.fold_in(key(), number), jnp.asarray(y), tuple(counts.tolist())
        )
        assert (np.bincount(y[drawn]) == counts // 2).all() and len(set(drawn.tolist())) == len(
            drawn
        )
        params = gcf.fit(MODELS[name], x[drawn], y[drawn])
        scores = gcf.cat_scores(params, counts // 2)
        times[np.argsort(-np.asarray(scores.overall), kind="stable")[:q]] += 1
    found = gcf.stable_features(key(), MODELS[name], x, y, q, num=num)
    np.testing.assert_allclose(found.frequency, times / num, rtol=1e-6)
    above = times > num / 2
    assert np.isinf(found.false_bound[~above]).all() and above.any()
    bound = q**2 / (2 * times[above] / num - 1) / d
    np.testing.assert_allclose(found.false_bound[above], bound, rtol=1e-5)
    assert (np.diff(np.asarray(found.frequency)[found.order]) <= 0).all()


def test_noise_is_selected_no_more_often_than_the_bound():
    """In 20 data sets of noise: the features that are selected in 60 % of the draws."""
    clf, d, q, found = MODELS["diagonal"], 53, 7, []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(90, d)), np.arange(90) % 3
        one = gcf.stable_features(jax.random.key(seed), clf, x, y, q, num=50)
        found.append((one.frequency >= 0.6).sum())
    bound = q**2 / (0.2 * d)
    assert 0 < np.mean(found) < bound


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_selected": 7}, "fewer than the 7 features"),
        ({"y": np.array([0] + [1, 2] * 21)}, "class 0 has one row"),
        ({"y": np.array([-1] + [0, 1, 2] * 14)}, "a label of each row"),
        ({"clf": gcf.qda(3)}, "shared"),
        ({"clf": gcf.lda(3, shrinkage=0.1), "x": data(43, 61, "float32")[0]}, "correlations"),
    ],
)
def test_what_cannot_be_ranked(given, message):
    x, y = data(43, 7, "float32")
    right = {"key": key(), "clf": gcf.lda(3), "x": x, "y": y, "num_selected": 2}
    with pytest.raises(ValueError, match=message):
        gcf.stable_features(**right | given)


def test_it_is_called_on_the_host():
    x, y = data(43, 7, "float32")
    with pytest.raises(ValueError, match="on the host"):
        jax.jit(lambda x: gcf.stable_features(key(), gcf.lda(3), x, y, 2))(x)
