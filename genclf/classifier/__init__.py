"""The classifier: the model, checks of arguments, statistics, estimates and scores.

The reasons are in docs/design/classifier.md.
"""
