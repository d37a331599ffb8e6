"""Typicality beside the scores that it needs, calibration beside scikit-learn, many data sets.

`python -m benchmarks.membership`; with a FILE of CSV whose last column is the class (lines that
begin with @ are skipped), the log-losses before and after calibration, the shares of members with
p-values below 0.05 and 0.01, and the errors of estimated class shares, on a random third of it.
`--save ARRAYS` writes the posteriors of that file, for other packages to calibrate.
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.naive_bayes import GaussianNB

import genclf as gcf
from benchmarks.few_shot import read
from benchmarks.timing import machine, seconds
from genclf import sklearn as estimators

MODELS = {"LDA": gcf.lda, "QDA": gcf.qda, "Gaussian NB": gcf.gaussian_nb}
SHIFTS, SIZE = 100, 500


def beside_scores(n: int = 10_000, d: int = 512, num_classes: int = 100) -> None:
    """Typicality of all rows and classes, and the log-densities that it is computed from."""
    rng = np.random.default_rng(0)
    y = np.arange(2 * n) % num_classes
    x = jnp.asarray(rng.normal(size=(2 * n, d)) + y[:, None] % 7, jnp.float32)
    clf, new = gcf.lda(num_classes), jnp.asarray(x[n:])
    y = jnp.asarray(y)
    params = gcf.fit(clf, x, y)
    folds = np.arange(2 * n) % 5
    test = gcf.typicality_test(clf, gcf.stats(clf, x, y))
    by_folds = gcf.typicality_test(clf, gcf.cross_validate(clf, x, y, folds, members=True))
    scores = seconds(lambda: gcf.log_joint(params, new))
    for name, call, times in (
        ("f", lambda: test(new), 1),
        ("folds (5)", lambda: by_folds(new), 5),
        ("distance", lambda: gcf.distance(params, new), 1),
    ):
        took = seconds(call)
        print(
            f"{name}, {n} rows, d = {d}, K = {num_classes}: {1e3 * took:.0f} ms, "
            f"{took / scores / times:.2f} of the {times} x {1e3 * scores:.0f} ms of log_joint"
        )


def many(num: int = 1000, n: int = 120, d: int = 8) -> None:
    """A thousand data sets under vmap, and a loop over some of them."""
    keys = jax.random.split(jax.random.key(0), num)
    y, folds, clf = jnp.arange(n) % 3, np.arange(n) // 3 % 5, gcf.qda(3)

    def data(key: Any) -> Any:
        return jax.random.normal(key, (2, n, d)) + 0.5 * y[:, None]

    def by_f(key: Any) -> Any:
        learned, new = data(key)
        return gcf.typicality(clf, gcf.stats(clf, learned, y), new)

    def by_folds(key: Any) -> Any:
        learned, new = data(key)
        return gcf.typicality(clf, gcf.cross_validate(clf, learned, y, folds, members=True), new)

    def calibrated(key: Any) -> Any:
        return gcf.recalibrate(gcf.cross_validate(clf, data(key)[0], y, folds), y)

    for name, one in (("f", by_f), ("folds", by_folds), ("recalibrate", calibrated)):
        each, single = jax.jit(jax.vmap(one)), jax.jit(one)
        together = seconds(lambda each=each: each(keys), repeats=3)
        alone = seconds(lambda single=single: [single(key) for key in keys[:50]], repeats=3)
        print(
            f"{num} data sets, {name}: {1e3 * together:.0f} ms, one after the other "
            f"{1e3 * alone * num / 50:.0f} ms, ratio {alone * num / 50 / together:.1f}"
        )


def beside_sklearn(n: int = 20_000, d: int = 30, num_classes: int = 5) -> None:
    """Fits with ten folds and a temperature."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % num_classes
    x = rng.normal(size=(n, d)) + y[:, None] % 3 * rng.random(d)
    peer = CalibratedClassifierCV(GaussianNB(), method="temperature", cv=10, ensemble=False)
    theirs = seconds(lambda: bool(peer.fit(x, y)), repeats=3)
    for name, given in (
        ("temperature", {"calibrate": "temperature"}),
        ("bias", {"calibrate": "bias"}),
        ("bias and members", {"calibrate": "bias", "conformal": True}),
    ):
        ours = seconds(
            lambda given=given: bool(estimators.GaussianNB(**given).fit(x, y)), repeats=3
        )
        print(
            f"GaussianNB, {name}, n = {n}: {1e3 * ours:.0f} ms; scikit-learn's temperature "
            f"{1e3 * theirs:.0f} ms, ratio {theirs / ours:.1f}"
        )


def on_file(path: str, save: str | None) -> None:
    """Log-losses, members below two levels, and errors of class shares, on a random third."""
    x, y = read(path)
    x = x.astype(np.float32)
    order, num_classes = np.random.default_rng(0).permutation(len(y)), int(y.max()) + 1
    cut = round(len(y) * 4435 / 6435)
    train, test = order[:cut], order[cut:]
    folds = gcf.kfold(jax.random.key(0), y[train], 10)
    rng = np.random.default_rng(1)
    drawn = [
        rng.choice(num_classes, SIZE, p=rng.dirichlet(np.ones(num_classes))) for _ in range(SHIFTS)
    ]
    rows = [np.array([rng.choice(test[y[test] == k]) for k in labels]) for labels in drawn]
    true = np.stack([np.bincount(labels, minlength=num_classes) / SIZE for labels in drawn])
    in_order = np.sort(test)
    kept: dict[str, np.ndarray] = {"y": y[train], "y_test": y[in_order], "folds": folds}
    kept |= {"true": true, "rows": np.searchsorted(in_order, np.stack(rows))}
    for name, make in MODELS.items():
        clf = make(num_classes)
        cv = gcf.cross_validate(clf, x[train], y[train], folds, members=True)
        params = gcf.fit(clf, x[train], y[train])
        of = {bias: gcf.recalibrate(cv, y[train], bias=bias) for bias in (False, True)}
        models = [params, *(gcf.with_calibration(params, of[bias]) for bias in (False, True))]
        losses = [
            float(gcf.score(gcf.log_posterior(m, x[test]), y[test], "log_loss")) for m in models
        ]
        p = np.asarray(gcf.typicality(clf, cv, x[test]))[np.arange(len(test)), y[test]]
        how = {"method": "confusion", "learned": cv, "y": y[train]}
        found = {
            "fitted": [gcf.adapt_prior(params, x[r]) for r in rows],
            "calibrated": [gcf.adapt_prior(models[2], x[r]) for r in rows],
            "confusion": [gcf.adapt_prior(params, x[r], **how) for r in rows],
            "both": [gcf.adapt_prior(models[2], x[r], **how) for r in rows],
        }
        errors = {
            way: float(np.abs(np.exp([a.params.log_prior for a in each]) - true).mean())
            for way, each in found.items()
        }
        below = ", ".join(f"{share} {(p < share).mean():.4f}" for share in (0.05, 0.01))
        print(
            f"{name}: log-loss {losses[0]:.3f}, temperature {losses[1]:.3f}, bias {losses[2]:.3f}; "
            f"members below {below}; shares off by",
            ", ".join(f"{way} {error:.4f}" for way, error in errors.items()),
        )
        kept[f"{name}, held out"] = np.asarray(cv.log_posterior)
        kept[f"{name}, test"] = np.asarray(gcf.log_posterior(params, x[in_order]))
    if save is not None:
        np.savez(Path(save), **kept)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--save")
    options = parser.parse_args()
    print(machine())
    if options.file:
        on_file(options.file, options.save)
    else:
        beside_scores()
        many()
        beside_sklearn()
