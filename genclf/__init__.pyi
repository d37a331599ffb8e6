"""The public names and their modules, for `genclf.__getattr__` and for type checkers."""

from . import (
    bayes as bayes,
    datasets as datasets,
    discretize as discretize,
    distributed as distributed,
    engines as engines,
    families as families,
    plot as plot,
    sklearn as sklearn,
    stream as stream,
    text as text,
)
from .bayes.evidence import (
    PriorSolution as PriorSolution,
    fit_prior as fit_prior,
    log_evidence as log_evidence,
)
from .bayes.posterior import (
    Posterior as Posterior,
    posterior as posterior,
    predictive as predictive,
)
from .classifier.calibrated import CalibratedParams as CalibratedParams
from .classifier.classifier import Classifier as Classifier, ClassifierParams as ClassifierParams
from .classifier.diagnosis import Diagnosis as Diagnosis, diagnose as diagnose
from .classifier.estimation import (
    empty as empty,
    estimate as estimate,
    pool_classes as pool_classes,
    stats as stats,
)
from .classifier.explanation import Explanation as Explanation, explain as explain
from .classifier.forms import (
    indicators as indicators,
    linear_form as linear_form,
    logistic_form as logistic_form,
    num_boundary_parameters as num_boundary_parameters,
    num_parameters as num_parameters,
    quadratic_form as quadratic_form,
)
from .classifier.model import Solution as Solution
from .classifier.other_priors import with_prior as with_prior
from .classifier.plain_sums import from_sums as from_sums, to_sums as to_sums
from .classifier.presets import (
    bernoulli_nb as bernoulli_nb,
    categorical_nb as categorical_nb,
    gaussian_nb as gaussian_nb,
    lda as lda,
    multinomial_nb as multinomial_nb,
    nearest_shrunken_centroids as nearest_shrunken_centroids,
    qda as qda,
    rda as rda,
)
from .classifier.relabel import relabel as relabel
from .classifier.scores import (
    discriminant as discriminant,
    log_joint as log_joint,
    log_lik as log_lik,
    log_marginal as log_marginal,
    log_posterior as log_posterior,
    predict as predict,
    sample as sample,
)
from .classifier.validate import validate as validate
from .covariance.structures import (
    Blocks as Blocks,
    BlockToeplitz as BlockToeplitz,
    LowRank as LowRank,
)
from .families.combined.independent import (
    Independent as Independent,
    IndependentParams as IndependentParams,
)
from .families.combined.mixture import Mixture as Mixture, MixtureParams as MixtureParams
from .families.combined.product import Product as Product, ProductParams as ProductParams
from .families.conjugate.beta import Beta as Beta
from .families.conjugate.dirichlet import Dirichlet as Dirichlet
from .families.conjugate.gamma import Gamma as Gamma
from .families.conjugate.normal_inverse_wishart import NormalInverseWishart as NormalInverseWishart
from .families.conjugate.two_covariance import TwoCovariance as TwoCovariance
from .families.counts.bernoulli import Bernoulli as Bernoulli
from .families.counts.bernoulli_params import BernoulliParams as BernoulliParams
from .families.counts.categorical import Categorical as Categorical
from .families.counts.categorical_params import CategoricalParams as CategoricalParams
from .families.counts.dirichlet_multinomial import (
    DirichletMultinomialParams as DirichletMultinomialParams,
)
from .families.counts.multinomial import Multinomial as Multinomial
from .families.counts.multinomial_params import MultinomialParams as MultinomialParams
from .families.counts.negative_binomial import NegativeBinomialParams as NegativeBinomialParams
from .families.counts.poisson import Poisson as Poisson, PoissonParams as PoissonParams
from .families.directions.von_mises_fisher import (
    VonMisesFisher as VonMisesFisher,
    VonMisesFisherParams as VonMisesFisherParams,
)
from .families.gaussian.gaussian import Gaussian as Gaussian, GaussianDiagnosis as GaussianDiagnosis
from .families.gaussian.marginal import GaussianFeatures as GaussianFeatures
from .families.gaussian.params import GaussianParams as GaussianParams
from .families.gaussian.student_t import StudentTParams as StudentTParams
from .families.gaussian.two_covariance import TwoCovarianceParams as TwoCovarianceParams
from .families.kernels.kernel_density import (
    KernelDensity as KernelDensity,
    KernelDensityParams as KernelDensityParams,
)
from .families.tokens import Tokens as Tokens
from .files.from_sklearn import from_sklearn as from_sklearn
from .files.save import load as load, save as save
from .fitting.condition import Conditional as Conditional, condition as condition
from .fitting.em import EMSolution as EMSolution, em as em
from .fitting.fit import fit as fit
from .fitting.softmax import (
    SoftmaxParams as SoftmaxParams,
    SoftmaxRegression as SoftmaxRegression,
    softmax_form as softmax_form,
)
from .many.fits import (
    diagnose_many as diagnose_many,
    fit_many as fit_many,
    predict_many as predict_many,
)
from .many.generalise import generalise as generalise
from .many.group_test import GroupTest as GroupTest, group_test as group_test
from .many.places import Searchlight as Searchlight
from .many.searchlight import searchlight as searchlight, sliding as sliding
from .many.stable_features import (
    StableFeatures as StableFeatures,
    stable_features as stable_features,
)
from .multivariate.axes import (
    DiscriminantAxes as DiscriminantAxes,
    discriminant_axes as discriminant_axes,
    reduced_rank as reduced_rank,
    transform as transform,
)
from .multivariate.cat_scores import CatScores as CatScores, cat_scores as cat_scores
from .multivariate.crossnobis import crossnobis as crossnobis
from .multivariate.eraser import Eraser as Eraser, eraser as eraser
from .multivariate.manova import Manova as Manova, manova as manova
from .multivariate.patterns import patterns as patterns
from .multivariate.ranking import (
    FeatureRanking as FeatureRanking,
    ThresholdPath as ThresholdPath,
    rank_features as rank_features,
    threshold_path as threshold_path,
)
from .multivariate.row_space import RowSpace as RowSpace, row_space as row_space
from .roads.ascent import GradientSolution as GradientSolution
from .roads.certificate import Certificate as Certificate, certify as certify
from .roads.constrained import (
    ConstrainedSolution as ConstrainedSolution,
    solve_constrained as solve_constrained,
)
from .roads.gradient import fit_gradient as fit_gradient
from .roads.lagrange import LagrangeSolution as LagrangeSolution, fit_lagrange as fit_lagrange
from .roads.standard_errors import standard_errors as standard_errors
from .select.bootstrap import Bootstrap as Bootstrap, bootstrap as bootstrap
from .select.calibration import Calibration as Calibration, calibration as calibration
from .select.cross_validation import (
    CrossValidation as CrossValidation,
    Members as Members,
    cross_validate as cross_validate,
)
from .select.folds import folds as folds, kfold as kfold
from .select.label_shift import AdaptedPrior as AdaptedPrior, adapt_prior as adapt_prior
from .select.learning_curve import LearningCurve as LearningCurve, learning_curve as learning_curve
from .select.leave_one_out import leave_one_out as leave_one_out
from .select.membership.coverage import (
    Coverage as Coverage,
    Share as Share,
    coverage as coverage,
    novelty as novelty,
)
from .select.membership.f_test import FTest as FTest
from .select.membership.folds_test import FoldsTest as FoldsTest
from .select.membership.typicality import (
    distance as distance,
    typicality as typicality,
    typicality_test as typicality_test,
)
from .select.permutation import (
    PermutationTest as PermutationTest,
    permutation_test as permutation_test,
)
from .select.recalibration import (
    Recalibration as Recalibration,
    recalibrate as recalibrate,
    with_calibration as with_calibration,
)
from .select.score import score as score
from .select.tune import Tuning as Tuning, tune as tune
from .stream.part import Part as Part, combine as combine
from .stream.partial import partial as partial
from .stream.schema import Schema as Schema
from .sums.merging import merge as merge, pool as pool, remove as remove, scale as scale
from .sums.plain import PlainSums as PlainSums
from .sums.statistics import ClassifierStats as ClassifierStats, Moments as Moments, Sums as Sums
from .tables.comparison import Comparison as Comparison, compare as compare
from .tables.model import TableModel as TableModel
from .tables.trials import ModelScore as ModelScore

__version__: str
