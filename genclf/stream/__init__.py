"""Beyond one machine: fits to streams of batches, with checkpoints.

docs/design/stream.md explains the design decisions.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
