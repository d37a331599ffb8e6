"""What tests of membership have in common: p-values of rows."""

from __future__ import annotations

import abc
from collections.abc import Callable
from functools import partial
from typing import Any

from jaxtyping import Float, PyTree

from genclf.arguments.sharding import compiled
from genclf.classifier.conversion import maybe_sparse
from genclf.classifier.model import TakesExamples
from genclf.classifier.padding import by_rows
from genclf.families.support import Support
from genclf.numerics.namespace import Array
from genclf.sums.sparse import is_sparse


class MembershipTest(TakesExamples):
    """p-values that rows are of each class."""

    @property
    @abc.abstractmethod
    def density(self) -> Any:
        """Class densities of the rows that are tested."""

    @property
    @abc.abstractmethod
    def num_classes(self) -> int:
        """K."""

    @property
    def support(self) -> PyTree[Support]:
        return self.density.support

    @property
    def num_features(self) -> PyTree[int]:
        return self.density.num_features

    @abc.abstractmethod
    def p_values(self, x: PyTree) -> Float[Array, "*batch K"]:
        """The p-values of checked rows."""

    def __call__(self, x: PyTree) -> Float[Array, "*batch K"]:
        """The p-values of one example, or of any leading batch axes; see `typicality`."""
        return by_rows_on_device(_p_values, self, x)


def by_rows_on_device(
    function: Callable[[Any, PyTree], Array], params: TakesExamples, x: PyTree
) -> Array:
    """`by_rows` of a function that is no function of the scores: sparse rows are moved there."""
    return by_rows(function, params, maybe_sparse(x, "x") if is_sparse(x) else x, "log_prob")


@partial(compiled, batch_of=1)
def _p_values(test: MembershipTest, x: PyTree) -> Array:
    return test.p_values(x)
