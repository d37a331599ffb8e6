"""The estimate by gradient ascent and by Lagrange multipliers; certificate, standard errors.

The reasons are in docs/design/roads.md.
"""
