"""Changes single lines of the library, one at a time: does a test of `make test` fail?

`make mutation`, or `python -m benchmarks.mutation [ROOM ...]`, with `--help` for the rest. A run
goes on where the last one in the same folder stopped, and prints the results of all.

First the tests run once, and of each case the lines that it executes are recorded. A changed line
is tested by the cases that execute it and by the others of their files, which may use what these
compiled; the cheapest of each file come first. Then the change is

- killed: a case fails, or takes far longer than without the change;
- survived: no case fails; nor do others that execute the file, if none is seen to execute the line,
  as where JAX calls NumPy in a thread of its own;
- equal: `equal_changes.toml` tells why no test can fail;
- not decided: cases that were left out, as together they take too long, might fail.

mutmut 3 puts functions of its own in place of each function, which JAX would compile and beartype
check, and cosmic-ray runs all tests for each change; so neither.
"""

import argparse
import collections
import hashlib
import importlib
import itertools
import json
import multiprocessing
import os
import random
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.changes import Change, changes

ROOMS = ("families", "sums", "select", "stream", "files")
STATUSES = ("killed", "survived", "not decided", "equal")
EQUAL = Path(__file__).parent / "equal_changes.toml"
IMPORTED = "jax numpyro funsor scipy.stats sklearn.linear_model pandas matplotlib.pyplot hypothesis"
IMPORTED += " equinox optax chex beartype jaxtyping safetensors.numpy statsmodels.api"
ALWAYS = "--fast -q -p no:cacheprovider -W ignore::pytest.PytestAssertRewriteWarning".split()
ALWAYS += ["tests/conftest.py"]  # which has the option --fast
FEW, TOGETHER = 8, 8  # cases that are run first; files of tests that are recorded in one process
START, SLOWER = 20, 4  # seconds to begin with; a change that takes SLOWER times as long is killed


