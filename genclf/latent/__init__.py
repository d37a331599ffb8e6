"""Unobserved labels, components and cells: EM, imputation, and the prior under label shift."""
