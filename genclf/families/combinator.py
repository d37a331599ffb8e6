"""What densities built out of densities have in common."""

from __future__ import annotations

from jaxtyping import PyTree

from genclf.families.base import Family, Params


class Combinator(Family):
    """A family of families: what it does is what they do, each with its part of x."""

    def estimate(self, stats: PyTree) -> Params:
        """The estimate of each part."""
        return self.assemble(self.over_parts(lambda family, s: family.estimate(s), stats))

    def start(self, stats: PyTree) -> Params:
        """The start of each part."""
        return self.assemble(self.over_parts(lambda family, s: family.start(s), stats))

    def prior_stats(self, stats: PyTree) -> PyTree:
        """The pseudo-statistics of each part."""
        return self.over_parts(lambda family, s: family.prior_stats(s), stats)

    def check_stats(self, stats: PyTree) -> None:
        self.over_parts(lambda family, s: family.check_stats(s), stats)

    def diagnose(self, stats: PyTree) -> PyTree:
        """The diagnosis of each part."""
        return self.over_parts(lambda family, s: family.diagnose(s), stats)
