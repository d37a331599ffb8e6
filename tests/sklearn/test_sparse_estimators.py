"""Estimators of sparse rows are those of dense ones, and go into pipelines of text."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import genclf as gcf
from genclf.sklearn import BernoulliNB, MultinomialNB

ESTIMATORS = [
    (MultinomialNB, {}),
    (MultinomialNB, {"presence": True}),
    (MultinomialNB, {"alpha": 0.0}),
    (BernoulliNB, {}),
    (BernoulliNB, {"binarize": 1.5, "alpha": 0.0}),
]


@pytest.mark.slow("csr_matrix-MultinomialNB-params0")
@pytest.mark.parametrize(("make", "params"), ESTIMATORS)
@pytest.mark.parametrize("form", [sp.csr_matrix, sp.coo_array])
def test_sparse_rows_are_dense_rows(make, params, form):
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.5, (101, 31)).astype(float)
    x, y = form(dense), np.array(["a", "b", "c"])[rng.integers(0, 3, 101)]
    weights = rng.uniform(size=101)
    expected = make(**params).fit(dense, y, weights)
    whole, parts = make(**params).fit(x, y, weights), make(**params)
    for at in np.split(np.arange(101), [17, 18, 71]):
        cut = sp.csr_matrix(x)[at]
        parts.partial_fit(cut, y[at], classes=["a", "b", "c"], sample_weight=weights[at])
    for found in (whole, parts):
        for method in ("predict_log_proba", "score_samples"):
            a, b = getattr(found, method)(x), getattr(expected, method)(dense)
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)
        assert (found.predict(x) == expected.predict(dense)).all()


def test_documents_without_a_label_take_part():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 101)
    dense = rng.poisson(0.3 + 0.6 * (np.arange(31) % 2 == y[:, None]))
    known = np.where(np.arange(101) % 3, -1, y)
    found, expected = (
        MultinomialNB(semi_supervised=True).fit(x, known).predict_proba(x)
        for x in (sp.csr_matrix(dense), dense)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_a_pipeline_of_texts():
    sms = gcf.datasets.load_sms_spam()
    texts, y = np.array(sms.texts[:601], object), np.where(np.asarray(sms.y)[:601], "spam", "ham")
    pipe = make_pipeline(CountVectorizer(min_df=2), MultinomialNB())
    search = GridSearchCV(pipe, {"multinomialnb__alpha": [0.1, 1.0]}, cv=3).fit(texts, y)
    assert search.best_score_ > 0.95
    assert set(search.predict(texts[:5])) <= {"ham", "spam"}


def test_a_threshold_below_0_leaves_no_zeros():
    with pytest.raises(ValueError, match="threshold < 0"):
        BernoulliNB(binarize=-1.0).fit(sp.eye(4, format="csr"), [0, 1, 0, 1])
