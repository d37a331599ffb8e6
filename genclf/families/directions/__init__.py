"""Densities of directions: rows of length 1."""
