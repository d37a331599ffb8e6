"""A model as a numpyro program; only the modules here import numpyro at the top."""
