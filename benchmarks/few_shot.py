"""Log-losses of heads for new classes from one row each, with what old classes tell.

`python -m benchmarks.few_shot FILE`: a CSV whose last column is the class, such as the letter
recognition data of UCI (lines that begin with @ are skipped). In each of 10 repetitions 16 random
classes are old ones, and one row of each other class is given. Then pairs of rows of new classes
are told apart: the equal error rate and the log-loss of "one class or two".
"""

import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

import genclf as gcf

REPETITIONS, OLD, PAIRS = 10, 16, 1000


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
    learned = two_covariance(x[old], number[old])
    few = replace(learned, num_classes=num, inference="predictive")
    heads["two-covariance model"] = gcf.fit(few, rows[given], np.arange(num))
    at = np.arange(len(asked)), labels[asked]
    return {
        name: -float(gcf.log_posterior(head, rows[asked])[at].mean())
        for name, head in heads.items()
    }


def two_covariance(x: np.ndarray, y: np.ndarray) -> gcf.Classifier:
    """The two-covariance model of highest evidence of these classes."""
    family = gcf.Gaussian(shared=True, prior=gcf.TwoCovariance())
    return gcf.fit_prior(gcf.Classifier(family, OLD), x, y).classifier


def pairs(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> dict[str, tuple]:
    """Equal error rate and log-loss of pairs of rows of new classes, half of them of one class."""
    order = rng.permutation(y.max() + 1)
    number = np.argsort(order)[y]
    old, new = number < OLD, np.flatnonzero(number >= OLD)
    clf = two_covariance(x[old], number[old])
    first = rng.choice(new, PAIRS)
    mates = [
        rng.choice(new[(number[new] == number[i]) == (j % 2 == 0)]) for j, i in enumerate(first)
    ]
    a, b, same = x[first], x[np.array(mates)], np.arange(PAIRS) % 2 == 0
    sets = [gcf.stats(replace(clf, num_classes=PAIRS), rows, np.arange(PAIRS)) for rows in (a, b)]
    ratio = np.diagonal(gcf.bayes.same_class(clf, *sets))
    by_hand = plda(x[old], number[old], a, b)
    euclidean = -((a - b) ** 2).sum(1)
    return {
        "genclf": (error_rate(ratio, same), loss(ratio, same)),
        "NumPy": (error_rate(by_hand, same), loss(by_hand, same)),
        "distance alone": (error_rate(euclidean, same), np.nan),
    }


def plda(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Log-ratios by NumPy alone: 2,000 steps of plain EM, and Gaussians of pairs of rows."""
    classes, n = np.unique(y, return_counts=True)
    means = np.array([x[y == k].mean(0) for k in classes])
    scatter = (x - means[y]).T @ (x - means[y])
    mean, within = means.mean(0), scatter / len(x)
    between = np.cov(means.T)
    for _ in range(2000):
        gains = [between @ np.linalg.inv(between + within / k) for k in n]
        each = [between - gain @ between for gain in gains]
        moved = np.einsum("kij,kj->ki", gains, means - mean)
        rest = means - mean - moved
        within = (scatter + (n[:, None] * rest).T @ rest + np.tensordot(n, each, 1)) / len(x)
        mean, step = mean + moved.mean(0), moved.mean(0)
        moved = moved - step
        between = (moved.T @ moved + np.sum(each, 0)) / len(n)
    total = between + within
    log_of = lambda rows, matrix: (  # noqa: E731
        -0.5 * np.linalg.slogdet(matrix)[1]
        - 0.5 * np.einsum("ni,ij,nj->n", rows, np.linalg.inv(matrix), rows)
    )
    both = np.block([[total, between], [between, total]])
    return (
        log_of(np.hstack([a, b]) - np.tile(mean, 2), both)
        - log_of(a - mean, total)
        - log_of(b - mean, total)
    )


def error_rate(score: np.ndarray, same: np.ndarray) -> float:
    """Where as many pairs of one class are rejected as pairs of two are accepted."""
    order = np.argsort(score)
    rejected = np.cumsum(same[order]) / same.sum()
    accepted = 1 - np.cumsum(~same[order]) / (~same).sum()
    return rejected[np.argmin(np.abs(rejected - accepted))]


def loss(ratio: np.ndarray, same: np.ndarray) -> float:
    """The log-loss, if half of the pairs are of one class."""
    return np.logaddexp(0, np.where(same, -1, 1) * ratio).mean()


def main() -> None:
    """Print the mean log-loss of each head, its standard deviation, and the figures of pairs."""
    jax.config.update("jax_enable_x64", True)
    x, y = read(sys.argv[1])
    rng = np.random.default_rng(0)
    each = [losses(x, y, rng) for _ in range(REPETITIONS)]
    print("| head, one row a class | log-loss | standard deviation |\n|---|---|---|")
    for name in each[0]:
        values = [found[name] for found in each]
        print(f"| {name} | {np.mean(values):.2f} | {np.std(values):.2f} |")
    each = [pairs(x, y, rng) for _ in range(REPETITIONS)]
    print("\n| pairs of new classes | equal error rate | log-loss |\n|---|---|---|")
    for name in each[0]:
        rate, log_loss = np.mean([found[name] for found in each], 0)
        print(f"| {name} | {rate:.4f} | {log_loss:.4f} |")


if __name__ == "__main__":
    main()
