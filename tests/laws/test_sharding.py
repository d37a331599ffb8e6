"""Many devices, one answer. The devices are made of one processor, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.laws.sharded import LAWS

ROOT = Path(__file__).parents[2]


@pytest.mark.slow(but=("by_hand",))
@pytest.mark.parametrize("law", [law.__name__ for law in LAWS])
def test_sharded_as_single(law):
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    # The settings of these tests.
    settings = {
        "XLA_FLAGS": flags,
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1",
        "JAX_NUMPY_DTYPE_PROMOTION": "strict",
        "JAX_NUMPY_RANK_PROMOTION": "raise",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.laws.sharded", law],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == [law]
