"""Fits: in closed form, by EM if labels or cells are unobserved, and of p(y | x) alone.

The reasons are in docs/design/fitting.md.
"""
