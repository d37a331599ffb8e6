"""Reuters R8: eight classes of news, with few labels.

`python -m benchmarks.reuters --data FOLDER`, or the folder in GENCLF_DATA; it holds
r8-train-all-terms.txt.gz and r8-test-all-terms.txt.gz (Cardoso-Cachopo; for research only, so they
are not in this repository). Multinomial naive Bayes on the words that occur in at least three of
the training documents.
"""

import gzip
from pathlib import Path

import numpy as np

import genclf as gcf
from benchmarks import labels
from genclf.text import learn_vocabulary

FILES = "r8-train-all-terms.txt.gz", "r8-test-all-terms.txt.gz"


def read(path: Path) -> tuple[list[str], list[str]]:
    """Documents and their classes."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t", maxsplit=1) for line in file]
    return [text for _, text in rows], [name for name, _ in rows]


def run(paths: list[Path], splits: int) -> None:
    """Print the curve."""
    (texts, names), (test_texts, test_names) = map(read, paths)
    words = learn_vocabulary(texts, min_df=3)
    classes, y = np.unique(names, return_inverse=True)
    train = words.counts(texts).toarray(), y.astype(np.int32)
    y_test = np.searchsorted(classes, test_names).astype(np.int32)
    test = words.counts(test_texts).toarray(), y_test
    clf = gcf.multinomial_nb(len(classes))
    title = f"R8: {len(y)} documents, {len(words)} words, {len(y_test)} to test on, {splits} splits"
    sizes = (10, 20, 40, 80, 160, 320, 640, 1280)
    labels.report(title, labels.curves(clf, train, test, sizes, (1.0, 0.1, 0.01), splits))


if __name__ == "__main__":
    labels.main(__doc__, FILES, run)
