"""Optional packages: each is installed by an extra of this library."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


def imported(module: str, extra: str, what: str) -> ModuleType:
    """A module of another package; an error names the extra that installs it.

    Args:
        module: the full name of the module.
        extra: the extra, such as "plot".
        what: the start of the message, such as "genclf.plot needs".
    """
    try:
        return sys.modules.get(module) or import_module(module)
    except ImportError as error:
        package = {"sklearn": "scikit-learn"}.get(first := module.partition(".")[0], first)
        raise ImportError(f'{what} {package}: pip install "genclf[{extra}]"') from error
