"""What a run has cost in each file of tests, and what a few lines trace and compile."""

import collections
import itertools
from contextlib import contextmanager

import jax
import pytest

_WORK = {"traces": 0, "compilations": 0}
_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "traces",
    "/jax/core/compile/backend_compile_duration": "compilations",
}


def _count(event, duration, **_):
    if event in _EVENTS:
        _WORK[_EVENTS[event]] += 1


jax.monitoring.register_event_duration_secs_listener(_count)


@contextmanager
def counted():
    """How often something was traced or compiled so far, by what it was: a counter that grows."""
    found = collections.Counter()

    def count(event, duration, **_):
        if event in _EVENTS:
            found[_EVENTS[event]] += 1

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(count)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """What a phase of a test has traced and compiled goes with its report, from every worker."""
    report = yield
    report.user_properties += [(kind, number) for kind, number in _WORK.items() if number]
    _WORK.update(dict.fromkeys(_WORK, 0))
    return report


def pytest_terminal_summary(terminalreporter):
    """Seconds, traces and compilations per file, by seconds."""
    files = collections.defaultdict(collections.Counter)
    every = itertools.chain(*terminalreporter.stats.values())
    reports = [report for report in every if isinstance(report, pytest.TestReport)]
    for report in reports:
        own = files[report.nodeid.partition("::")[0]]
        own.update(seconds=report.duration, tests=report.when == "call")
        own.update(dict(report.user_properties))
    columns = ("seconds", "tests", "traces", "compilations")
    terminalreporter.section("per file: " + ", ".join(columns))
    rows = sorted(files.items(), key=lambda row: -row[1]["seconds"])
    for name, own in [*rows, ("in all", sum(files.values(), collections.Counter()))]:
        terminalreporter.line("".join(f"{own[column]:10.0f}" for column in columns) + f"  {name}")
