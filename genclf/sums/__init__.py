"""Sufficient statistics: their classes, their computation from rows, and their merging.

The reasons are in docs/design/sums.md.
"""
