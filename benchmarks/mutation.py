"""Mutation testing: changes one line of the library at a time; does a test of `make test` fail?

`make mutation`, or `python -m benchmarks.mutation [PACKAGE ...]`, with `--help` for the rest. A run
continues where the last one in the same folder stopped, and prints the results of all.

First the tests run once, and the lines that each case executes are recorded. A changed line is
tested by the cases that execute it and by the others of their files, which may use what these
compiled; the cheapest of each file come first. Then the change is

- killed: a case fails, or takes far longer than without the change;
- survived: no case fails. If no case is seen to execute the line, as where JAX calls NumPy in
  another thread, then no case that executes the file fails;
- equal: `equal_changes.toml` gives the reason why no test can fail;
- not decided: too slow cases were left out, and might fail.

Other tools do not fit: mutmut 3 wraps each function, and JAX would compile the wrappers and
beartype check them; cosmic-ray runs all tests for each change.
"""

import argparse
import collections
import importlib
import itertools
import json
import os
import random
import shutil
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cases import PACKAGES, Chosen, files_of, in_each, record, run
from benchmarks.changes import Change, changes

STATUSES = ("killed", "survived", "not decided", "equal")
EQUAL = Path(__file__).parent / "equal_changes.toml"
IMPORTED = "jax numpyro funsor scipy.stats sklearn.linear_model pandas matplotlib.pyplot hypothesis"
IMPORTED += " optax chex beartype jaxtyping safetensors.numpy statsmodels.api"
FEW = 8  # cases that are run first
_MOMENTS = itertools.count()
START, SLOWER = 20, 4  # seconds to begin with; a change that takes SLOWER times as long is killed


def cases_on(file: str, span: tuple[int, int], recorded: dict[str, dict]) -> dict[str, float]:
    """Cases that execute such a line, or others of their files, and their seconds, in order."""
    direct, others = [], []
    for of in recorded.values():
        seconds = of["seconds"]
        reached = {
            case
            for line, cases in of["lines"].items()
            if line.startswith(f"{file}:") and span[0] <= int(line.rpartition(":")[2]) <= span[1]
            for case in cases
            if case in seconds
        }
        cheapest = sorted(reached, key=seconds.get)
        direct += [(i, seconds[case], case) for i, case in enumerate(cheapest)]
        if reached:
            others += [(seconds[case], case) for case in seconds.keys() - reached]
    return {case: s for *_, s, case in [*sorted(direct), *sorted(others)]}


def decide(change: Change, tree: Path, recorded: dict[str, dict], most: float) -> tuple[str, str]:
    """The status of a change, and what decided it."""
    direct = cases_on(change.file, change.executed, recorded)
    cases = direct or cases_on(change.file, (1, sys.maxsize), recorded)
    if not cases:
        return "survived", "no case executes the file"
    sums = itertools.accumulate(cases.values())
    chosen = [
        case for i, (case, s) in enumerate(zip(cases, sums, strict=True)) if s <= most or not i
    ]
    path = tree / change.file
    source, stat = path.read_text(), path.stat()
    lines = source.splitlines(keepends=True)
    lines[change.line - 1] = change.after + "\n"
    path.write_text("".join(lines))
    # Bytecode is told by size and second: no two of one file may have the same.
    moment = int(time.time()) + next(_MOMENTS)
    os.utime(path, (moment, moment))
    try:
        # Few files are quickly collected, and most changes are killed by these.
        for some in filter(None, (chosen[:FEW], chosen[FEW:])):
            limit = SLOWER * (START + sum(cases[case] for case in some))
            status, failed = run(tree, Chosen, (some,), ["-x", *files_of(some)], limit)
            if status:
                break
    finally:
        path.write_text(source)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if status == -1:
        begun = time.monotonic()
        run(tree, Chosen, (some,), files_of(some), limit)
        fast = time.monotonic() - begun < limit / SLOWER
        return ("killed" if fast else "not decided"), "more than the time allowed"
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise RuntimeError(f"none of these is collected: {some}")
    if status:
        return "killed", failed[0] if failed else "a crash" if status == -2 else "an import"
    if not direct:
        return "survived", "no case is seen to execute it"
    passed = f"{len(chosen)} of {len(cases)} cases"
    return ("survived" if len(chosen) == len(cases) else "not decided"), passed


