"""The classifier: its parts, how its arguments are checked, and what it answers.

The reasons are in docs/design/classifier.md.
"""
