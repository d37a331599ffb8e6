"""Conjugate priors of parameters, and their posteriors given statistics of data."""
