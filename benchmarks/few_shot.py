"""Log-losses of heads for new classes from one row each, with what old classes tell.

`python -m benchmarks.few_shot FILE`: a CSV whose last column is the class, such as the letter
recognition data of UCI (lines that begin with @ are skipped). In each of 10 repetitions 16 random
classes are old ones, and one row of each other class is given.
"""

import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

import genclf as gcf

REPETITIONS, OLD = 10, 16


def read(path: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows and the number of each row's class."""
    lines = [line for line in Path(path).read_text().splitlines() if line and line[0] != "@"]
    cells = [line.split(",") for line in lines]
    x = np.array([[float(cell) for cell in row[:-1]] for row in cells])
    return x, np.unique([row[-1].strip() for row in cells], return_inverse=True)[1]


def losses(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    """The log-loss of each head in one repetition."""
    order = rng.permutation(y.max() + 1)
    number = np.argsort(order)[y]
    old, new = number < OLD, number >= OLD
    num = len(order) - OLD
    rows, labels = x[new], number[new] - OLD
    given = np.array([rng.choice(np.flatnonzero(labels == k)) for k in range(num)])
    asked = np.setdiff1d(np.arange(len(rows)), given)
    within = gcf.fit(gcf.lda(OLD), x[old], number[old]).conditional
    one_for_all = gcf.lda(OLD).family
    covariances = {
        "nearest mean, identity": np.eye(x.shape[1]),
        "nearest mean, mean variance": np.eye(x.shape[1])
        * (np.trace(within.covariances[0]) / x.shape[1]),
        "shared covariance": within.covariances[0],
    }
    heads = {
        name: gcf.ClassifierParams.of(
            np.full(num, 1 / num), gcf.GaussianParams.of(rows[given], matrix)
        )
        for name, matrix in covariances.items()
    }
    for name, shared in {"prior, own covariances": False, "prior, one covariance": True}.items():
        family = replace(one_for_all, shared=shared, prior=gcf.NormalInverseWishart())
        learned = gcf.fit_prior(gcf.Classifier(family, OLD), x[old], number[old]).classifier
        few = gcf.Classifier(learned.family, num, inference="predictive")
        heads[name] = gcf.fit(few, rows[given], np.arange(num))
    at = np.arange(len(asked)), labels[asked]
    return {
        name: -float(gcf.log_posterior(head, rows[asked])[at].mean())
        for name, head in heads.items()
    }


def main() -> None:
    """Print the mean log-loss of each head, and its standard deviation over repetitions."""
    jax.config.update("jax_enable_x64", True)
    x, y = read(sys.argv[1])
    rng = np.random.default_rng(0)
    each = [losses(x, y, rng) for _ in range(REPETITIONS)]
    print("| head, one row a class | log-loss | standard deviation |\n|---|---|---|")
    for name in each[0]:
        values = [found[name] for found in each]
        print(f"| {name} | {np.mean(values):.2f} | {np.std(values):.2f} |")


if __name__ == "__main__":
    main()
