"""Estimators for scikit-learn and related libraries; needs `genclf[sklearn]`."""

from genclf.arguments.extras import imported

imported("narwhals", "sklearn", "genclf.sklearn needs")
imported("sklearn", "sklearn", "genclf.sklearn needs")

from genclf.sklearn.discriminants import (
    GaussianNB as GaussianNB,
    LinearDiscriminant as LinearDiscriminant,
    QuadraticDiscriminant as QuadraticDiscriminant,
    RegularizedDiscriminant as RegularizedDiscriminant,
)
from genclf.sklearn.iterative import (
    GenerativeClassifier as GenerativeClassifier,
    MixtureDiscriminant as MixtureDiscriminant,
    SoftmaxRegression as SoftmaxRegression,
)
from genclf.sklearn.mixed import MixedNB as MixedNB
from genclf.sklearn.naive_bayes import (
    BernoulliNB as BernoulliNB,
    CategoricalNB as CategoricalNB,
    MultinomialNB as MultinomialNB,
)
from genclf.sklearn.searchlight import CrossValidatedScore as CrossValidatedScore

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
