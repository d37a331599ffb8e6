"""Fits: in closed form, by EM where something is not observed, and of p(y | x) alone.

The reasons are in docs/design/fitting.md.
"""
