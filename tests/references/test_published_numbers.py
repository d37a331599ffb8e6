"""Counts of errors that others have published or computed, from the public verbs alone."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB

import genclf as gcf

PRESETS = {"LDA": gcf.lda, "QDA": gcf.qda, "Gaussian NB": gcf.gaussian_nb}
TABLES = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer}


def errors(params, x, y):
    return int((np.asarray(gcf.predict(params, x)) != y).sum())


@pytest.mark.parametrize(
    ("model", "train", "test"),
    [("LDA", 167, 257), ("QDA", 6, 244), ("Gaussian NB", 148, 249)],  # of 528 and of 462
)
def test_vowel(model, train, test, dtype):
    vowel = gcf.datasets.load_vowel()
    x = vowel.x_train.astype(dtype)
    params = gcf.fit(PRESETS[model](11), x, vowel.y_train)
    assert errors(params, x, vowel.y_train) == train
    assert errors(params, vowel.x_test.astype(dtype), vowel.y_test) == test


@pytest.mark.slow("breast_cancer-expected2")
@pytest.mark.parametrize(
    ("name", "expected"),
    [("iris", (3, 3, 6)), ("wine", (0, 1, 2)), ("breast_cancer", (20, 14, 34))],
)
def test_resubstitution(name, expected, x64):
    x, y = TABLES[name](return_X_y=True)
    found = [errors(gcf.fit(preset(int(y.max()) + 1), x, y), x, y) for preset in PRESETS.values()]
    assert tuple(found) == expected


def test_the_peer_smooths_breast_cancer():
    """33 is quoted for Gaussian naive Bayes; it is that of scikit-learn's added variance."""
    x, y = load_breast_cancer(return_X_y=True)
    wrong = [
        int((GaussianNB(var_smoothing=added).fit(x, y).predict(x) != y).sum())
        for added in (1e-9, 0.0)
    ]
    assert wrong == [33, 34]


@pytest.mark.slow(
    but=(
        "iris-Gaussian NB-7",
        "wine-LDA-2",
    )
)
@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        ("iris", "LDA", 3),
        ("iris", "QDA", 4),
        ("iris", "Gaussian NB", 7),
        ("wine", "LDA", 2),
        ("wine", "QDA", 1),
        ("wine", "Gaussian NB", 4),
        ("breast_cancer", "LDA", 24),
        ("breast_cancer", "QDA", 25),
        ("vowel", "LDA", 201),
    ],
)
def test_leave_one_out(name, model, expected, x64):
    if name == "vowel":
        vowel = gcf.datasets.load_vowel()
        x, y = vowel.x_train, vowel.y_train
    else:
        x, y = TABLES[name](return_X_y=True)
    clf = PRESETS[model](int(y.max()) + 1)
    found = gcf.leave_one_out(clf, x, y).log_posterior
    assert int((np.asarray(found).argmax(1) != y).sum()) == expected


@cache
def spam():
    data = gcf.datasets.load_sms_spam()
    words = gcf.text.learn_vocabulary(data.texts)
    return words.counts(data.texts), data.y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clf", "expected"),
    [
        (gcf.multinomial_nb(2), 0.9815),
        (gcf.Classifier(gcf.Bernoulli(threshold=0.0), 2), 0.9821),
    ],
    ids=["multinomial", "Bernoulli"],
)
def test_sms_spam(clf, expected):
    """Ten folds over one vocabulary, as the numbers were made."""
    x, y = spam()
    folds = StratifiedKFold(10, shuffle=True, random_state=0).split(x, y)
    right = 0
    for train, test in folds:
        params = gcf.fit(clf, x[train], y[train])
        right += len(test) - errors(params, x[test], y[test])
    assert round(right / len(y), 4) == expected


DATA = os.environ.get("GENCLF_DATA")


@pytest.mark.skipif(not DATA, reason="GENCLF_DATA does not name a folder of data sets")
@pytest.mark.parametrize(
    ("clf", "expected"),
    [
        (gcf.multinomial_nb(8), 0.9539),
        (gcf.Classifier(gcf.Bernoulli(threshold=0.0), 8), 0.7889),
    ],
    ids=["multinomial", "Bernoulli"],
)
def test_reuters_r8(clf, expected):
    import gzip

    def read(part):
        path = Path(str(DATA)) / "reuters-r8" / f"r8-{part}-all-terms.txt.gz"
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        names, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
        return list(texts), np.unique(names, return_inverse=True)[1]

    (train, y), (test, y_test) = read("train"), read("test")
    # The numbers are for terms split at spaces, one-letter words included.
    index = {word: j for j, word in enumerate(sorted({w for t in train for w in t.split()}))}

    def counts(texts):
        x = np.zeros((len(texts), len(index)), np.float32)
        for n, text in enumerate(texts):
            np.add.at(x[n], [index[w] for w in text.split() if w in index], 1)
        return x

    params = gcf.fit(clf, counts(train), y)
    assert round(1 - errors(params, counts(test), y_test) / len(y_test), 4) == expected
