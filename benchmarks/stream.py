"""One pass over 20 Parquet files of 500,000 rows and 20 columns, and the time to only read them.

`python -m benchmarks.stream`. Each line is a separate process: seconds without its start, the
median of three, and the peak memory of it and its child processes. `python -m benchmarks.stream
spark` adds Spark's naive Bayes and that of genclf on Spark, which need Java.
"""

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

FILES, ROWS, NUMBERS, CATEGORIES, CLASSES = 20, 500_000, 10, 10, 3


def make(folder: Path) -> None:
    """Write the files."""
    rng = np.random.default_rng(0)
    for i in range(FILES):
        y = rng.integers(0, CLASSES, ROWS)
        columns = {f"x{j}": rng.normal(y * j / 10, 1) for j in range(NUMBERS)}
        for j in range(CATEGORIES):
            code = (rng.integers(0, 3 + 5 * j, ROWS) + y) % (3 + 5 * j)
            columns[f"c{j}"] = np.array([f"value {v}" for v in range(3 + 5 * j)])[code]
        pq.write_table(pa.table(columns | {"y": y}), folder / f"{i:02d}.parquet")


def read_alone(files: list[str]) -> None:
    """What Arrow takes to read the columns."""
    from pyarrow import dataset

    for _ in dataset.dataset(files).to_batches():
        pass


def ours(files: list[str], processes: int = 1) -> None:
    """Our one pass."""
    from genclf.stream.checkpoint import host_sum
    from genclf.stream.schema import Schema

    schema = Schema.from_json(Path(files[0]).with_name("schema.json").read_text())
    host_sum(schema, files, store=None, processes=processes)


def ours_in_two(files: list[str]) -> None:
    """The same by two processes."""
    ours(files, 2)


def sklearn(files: list[str]) -> None:
    """The loop of `partial_fit` of scikit-learn: two models, and codes by Arrow."""
    from sklearn.naive_bayes import CategoricalNB, GaussianNB

    gaussian, categorical = GaussianNB(), CategoricalNB(min_categories=3 + 5 * (CATEGORIES - 1))
    values = {
        f"c{j}": pa.array([f"value {v}" for v in range(3 + 5 * j)]) for j in range(CATEGORIES)
    }
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(65_536):
            y = batch["y"].to_numpy()
            x = np.stack([batch[f"x{j}"].to_numpy() for j in range(NUMBERS)], 1)
            codes = [
                pa.compute.index_in(batch[name], own).to_numpy() for name, own in values.items()
            ]
            gaussian.partial_fit(x, y, classes=range(CLASSES))
            categorical.partial_fit(np.stack(codes, 1), y, classes=range(CLASSES))


def spark_session() -> object:
    """Spark on two cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers' Python
    local = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    local = local.config("spark.driver.memory", "4g").config("spark.log.level", "ERROR")
    return local.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()


def spark_alone(files: list[str]) -> float:
    """Spark's naive Bayes, Gaussian, of the numbers alone: it takes no mixed columns."""
    from pyspark.ml.classification import NaiveBayes
    from pyspark.ml.feature import VectorAssembler

    table = spark_session().read.parquet(*files)  # type: ignore[attr-defined]
    names = [f"x{j}" for j in range(NUMBERS)]
    start = time.perf_counter()
    rows = VectorAssembler(inputCols=names, outputCol="features").transform(table)
    NaiveBayes(modelType="gaussian", labelCol="y").fit(rows)
    return time.perf_counter() - start


def ours_on_spark(files: list[str], columns: int = NUMBERS + CATEGORIES) -> float:
    """Our naive Bayes of the first columns on Spark."""
    from genclf.engines import spark
    from genclf.stream.schema import Schema

    first = pq.read_table(files[0])
    schema = Schema.of(
        None, first.select([*range(columns), first.column_names.index("y")]), label="y"
    )
    table = spark_session().read.parquet(*files)  # type: ignore[attr-defined]
    start = time.perf_counter()
    spark.partial(schema, table)
    return time.perf_counter() - start


ROADS = {
    "Arrow reads": read_alone,
    "genclf": ours,
    "genclf, 2 processes": ours_in_two,
    "scikit-learn": sklearn,
}
OF_SPARK = {
    "Spark, 10 numbers": spark_alone,
    "genclf on Spark, 10 numbers": functools.partial(ours_on_spark, columns=NUMBERS),
    "genclf on Spark": ours_on_spark,
}


def run(name: str, files: list[str]) -> None:
    """One road in this process: seconds and bytes, as JSON."""
    highest = [0]
    stop = threading.Event()

    def watch() -> None:
        me = psutil.Process()
        while not stop.wait(0.02):
            each = [me, *me.children(recursive=True)]
            highest[0] = max(highest[0], sum(_memory(process) for process in each))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    own = (ROADS | OF_SPARK)[name](files)
    seconds = own or time.perf_counter() - start
    stop.set()
    watcher.join()
    print(json.dumps({"seconds": seconds, "bytes": highest[0]}))


def _memory(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0


def main() -> None:
    """Print the table."""
    import genclf as gcf
    from benchmarks.timing import machine

    folder = Path(os.environ.get("GENCLF_BENCH_FOLDER") or tempfile.mkdtemp())
    if not (folder / "schema.json").exists():
        folder.mkdir(exist_ok=True)
        make(folder)
        first = pq.read_table(folder / "00.parquet")
        (folder / "schema.json").write_text(gcf.Schema.of(None, first, label="y").to_json())
    files = sorted(map(os.fspath, folder.glob("*.parquet")))
    size = sum(os.path.getsize(file) for file in files) / 2**30
    print(machine())
    print(f"{FILES} files, {FILES * ROWS:,} rows, {NUMBERS + CATEGORIES} columns, {size:.2f} GiB\n")
    print("| | seconds | million rows / s | share of the speed of Arrow | memory, MB |")
    print("|---|---|---|---|---|")
    roads = ROADS | (OF_SPARK if "spark" in sys.argv else {})
    first_seconds = 0.0
    for name in roads:
        command = [sys.executable, "-m", "benchmarks.stream", "--run", name, *files]
        repeats = 1 if name in OF_SPARK or name == "scikit-learn" else 3
        done = [subprocess.run(command, capture_output=True, text=True) for _ in range(repeats)]
        found = [json.loads(one.stdout.splitlines()[-1]) for one in done]
        seconds = statistics.median(one["seconds"] for one in found)
        first_seconds = first_seconds or seconds
        memory = max(one["bytes"] for one in found) / 1e6
        rate = FILES * ROWS / seconds / 1e6
        share = first_seconds / seconds
        print(f"| {name} | {seconds:.2f} | {rate:.1f} | {share:.2f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2], sys.argv[3:])
    else:
        main()
