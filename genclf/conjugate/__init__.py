"""Conjugate priors of parameters, and the posteriors that they become with statistics of data."""
