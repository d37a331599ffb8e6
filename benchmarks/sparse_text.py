"""Sparse counts, and scikit-learn's times: 100,000 documents, 50,000 words, 8 million cells.

`python -m benchmarks.sparse_text` prints milliseconds: medians of 9 alternating calls after the
first.
"""

import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from jax.experimental.sparse import BCOO
from sklearn.naive_bayes import BernoulliNB, MultinomialNB

import genclf as gcf
from benchmarks.timing import machine

N, V, TOKENS = 100_000, 50_000, 104


def documents() -> sp.csr_matrix:
    """Counts of words whose frequencies follow Zipf's law."""
    rng = np.random.default_rng(0)
    share = np.cumsum(1 / np.arange(1, V + 1))
    words = np.searchsorted(share / share[-1], rng.random(N * TOKENS)).clip(0, V - 1)
    rows = np.repeat(np.arange(N), TOKENS)
    x = sp.coo_matrix((np.ones(len(rows)), (rows, words)), shape=(N, V)).tocsr()
    x.sum_duplicates()
    return x


def in_turns(*calls: Callable[[], Any]) -> list[float]:
    """Median milliseconds of each, measured one after the other in each round."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(10):
        for call, found in zip(calls, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(call())
            found.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(found[1:]) for found in times]


def main() -> None:
    """Print the table."""
    x = documents()
    ones = x.copy()
    ones.data[:] = 1
    print(machine())
    print(f"{N:,} documents, {V:,} words, {x.nnz:,} cells\n")
    print("| | K | fit | | scikit-learn / genclf | predict | | scikit-learn / genclf |")
    print("|---|---|---|---|---|---|---|---|")
    for k in (2, 4, 20):
        y = np.random.default_rng(1).integers(0, k, N)
        for clf, peer, rows in (
            (gcf.multinomial_nb(k), MultinomialNB(), x),
            (gcf.bernoulli_nb(k), BernoulliNB(binarize=None), ones),
        ):
            params = gcf.fit(clf, rows, y)
            peer.fit(rows, y)
            fits = in_turns(
                lambda clf=clf, rows=rows, y=y: gcf.fit(clf, rows, y),
                lambda peer=peer, rows=rows, y=y: peer.fit(rows, y) and None,
            )
            scores = in_turns(
                lambda params=params, rows=rows: gcf.predict(params, rows),
                lambda peer=peer, rows=rows: peer.predict(rows),
            )
            cells = [f"{a:.1f} | {b:.1f} | {b / a:.2f}" for a, b in (fits, scores)]
            print(f"| {type(clf.family).__name__} | {k} | {' | '.join(cells)} |")
    clf, y = gcf.multinomial_nb(4), np.random.default_rng(1).integers(0, 4, N)
    of_jax = BCOO.from_scipy_sparse(x.astype(np.float32))
    params = gcf.fit(clf, of_jax, y)
    known = np.where(np.arange(N) % 2, y, -1)

    def em(steps: int) -> Any:
        key = jax.random.key(0)
        return gcf.em(clf, x, known, key=key, max_steps=steps, tol=-1.0).objective

    times = in_turns(
        lambda: gcf.fit(clf, of_jax, y), lambda: gcf.predict(params, of_jax), lambda: em(1)
    )
    longer = in_turns(lambda: em(5))[0]
    step = (longer - times[2]) / 4
    print(f"\nBCOO, K = 4: fit {times[0]:.0f}, predict {times[1]:.0f}; a step of EM {step:.0f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = (x.data.nbytes + x.indices.nbytes) / 2**30
    print(f"peak memory {peak:.1f} GiB, of which x takes {size:.2f}; dense, it would take 37")


if __name__ == "__main__":
    main()
