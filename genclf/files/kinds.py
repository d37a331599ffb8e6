"""The kinds of objects that a file may hold: a closed list, so that a file names no other code."""

from __future__ import annotations

from functools import cache
from typing import Any

from genclf.classifier import Classifier, ClassifierParams
from genclf.conjugate.beta import Beta
from genclf.conjugate.dirichlet import Dirichlet
from genclf.conjugate.gamma import Gamma
from genclf.conjugate.normal_inverse_wishart import NormalInverseWishart
from genclf.discriminative.softmax import SoftmaxParams, SoftmaxRegression
from genclf.families.bernoulli import Bernoulli
from genclf.families.bernoulli_params import BernoulliParams
from genclf.families.categorical import Categorical
from genclf.families.categorical_params import CategoricalParams, Columns
from genclf.families.dirichlet_multinomial import DirichletMultinomialParams
from genclf.families.gaussian import Gaussian
from genclf.families.gaussian_params import GaussianParams
from genclf.families.independent import Independent, IndependentParams
from genclf.families.kernel_density import KernelDensity, KernelDensityParams
from genclf.families.mixture import Mixture, MixtureParams
from genclf.families.multinomial import Multinomial
from genclf.families.multinomial_params import MultinomialParams
from genclf.families.negative_binomial import NegativeBinomialParams
from genclf.families.poisson import Poisson, PoissonParams
from genclf.families.product import Product, ProductParams
from genclf.families.row_space import RowSpaceParams
from genclf.families.student_t import StudentTParams
from genclf.families.von_mises_fisher import VonMisesFisher, VonMisesFisherParams
from genclf.presets import (
    bernoulli_nb,
    categorical_nb,
    gaussian_nb,
    lda,
    multinomial_nb,
    nearest_shrunken_centroids,
    qda,
    rda,
)
from genclf.sums.fourth import FourthMoments
from genclf.sums.rotation import Rotation
from genclf.sums.shrinkage import Estimated
from genclf.sums.statistics import ClassifierStats, Moments, Sums
from genclf.tables.comparison import TableModel
from genclf.tables.readers import Codes, Nothing, Numbers, Parts, Words
from genclf.text import Vocabulary

_KINDS = (
    *(Classifier, ClassifierParams, SoftmaxRegression, SoftmaxParams),
    *(ClassifierStats, Sums, Moments, FourthMoments, Rotation, Estimated),
    *(Beta, Dirichlet, Gamma, NormalInverseWishart),
    *(Bernoulli, Categorical, Columns, Gaussian, Independent, KernelDensity, Mixture),
    *(Multinomial, Poisson, Product, VonMisesFisher),
    *(BernoulliParams, CategoricalParams, DirichletMultinomialParams, GaussianParams),
    *(IndependentParams, KernelDensityParams, MixtureParams, MultinomialParams),
    *(NegativeBinomialParams, PoissonParams, ProductParams, RowSpaceParams, StudentTParams),
    VonMisesFisherParams,
    *(TableModel, Codes, Nothing, Numbers, Parts, Words, Vocabulary),
)
KINDS: dict[str, type] = {kind.__name__: kind for kind in _KINDS}


_PRESETS = (
    *(lda, qda, rda, nearest_shrunken_centroids),
    *(gaussian_nb, bernoulli_nb, multinomial_nb, categorical_nb),
)
PRESETS: dict[str, Any] = {preset.__name__: preset for preset in _PRESETS}


@cache
def estimators() -> dict[str, type]:
    """The estimators of `genclf.sklearn`, which need scikit-learn; by their names in a file."""
    from genclf import sklearn
    from genclf.sklearn.columns import Column
    from genclf.sklearn.estimator import Estimator

    found: dict[str, Any] = {f"sklearn.{name}": getattr(sklearn, name) for name in sklearn.__all__}
    found = {name: kind for name, kind in found.items() if issubclass(kind, Estimator)}
    return found | {"sklearn.Column": Column}
