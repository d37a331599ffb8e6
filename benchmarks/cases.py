"""Runs pytest in forks, to find the lines that each case executes, and whether given cases pass."""

import collections
import hashlib
import importlib
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

PACKAGES = ("families", "numerics", "sums", "covariance", "select", "stream", "files")
ALWAYS = "--fast -q -p no:cacheprovider -W ignore::pytest.PytestAssertRewriteWarning".split()
ALWAYS += ["tests/conftest.py"]  # which has the option --fast
TOGETHER = 8  # files of tests that are recorded in one process
_FORKING = threading.Lock()


class Recorder:
    """Of each case its seconds, and the lines of the packages that it executes."""

    def __init__(self) -> None:
        """Start to record; before genclf is imported."""
        import coverage

        packages = [f"genclf/{package}/*" for package in PACKAGES]
        self.coverage = coverage.Coverage(data_file=None, include=packages)
        self.coverage.start()
        self.file = ""
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self.failed: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """All cases of a file one after the other."""
        items.sort(key=lambda item: file_of(item.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """In each file everything is traced anew, so that its lines are executed."""
        if file_of(item.nodeid) != self.file:
            self.file = file_of(item.nodeid)
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
            of = files.setdefault(file_of(case), {"seconds": {}, "lines": {}})
            if case not in self.failed:
                of["seconds"][case] = round(seconds, 3)
        data = self.coverage.get_data()
        for path in data.measured_files():
            for line, cases in data.contexts_by_lineno(path).items():
                for case in filter(None, cases):
                    lines = files[file_of(case)]["lines"]
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
    log = tree.parent / f"{plugin.__name__.lower()}.log"
    with _FORKING:  # no other fork has this end of the pipe
        ours, theirs = context.Pipe()
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


def file_of(case: str) -> str:
    """The file of tests that has the case."""
    return case.partition("::")[0]


def files_of(cases: Sequence[str]) -> list[str]:
    """The files that have the cases, in the order of these."""
    return list(dict.fromkeys(map(file_of, cases)))


def _digest(files: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def in_each(trees: Sequence[Path], work: Callable[[Path], None]) -> None:
    """`work(tree)` in one thread for each tree."""
    with ThreadPoolExecutor(len(trees)) as pool:
        list(pool.map(work, trees))


def record(trees: Sequence[Path], kept: Path) -> dict[str, dict]:
    """The lines that cases execute; files of tests that have not changed are as they were kept."""
    tree = trees[0]
    library = _digest(sorted(tree.glob("genclf/**/*.py")))
    tests = [*tree.glob("tests/**/test_*.py")]
    modules = [file for file in tree.glob("genclf/**/*.py") if ">>>" in file.read_text()]
    now = {str(file.relative_to(tree)): library + _digest([file]) for file in tests + modules}
    found = json.loads(kept.read_text()) if kept.exists() else {}
    found = {file: of for file, of in found.items() if of["digest"] == now.get(file)}
    new = sorted(now.keys() - found.keys())
    parts = iter([new[start : start + TOGETHER] for start in range(0, len(new), TOGETHER)])
    nothing: dict = {"seconds": {}, "lines": {}}
    lock = threading.Lock()

    def work(tree: Path) -> None:
        while some := next(parts, None):
            status, files = run(tree, Recorder, (), some)
            if status not in (0, 1, pytest.ExitCode.NO_TESTS_COLLECTED):
                log = tree.parent / "recorder.log"
                raise RuntimeError(f"pytest ended with {status}: see {log}")
            with lock:
                found.update((f, {**files.get(f, nothing), "digest": now[f]}) for f in some)
                kept.write_text(json.dumps(found))
                print(f"recorded {len(found)} of {len(now)} files of tests", flush=True)

    in_each(trees, work)
    return found
