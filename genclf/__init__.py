"""Generative classifiers on JAX: p(x, y) = p(y) p(x | y), fitted by summing statistics."""

from importlib.metadata import version as _version
from types import ModuleType as _Module

from genclf import bayes as bayes, datasets as datasets, discretize as discretize, text as text
from genclf.bayes.evidence import (
    PriorSolution as PriorSolution,
    fit_prior as fit_prior,
    log_evidence as log_evidence,
)
from genclf.bayes.posterior import (
    Posterior as Posterior,
    posterior as posterior,
    predictive as predictive,
)
from genclf.checks import validate as validate
from genclf.classifier import Classifier as Classifier, ClassifierParams as ClassifierParams
from genclf.conjugate.beta import Beta as Beta
from genclf.conjugate.dirichlet import Dirichlet as Dirichlet
from genclf.conjugate.gamma import Gamma as Gamma
from genclf.conjugate.normal_inverse_wishart import (
    NormalInverseWishart as NormalInverseWishart,
)
from genclf.diagnosis import Diagnosis as Diagnosis, diagnose as diagnose
from genclf.discriminative.softmax import (
    SoftmaxParams as SoftmaxParams,
    SoftmaxRegression as SoftmaxRegression,
    softmax_form as softmax_form,
)
from genclf.estimation import (
    empty as empty,
    estimate as estimate,
    pool_classes as pool_classes,
    stats as stats,
    with_prior as with_prior,
)
from genclf.explanation import Explanation as Explanation, explain as explain
from genclf.families.bernoulli import Bernoulli as Bernoulli
from genclf.families.bernoulli_params import BernoulliParams as BernoulliParams
from genclf.families.categorical import Categorical as Categorical
from genclf.families.categorical_params import CategoricalParams as CategoricalParams
from genclf.families.dirichlet_multinomial import (
    DirichletMultinomialParams as DirichletMultinomialParams,
)
from genclf.families.gaussian import Gaussian as Gaussian, GaussianDiagnosis as GaussianDiagnosis
from genclf.families.gaussian_params import GaussianParams as GaussianParams
from genclf.families.independent import (
    Independent as Independent,
    IndependentParams as IndependentParams,
)
from genclf.families.kernel_density import (
    KernelDensity as KernelDensity,
    KernelDensityParams as KernelDensityParams,
)
from genclf.families.marginal import GaussianFeatures as GaussianFeatures
from genclf.families.mixture import Mixture as Mixture, MixtureParams as MixtureParams
from genclf.families.multinomial import Multinomial as Multinomial
from genclf.families.multinomial_params import MultinomialParams as MultinomialParams
from genclf.families.negative_binomial import NegativeBinomialParams as NegativeBinomialParams
from genclf.families.poisson import Poisson as Poisson, PoissonParams as PoissonParams
from genclf.families.product import Product as Product, ProductParams as ProductParams
from genclf.families.student_t import StudentTParams as StudentTParams
from genclf.families.tokens import Tokens as Tokens
from genclf.families.von_mises_fisher import (
    VonMisesFisher as VonMisesFisher,
    VonMisesFisherParams as VonMisesFisherParams,
)
from genclf.files.from_sklearn import from_sklearn as from_sklearn
from genclf.files.saved import load as load, save as save
from genclf.fitting import fit as fit
from genclf.forms import (
    indicators as indicators,
    linear_form as linear_form,
    logistic_form as logistic_form,
    num_boundary_parameters as num_boundary_parameters,
    num_parameters as num_parameters,
    quadratic_form as quadratic_form,
)
from genclf.latent.condition import Conditional as Conditional, condition as condition
from genclf.latent.em import EMSolution as EMSolution, em as em
from genclf.latent.label_shift import adapt_prior as adapt_prior
from genclf.many.fits import (
    diagnose_many as diagnose_many,
    fit_many as fit_many,
    predict_many as predict_many,
)
from genclf.many.searchlight import (
    Searchlight as Searchlight,
    searchlight as searchlight,
    sliding as sliding,
)
from genclf.multivariate.axes import (
    DiscriminantAxes as DiscriminantAxes,
    discriminant_axes as discriminant_axes,
    reduced_rank as reduced_rank,
    transform as transform,
)
from genclf.multivariate.cat_scores import CatScores as CatScores, cat_scores as cat_scores
from genclf.multivariate.manova import Manova as Manova, manova as manova
from genclf.multivariate.ranking import (
    FeatureRanking as FeatureRanking,
    ThresholdPath as ThresholdPath,
    rank_features as rank_features,
    threshold_path as threshold_path,
)
from genclf.multivariate.row_space import RowSpace as RowSpace, row_space as row_space
from genclf.presets import (
    bernoulli_nb as bernoulli_nb,
    categorical_nb as categorical_nb,
    gaussian_nb as gaussian_nb,
    lda as lda,
    multinomial_nb as multinomial_nb,
    nearest_shrunken_centroids as nearest_shrunken_centroids,
    qda as qda,
    rda as rda,
)
from genclf.roads.ascent import GradientSolution as GradientSolution
from genclf.roads.certificate import Certificate as Certificate, certify as certify
from genclf.roads.constrained import (
    ConstrainedSolution as ConstrainedSolution,
    solve_constrained as solve_constrained,
)
from genclf.roads.gradient import fit_gradient as fit_gradient
from genclf.roads.lagrange import LagrangeSolution as LagrangeSolution, fit_lagrange as fit_lagrange
from genclf.roads.standard_errors import standard_errors as standard_errors
from genclf.scores import (
    discriminant as discriminant,
    log_joint as log_joint,
    log_lik as log_lik,
    log_marginal as log_marginal,
    log_posterior as log_posterior,
    predict as predict,
    sample as sample,
)
from genclf.select.bootstrap import Bootstrap as Bootstrap, bootstrap as bootstrap
from genclf.select.calibration import Calibration as Calibration, calibration as calibration
from genclf.select.cross_validation import (
    CrossValidation as CrossValidation,
    cross_validate as cross_validate,
)
from genclf.select.folds import folds as folds, kfold as kfold
from genclf.select.learning_curve import (
    LearningCurve as LearningCurve,
    learning_curve as learning_curve,
)
from genclf.select.leave_one_out import leave_one_out as leave_one_out
from genclf.select.permutation import (
    PermutationTest as PermutationTest,
    permutation_test as permutation_test,
)
from genclf.select.score import score as score
from genclf.select.tune import Tuning as Tuning, tune as tune
from genclf.sums.merging import merge as merge, pool as pool, remove as remove, scale as scale
from genclf.sums.statistics import (
    ClassifierStats as ClassifierStats,
    Moments as Moments,
    Sums as Sums,
)
from genclf.tables.comparison import (
    Comparison as Comparison,
    TableModel as TableModel,
    compare as compare,
)
from genclf.tables.trials import ModelScore as ModelScore

__version__ = _version("genclf")

_ROOMS = {"bayes", "datasets", "discretize", "text"}
__all__ = ["__version__"]
__all__ += sorted(
    name
    for name, value in globals().items()
    if name in _ROOMS or not (name.startswith("_") or isinstance(value, _Module))
)


def __dir__() -> list[str]:
    return __all__
