"""Sufficient statistics: their classes, their computation from rows, and their merging."""
