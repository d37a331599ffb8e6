"""Strict settings for every test, and the two precisions as fixtures."""

import collections
import itertools
import os
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# Shapes and types on genclf's signatures are checked in the tests and nowhere else. The hook acts
# on modules that are imported after it: conftest comes first, in every worker.
install_import_hook("genclf", "beartype.beartype")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)

# Nearly all the time of these tests is compilation. So it is quick rather than good, unless
# GENCLF_OPTIMIZED is set: then it is what users have. Workers share what they compile, and the next
# run finds it again.
if not os.environ.get("GENCLF_OPTIMIZED"):
    jax.config.update("jax_disable_most_optimizations", True)
    if jax.__version_info__ < (0, 11):  # later ones do not know the flag, and stop
        given = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{given} --xla_cpu_use_fusion_emitters=false"
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


_WORK = {"traces": 0, "compilations": 0}
_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "traces",
    "/jax/core/compile/backend_compile_duration": "compilations",
}


def _count(event, duration, **_):
    if event in _EVENTS:
        _WORK[_EVENTS[event]] += 1


jax.monitoring.register_event_duration_secs_listener(_count)


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
    for report in itertools.chain(*terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            own = files[report.nodeid.partition("::")[0]]
            own.update(seconds=report.duration, tests=report.when == "call")
            own.update(dict(report.user_properties))
    columns = ("seconds", "tests", "traces", "compilations")
    terminalreporter.section("per file: " + ", ".join(columns))
    rows = sorted(files.items(), key=lambda row: -row[1]["seconds"])
    for name, own in [*rows, ("in all", sum(files.values(), collections.Counter()))]:
        terminalreporter.line("".join(f"{own[column]:10.0f}" for column in columns) + f"  {name}")


def pytest_configure(config):
    if hasattr(config, "cache"):
        jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("jax")))
    # A file that another worker is writing reads as broken: then it is compiled, as if not there.
    config.addinivalue_line("filterwarnings", "ignore:Error (reading|writing) persistent comp")


def pytest_collection_modifyitems(config, items):
    """All tests of a model one after the other, in one worker, so that they share its programs."""
    from tests.registry import MIXTURES, MODELS, WITH_HOLES  # after the import hook

    names = {model.name for model in MODELS + MIXTURES + WITH_HOLES}
    groups = collections.defaultdict(list)
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        model = params.get("model", params.get("name"))
        group = str(model) if str(model) in names else item.nodeid.partition("::")[0]
        groups[group].append(item)
    items.clear()
    for name, group in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        if config.pluginmanager.hasplugin("xdist"):
            for item in group:
                item.add_marker(pytest.mark.xdist_group(name))
        items += group


# The same examples in every run, and no limit of time, since the first one compiles.
settings.register_profile("genclf", deadline=None, derandomize=True, max_examples=20)
settings.load_profile("genclf")


_TESTS = itertools.count()


@pytest.fixture(autouse=True)
def free_compiled():
    """Let go of what was compiled: a process may map only so many pieces of code, 65,530 here."""
    yield
    maps = Path("/proc/self/maps")
    if next(_TESTS) % 8 == 0 and maps.exists() and maps.read_bytes().count(b"\n") > 30_000:
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
