"""Seconds of the import, and of the first call of each function in a new process.

`python -m benchmarks.first_calls`. Every case runs in separate processes: without a compile
cache, and with JAX's cache on disk.
"""

import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.timing import machine

REPEATS = 5
_DATA = """
import time, numpy as np, jax, genclf as gcf
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 500).astype(np.int32)
x = rng.normal(size=(500, 10)).astype(np.float32) + y[:, None]
bits, counts = (x > 1).astype(np.int32), rng.poisson(np.abs(x)).astype(np.int32)
codes = np.clip(counts, 0, 4)
half = np.where(np.arange(500) % 2 == 0, y, -1).astype(np.int32)
start = time.perf_counter()
"""
_END = "\njax.block_until_ready(found); print(time.perf_counter() - start)"


_WIDE = """y = np.arange(5000) % 100
x = rng.normal(size=(5000, 512)).astype(np.float32) + 0.5 * rng.normal(size=(100, 512))[y]
x, start = x.astype(np.float32), time.perf_counter()
"""
_NULL = """x = rng.normal(size=(150, 30)).astype(np.float32)
y, folds, start = np.arange(150) % 3, np.arange(150) % 5, time.perf_counter()
clf, key = gcf.lda(3, shrinkage={}), jax.random.key(0)
found = gcf.permutation_test(key, clf, x, y, folds, num=200).null"""
_CURVE = """models = {"lda": gcf.lda(3), "softmax": gcf.SoftmaxRegression(3, l2=1e-3)}
sizes, key = [30, 60, 120, 200, 240], jax.random.key(0)
found = gcf.learning_curve(models, x, y, sizes, key=key, num_splits=20).errors"""


def _preset(name: str, rows: str, arguments: str = "3") -> str:
    return (
        f"clf, x, y = gcf.{name}({arguments}), {rows}, y[: len({rows})]\n"
        "found = gcf.predict(gcf.fit(clf, x, y), x)"
    )


CASES = {
    "lda: fit and predict, n = 150, d = 4": (_preset("lda", "x[:150, :4]"), 0.6),
    "qda: fit and predict, n = 150, d = 4": (_preset("qda", "x[:150, :4]"), 0.6),
    "gaussian_nb: fit and predict, n = 150, d = 4": (_preset("gaussian_nb", "x[:150, :4]"), 0.6),
    "bernoulli_nb: fit and predict, n = 150, d = 4": (
        _preset("bernoulli_nb", "bits[:150, :4]"),
        0.6,
    ),
    "categorical_nb: fit and predict, n = 150, d = 4": (
        _preset("categorical_nb", "codes[:150, :4]", "3, 5"),
        0.6,
    ),
    "multinomial_nb: fit and predict, n = 150, d = 4": (
        _preset("multinomial_nb", "counts[:150, :4]"),
        0.6,
    ),
    "em of lda": ("found = gcf.em(gcf.lda(3), x, half, key=jax.random.key(0)).params", 1),
    "certify of lda": (
        "clf = gcf.lda(3)\nfound = gcf.certify(clf, gcf.fit(clf, x, y), x, y).valid",
        1,
    ),
    "fit_lagrange of lda": (
        "clf = gcf.lda(3)\nfound = gcf.fit_lagrange(clf, gcf.stats(clf, x, y)).params",
        1,
    ),
    "posterior of lda": (
        "family = gcf.Gaussian(shared=True, prior=gcf.NormalInverseWishart())\n"
        "clf = gcf.Classifier(family, 3, class_prior=gcf.Dirichlet(1.0))\n"
        "found = gcf.posterior(clf, gcf.stats(clf, x, y)).mean",
        1,
    ),
    "lda: fit and predict, n = 5,000, d = 512, K = 100": (
        _WIDE + _preset("lda", "x", "100"),
        2,
    ),
    "permutation_test, n = 150, d = 30": (_NULL.format(0.1), 2),
    "permutation_test with Ledoit-Wolf": (_NULL.format('"ledoit-wolf"'), 3),
    "learning_curve of lda and softmax, five sizes": (_CURVE, 8),
}
_IMPORT = "import time\nstart = time.perf_counter()\nimport {}\nprint(time.perf_counter() - start)"

_ALL = "genclf; [getattr(genclf, name) for name in genclf.__all__]"


def run(code: str, cache: str | None = None) -> float:
    """The number that the code prints, in a new process."""
    ours = ("COMPILATION_CACHE", "PYTHONDONTWRITEBYTECODE")
    env = {key: v for key, v in os.environ.items() if not any(name in key for name in ours)}
    if cache is not None:
        env |= {
            "JAX_COMPILATION_CACHE_DIR": cache,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


def main() -> None:
    """Print the table as Markdown."""
    print(machine(), "", "| first call | cold | cached | aim |", "| --- " * 4 + "|", sep="\n")
    run(_IMPORT.format(_ALL))  # writes the bytecode, as an installation does
    of = {
        name: statistics.median(run(_IMPORT.format(name)) for _ in range(REPEATS))
        for name in ("jax", "genclf", _ALL)
    }
    print(f"| import genclf | {of['genclf']:.2f} s | | |")
    beyond = of[_ALL] - of["jax"]
    print(f"| all its names, beyond jax | {beyond:.2f} s | | 0.1 s |", flush=True)
    for name, (code, aim) in CASES.items():
        with tempfile.TemporaryDirectory() as cache:
            cold = statistics.median(run(_DATA + code + _END) for _ in range(REPEATS))
            run(_DATA + code + _END, cache)
            cached = statistics.median(run(_DATA + code + _END, cache) for _ in range(REPEATS))
        print(f"| {name} | {cold:.2f} s | {cached:.2f} s | {aim} s |", flush=True)


if __name__ == "__main__":
    main()
