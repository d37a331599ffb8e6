"""Kills a streaming fit at random moments and resumes it: are the statistics the same, bit for bit?

`python -m benchmarks.faults [KILLS]`, 50 by default.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import genclf as gcf
from genclf.stream import sum_batches

FILES, ROWS = 40, 20_011

PROGRAM = """
import sys
from pathlib import Path
from genclf.stream.checkpoint import PartFile, host_sum
from genclf.stream.schema import Schema
schema, path, *files = sys.argv[1:]
host_sum(Schema.from_json(Path(schema).read_text()), files, store=PartFile(Path(path)), every=0)
"""


def make(folder: Path) -> list[Path]:
    """Files of numbers and categories."""
    rng, paths = np.random.default_rng(0), []
    for i in range(FILES):
        y = rng.integers(0, 3, ROWS)
        colour = np.array(["red", "green", "blue"])[(rng.integers(0, 2, ROWS) + y) % 3]
        table = pa.table({"a": rng.normal(y), "b": rng.normal(size=ROWS), "colour": colour, "y": y})
        paths.append(folder / f"{i:02d}.parquet")
        pq.write_table(table, paths[-1])
    return paths


def main() -> None:
    """Print how many of the runs ended with the same bits."""
    wanted = int(sys.argv[1]) if sys.argv[1:] else 50
    folder = Path(tempfile.mkdtemp())
    files = make(folder)
    schema = gcf.Schema.of(None, pq.read_table(files[0]), label="y")
    (folder / "schema.json").write_text(schema.to_json())
    whole = sum_batches(schema.model(), files, schema).to_bytes()
    path = folder / "state.genclf"
    command = [sys.executable, "-c", PROGRAM, folder / "schema.json", path, *files]
    start = time.perf_counter()
    subprocess.run(command, check=True)
    undisturbed = time.perf_counter() - start
    kills, runs, same, reached = 0, 0, 0, []
    moment = random.Random(0)
    while kills < wanted:
        path.unlink()
        while True:
            running = subprocess.Popen(command)
            try:
                code = running.wait(moment.uniform(0, undisturbed))
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGKILL)
                code = running.wait()
            if code == 0:
                break
            kills += 1
            found = gcf.Part.from_bytes(path.read_bytes()) if path.exists() else None
            reached.append(len(found.part_ids) if found else 0)
        runs, same = runs + 1, same + (path.read_bytes() == whole)
    print(f"{kills} kills in {runs} runs of {FILES} files, at {sorted(set(reached))} files")
    print(f"{same} of {runs} runs ended with the bits of a run that nothing disturbed")


if __name__ == "__main__":
    main()
