"""Adult (census income): one model of mixed columns, with missing cells and few labels.

`python -m benchmarks.adult --data FOLDER`, or the folder in GENCLF_DATA; it holds adult.data.gz and
adult.test.gz of the UCI repository, which are not in this one. The model is naive Bayes: the eight
columns of words are categorical, and "?" is a missing cell; the numbers are Gaussian, or cut into
bins. The census weight, fnlwgt, is left out.
"""

import gzip
from pathlib import Path
from typing import Any

import jax
import numpy as np

import genclf as gcf
from benchmarks import labels
from genclf.discretize import codes, quantile_edges

FILES = "adult.data.gz", "adult.test.gz"
NUMBERS, WORDS = [0, 4, 12], [1, 3, 5, 6, 7, 8, 9, 13]
MONEY = [10, 11]  # mostly 0


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Cells as text, (n, 14), and whether the income is above 50,000."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [[cell.strip() for cell in line.split(",")] for line in file if "," in line]
    cells = np.array(rows)
    return cells[:, :14], np.char.startswith(cells[:, 14], ">50K").astype(np.int32)


def columns(train: np.ndarray, test: np.ndarray) -> tuple[Any, Any, tuple[int, ...]]:
    """Words as codes, -1 where missing, or not among those of the training rows; how many each."""
    values = [np.setdiff1d(train[:, j], ["?"]) for j in WORDS]

    def coded(cells: np.ndarray) -> np.ndarray:
        found = []
        for j, known in zip(WORDS, values, strict=True):
            place = np.searchsorted(known, cells[:, j]).clip(max=len(known) - 1)
            found.append(np.where(known[place] == cells[:, j], place, -1))
        return np.stack(found, 1).astype(np.int32)

    return coded(train), coded(test), tuple(map(len, values))


def run(paths: list[Path], splits: int) -> None:
    """Print the curve of each way to take the numbers."""
    (cells, y), (test_cells, y_test) = map(read, paths)
    words, test_words, sizes = columns(cells, test_cells)
    table = gcf.Categorical(sizes, missing="marginalize")
    complete = (words >= 0).all(1)

    def numbers(cells: np.ndarray, which: list[int]) -> np.ndarray:
        return cells[:, which].astype(np.float32)

    money = [codes(numbers(c, MONEY), [1.0, 2000.0, 5000.0]) for c in (cells, test_cells)]
    edges = quantile_edges(numbers(cells, NUMBERS), num_bins=8)
    prior = gcf.NormalInverseWishart()
    ways = {
        "Gaussian": (
            gcf.Gaussian("diag", prior=prior),
            [numbers(c, NUMBERS) for c in (cells, test_cells)],
        ),
        "in 8 bins": (
            gcf.Categorical(8),
            [codes(numbers(c, NUMBERS), edges) for c in (cells, test_cells)],
        ),
    }
    for name, (family, given) in ways.items():
        blocks = {"words": table, "numbers": family, "money": gcf.Categorical(4)}
        clf = gcf.Classifier(gcf.Product(blocks), 2, class_alpha=1.0)
        train, test = (
            {"words": w, "numbers": x, "money": m}
            for w, x, m in zip((words, test_words), given, money, strict=True)
        )
        all_labels = np.asarray(
            labels.scores(gcf.fit(clf, train, y), test, jax.numpy.asarray(y_test))
        )
        rest = labels.curves(
            clf,
            (train, y),
            (test, y_test),
            (10, 30, 100, 300, 1000, 3000, 10000),
            (1.0, 0.1, 0.01, 0.001),
            splits,
            complete=complete,
        )
        shown = ", ".join(f"{m} {v:.4f}" for m, v in zip(labels.METRICS, all_labels, strict=True))
        labels.report(f"Adult, numbers {name}; with all {len(y)} labels: {shown}", rest)


if __name__ == "__main__":
    labels.main(__doc__, FILES, run)
