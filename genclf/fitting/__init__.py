"""Fits: in closed form, by EM if labels or cells are unobserved, and of p(y | x) alone.

docs/design/fitting.md explains the design decisions.
"""
