"""Programs that tests run in a process of their own, as a user would."""

import subprocess
import sys


def run(program, *args, **options):
    """A finished process of Python that ran the program, with what it printed as text."""
    return subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, **options
    )
