"""Covariances: from moments to estimates, regularised, shrunk, and their square roots."""
