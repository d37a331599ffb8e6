"""Sufficient statistics: their classes, their computation from rows, and their merging.

docs/design/sums.md explains the design decisions.
"""
