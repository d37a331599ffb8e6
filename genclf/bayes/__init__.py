"""Exact posteriors, predictives and evidence, and the generative story in numpyro.

The reasons are in docs/design/bayes.md.
"""

from genclf.bayes.generative_story import story as story
from genclf.bayes.posterior import prior as prior
