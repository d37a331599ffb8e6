"""Strict settings for every test, and the two precisions as fixtures."""

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


def pytest_configure(config):
    if hasattr(config, "cache"):
        jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("jax")))
    # A file that another worker is writing reads as broken: then it is compiled, as if not there.
    config.addinivalue_line("filterwarnings", "ignore:Error (reading|writing) persistent comp")


# The same examples in every run, and no limit of time, since the first one compiles.
settings.register_profile("genclf", deadline=None, derandomize=True, max_examples=20)
settings.load_profile("genclf")


_TESTS = itertools.count()


@pytest.fixture(autouse=True, scope="module")
def free_compiled():
    """Let go of what a file has compiled: a process may map only so many pieces of code."""
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def free_compiled_in_time():
    """The same within a file that compiles much; Linux allows 65,530 pieces."""
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
