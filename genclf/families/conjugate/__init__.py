"""Conjugate priors, and the distributions of parameters that they give."""