class Recorder:
    """Of each case its seconds, and the lines of the rooms that it executes."""

    def __init__(self) -> None:
        """Start to record; before genclf is imported."""
        import coverage

        rooms = [f"genclf/{room}/*" for room in ROOMS]
        self.coverage = coverage.Coverage(data_file=None, include=rooms)
        self.coverage.start()
        self.file = ""
        self.seconds: dict[str, float] = collections.Counter()
        self.failed: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """All cases of a file one after the other."""
        items.sort(key=lambda item: _file_of(item.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """In each file everything is traced anew, so that its lines are executed."""
        if _file_of(item.nodeid) != self.file:
            self.file = _file_of(item.nodeid)
            importlib.import_module("jax").clear_caches()
        self.coverage.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the seconds of a phase; a case that fails by itself is not used."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def result(self) -> dict[str, dict]:
        """By file of tests: seconds by case, and by line "file:number" the cases."""
        self.coverage.stop()
        files: dict[str, dict] = {}
        for case, seconds in self.seconds.items():
            of = files.setdefault(_file_of(case), {"seconds": {}, "lines": {}})
            if case not in self.failed:
                of["seconds"][case] = round(seconds, 3)
        data = self.coverage.get_data()
        for path in data.measured_files():
            for line, cases in data.contexts_by_lineno(path).items():
                for case in filter(None, cases):
                    lines = files[_file_of(case)]["lines"]
                    lines.setdefault(f"{Path(path).relative_to(Path.cwd())}:{line}", []).append(
                        case
                    )
        return files


class Chosen:
    """Runs the chosen cases alone, in their order; the result is the first that failed."""

    def __init__(self, cases: Sequence[str]) -> None:
        """Keep the cases."""
        self.rank = {case: i for i, case in enumerate(cases)}
        self.failed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the others."""
        chosen = [item for item in items if item.nodeid in self.rank]
        items[:] = sorted(chosen, key=lambda item: self.rank[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a failure."""
        if report.failed:
            self.failed.append(report.nodeid)

    def result(self) -> list[str]:
        """The cases that failed."""
        return self.failed


def _child(answer: Any, tree: Path, log: Path, plugin: type, given: tuple, options: list) -> None:
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)
    with log.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        made = plugin(*given)
        status = pytest.main([*ALWAYS, *options], [made])
        answer.send((int(status), made.result()))
        sys.stdout.flush()
        os._exit(0)  # nothing to tidy up, and JAX's threads need not be waited for


def run(
    tree: Path, plugin: type, given: tuple, options: list[str], limit: float | None = None
) -> tuple[int, Any]:
    """pytest's status and what the plugin found; -1 without an answer in time, -2 for a crash.

    It runs in a fork of this process, which has imported the packages that tests import.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    log = tree.parent / f"{plugin.__name__.lower()}.log"
    child = context.Process(target=_child, args=(theirs, tree, log, plugin, given, options))
    child.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(limit) else (-1, [])
    except EOFError:
        return -2, []
    finally:
        child.kill()
        child.join()


def _file_of(case: str) -> str:
    return case.partition("::")[0]


def _files_of(cases: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(map(_file_of, cases)))


def _digest(files: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def record(tree: Path, kept: Path) -> dict[str, dict]:
    """The lines that cases execute; files of tests that have not changed are as they were kept."""
    library = _digest(sorted(tree.glob("genclf/**/*.py")))
    tests = [*tree.glob("tests/**/test_*.py")]
    modules = [file for file in tree.glob("genclf/**/*.py") if ">>>" in file.read_text()]
    now = {str(file.relative_to(tree)): library + _digest([file]) for file in tests + modules}
    found = json.loads(kept.read_text()) if kept.exists() else {}
    found = {file: of for file, of in found.items() if of["digest"] == now.get(file)}
    new = sorted(now.keys() - found.keys())
    for start in range(0, len(new), TOGETHER):
        some = new[start : start + TOGETHER]
        print(f"recording {start} to {start + len(some)} of {len(new)} files of tests", flush=True)
        status, files = run(tree, Recorder, (), some)
        if status not in (0, 1, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise RuntimeError(f"pytest ended with {status}: see {tree.parent / 'recorder.log'}")
        nothing: dict = {"seconds": {}, "lines": {}}
        found |= {file: {**files.get(file, nothing), "digest": now[file]} for file in some}
        kept.write_text(json.dumps(found))
    return found


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
    moment = decide.moment = max(getattr(decide, "moment", 0) + 1, int(time.time()))
    os.utime(path, (moment, moment))
    try:
        # Few files are quickly collected, and most changes are killed by these.
        for some in filter(None, (chosen[:FEW], chosen[FEW:])):
            limit = SLOWER * (START + sum(cases[case] for case in some))
            status, failed = run(tree, Chosen, (some,), ["-x", *_files_of(some)], limit)
            if status:
                break
    finally:
        path.write_text(source)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if status == -1:
        begun = time.monotonic()
        run(tree, Chosen, (some,), _files_of(some), limit)
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


def drawn(tree: Path, rooms: Sequence[str], seed: int) -> Iterator[Change]:
    """Changes in turn of each room and, within it, of each kind; in an order that the seed sets."""
    generator = random.Random(seed)
    by_room = []
    for room in rooms:
        kinds = collections.defaultdict(list)
        for path in sorted(tree.glob(f"genclf/{room}/*.py")):
            for change in changes(str(path.relative_to(tree)), path.read_text()):
                kinds[change.kind].append(change)
        for of in kinds.values():
            generator.shuffle(of)
        by_room.append(_in_turn(list(kinds.values())))
    return _in_turn(by_room)


def _in_turn(sequences: Sequence[Any]) -> Iterator[Any]:
    gone = object()
    for row in itertools.zip_longest(*sequences, fillvalue=gone):
        yield from (value for value in row if value is not gone)


def report(results: list[dict]) -> None:
    """Print the table by room, and what survived."""
    count = collections.Counter((r["file"].split("/")[1], r["status"]) for r in results)
    print("\nroom        " + "".join(f"{s:>13}" for s in ("decided", *STATUSES, "killed, %")))
    for room in sorted({room for room, _ in count}):
        own = {status: count[room, status] for status in STATUSES}
        _print_row(room, own)
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
    parser.add_argument("rooms", nargs="*", default=ROOMS, metavar="room", help=", ".join(ROOMS))
    parser.add_argument("--minutes", type=float, default=60, help="start no other after (60)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (0)")
    parser.add_argument("--most", type=float, default=60, help="seconds of cases for a change (60)")
    parser.add_argument(
        "--again", action="store_true", help="those that were not killed, once more"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/mutation"), help="of results")
    given = parser.parse_args()
    os.environ.setdefault("SCIPY_ARRAY_API", "1")
    for name in IMPORTED.split():
        importlib.import_module(name)
    folder = given.folder.resolve()
    tree, kept = folder / "tree", folder / "results.jsonl"
    shutil.rmtree(tree, ignore_errors=True)
    away = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "_build")
    shutil.copytree(".", tree, ignore=away)
    recorded = record(tree, folder / "recorded.json")
    equal = {
        (e["file"], e["line"], e["becomes"]) for e in tomllib.loads(EQUAL.read_text())["equal"]
    }
    results = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {_key(r): r for r in results}
    end = time.monotonic() + 60 * given.minutes
    for change in drawn(tree, given.rooms, given.seed):
        if time.monotonic() > end:
            break
        key = change.file, change.before.strip(), change.after.strip()
        if key in equal:
            status, by = "equal", ""
        elif key in done and (done[key]["status"] == "killed" or not given.again):
            continue
        else:
            status, by = decide(change, tree, recorded, given.most)
        one = {name: getattr(change, name) for name in ("kind", "file", "line", "before", "after")}
        done[key] = {**one, "status": status, "by": by}
        print(f"{status}: {change.file}:{change.line}: {change.after.strip()}  ({by})", flush=True)
        kept.write_text("".join(json.dumps(r) + "\n" for r in done.values()))
    # What failed with a change must pass without it, also after other cases than in the record.
    killers = {r["by"] for r in done.values() if "::" in r["by"]}
    _, broken = run(tree, Chosen, (sorted(killers),), _files_of(sorted(killers)))
    report([r if r["by"] not in broken else {**r, "status": "not decided"} for r in done.values()])


def _key(result: dict) -> tuple[str, str, str]:
    return result["file"], result["before"].strip(), result["after"].strip()


if __name__ == "__main__":
    main()
