"""Model selection: cross-validation, tuning, calibration, permutation tests, bootstrap.

docs/design/select.md explains the design decisions.
"""
