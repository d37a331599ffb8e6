"""Scores of rows as functions of arrays, for NumPy and JAX; a worker that scores needs no JAX.

docs/design/by-numpy.md explains the design decisions.
"""
