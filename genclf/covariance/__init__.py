"""Covariances: from moments to estimates, regularised, shrunk, and their square roots.

docs/design/covariance.md explains the design decisions.
"""
