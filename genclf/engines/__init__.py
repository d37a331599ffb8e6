"""Fits on engines that read rows in parallel; each engine needs its own extra.

docs/design/engines.md explains the design decisions.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, ["dask", "spark"])
