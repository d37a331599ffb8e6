"""Exact posteriors, predictives and evidence, and the generative story in numpyro.

docs/design/bayes.md explains the design decisions.
"""

from genclf.bayes.generative_story import story as story
from genclf.bayes.posterior import prior as prior
from genclf.bayes.same_class import same_class as same_class
