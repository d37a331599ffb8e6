"""No argument of the public surface is taken for what it is not: each bad one is named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.arguments import attack

NAMES = [name for name, *_ in attack.calls()]
SHARES = [NAMES[i::3] for i in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("names", SHARES, ids=["first", "second", "third"])
def test_every_bad_argument_is_named(names, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.arguments.attack", *names],
        cwd=tmp_path,  # a string is a path to `save`
        env=os.environ
        | {
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "JAX_PLATFORMS": "cpu",
        },
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *complaints, number = done.stdout.splitlines()
    assert complaints == []
    assert int(number.split()[0]) > 400


def test_every_function_is_attacked():
    assert attack.not_attacked() == []
