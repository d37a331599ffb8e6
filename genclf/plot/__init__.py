"""Figures with matplotlib; needs `genclf[plot]`. Each takes `ax` and returns it."""

from genclf.plot.densities import densities as densities
from genclf.plot.evidence import explanation as explanation, log_odds as log_odds
from genclf.plot.pairs import pairs as pairs
from genclf.plot.planes import (
    axes as axes,
    boundary as boundary,
    ellipses as ellipses,
)
from genclf.plot.scores import (
    confusion as confusion,
    cv_curve as cv_curve,
    learning_curve as learning_curve,
    null as null,
    reliability as reliability,
)

__all__ = [
    "axes",
    "boundary",
    "confusion",
    "cv_curve",
    "densities",
    "ellipses",
    "explanation",
    "learning_curve",
    "log_odds",
    "null",
    "pairs",
    "reliability",
]
