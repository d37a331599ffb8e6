"""Held-out rows: cross-validation, tuning, calibration, tests, label shift, membership in classes.

docs/design/select.md explains the design decisions.
"""
