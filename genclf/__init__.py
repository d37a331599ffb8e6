"""Generative classifiers on JAX: p(x, y) = p(y) p(x | y), fitted by summing statistics.

Every name is imported when it is first used, so that a machine that only reads rows, by
`genclf.stream`, needs no JAX. The list of names is `__init__.pyi`.
"""

from importlib.metadata import version as _version

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
__version__ = _version("genclf")
# `from genclf import *` leaves out the modules that need an extra.
__all__ = [*(name for name in __all__ if name not in ("plot", "sklearn")), "__version__"]
