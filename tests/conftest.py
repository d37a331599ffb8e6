"""Strict settings for every test, and the two precisions as fixtures."""

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

import tests.typechecker  # noqa: F401

# scikit-learn's checks of estimators ask for it before scipy is imported, and skip one without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Shapes and types on genclf's signatures are checked in the tests and nowhere else. The hook acts
# on modules that are imported after it: conftest comes first, in every worker.
install_import_hook("genclf", "tests.typechecker.checked")

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


CACHE_DAYS = 14


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


from tests.costs import (  # noqa: E402, F401  # after the import hook
    pytest_runtest_makereport,
    pytest_terminal_summary,
)
from tests.selection import (  # noqa: E402, F401
    pytest_addoption,
    pytest_collection_finish,
    pytest_collection_modifyitems,
)

# The same examples in every run, and no limit of time, since the first one compiles.
settings.register_profile("genclf", deadline=None, derandomize=True, max_examples=20)
settings.load_profile("genclf")


_TESTS = itertools.count()


@pytest.fixture(autouse=True)
def free_compiled():
    """Let go of what was compiled before a process has its 65,530 mapped pieces of memory."""
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


@pytest.fixture
def optimized():
    """Programs compiled as users compile them: what is fused may be rounded differently."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
