"""Strict settings for every test, the two precisions as fixtures, and the cases that are slow."""

import collections
import gc
import itertools
import os
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# scikit-learn's checks of estimators ask for it before scipy is imported, and skip one without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Shapes and types on genclf's signatures are checked in the tests and nowhere else. The hook acts
# on modules that are imported after it: conftest comes first, in every worker.
install_import_hook("genclf", "beartype.beartype")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)


def _set_here_and_below(setting, value):
    """Set an option of JAX in this process and in those that it starts."""
    jax.config.update(setting, value)
    os.environ[setting.upper()] = str(value)


# Nearly all the time of these tests is compilation. So it is quick rather than good, unless
# GENCLF_OPTIMIZED is set: then it is what users have. Workers, and processes that tests start,
# share what they compile, and the next run finds it again.
if not os.environ.get("GENCLF_OPTIMIZED"):
    _set_here_and_below("jax_disable_most_optimizations", True)
    flags = ["--xla_cpu_parallel_codegen_split_count=1"]
    if jax.__version_info__ < (0, 11):  # later ones do not know the flag, and stop
        flags.append("--xla_cpu_use_fusion_emitters=false")
    given = os.environ.get("XLA_FLAGS", "").split()  # a worker has those of the process before it
    os.environ["XLA_FLAGS"] = " ".join([*given, *(flag for flag in flags if flag not in given)])
# Tracing makes many objects that live on: to look for garbage among them takes a tenth of the time.
gc.set_threshold(100_000, 50, 100)

_set_here_and_below("jax_persistent_cache_min_compile_time_secs", 0)
_set_here_and_below("jax_persistent_cache_min_entry_size_bytes", -1)


_WORK = {"traces": 0, "compilations": 0}
_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "traces",
    "/jax/core/compile/backend_compile_duration": "compilations",
}


def _count(event, duration, **_):
    if event in _EVENTS:
        _WORK[_EVENTS[event]] += 1


jax.monitoring.register_event_duration_secs_listener(_count)

# Cases that took more than SLOW seconds when `make test-all PYTEST_ARGS=--measure` last ran, each
# by its id or, where all cases of a test did, by the name of the test. `make test` leaves them out,
# and takes laws on one model of each kind. Those that start processes are all slow: which of these
# it leaves out is chosen by hand.
THEIRS = "test_their_tests.py"  # scikit-learn's own tests: `make test` leaves them out
SLOW, SLOW_CASES = 1.25, Path(__file__).parent / "slow_cases.txt"
CACHE_DAYS = 14


def pytest_addoption(parser):
    """`--fast` leaves out models, precisions and slow cases; `--measure` lists slow cases anew."""
    parser.addoption("--fast", action="store_true", help="some of the cases, and no slow one")
    parser.addoption("--measure", action="store_true", help="write slow_cases.txt anew")


def _test_of(case):
    return case.partition("[")[0]


def _write_slow_cases(reports):
    seconds = collections.Counter()
    for report in reports:
        seconds[report.nodeid.partition("@")[0]] += report.duration
    slow = {case for case, duration in seconds.items() if duration > SLOW}
    partly = {_test_of(case) for case in seconds.keys() - slow}
    lines = {case if _test_of(case) in partly else _test_of(case) for case in slow}
    scale = {report.nodeid.partition("::")[0] for report in reports if "scale" in report.keywords}
    listed = SLOW_CASES.read_text().splitlines()
    chosen = {case for case in listed if case.partition("::")[0] in scale}
    lines = {case for case in lines if case.partition("::")[0] not in scale} | chosen
    SLOW_CASES.write_text("\n".join(sorted(lines)) + "\n")


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
    if terminalreporter.config.getoption("--measure"):
        _write_slow_cases(reports)
    for report in reports:
        own = files[report.nodeid.partition("::")[0]]
        own.update(seconds=report.duration, tests=report.when == "call")
        own.update(dict(report.user_properties))
    columns = ("seconds", "tests", "traces", "compilations")
    terminalreporter.section("per file: " + ", ".join(columns))
    rows = sorted(files.items(), key=lambda row: -row[1]["seconds"])
    for name, own in [*rows, ("in all", sum(files.values(), collections.Counter()))]:
        terminalreporter.line("".join(f"{own[column]:10.0f}" for column in columns) + f"  {name}")


