"""Scores by the number of labels: of a fit to the labelled rows, and of EM with all rows."""

import argparse
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import genclf as gcf

METRICS = "log-loss", "error", "error per class"


def folder(doc: str | None) -> tuple[Path | None, int]:
    """Where the data are, by `--data` or GENCLF_DATA, and the number of splits."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--data", default=os.environ.get("GENCLF_DATA"), help="folder of the data")
    parser.add_argument("--splits", type=int, default=20, help="random choices of the labels")
    given = parser.parse_args()
    return None if given.data is None else Path(given.data), given.splits


def find(root: Path | None, *names: str) -> list[Path] | None:
    """The files, in the folder or below it; None, after a line that says so, where one is not."""
    found = [] if root is None else [next(iter(sorted(root.rglob(name))), None) for name in names]
    if not found or None in found:
        where = (
            "no folder given: --data FOLDER or GENCLF_DATA" if root is None else f"not in {root}"
        )
        print(f"skipped: {', '.join(names)} ({where})")
        return None
    return [path for path in found if path is not None]


def choose(key: jax.Array, y: jax.Array, num_classes: int, n: jax.Array) -> jax.Array:
    """Which n rows have labels: at random, with at least one of each class."""
    place = jax.random.uniform(key, y.shape)
    in_class = y[None] == jnp.arange(num_classes)[:, None]
    first = jnp.where(in_class, place[None], 2).argmin(1)
    place = place.at[first].add(-1)
    return jnp.argsort(jnp.argsort(place)) < n


def scores(params: gcf.ClassifierParams, x: Any, y: jax.Array) -> jax.Array:
    """Log-loss, error, and the mean over classes of the error in each."""
    log_p = gcf.log_posterior(params, x)
    wrong = (log_p.argmax(1) != y).astype(log_p.dtype)
    hot = jax.nn.one_hot(y, log_p.shape[1])
    own = jnp.where(hot > 0, log_p, 0).sum(1)
    return jnp.stack([-own.mean(), wrong.mean(), (wrong @ hot / hot.sum(0)).mean()])


def curves(
    clf: gcf.Classifier,
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    sizes: tuple[int, ...],
    shares: tuple[float, ...],
    splits: int,
    complete: Any = None,
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """For each number of labels: way -> scores (splits, 3).

    Ways are a fit to the labelled rows, EM with each of `shares` for the weight of the others, and,
    where `complete` says which rows have no missing cell, a fit to the labelled ones of those.
    """
    x, y = jax.tree.map(jnp.asarray, train)
    x_test, y_test = jax.tree.map(jnp.asarray, test)

    @jax.jit
    def run(keys: jax.Array, n: jax.Array) -> dict[str, jax.Array]:
        def one(key: jax.Array) -> dict[str, jax.Array]:
            key_choice, key_em = jax.random.split(key)
            seen = jnp.where(choose(key_choice, y, clf.num_classes, n), y, -1)
            score = partial(scores, x=x_test, y=y_test)
            found = {}
            if complete is not None:
                found["complete rows"] = score(gcf.fit(clf, x, jnp.where(complete, seen, -1)))
            found["labelled rows"] = score(gcf.fit(clf, x, seen))
            for share in shares:
                em = gcf.em(clf, x, seen, key=key_em, unlabelled_weight=share, max_steps=200)
                found[f"EM, λ = {share:g}"] = score(em.params)
            return found

        return jax.lax.map(one, keys)

    keys = jax.random.split(jax.random.key(0), splits)
    ways = ["complete rows", "labelled rows", *(f"EM, λ = {share:g}" for share in shares)]
    for size in sizes:
        found = run(keys, jnp.int32(size))
        yield size, {way: np.asarray(found[way]) for way in ways if way in found}


def report(title: str, found: Iterator[tuple[int, dict[str, np.ndarray]]]) -> None:
    """Print the means over splits, with standard errors."""
    print(f"\n{title}")
    print("labels  way            " + "".join(f"{name:>22s}" for name in METRICS))
    for size, ways in found:
        for way, values in ways.items():
            cells = (f"{m:13.4f} ({e:.4f})" for m, e in zip(*mean_and_error(values), strict=True))
            print(f"{size:6d}  {way:15s}" + " ".join(cells), flush=True)


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over the leading axis."""
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values))


def main(doc: str | None, names: tuple[str, ...], run: Callable[[list[Path], int], None]) -> None:
    """Run a benchmark whose data may not be there."""
    root, splits = folder(doc)
    paths = find(root, *names)
    if paths is not None:
        run(paths, splits)
