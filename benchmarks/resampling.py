"""Times of cross-validation, leave-one-out and permutation tests, and of scikit-learn's refits.

`python -m benchmarks.resampling`. Times are medians; those of scikit-learn are of one run, and its
thousand permutations are extrapolated from 20. Both libraries must give the same answers.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import (
    LeaveOneOut,
    PredefinedSplit,
    cross_val_predict,
    permutation_test_score,
)
from sklearn.naive_bayes import GaussianNB

import genclf as gcf
from benchmarks.timing import machine

REPEATS, NUM, FEW = 9, 1_000, 20


def median(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call once it is compiled, and its result."""
    jax.block_until_ready(function())
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        found = function()
        jax.block_until_ready(found)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), found


def once(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and its result."""
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def show(case: str, ours: float, theirs: float) -> None:
    """One line of the table."""
    print(f"| {case} | {1e3 * ours:.2f} ms | {theirs:.2f} s | {theirs / ours:,.0f} |", flush=True)


def leave_one_out() -> None:
    """The breast cancer data: 569 rows of 30 features, in float64."""
    x, y = load_breast_cancer(return_X_y=True)
    models = [
        ("LDA", gcf.lda(2), LinearDiscriminantAnalysis()),
        ("Gaussian naive Bayes", gcf.gaussian_nb(2), GaussianNB(var_smoothing=0)),
    ]
    for name, clf, peer in models:
        ours, found = median(lambda clf=clf: gcf.leave_one_out(clf, x, y).log_posterior)
        theirs, expected = once(lambda peer=peer: cross_val_predict(peer, x, y, cv=LeaveOneOut()))
        assert (np.asarray(found).argmax(1) == expected).all()
        show(f"leave-one-out, {name}", ours, theirs)
    ours, _ = median(lambda: gcf.leave_one_out(gcf.qda(2), x, y).log_posterior)
    print(f"| leave-one-out, QDA | {1e3 * ours:.2f} ms | an error: not of full rank | |")


def ten_folds_and_permutations() -> None:
    """200 rows of 20 features, in float32."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    x = (rng.normal(size=(200, 20)) + 0.2 * y[:, None]).astype(np.float32)
    folds, clf = gcf.kfold(jax.random.key(0), y, 10), gcf.lda(2)
    peer, splits = LinearDiscriminantAnalysis(), list(PredefinedSplit(folds).split())
    ours, cv = median(lambda: gcf.cross_validate(clf, x, y, folds).log_posterior)
    theirs, expected = once(lambda: cross_val_predict(peer, x, y, cv=splits))
    assert (np.asarray(cv).argmax(1) == expected).all()
    show("10 folds, LDA", ours, theirs)

    def test() -> Any:
        key = jax.random.key(1)
        return gcf.permutation_test(key, clf, x, y, folds, "accuracy", num=NUM).null

    ours, null = median(test)
    theirs, (_, of_peer, _) = once(
        lambda: permutation_test_score(
            peer, x, y, cv=splits, n_permutations=FEW, scoring="accuracy", random_state=0
        )
    )
    # Other permutations: the means agree within their errors.
    apart = np.asarray(null).mean() - of_peer.mean()
    assert abs(apart) < 4 * of_peer.std() * (1 / FEW + 1 / NUM) ** 0.5
    show(f"{NUM:,} permutations x 10 folds, LDA", ours, theirs * (NUM + 1) / (FEW + 1))


def estimated_shrinkages() -> None:
    """200 permutations in 500 neighbourhoods of 30 features, 200 rows, 5 folds, in float32.

    The peer of an estimated intensity is a fixed one towards the same target.
    """
    rng = np.random.default_rng(0)
    n, places = 200, np.arange(500)
    y, folds = np.arange(n) % 2, np.arange(n) // 2 % 5
    x = rng.normal(size=(n, len(places))).astype(np.float32)
    near = [np.argsort(abs(places - place), kind="stable")[:30].tolist() for place in places]
    for target, methods in (
        ("identity", ("oas", "ledoit-wolf")),
        ("diagonal", ("oas", "ledoit-wolf", "james-stein")),
    ):
        fixed = None
        for shrinkage in (0.1, *methods):
            family = gcf.Gaussian(shared=True, shrinkage=shrinkage, target=target)
            given = gcf.Classifier(family, 2), x, y, near, folds
            test = partial(gcf.searchlight, *given, num=200, key=jax.random.key(1))
            seconds, _ = median(test)
            fixed = fixed or seconds
            print(
                f"| {target} | {shrinkage} | {seconds:.2f} s | {seconds / fixed:.2f} |", flush=True
            )


def generalisation() -> None:
    """200 rows of 60 features at 100 times: 10,000 pairs of times, in 5 folds."""
    rng = np.random.default_rng(0)
    n, times, num_folds = 200, 100, 5
    y = np.arange(n) % 2
    x = rng.normal(size=(n, 60, times)).astype(np.float32)
    x[:, :10, 30:60] += 0.4 * y[:, None, None]
    folds, clf, peer = np.arange(n) // 2 % num_folds, gcf.lda(2), LinearDiscriminantAnalysis()
    ours, _ = median(lambda: gcf.generalise(clf, x, y, folds, "accuracy").score)

    def first_fold() -> Any:
        held, found = folds == 0, np.empty((times, times))
        for s in range(times):
            peer.fit(x[~held, :, s], y[~held])
            found[s] = [peer.score(x[held, :, t], y[held]) for t in range(times)]
        return found

    theirs, expected = once(first_fold)
    found = gcf.generalise(clf, x, y, np.where(folds == 0, 0, -1), "accuracy").score
    assert np.abs(np.asarray(found) - expected).max() < 1e-6
    show("100 x 100 times, 5 folds, LDA", ours, theirs * num_folds)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(machine())
    print("| case | genclf | scikit-learn | ratio |\n|---|---|---|---|")
    with jax.enable_x64(True):
        leave_one_out()
    ten_folds_and_permutations()
    generalisation()
    print(
        "\n| target | shrinkage | 200 permutations x 500 neighbourhoods | of a fixed one |\n"
        + "|---" * 4
    )
    estimated_shrinkages()
