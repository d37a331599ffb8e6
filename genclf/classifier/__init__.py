"""The classifier: the model, checks of arguments, statistics, estimates and scores.

docs/design/classifier.md explains the design decisions.
"""
