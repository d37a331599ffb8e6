"""Roads, other ways to the estimate: gradients, Lagrange multipliers; certificate, standard errors.

The reasons are in docs/design/roads.md.
"""
