"""Estimators for scikit-learn and related libraries; needs `genclf[sklearn]`."""

from genclf.arguments.extras import imported

imported("narwhals", "sklearn", "genclf.sklearn needs")
imported("sklearn", "sklearn", "genclf.sklearn needs")

from genclf.sklearn.discriminants import (
    GaussianNB,
    LinearDiscriminant,
    QuadraticDiscriminant,
    RegularizedDiscriminant,
)
from genclf.sklearn.iterative import GenerativeClassifier, MixtureDiscriminant, SoftmaxRegression
from genclf.sklearn.mixed import MixedNB
from genclf.sklearn.naive_bayes import BernoulliNB, CategoricalNB, MultinomialNB
from genclf.sklearn.searchlight import CrossValidatedScore

__all__ = [
    "BernoulliNB",
    "CategoricalNB",
    "CrossValidatedScore",
    "GaussianNB",
    "GenerativeClassifier",
    "LinearDiscriminant",
    "MixedNB",
    "MixtureDiscriminant",
    "MultinomialNB",
    "QuadraticDiscriminant",
    "RegularizedDiscriminant",
    "SoftmaxRegression",
]
