"""Many fits of one model: to many data sets, to many neighbourhoods of features.

docs/design/many.md explains the design decisions.
"""
