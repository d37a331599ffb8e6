"""A stream's sums are those that an estimator takes of the same rows."""

import numpy as np
import pytest

import genclf as gcf
from genclf import sklearn as estimators

N, D = 4_099, 5  # one row more than a block that is scored at once, and two
MODELS = {
    "LinearDiscriminant": gcf.lda,
    "QuadraticDiscriminant": gcf.qda,
    "GaussianNB": gcf.gaussian_nb,
    "BernoulliNB": gcf.bernoulli_nb,
    "MultinomialNB": gcf.multinomial_nb,
    "CategoricalNB": lambda k: gcf.categorical_nb(k, (7,) * D),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_stream_sums_what_an_estimator_sums(name):
    rng = np.random.default_rng(3)
    y, w = rng.integers(0, 3, N), rng.integers(0, 4, N).astype(float)
    x = rng.normal(3, 1, (N, D)) + y[:, None]
    if name == "BernoulliNB":
        x = (x > 3).astype(float)
    if name in ("MultinomialNB", "CategoricalNB"):
        x = np.clip(np.floor(x), 0, 6).astype(int)
    clf = MODELS[name](3)
    table = {f"c{j}": x[:, j] for j in range(D)} | {"y": y, "w": w}
    kinds = {f"c{j}": list(range(7)) for j in range(D)} if name == "CategoricalNB" else None
    schema = gcf.Schema.of(clf, table, label="y", weight="w", kinds=kinds)
    part = gcf.partial(clf, schema, table, part_id="p")
    own = getattr(estimators, name)().partial_fit(x, y, classes=[0, 1, 2], sample_weight=w)._stats
    for sums, others in [(part.labels, own.labels), (part.conditional, own.conditional)]:
        for field, streamed in vars(sums).items():
            expected = getattr(others, field)
            assert (np.abs(streamed - expected) <= 1e-15 * np.abs(expected).max()).all(), field
