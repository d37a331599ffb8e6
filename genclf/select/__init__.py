"""Model selection: cross-validation, tuning, calibration, permutation tests, bootstrap.

The reasons are in docs/design/select.md.
"""
