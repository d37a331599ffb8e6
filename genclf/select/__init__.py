"""Model selection: calibration, and error against the number of training examples.

The reasons are in docs/design/select.md.
"""
