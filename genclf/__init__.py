"""Generative classifiers on JAX: p(x, y) = p(y) p(x | y), learned by adding things up."""

from importlib.metadata import version as _version

from genclf import bayes as bayes
from genclf import datasets as datasets
from genclf import discretize as discretize
from genclf import text as text
from genclf.bayes.evidence import PriorSolution as PriorSolution
from genclf.bayes.evidence import fit_prior as fit_prior
from genclf.bayes.evidence import log_evidence as log_evidence
from genclf.bayes.posterior import Posterior as Posterior
from genclf.bayes.posterior import posterior as posterior
from genclf.bayes.posterior import predictive as predictive
from genclf.checks import validate as validate
from genclf.classifier import Classifier as Classifier
from genclf.classifier import ClassifierParams as ClassifierParams
from genclf.conjugate.beta import Beta as Beta
from genclf.conjugate.dirichlet import Dirichlet as Dirichlet
from genclf.conjugate.normal_inverse_wishart import (
    NormalInverseWishart as NormalInverseWishart,
)
from genclf.diagnosis import Diagnosis as Diagnosis
from genclf.diagnosis import diagnose as diagnose
from genclf.discriminative.softmax import SoftmaxParams as SoftmaxParams
from genclf.discriminative.softmax import SoftmaxRegression as SoftmaxRegression
from genclf.discriminative.softmax import softmax_form as softmax_form
from genclf.estimation import empty as empty
from genclf.estimation import estimate as estimate
from genclf.estimation import stats as stats
from genclf.estimation import with_prior as with_prior
from genclf.families.bernoulli import Bernoulli as Bernoulli
from genclf.families.bernoulli import BernoulliParams as BernoulliParams
from genclf.families.categorical import Categorical as Categorical
from genclf.families.categorical_params import CategoricalParams as CategoricalParams
from genclf.families.dirichlet_multinomial import (
    DirichletMultinomialParams as DirichletMultinomialParams,
)
from genclf.families.gaussian import Gaussian as Gaussian
from genclf.families.gaussian import GaussianDiagnosis as GaussianDiagnosis
from genclf.families.gaussian_params import GaussianParams as GaussianParams
from genclf.families.independent import Independent as Independent
from genclf.families.independent import IndependentParams as IndependentParams
from genclf.families.kernel_density import KernelDensity as KernelDensity
from genclf.families.kernel_density import KernelDensityParams as KernelDensityParams
from genclf.families.marginal import GaussianFeatures as GaussianFeatures
from genclf.families.mixture import Mixture as Mixture
from genclf.families.mixture import MixtureParams as MixtureParams
from genclf.families.multinomial import Multinomial as Multinomial
from genclf.families.multinomial_params import MultinomialParams as MultinomialParams
from genclf.families.product import Product as Product
from genclf.families.product import ProductParams as ProductParams
from genclf.families.student_t import StudentTParams as StudentTParams
from genclf.families.tokens import Tokens as Tokens
from genclf.families.von_mises_fisher import VonMisesFisher as VonMisesFisher
from genclf.families.von_mises_fisher import VonMisesFisherParams as VonMisesFisherParams
from genclf.fitting import fit as fit
from genclf.forms import indicators as indicators
from genclf.forms import linear_form as linear_form
from genclf.forms import logistic_form as logistic_form
from genclf.forms import num_boundary_parameters as num_boundary_parameters
from genclf.forms import num_parameters as num_parameters
from genclf.forms import quadratic_form as quadratic_form
from genclf.latent.condition import Conditional as Conditional
from genclf.latent.condition import condition as condition
from genclf.latent.em import EMSolution as EMSolution
from genclf.latent.em import em as em
from genclf.latent.label_shift import adapt_prior as adapt_prior
from genclf.presets import bernoulli_nb as bernoulli_nb
from genclf.presets import categorical_nb as categorical_nb
from genclf.presets import gaussian_nb as gaussian_nb
from genclf.presets import lda as lda
from genclf.presets import multinomial_nb as multinomial_nb
from genclf.presets import qda as qda
from genclf.roads.ascent import GradientSolution as GradientSolution
from genclf.roads.certificate import Certificate as Certificate
from genclf.roads.certificate import certify as certify
from genclf.roads.certificate import standard_errors as standard_errors
from genclf.roads.constrained import ConstrainedSolution as ConstrainedSolution
from genclf.roads.constrained import solve_constrained as solve_constrained
from genclf.roads.gradient import fit_gradient as fit_gradient
from genclf.roads.lagrange import LagrangeSolution as LagrangeSolution
from genclf.roads.lagrange import fit_lagrange as fit_lagrange
from genclf.scores import discriminant as discriminant
from genclf.scores import log_joint as log_joint
from genclf.scores import log_lik as log_lik
from genclf.scores import log_marginal as log_marginal
from genclf.scores import log_posterior as log_posterior
from genclf.scores import predict as predict
from genclf.scores import sample as sample
from genclf.select.calibration import Calibration as Calibration
from genclf.select.calibration import calibration as calibration
from genclf.select.learning_curve import LearningCurve as LearningCurve
from genclf.select.learning_curve import learning_curve as learning_curve
from genclf.sums.merging import merge as merge
from genclf.sums.merging import pool as pool
from genclf.sums.merging import remove as remove
from genclf.sums.merging import scale as scale
from genclf.sums.statistics import ClassifierStats as ClassifierStats
from genclf.sums.statistics import Moments as Moments
from genclf.sums.statistics import Sums as Sums

__version__ = _version("genclf")

__all__ = [
    "__version__",
    "bayes",
    "datasets",
    "discretize",
    "text",
    "Diagnosis",
    "diagnose",
    "validate",
    "Classifier",
    "ClassifierParams",
    "ClassifierStats",
    "discriminant",
    "empty",
    "estimate",
    "fit",
    "log_joint",
    "log_lik",
    "log_marginal",
    "log_posterior",
    "predict",
    "sample",
    "stats",
    "with_prior",
    "SoftmaxParams",
    "SoftmaxRegression",
    "Conditional",
    "condition",
    "GaussianFeatures",
    "EMSolution",
    "adapt_prior",
    "em",
    "Independent",
    "IndependentParams",
    "Mixture",
    "MixtureParams",
    "Product",
    "ProductParams",
    "Bernoulli",
    "BernoulliParams",
    "Categorical",
    "CategoricalParams",
    "indicators",
    "Gaussian",
    "GaussianDiagnosis",
    "GaussianParams",
    "KernelDensity",
    "KernelDensityParams",
    "Multinomial",
    "MultinomialParams",
    "Tokens",
    "VonMisesFisher",
    "VonMisesFisherParams",
    "Beta",
    "Dirichlet",
    "NormalInverseWishart",
    "DirichletMultinomialParams",
    "StudentTParams",
    "Posterior",
    "PriorSolution",
    "fit_prior",
    "log_evidence",
    "posterior",
    "predictive",
    "linear_form",
    "logistic_form",
    "num_boundary_parameters",
    "num_parameters",
    "quadratic_form",
    "softmax_form",
    "bernoulli_nb",
    "categorical_nb",
    "gaussian_nb",
    "lda",
    "multinomial_nb",
    "qda",
    "Certificate",
    "ConstrainedSolution",
    "GradientSolution",
    "LagrangeSolution",
    "certify",
    "fit_gradient",
    "fit_lagrange",
    "solve_constrained",
    "standard_errors",
    "Calibration",
    "calibration",
    "LearningCurve",
    "learning_curve",
    "Moments",
    "Sums",
    "merge",
    "pool",
    "remove",
    "scale",
]
