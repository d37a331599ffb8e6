"""The printed form of results."""

from __future__ import annotations

import equinox as eqx


class ShowsNumbers(eqx.Module):
    """A result whose `repr` shows the values of its arrays instead of their shapes."""

    def __repr__(self) -> str:
        return eqx.tree_pformat(self, short_arrays=False)
