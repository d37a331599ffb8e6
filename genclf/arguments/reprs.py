"""How results look that a person prints."""

from __future__ import annotations

import equinox as eqx


class ShowsNumbers(eqx.Module):
    """A result whose `repr` shows the numbers of its arrays, where others show shapes."""

    def __repr__(self) -> str:
        return eqx.tree_pformat(self, short_arrays=False)
