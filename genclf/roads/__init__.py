"""Roads, other ways to the estimate: gradients, Lagrange multipliers; certificate, standard errors.

docs/design/roads.md explains the design decisions.
"""
