"""A first row and further rows of a fitted model, in a new process for each road.

`python -m benchmarks.serving`. Seconds from the start of the imports to the first prediction,
milliseconds of a further row, and rows per second of four threads that give one row at a time.
LDA of ten features and three classes. The exported program needs flatbuffers.
"""

import statistics
import tempfile
from pathlib import Path

from benchmarks.first_calls import run
from benchmarks.timing import machine

REPEATS = 3
_MAKE = """
import numpy as np, jax, genclf as gcf
from genclf.sklearn import LinearDiscriminant
from genclf.stream import Predictor, fit_batches
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 500)
x = rng.normal(size=(500, 10)).astype(np.float32) + y[:, None]
batch = {f"x{i}": x[:, i] for i in range(10)} | {"y": np.array(["p", "q", "r"])[y]}
clf = gcf.lda(3)
schema = gcf.Schema.scan(clf, [batch], label="y")
Predictor.of(fit_batches(clf, [batch], schema), schema).save(FOLDER + "predictor")
gcf.save(FOLDER + "estimator", LinearDiscriminant().fit(x, y))
params = gcf.fit(clf, x, y)
gcf.save(FOLDER + "params", params)
from jax import export
rows = jax.ShapeDtypeStruct((export.symbolic_shape("n")[0], 10), np.float32)
program = export.export(jax.jit(lambda x: gcf.log_posterior(params, x)))(rows)
try:
    open(FOLDER + "program", "wb").write(program.serialize())
except ImportError:
    pass
print(0)
"""
_ROW = "row = np.full((1, 10), 1, np.float32)\n"
ROADS = {
    "`Predictor`, a dict of columns": (
        "from genclf.stream import Predictor\n"
        'model = Predictor.load(FOLDER + "predictor")\n'
        'row = {f"x{i}": [1.0] for i in range(10)}\n'
        "call = lambda: model.predict_proba(row)\n"
    ),
    "an estimator": (
        "import numpy as np, genclf\n"
        'model = genclf.load(FOLDER + "estimator")\n'
        f"{_ROW}call = lambda: model.predict_proba(row)\n"
    ),
    "params, by JAX": (
        "import numpy as np, genclf\n"
        'params = genclf.load(FOLDER + "params")\n'
        f"{_ROW}call = lambda: np.asarray(genclf.log_posterior(params, row))\n"
    ),
    "an exported program": (
        "import numpy as np, jax\n"
        "from jax import export\n"
        'given = export.deserialize(bytearray(open(FOLDER + "program", "rb").read()))\n'
        f"{_ROW}program = jax.jit(given.call)\n"
        "call = lambda: np.asarray(program(row))\n"
    ),
}
_FIRST = "call()\nprint(time.perf_counter() - start)\n"
_EACH = """
def timed(_):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
call()
print(sorted(map(timed, range(300)))[150])
"""
_RATE = """
from concurrent.futures import ThreadPoolExecutor
call()
with ThreadPoolExecutor(4) as threads:
    begin = time.perf_counter()
    list(threads.map(lambda _: call(), range(1000)))
print(1000 / (time.perf_counter() - begin))
"""


def main() -> None:
    """Print the table as Markdown."""
    heads = "road", "first row", "next row", "four threads"
    print(machine(), "", "| " + " | ".join(heads) + " |", "| --- " * 4 + "|", sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        place = f"FOLDER = {str(Path(folder)) + '/'!r}\n"
        run(place + _MAKE)
        for name, code in ROADS.items():
            if "program" in name and not (Path(folder) / "program").exists():
                print(f"| {name} | flatbuffers is not installed | | |")
                continue
            begin = f"import time\nstart = time.perf_counter()\n{place}{code}"
            median = lambda what, cache=None, begin=begin: statistics.median(  # noqa: E731
                run(begin + what, cache) for _ in range(REPEATS)
            )
            first, each, rate = map(median, (_FIRST, _EACH, _RATE))
            with tempfile.TemporaryDirectory() as cache:
                run(begin + _FIRST, cache)
                cached = median(_FIRST, cache)
            with_cache = f" ({cached:.2f} s with a compile cache)" if "JAX" in name else ""
            times = f"{first:.2f} s{with_cache} | {1e3 * each:.2f} ms | {rate:,.0f} rows/s"
            print(f"| {name} | {times} |", flush=True)


if __name__ == "__main__":
    main()
