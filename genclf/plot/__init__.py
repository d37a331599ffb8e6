"""Figures with matplotlib; needs `genclf[plot]`. Most take and return `ax`; others make a figure.

docs/design/plot.md explains the design decisions.
"""

from genclf.arguments.extras import imported

imported("matplotlib", "plot", "genclf.plot needs")

from genclf.plot.densities import densities
from genclf.plot.discriminant_space import axes
from genclf.plot.ellipses import ellipses
from genclf.plot.evidence import explanation, log_odds
from genclf.plot.membership import typical_regions, typicality
from genclf.plot.pairs import pairs
from genclf.plot.posteriors import class_posterior, simplex
from genclf.plot.regions import boundaries, boundary, regions
from genclf.plot.scores import confusion, cv_curve, learning_curve, null, reliability

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