def drawn(tree: Path, packages: Sequence[str], seed: int) -> Iterator[Change]:
    """Changes that alternate between packages and, within each, kinds; the seed sets the order."""
    generator = random.Random(seed)
    by_package = []
    for package in packages:
        kinds = collections.defaultdict(list)
        for path in sorted(tree.glob(f"genclf/{package}/**/*.py")):
            for change in changes(str(path.relative_to(tree)), path.read_text()):
                kinds[change.kind].append(change)
        for of in kinds.values():
            generator.shuffle(of)
        by_package.append(_in_turn(list(kinds.values())))
    return _in_turn(by_package)


def _in_turn(sequences: Sequence[Any]) -> Iterator[Any]:
    gone = object()
    for row in itertools.zip_longest(*sequences, fillvalue=gone):
        yield from (value for value in row if value is not gone)


def report(results: list[dict]) -> None:
    """Print the table by package, and what survived."""
    count = collections.Counter((r["file"].split("/")[1], r["status"]) for r in results)
    print("\npackage     " + "".join(f"{s:>13}" for s in ("decided", *STATUSES, "killed, %")))
    for package in sorted({package for package, _ in count}):
        own = {status: count[package, status] for status in STATUSES}
        _print_row(package, own)
    _print_row("all", {s: sum(n for (_, of), n in count.items() if of == s) for s in STATUSES})
    for status in ("survived", "not decided"):
        for r in (r for r in results if r["status"] == status):
            print(f"\n{status}: {r['file']}:{r['line']}  ({r['by']})")
            print(f"    {r['before'].strip()}\n    {r['after'].strip()}")


def _print_row(name: str, own: dict[str, int]) -> None:
    decided = own["killed"] + own["survived"]
    numbers = [decided, *own.values(), f"{100 * own['killed'] / max(decided, 1):.1f}"]
    print(f"{name:12}" + "".join(f"{n:>13}" for n in numbers))


def main() -> None:
    """Record, then draw and decide until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "packages", nargs="*", default=PACKAGES, metavar="package", help=", ".join(PACKAGES)
    )
    parser.add_argument("--minutes", type=float, default=60, help="start no other after (60)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (0)")
    parser.add_argument("--most", type=float, default=60, help="seconds of cases for a change (60)")
    parser.add_argument(
        "--again", action="store_true", help="those that were not killed, once more"
    )
    parser.add_argument("--jobs", type=int, default=1, help="changes tried at the same time (1)")
    parser.add_argument("--folder", type=Path, default=Path("build/mutation"), help="of results")
    given = parser.parse_args()
    os.environ.setdefault("SCIPY_ARRAY_API", "1")
    for name in IMPORTED.split():
        importlib.import_module(name)
    folder = given.folder.resolve()
    trees = [folder / str(i) / "tree" for i in range(given.jobs)]
    away = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "_build")
    for tree in trees:
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(".", tree, ignore=away)
    recorded = record(trees, folder / "recorded.json")
    equal = {
        (e["file"], e["line"], e["becomes"]) for e in tomllib.loads(EQUAL.read_text())["equal"]
    }
    kept = folder / "results.jsonl"
    results = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {_key(r): r for r in results}
    end = time.monotonic() + 60 * given.minutes
    lock = threading.Lock()

    def is_new(change: Change) -> bool:
        key = change.file, change.before.strip(), change.after.strip()
        status = done.get(key, {}).get("status")
        known = status == "equal" if key in equal else status is not None
        return not known or (given.again and status in ("survived", "not decided"))

    new = filter(is_new, drawn(trees[0], given.packages, given.seed))

    def work(tree: Path) -> None:
        while time.monotonic() < end:
            with lock:
                change = next(new, None)
            if change is None:
                return
            fields = ("kind", "file", "line", "before", "after")
            one = {name: getattr(change, name) for name in fields}
            if _key(one) in equal:
                status, by = "equal", ""
            else:
                status, by = decide(change, tree, recorded, given.most)
            with lock:
                done[_key(one)] = {**one, "status": status, "by": by}
                print(
                    f"{status}: {change.file}:{change.line}: {change.after.strip()}  ({by})",
                    flush=True,
                )
                kept.write_text("".join(json.dumps(r) + "\n" for r in done.values()))

    in_each(trees, work)
    # What failed with a change must pass without it, also after other cases than in the record.
    killers = {r["by"] for r in done.values() if "::" in r["by"]}
    _, broken = run(trees[0], Chosen, (sorted(killers),), files_of(sorted(killers)))
    report([r if r["by"] not in broken else {**r, "status": "not decided"} for r in done.values()])


def _key(result: dict) -> tuple[str, str, str]:
    return result["file"], result["before"].strip(), result["after"].strip()


if __name__ == "__main__":
    main()
