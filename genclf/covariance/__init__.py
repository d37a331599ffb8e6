"""Covariances: from moments to estimates, regularised, shrunk, and their square roots.

The reasons are in docs/design/covariance.md.
"""
