"""Estimators of one family, whose hyper-parameters are those of the family."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Shaped

from genclf.classifier.classifier import Classifier
from genclf.families.base import Family
from genclf.sklearn.estimator import Estimator
from genclf.sklearn.labels import prior_by_label
from genclf.sklearn.types import Calibrate, Flag, Number, PriorLike


class FamilyEstimator(Estimator):
    """An estimator of one family, with a given or a smoothed class prior."""

    _kind: ClassVar[type[Family]]
    _fixed: ClassVar[Mapping[str, Any]] = {}  # hyper-parameters that users do not set

    def __init__(
        self,
        class_prior: PriorLike,
        class_alpha: Number,
        semi_supervised: Flag,
        calibrate: Calibrate,
        conformal: Flag,
    ):
        self.class_prior = class_prior
        self.class_alpha = class_alpha
        self.semi_supervised = semi_supervised
        self.calibrate = calibrate
        self.conformal = conformal

    def _family(self) -> Family:
        """The family, built from the parameters that share a name with its hyper-parameters."""
        given = self.get_params(deep=False)
        own = {name: value for name, value in given.items() if name in self._kind.domains}
        return _made(self._kind, **self._fixed, **own)

    def _model(self, classes: Shaped[np.ndarray, "K"]) -> Classifier:
        prior = prior_by_label(self.class_prior, classes)
        given = {"num_classes": len(classes), "class_alpha": self.class_alpha, "class_prior": prior}
        return _made(Classifier, family=self._family(), **given)


def _made(kind: Any, **given: Any) -> Any:
    """A model or family; the same object, which is checked once, for the same numbers and words."""
    try:
        return _same(kind, **given)
    except TypeError:  # arrays have no hash
        return kind(**given)


@lru_cache(maxsize=64, typed=True)
def _same(kind: Any, **given: Any) -> Any:
    return kind(**given)
