"""Functions of statistics that take rows too."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

from jaxtyping import PyTree

from genclf.classifier.checked_arguments import ArrayLike
from genclf.classifier.classifier import Classifier
from genclf.classifier.estimation import stats, with_own_covariances
from genclf.sums.statistics import ClassifierStats

R_co = TypeVar("R_co", covariant=True)


@runtime_checkable
class OfRowsOrStatistics(Protocol[R_co]):
    """A function of a model and examples, given as statistics or as rows and labels."""

    @overload
    def __call__(self, clf: Classifier, stats: ClassifierStats) -> R_co: ...
    @overload
    def __call__(
        self, clf: Classifier, x: PyTree, y: ArrayLike, weights: ArrayLike | None = None
    ) -> R_co: ...


def or_rows(
    function: Callable[[Classifier, ClassifierStats], R_co], *, own_covariances: bool = False
) -> OfRowsOrStatistics[R_co]:
    """A public function of (clf, stats) that also takes (clf, x, y, weights), as `stats` does.

    Args:
        function: the function.
        own_covariances: whether the statistics of rows have a covariance for each class, even if
            the model shares one.
    """
    name = function.__name__

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> R_co:
        if len(args) > 4 or (len(args) < 3 and not kwargs.keys() & {"x", "y", "weights"}):
            return function(*args, **kwargs)
        if "stats" in kwargs or (len(args) > 1 and isinstance(args[1], ClassifierStats)):
            raise ValueError(
                f"{name} takes statistics or rows: give {name}(clf, stats) or {name}(clf, x, y)"
            )
        if "y" not in kwargs and len(args) < 3:
            raise ValueError(f"{name} takes rows with their labels: give {name}(clf, x, y)")
        given = dict(zip(("clf", "x", "y", "weights"), args, strict=False)) | kwargs
        clf = given.pop("clf")
        splits = own_covariances and isinstance(clf, Classifier)
        return function(clf, stats(with_own_covariances(clf) if splits else clf, **given))

    return called
