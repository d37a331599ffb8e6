"""Arithmetic in floating point: sums in two numbers, units, quasi-Newton steps."""
