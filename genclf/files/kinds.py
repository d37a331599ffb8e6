"""The kinds of objects that a file may hold: a closed list, so a file cannot name other code."""

from __future__ import annotations

from functools import cache
from typing import Any

from genclf.classifier.calibrated import CalibratedParams
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.presets import (
    bernoulli_nb,
    categorical_nb,
    gaussian_nb,
    lda,
    multinomial_nb,
    nearest_shrunken_centroids,
    qda,
    rda,
)
from genclf.covariance.fourth import FourthMoments
from genclf.covariance.rotation import Rotation
from genclf.covariance.shrinkage import Estimated
from genclf.covariance.structures import Blocks, BlockToeplitz, LowRank
from genclf.families.combined.independent import Independent, IndependentParams
from genclf.families.combined.mixture import Mixture, MixtureParams
from genclf.families.combined.product import Product, ProductParams
from genclf.families.conjugate.beta import Beta
from genclf.families.conjugate.dirichlet import Dirichlet
from genclf.families.conjugate.gamma import Gamma
from genclf.families.conjugate.normal_inverse_wishart import NormalInverseWishart
from genclf.families.conjugate.two_covariance import TwoCovariance
from genclf.families.counts.bernoulli import Bernoulli
from genclf.families.counts.bernoulli_params import BernoulliParams
from genclf.families.counts.categorical import Categorical
from genclf.families.counts.categorical_params import CategoricalParams, Columns
from genclf.families.counts.dirichlet_multinomial import DirichletMultinomialParams
from genclf.families.counts.multinomial import Multinomial
from genclf.families.counts.multinomial_params import MultinomialParams
from genclf.families.counts.negative_binomial import NegativeBinomialParams
from genclf.families.counts.poisson import Poisson, PoissonParams
from genclf.families.directions.von_mises_fisher import VonMisesFisher, VonMisesFisherParams
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.gaussian.params import GaussianParams
from genclf.families.gaussian.row_space import RowSpaceParams
from genclf.families.gaussian.student_t import StudentTParams
from genclf.families.gaussian.two_covariance import TwoCovarianceParams
from genclf.families.kernels.kernel_density import KernelDensity, KernelDensityParams
from genclf.fitting.softmax import SoftmaxParams, SoftmaxRegression
from genclf.select.membership.f_test import FTest
from genclf.select.membership.folds_test import FoldsTest
from genclf.select.recalibration import Recalibration
from genclf.sums.statistics import ClassifierStats, Moments, Sums
from genclf.tables.columns import Column
from genclf.tables.model import TableModel
from genclf.text import Vocabulary

_KINDS = (
    *(Classifier, ClassifierParams, SoftmaxRegression, SoftmaxParams),
    *(ClassifierStats, Sums, Moments, FourthMoments, Rotation, Estimated),
    *(Beta, Dirichlet, Gamma, NormalInverseWishart, TwoCovariance, Blocks, BlockToeplitz, LowRank),
    *(Bernoulli, Categorical, Columns, Gaussian, Independent, KernelDensity, Mixture),
    *(Multinomial, Poisson, Product, VonMisesFisher),
    *(BernoulliParams, CategoricalParams, DirichletMultinomialParams, GaussianParams),
    *(IndependentParams, KernelDensityParams, MixtureParams, MultinomialParams),
    *(NegativeBinomialParams, PoissonParams, ProductParams, RowSpaceParams, StudentTParams),
    *(TwoCovarianceParams, VonMisesFisherParams),
    *(CalibratedParams, Recalibration, FTest, FoldsTest),
    *(TableModel, Column, Vocabulary),
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
    from genclf.sklearn.estimator import Estimator

    found: dict[str, Any] = {f"sklearn.{name}": getattr(sklearn, name) for name in sklearn.__all__}
    return {name: kind for name, kind in found.items() if issubclass(kind, Estimator)}
