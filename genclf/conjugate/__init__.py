"""Conjugate distributions of parameters: priors that are statistics, and what data make of them."""
