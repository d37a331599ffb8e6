"""Gaussian densities, and the Student-t densities that are their predictives."""
