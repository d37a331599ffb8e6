"""Exact posteriors, predictives and evidence, and the generative story in numpyro."""

from genclf.bayes.evidence import PriorSolution as PriorSolution
from genclf.bayes.evidence import fit_prior as fit_prior
from genclf.bayes.evidence import log_evidence as log_evidence
from genclf.bayes.posterior import Posterior as Posterior
from genclf.bayes.posterior import posterior as posterior
from genclf.bayes.posterior import predictive as predictive
from genclf.bayes.posterior import prior as prior
from genclf.bayes.telling import story as story
