"""Types of the arguments of estimators; not checked at run time, so that messages are our own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike
    from scipy.sparse import sparray, spmatrix

    from genclf.classifier.classifier import Classifier
    from genclf.covariance.scales import Covariance as Covariance
    from genclf.covariance.shrinkage import Method, Target as Target
    from genclf.covariance.structures import Structure
    from genclf.families.missing import Missing as Missing
    from genclf.fitting.softmax import Features as Features
    from genclf.tables.frames import Frame
    from genclf.tables.kinds import Given

    RowsLike: TypeAlias = ArrayLike | Frame | sparray | spmatrix
    LabelsLike: TypeAlias = ArrayLike | Sequence[Hashable]
    WeightsLike: TypeAlias = ArrayLike | None
    PriorLike: TypeAlias = ArrayLike | Mapping[Hashable, float] | None
    Kinds: TypeAlias = Mapping[Hashable, Given] | None
    NumValues: TypeAlias = int | Sequence[int] | np.ndarray | None
    ModelLike: TypeAlias = Classifier | Callable[[int], Classifier]
    Number: TypeAlias = float
    Whole: TypeAlias = int
    Flag: TypeAlias = bool
    Shrinkage: TypeAlias = float | Method | None
    StructureLike: TypeAlias = Structure | Callable[..., ArrayLike] | None
    Seed: TypeAlias = int | np.random.RandomState | None
    MissingCategory: TypeAlias = Literal["ignore", "value"]
    UnseenCategory: TypeAlias = Literal["ignore", "other", "error"] | None
    Calibrate: TypeAlias = Literal["temperature", "bias"] | None
else:
    RowsLike = LabelsLike = WeightsLike = PriorLike = Kinds = NumValues = object
    ModelLike = Number = Whole = Flag = Shrinkage = Seed = Calibrate = object
    Covariance = Features = Missing = Target = object
    MissingCategory = UnseenCategory = StructureLike = object