def pytest_configure(config):
    # What was compiled outlives the checkout, for two weeks.
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("GENCLF_TEST_CACHE") or Path(home) / "genclf-tests")
    folder.mkdir(parents=True, exist_ok=True)
    if not hasattr(config, "workerinput"):
        for file in folder.iterdir():
            if file.stat().st_mtime < time.time() - CACHE_DAYS * 86400:
                file.unlink(missing_ok=True)
    _set_here_and_below("jax_compilation_cache_dir", str(folder))
    # A file that another worker is writing reads as broken: then it is compiled, as if not there.
    config.addinivalue_line("filterwarnings", "ignore:Error (reading|writing) persistent comp")


def _of_other_precision(groups):
    """Take out of the groups one of every two items that differ in their precision alone.

    float32 and float64 stay in turn. A test without other parameters keeps both.
    """
    cases = collections.defaultdict(lambda: collections.defaultdict(list))
    for item in itertools.chain(*groups.values()):
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if len(params) > 1 and params.get("dtype") in ("float32", "float64"):
            cases[_test_of(item.nodeid)][item.nodeid.replace(params["dtype"], "")].append(item)
    pairs = [[pair for pair in of.values() if len(pair) == 2] for of in cases.values()]
    out = [pair[i % 2] for of in pairs for i, pair in enumerate(of)]
    for group in groups.values():
        group[:] = [item for item in group if item not in out]
    return out


def _model_of(item):
    """The name of the model that a case is about."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return str(params.get("model", params.get("name")))


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups
def pytest_collection_modifyitems(config, items):
    """All tests of a model one after the other, in one worker, so that they share its programs."""
    from tests.registry import MIXTURES, MODELS, ONE_OF_EACH, WITH_HOLES  # after the import hook

    names = {model.name for model in MODELS + MIXTURES + WITH_HOLES}
    fast = config.getoption("--fast")
    slow = set(SLOW_CASES.read_text().split("\n")) if fast else set()
    groups, left_out = collections.defaultdict(list), []
    models = [_model_of(item) for item in items]
    of_one = {
        _test_of(item.nodeid) for item, m in zip(items, models, strict=True) if m in ONE_OF_EACH
    }
    for item, model in zip(items, models, strict=True):
        of_model = model in names
        other = fast and of_model and model not in ONE_OF_EACH and _test_of(item.nodeid) in of_one
        other = other or (fast and THEIRS in item.nodeid)
        if other or {item.nodeid, _test_of(item.nodeid)} & slow:
            left_out.append(item)
        else:
            groups[model if of_model else item.nodeid.partition("::")[0]].append(item)
    if fast:
        left_out += _of_other_precision(groups)
    config.hook.pytest_deselected(items=left_out)
    items.clear()
    for name, group in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        if config.pluginmanager.hasplugin("xdist"):
            for item in group:
                item.add_marker(pytest.mark.xdist_group(name))
        items += group


def pytest_collection_finish(session):
    """Raise where xdist ignores the groups: then both workers compile the same programs."""
    if getattr(session.config.option, "loadgroup", False) and hasattr(
        session.config, "workerinput"
    ):
        if not all("@" in item.nodeid for item in session.items):
            raise pytest.UsageError("this version of pytest-xdist does not group tests")


# The same examples in every run, and no limit of time, since the first one compiles.
settings.register_profile("genclf", deadline=None, derandomize=True, max_examples=20)
settings.load_profile("genclf")


_TESTS = itertools.count()


@pytest.fixture(autouse=True)
def free_compiled():
    """Let go of what was compiled: a process may map 65,530 pieces, and freeing most takes long."""
    yield
    maps = Path("/proc/self/maps")
    if next(_TESTS) % 8 == 0 and maps.exists() and maps.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()


@pytest.fixture
def x64():
    """Run the test in float64."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Run the test in each precision: the name of the floating dtype."""
    with jax.enable_x64(request.param == "float64"):
        yield np.dtype(request.param)
