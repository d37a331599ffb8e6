"""Numbers as sums of two floats, float64 inside float32, loops, batches of LAPACK calls, L-BFGS.

The reasons are in docs/design/numerics.md.
"""
