"""Times of the estimators and scikit-learn's: first calls, small and large data, a grid search.

`python -m benchmarks.estimators` prints milliseconds: of the first call in a new process, after the
imports, and medians without the first call.
"""

import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn import discriminant_analysis, linear_model, naive_bayes
from sklearn.model_selection import GridSearchCV

from benchmarks.timing import machine
from genclf import sklearn as estimators

PAIRS: list[tuple[Any, Any, bool]] = [
    (estimators.LinearDiscriminant(), discriminant_analysis.LinearDiscriminantAnalysis(), False),
    (
        estimators.QuadraticDiscriminant(),
        discriminant_analysis.QuadraticDiscriminantAnalysis(),
        False,
    ),
    (estimators.GaussianNB(), naive_bayes.GaussianNB(), False),
    (estimators.BernoulliNB(), naive_bayes.BernoulliNB(), False),
    (estimators.MultinomialNB(), naive_bayes.MultinomialNB(), True),
    (estimators.CategoricalNB(), naive_bayes.CategoricalNB(), True),
    (estimators.SoftmaxRegression(), linear_model.LogisticRegression(), False),
]
GRIDS = [
    (PAIRS[0][0], {"shrinkage": [0.1, 0.2, 0.3, 0.4, 0.5]}, "lsqr", "shrinkage"),
    (PAIRS[1][0], {"shrinkage": [0.1, 0.2, 0.3, 0.4, 0.5]}, None, "reg_param"),
    (PAIRS[2][0], {"ridge": [1e-9, 1e-3, 0.01, 0.1, 1.0]}, None, "var_smoothing"),
]


def milliseconds(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """The median after the first call, and the first call."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:]), times[0]


def rows(n: int, d: int, counts: bool) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, or counts 0..4, of three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    x = rng.integers(0, 5, (n, d)) if counts else rng.normal(size=(n, d)) + 0.3 * y[:, None]
    return x, y


_FIRST = """
import time
from sklearn.datasets import load_iris
from {module} import {name}
x, y = load_iris(return_X_y=True)
start = time.perf_counter()
{name}().fit(x, y).predict_proba(x)
print(1e3 * (time.perf_counter() - start))
"""


def first_calls() -> None:
    """Print the first fit and probabilities on iris, each in a new process."""
    print("\n| first fit and predict_proba on iris | genclf | scikit-learn |\n|---|---|---|")
    for pair in PAIRS[:-1]:
        times = []
        for one in pair[:2]:
            kind = type(one)
            program = _FIRST.format(module=kind.__module__, name=kind.__name__)
            found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
            times.append(float(found.stdout))
        print(f"| {type(pair[0]).__name__} | {times[0]:.1f} | {times[1]:.1f} |", flush=True)


def compare(n: int, d: int, repeats: int) -> None:
    """Print a line for each pair."""
    print(f"\n| n = {n:,}, d = {d} | fit | | speed | predict_proba | | speed | one row | | speed |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for ours, theirs, counts in PAIRS:
        x, y = rows(n, d, counts)
        cells = [type(ours).__name__]
        for call, times in (
            (lambda one, x=x, y=y: one.fit(x, y), repeats),
            (lambda one, x=x: one.predict_proba(x), repeats),
            (lambda one, x=x: one.predict_proba(x[:1]), 30 * min(repeats, 30)),
        ):
            a = milliseconds(lambda call=call, one=ours: call(one), times)[0]
            b = milliseconds(lambda call=call, one=theirs: call(one), times)[0]
            cells += [f"{a:.3g}", f"{b:.3g}", f"{b / a:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


def grids() -> None:
    """Print a line for each grid search of 25 fits."""
    print("\n| grid search, 25 fits | first | then | scikit-learn | speed |\n|---|---|---|---|---|")
    x, y = rows(1_000, 20, False)
    search = lambda one, grid: GridSearchCV(one, grid, cv=5).fit(x, y)  # noqa: E731
    for (ours, grid, solver, name), (_, theirs, _) in zip(GRIDS, PAIRS, strict=False):
        if solver:
            theirs = type(theirs)(solver=solver)
        then, first = milliseconds(partial(search, ours, grid), 5)
        other, _ = milliseconds(partial(search, theirs, {name: next(iter(grid.values()))}), 5)
        label = type(ours).__name__
        print(f"| {label} | {first:.0f} | {then:.0f} | {other:.0f} | {other / then:.2f} |")


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    print(machine())
    first_calls()
    compare(150, 4, 300)
    compare(1_000, 20, 100)
    compare(10_000, 50, 20)
    grids()
    compare(500_000, 64, 3)


if __name__ == "__main__":
    main()
