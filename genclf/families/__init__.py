"""What a family of your own needs: base classes, capabilities, statistics and supports.

The page "A family of your own" writes one. `Density` and `Params` are the base classes of fitted
densities, `Family` and `Parametric` those of the families that fit them.

docs/design/families.md explains the design decisions.
"""

from genclf.arguments.domains import FLAG, NON_NEGATIVE, POSITIVE, Domain, Scalar, one_of, whole
from genclf.arguments.hyperparameters import kind_of
from genclf.arguments.module import static
from genclf.arguments.parameters import Parameter
from genclf.families.base import Condition, Density, Family, Parametric, Params
from genclf.families.capabilities import (
    Completed,
    HasConditionals,
    HasConjugatePrior,
    HasLinearForm,
    HasQuadraticForm,
    HasRoads,
    HasTerms,
    Latent,
    SharesScatter,
    has,
)
from genclf.families.conjugate.base import Conjugate, Prior
from genclf.families.support import FINITE, Support, nan_outside_support
from genclf.numerics.namespace import matmul
from genclf.numerics.row_blocks import broadcast_rows, over_rows
from genclf.sums.accumulate import dense_sums, moments
from genclf.sums.blocks import ClassWeights, accumulate, class_rows
from genclf.sums.statistics import Moments, Sums, divide

__all__ = [
    "FINITE",
    "FLAG",
    "NON_NEGATIVE",
    "POSITIVE",
    "ClassWeights",
    "Completed",
    "Condition",
    "Conjugate",
    "Density",
    "Domain",
    "Family",
    "HasConditionals",
    "HasConjugatePrior",
    "HasLinearForm",
    "HasQuadraticForm",
    "HasRoads",
    "HasTerms",
    "Latent",
    "Moments",
    "Parameter",
    "Parametric",
    "Params",
    "Prior",
    "Scalar",
    "SharesScatter",
    "Sums",
    "Support",
    "accumulate",
    "broadcast_rows",
    "class_rows",
    "dense_sums",
    "divide",
    "has",
    "kind_of",
    "matmul",
    "moments",
    "nan_outside_support",
    "one_of",
    "over_rows",
    "static",
    "whole",
]
