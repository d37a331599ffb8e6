"""Gaussian densities, and the Student-t densities that predict."""
