"""Figures with matplotlib; needs `genclf[plot]`. Most take and return `ax`; others make a figure.

docs/design/plot.md explains the design decisions.
"""

from genclf.arguments.extras import imported

imported("matplotlib", "plot", "genclf.plot needs")

from genclf.plot.densities import densities as densities
from genclf.plot.discriminant_space import axes as axes
from genclf.plot.ellipses import ellipses as ellipses
from genclf.plot.evidence import explanation as explanation, log_odds as log_odds
from genclf.plot.membership import typical_regions as typical_regions, typicality as typicality
from genclf.plot.pairs import pairs as pairs
from genclf.plot.posteriors import class_posterior as class_posterior, simplex as simplex
from genclf.plot.regions import boundaries as boundaries, boundary as boundary, regions as regions
from genclf.plot.scores import (
    confusion as confusion,
    cv_curve as cv_curve,
    learning_curve as learning_curve,
    null as null,
    reliability as reliability,
)

__all__ = [
    "axes",
    "boundaries",
    "boundary",
    "class_posterior",
    "confusion",
    "cv_curve",
    "densities",
    "ellipses",
    "explanation",
    "learning_curve",
    "log_odds",
    "null",
    "pairs",
    "regions",
    "reliability",
    "simplex",
    "typical_regions",
    "typicality",
]
