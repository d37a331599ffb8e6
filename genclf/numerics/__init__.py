"""Numbers as sums of two floats, float64 inside float32, loops, batches of LAPACK calls, L-BFGS.

docs/design/numerics.md explains the design decisions.
"""
