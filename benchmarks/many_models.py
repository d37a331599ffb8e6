"""Many fits, searchlights and tuning, relative to loops over scikit-learn and to the machine.

`python -m benchmarks.many_models`. Times are medians; those of scikit-learn are extrapolated from a
few fits. The floor is the larger of two times: the flops of the sums at the measured rate of matrix
products, and the bytes to be read at the measured rate of copying. Both libraries must give the
same answers.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneOut,
    PredefinedSplit,
    cross_val_predict,
    permutation_test_score,
)
from sklearn.naive_bayes import GaussianNB, MultinomialNB

import genclf as gcf
from benchmarks.resampling import median, once
from benchmarks.timing import machine, peak_bytes

MEGABYTE = 2**20


class Machine(NamedTuple):
    """Flops per second of matrix products, and bytes per second of copies, read and written."""

    flops: float
    bytes: float


def measured() -> Machine:
    """The rates of this machine, in float32."""
    a = jnp.ones((2048, 2048), jnp.float32)
    product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    time_of_product, _ = median(lambda: product(a))
    b = jnp.ones(2**26, jnp.float32)
    copy = jax.jit(lambda b: b + 1)
    time_of_copy, _ = median(lambda: copy(b))
    return Machine(2 * 2048**3 / time_of_product, 2 * b.nbytes / time_of_copy)


class Table:
    """Prints a line for each case."""

    def __init__(self, of: Machine):
        """Print the head."""
        self.of = of
        print(
            f"products {of.flops / 1e9:.0f} Gflop/s, copies {of.bytes / 1e9:.0f} GB/s\n\n"
            "| case | genclf | scikit-learn | ratio | floor | floor / genclf | peak memory |\n"
            "|---|---|---|---|---|---|---|"
        )

    def add(
        self, case: str, call: Callable[[], Any], theirs: float, flops: float, read: float
    ) -> Any:
        """Time a call, print its line, and return its result."""
        ours, found = median(call)
        floor = max(flops / self.of.flops, read / self.of.bytes)
        memory = peak_bytes(call) or float("nan")
        print(
            f"| {case} | {1e3 * ours:.3g} ms | {theirs:.3g} s | {theirs / ours:,.0f} "
            f"| {1e3 * floor:.2g} ms | {floor / ours:.0%} | {memory / MEGABYTE:.0f} MB |",
            flush=True,
        )
        return found


def many_fits(table: Table) -> None:
    """100,000 data sets of 100 rows, 10 features and 3 classes, float32."""
    rng = np.random.default_rng(0)
    count, n, d, k, few = 100_000, 100, 10, 3, 300
    y = rng.integers(0, k, (count, n)).astype(np.int32)
    x = (rng.normal(size=(count, n, d)) + 0.5 * y[..., None]).astype(np.float32)
    on_device = jnp.asarray(x), jnp.asarray(y)
    models = [
        ("LDA", gcf.lda(k), LinearDiscriminantAnalysis(), d * d),
        ("QDA", gcf.qda(k), QuadraticDiscriminantAnalysis(), d * d),
        ("Gaussian naive Bayes", gcf.gaussian_nb(k), GaussianNB(var_smoothing=0), d),
    ]
    for name, clf, peer, products in models:
        loop = lambda peer=peer: [peer.fit(x[i], y[i]).predict(x[i]) for i in range(few)]  # noqa: E731
        only = lambda peer=peer: [peer.predict(x[i]) for i in range(few)]  # noqa: E731
        theirs, labels = once(loop)
        theirs -= once(only)[0]
        case, flops = f"100,000 fits, {name}", 2 * count * n * products
        call = lambda clf=clf: gcf.fit_many(clf, on_device)  # noqa: E731
        params = table.add(case, call, theirs * count / few, flops, x.nbytes)
        first = jax.tree.map(lambda a: a[:few], params)
        differ = np.asarray(gcf.predict_many(first, x[:few])) != np.array(labels)
        assert differ.mean() < 1e-3, differ.mean()  # ties in float32


def tuning(table: Table) -> None:
    """Fifty ridges in ten folds; and a nested choice of 400 pairs on the vowel data."""
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 3
    x = (rng.normal(size=(2000, 30)) + 0.3 * y[:, None]).astype(np.float32)
    folds = gcf.kfold(jax.random.key(0), y, 10)
    values = np.linspace(0.02, 1, 50)
    peer = GridSearchCV(
        LinearDiscriminantAnalysis(solver="lsqr"),
        {"shrinkage": values},
        cv=PredefinedSplit(folds),
        refit=False,
    )
    theirs, found = once(lambda: peer.fit(x, y))
    call = lambda: gcf.tune(  # noqa: E731
        lambda shrinkage: gcf.lda(3, shrinkage=shrinkage),
        {"shrinkage": values}, x, y, folds, "accuracy",
    ).table["score"]  # fmt: skip
    flops = 2 * 2000 * 30**2 + 50 * (10 * 30**3 / 3 + 2 * 2000 * 30 * 3)
    scores = table.add("10 folds x 50 shrinkages, LDA", call, theirs, flops, x.nbytes)
    size = np.bincount(folds)
    of_peer = [found.cv_results_[f"split{f}_test_score"] * size[f] for f in range(10)]
    assert np.abs(scores - np.sum(of_peer, 0) / 2000).max() < 2e-3  # of 1,001 rows two are ties

    vowel = gcf.datasets.load_vowel()
    folds = gcf.kfold(jax.random.key(0), vowel.y_train, 10)
    grid = {"pooling": np.linspace(1, 0, 20), "shrinkage": np.linspace(0.5, 0, 20)}
    make = lambda pooling, shrinkage: gcf.rda(11, pooling=pooling, shrinkage=shrinkage)  # noqa: E731
    ours, _ = median(
        lambda: (
            gcf.tune(
                make, grid, vowel.x_train, vowel.y_train, folds, "accuracy", nested=True
            ).nested.log_posterior
        )
    )
    print(f"| nested 10 x 9 folds x 400 pairs, RDA, vowel | {1e3 * ours:.3g} ms | | | | | |")


def searchlights(table: Table) -> None:
    """5,000 places of 30 features, 120 rows in 8 runs, 3 classes."""
    rng = np.random.default_rng(0)
    places, width, few, num = 5_000, 30, 20, 200
    runs = np.repeat(np.arange(8), [13, 17, 15, 14, 16, 15, 17, 13])
    y = np.concatenate([np.arange(k) % 3 for k in np.bincount(runs)])
    x = rng.normal(size=(len(y), places)).astype(np.float32)
    x[:, :500] += 0.3 * y[:, None]
    near = [rng.choice(places, width, replace=False) for _ in range(places)]
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    splits = list(PredefinedSplit(runs).split())

    def loop() -> list[float]:
        folds = [cross_val_predict(peer, x[:, near[i]], y, cv=splits) for i in range(few)]
        return [balanced_accuracy_score(y, found) for found in folds]

    theirs, scores = once(loop)
    clf, key = gcf.lda(3, shrinkage=0.1), jax.random.key(0)
    rows = len(y) * 7
    flops = 2 * places * rows * width * (width + 3)
    call = lambda: gcf.searchlight(clf, x, y, near, runs).score  # noqa: E731
    found = table.add(
        "searchlight, LDA", call, theirs * places / few, flops, places * len(y) * width * 4
    )
    assert np.abs(np.asarray(found)[:few] - np.array(scores)).max() < 0.01

    theirs, _ = once(
        lambda: permutation_test_score(
            peer, x[:, near[0]], y, cv=splits, n_permutations=few, groups=runs,
            scoring="balanced_accuracy",
        )
    )  # fmt: skip
    call = lambda: gcf.searchlight(clf, x, y, near, runs, num=num, key=key, blocks=runs).null  # noqa: E731
    flops = 2 * places * num * (rows * width * 3 + 2 * 8 * 9 * width + len(y) * width * 3)
    theirs *= places * (num + 1) / (few + 1)
    table.add("the same, 200 permutations", call, theirs, flops, 0)

    nb, peer = gcf.gaussian_nb(3), GaussianNB(var_smoothing=0)
    theirs, _ = once(lambda: [
        cross_val_predict(peer, x[:, near[i]], y, cv=splits) for i in range(few)
    ])  # fmt: skip
    call = lambda: gcf.searchlight(nb, x, y, near, runs).score  # noqa: E731
    read = places * len(y) * width * 3 * 4
    table.add("searchlight, Gaussian naive Bayes", call, theirs * places / few, 0, read)


def words(table: Table) -> None:
    """Leave-one-out of short documents: 5,572 of them, 8,000 words; scikit-learn's are sparse."""
    import scipy.sparse

    rng = np.random.default_rng(0)
    n, v, few = 5572, 8000, 40
    x, y = (rng.random((n, v)) < 0.002).astype(np.int8), rng.integers(0, 2, n)
    sparse = scipy.sparse.csr_matrix(x.astype(float))

    def loop() -> np.ndarray:
        splits = list(LeaveOneOut().split(x[:few]))
        of_row = [(np.delete(np.arange(n), test), test) for _, test in splits]
        return np.array([
            MultinomialNB().fit(sparse[train], y[train]).predict(sparse[test])[0]
            for train, test in of_row
        ])  # fmt: skip

    theirs, labels = once(loop)
    call = lambda: gcf.leave_one_out(gcf.multinomial_nb(2), x, y).log_posterior  # noqa: E731
    found = table.add("leave-one-out, multinomial", call, theirs * n / few, 2 * n * v * 2, x.nbytes)
    assert (np.asarray(found)[:few].argmax(1) == labels).all()


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(machine())
    table = Table(measured())
    many_fits(table)
    tuning(table)
    searchlights(table)
    words(table)
